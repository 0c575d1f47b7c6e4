"""`ragstone report` and `ragstone traces`, as a user meets them: on a store, a file of outcomes, and wrong input."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import sqlite3
from pathlib import Path

import pytest

from command_line import run_command, run_in_new_process
from ragstone.experiments import evaluate
from ragstone.schema import Captured, Trace
from ragstone.store import PlannedMetric, SqliteStore

ROWS = [
    {
        "id": f"q{n}",
        "question": f"What is the fare for {n} bicycles?",
        "contexts": ["A bicycle costs four crowns on every ferry."],
        "response": "Dogs stay outside." if n % 2 else "A bicycle costs four crowns.",
        "ground_truth": "A bicycle costs four crowns.",
        "topic": "bicycles" if n < 6 else "dogs",
    }
    for n in range(12)
]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A dataset and the file of its outcomes."""
    data, outcomes = tmp_path / "q.jsonl", tmp_path / "o.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    evaluate(data, ["ccrs"], judge="lexical").to_jsonl(outcomes)
    return data, outcomes


def test_a_report_of_a_file(files: tuple[Path, Path]) -> None:
    """Verdict, metrics, causes, worst answers, and the commands that show more, which work."""
    data, outcomes = files
    done = run_command("report", outcomes, "--data", data, "--target", "ccrs.ac=0.9")
    assert 0 == done.returncode, done.stderr
    for part in (
        "6 of 12 answers are judged wrong (50 %",
        "target",
        "Where it fails",
        "Worst answer",
        "ccrs.ac (good if",
    ):
        assert part in done.stdout
    command = next(line for line in done.stdout.splitlines() if line.startswith("one answer"))
    shown = run_command(*command.split("ragstone ")[1].split())
    assert 0 == shown.returncode, shown.stderr
    assert "Dogs stay outside." in shown.stdout

    as_json = json.loads(run_command("report", outcomes, "--data", data, "--json", "--full").stdout)
    assert 6 == as_json["verdict"][0]["numbers"]["n_wrong"]
    assert 5 == len(as_json["metrics"])


def test_answers_of_a_file(files: tuple[Path, Path]) -> None:
    """Listed by label and score."""
    data, outcomes = files
    done = run_command("traces", outcomes, "--data", data, "--where", "topic=dogs and ccrs.ac<0.5")
    assert ["q11", "q7", "q9"] == sorted(
        line.strip() for line in done.stdout.splitlines() if line.strip() in {r["id"] for r in ROWS}
    )
    listed = json.loads(run_command("traces", outcomes, "--data", data, "--worst", "2", "--json", "--full").stdout)
    assert [2, True] == [len(listed), all(answer["cause"] for answer in listed)]
    none = run_command("traces", outcomes, "--data", data, "--where", "ccrs.ac>5")
    assert "no answers found" in none.stdout


def test_changes_against_a_baseline(files: tuple[Path, Path], tmp_path: Path) -> None:
    """The last source is reported, the first or the named one is the baseline, and the printed command works."""
    data, outcomes = files
    better = tmp_path / "better.jsonl"
    rows = [row | {"response": row["ground_truth"]} for row in ROWS]
    evaluate(rows, ["ccrs"], judge="lexical").to_jsonl(better)
    done = run_command("report", outcomes, f"new={better}", "--data", data, "--data", data)
    assert 0 == done.returncode, done.stderr
    assert "new is significantly better than o on" in done.stdout
    assert "6 were wrong in o and are not in new" in " ".join(done.stdout.split())
    for line in done.stdout.splitlines():
        if line.startswith(("one answer", "as a page")):
            command = line.split("ragstone ")[1].replace("report.html", str(tmp_path / "p.html")).split()
            shown = run_command(*command)
            assert 0 == shown.returncode, shown.stderr
    assert "What changed against o" in (tmp_path / "p.html").read_text(encoding="utf-8")
    for arguments in (("--baseline", "new"), ("--baseline", f"new={better}")):
        given = [f"new={better}", outcomes] if arguments[1] == "new" else [outcomes]
        turned = json.loads(run_command("report", *given, *arguments, "--json", "--full").stdout)
        assert ["o", "new"] == turned["changes"]["systems"]
        assert 6 == len(turned["changes"]["lost_ids"])
        printed = run_command("report", *given, *arguments, "--data", data).stdout
        assert f"ragstone traces {outcomes} " in next(x for x in printed.splitlines() if x.startswith("one answer"))
    named = run_command("report", f"x={outcomes}", f"base={better}", "--baseline", "base", "--data", data).stdout
    assert f"ragstone traces {outcomes} " in next(x for x in named.splitlines() if x.startswith("one answer"))


def test_scores_of_two_judges_are_no_mean(files: tuple[Path, Path], tmp_path: Path) -> None:
    """Neither in a report nor in its gate. The printed command repeats the setting that allows it."""
    mixed, page = tmp_path / "mixed.jsonl", tmp_path / "p.html"
    lines = files[1].read_text(encoding="utf-8").splitlines(keepends=True)
    mixed.write_text("".join([*lines, lines[0].replace("lexical baseline", "j")]), encoding="utf-8")
    for gate in ((), ("--fail-under", "ccrs=0.5")):
        refused = run_command("report", mixed, *gate)
        assert 2 == refused.returncode
        assert "are not on the same scale ('j', 'lexical baseline')" in refused.stderr
    allowed = ("--set", "analysis.allow_different_judges=true", "--set", "analysis.confidence_level=0.9")
    shown = run_command("report", mixed, *allowed).stdout
    assert "come from 2 judges, whose scales may differ" in shown
    (step,) = [line.split("ragstone ")[1] for line in shown.splitlines() if line.startswith("as a page")]
    assert "--set analysis.confidence_level=0.9" in step
    assert 0 == run_command(*step.replace("report.html", str(page)).split()).returncode
    assert "--set analysis.allow_different_judges=True" in page.read_text(encoding="utf-8")


def test_compare_counts_causes(files: tuple[Path, Path]) -> None:
    """In the text and in JSON, each with its share."""
    data, outcomes = files
    both = (f"a={outcomes}", f"b={outcomes}", "--data", data, "--data", data)
    text = run_command("compare", *both).stdout
    assert "where it fails" in text
    causes = json.loads(run_command("compare", *both, "--json", "--full").stdout)["causes"]
    assert causes["a"] == causes["b"]
    assert 6 == sum(row["n"] for row in causes["a"] if row["is_wrong"])
    assert all(f"{row['n']} ({100 * row['share']['value']:.0f} %" in text for row in causes["a"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("report", "absent.db"), "was not found"),
        (("report", "/"), "'/' is not a file. Give a store, or a file of outcomes"),
        (("report", "OUTCOMES.newer"), "line 1 of"),
        (("traces", "OUTCOMES.newer"), "has format version 99, and this version of Ragstone reads version 1"),
        (("report", "OUTCOMES", "--target", "ccrs.ac"), "--target must be METRIC=MEAN, got 'ccrs.ac'"),
        (("report", "OUTCOMES", "--target", "ccrs.ac=high"), "--target must be METRIC=MEAN, got 'ccrs.ac=high'"),
        (("report", "OUTCOMES", "--target", "udcg=0.5"), "no scores of the metric 'udcg'"),
        (("report", "OUTCOMES", "--baseline", "nope"), "unknown baseline 'nope'. Give one of the sources ('o')"),
        (("report", "a=OUTCOMES", "--baseline", "a"), "the baseline 'a' is the only source"),
        (("report", "a=OUTCOMES", "a=OUTCOMES"), "two systems have the name 'a'"),
        (
            ("report", "OUTCOMES", "b=OUTCOMES", "c=OUTCOMES", "--data", "x", "--data", "y"),
            "--data is given 2 times for 3 sources",
        ),
        (("traces", "OUTCOMES", "nope"), "trace 'nope' not found"),
        (("traces", "OUTCOMES", "--cause", "bad"), "unknown cause 'bad'. Causes: no_relevant_passage"),
        (("traces", "OUTCOMES", "--where", "topic=dogs"), "no sample has 'topic'"),
    ],
)
def test_wrong_input(files: tuple[Path, Path], arguments: tuple[str, ...], message: str) -> None:
    """Value, rule and way out."""
    newer = re.sub('"schema_version": ?[0-9]+', '"schema_version":99', files[1].read_text(encoding="utf-8"))
    Path(f"{files[1]}.newer").write_text(newer, encoding="utf-8")
    given = [argument.replace("OUTCOMES", str(files[1])) for argument in arguments]
    done = run_command(*given)
    assert 2 == done.returncode
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("columns", "encoding"), [("60", "utf-8"), ("80", "ascii"), ("120", "utf-8")])
def test_any_terminal(files: tuple[Path, Path], columns: str, encoding: str) -> None:
    """No line of the report is wider than the terminal, except commands, and an ASCII terminal gets ASCII."""
    data, outcomes = files
    done = run_in_new_process(
        "report", outcomes, "--data", data, COLUMNS=columns, PYTHONIOENCODING=encoding, NO_COLOR="1"
    )
    assert 0 == done.returncode, done.stderr
    lines = [line for line in done.stdout.splitlines() if "  ragstone " not in line]
    assert max(map(len, lines)) <= int(columns)
    assert encoding != "ascii" or done.stdout.isascii()
    assert "\x1b" not in done.stdout
    long = data.with_name("long.jsonl")
    rows = [{**row, "question": f"{row['question']} \u201cAnd why\u201d, {'of all others, ' * 20}?"} for row in ROWS]
    long.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    evaluate(long, ["ccrs"], judge="lexical").to_jsonl(outcomes)
    listed = run_in_new_process("traces", outcomes, "--data", long, COLUMNS=columns, PYTHONIOENCODING=encoding)
    assert 0 == listed.returncode, listed.stderr
    most = min(int(columns), 100)
    assert max(len(line) for line in listed.stdout.splitlines() if "ragstone " not in line) in range(most - 2, most + 1)


def test_sources_that_cannot_be_shown(tmp_path: Path) -> None:
    """An empty store, one without scores, a damaged one and one of a future version: what is there, and the way out."""
    with SqliteStore.open(tmp_path / "empty.db", mode="own"):
        pass
    with SqliteStore.open(tmp_path / "pending.db", mode="own") as store:
        store.plan.set([PlannedMetric(name="ccrs.ac", version="1", judge_hash="h")], [])
        for n in range(5):
            trace = Trace(trace_id=f"t{n}", started_at=float(n), query="?", response="!", contexts=())
            store.traces.ingest("s", n + 1, [Captured(trace=trace)])
    whole = (tmp_path / "pending.db").read_bytes()
    (tmp_path / "damaged.db").write_bytes(whole[: len(whole) // 3])
    (tmp_path / "future.db").write_bytes(whole)
    with contextlib.closing(sqlite3.connect(tmp_path / "future.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    (tmp_path / "empty.jsonl").write_text("", encoding="utf-8")
    for name, code, message in (
        ("empty.db", 2, "does not contain outcomes (no samples either)"),
        ("empty.jsonl", 2, "does not contain outcomes (no samples either)"),
        ("pending.db", 2, "(5 samples without scores). 5 requests are pending. Replace JUDGE "),
        ("damaged.db", 3, "is damaged"),
        ("future.db", 3, "has format version 99"),
    ):
        path = tmp_path / name
        commands = [
            ("report", path),
            ("report", path, "-o", tmp_path / "r.html"),
            ("traces", path),
            ("traces", path, "--worst", 2),
        ]
        for command in commands:
            done = run_command(*command)
            assert (code, True) == (done.returncode, message in done.stderr), (command, done.stderr)
        done = run_command("compare", path, f"other={path}", "--unpaired")
        expected = "does not contain outcomes. `ragstone status STORE` shows" if code == 2 else message
        assert (code, True) == (done.returncode, expected in done.stderr), (name, done.stderr)
        if name.endswith(".db"):
            done = run_command("status", path)
            said = done.stdout if code == 2 else done.stderr
            assert (code if code == 3 else 0, True) == (
                done.returncode,
                ("captured" if code == 2 else message) in said,
            ), name
    assert not (tmp_path / "r.html").exists()


def test_evaluate_names_the_next_command(tmp_path):
    """The command that shows which answers are wrong, ready to be copied."""
    rows, out = tmp_path / "my rows.jsonl", tmp_path / "out.jsonl"
    row = {"id": "1", "query": "How tall?", "response": "31 m.", "contexts": ["It is 31 m tall."], "reference": "31 m"}
    rows.write_text(json.dumps(row) + "\n")
    done = run_command("evaluate", rows, "--judge", "lexical", "-o", out)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("To see which answers are wrong")]
    shown = run_command(*shlex.split(line.partition(": ragstone ")[2]))
    assert (0, True) == (shown.returncode, "How tall?" in shown.stdout or "judged wrong" in shown.stdout)


def test_the_next_command_has_only_options_that_report_has(tmp_path: Path) -> None:
    """No --encoding and no --separator: without them the rows cannot be read, or are other passages."""
    rows, out = tmp_path / "de.csv", tmp_path / "out.jsonl"
    rows.write_bytes("id,query,response,contexts\n1,Wie groß?,31 m.,Es ist 31 m~hoch.\n".encode("cp1252"))
    done = run_command("evaluate", rows, "--judge", "lexical", "-o", out, "--encoding", "cp1252", "--separator", "~")
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("To see which answers are wrong")]
    assert line.endswith(f"(with their texts: --data and the same rows as JSONL): ragstone report {out}")
    refused = run_command("report", out, "--data", rows).stderr
    assert "Convert the file: iconv -f cp1252 -t utf-8 FILE > NEW, or `evaluate` it with --encoding" in refused


def test_evaluate_says_that_outcomes_are_not_kept_before_it_pays_for_them(tmp_path):
    """Afterwards the same calls would be needed again."""
    rows = tmp_path / "rows.jsonl"
    row = {"id": "1", "query": "How tall?", "response": "31 m.", "contexts": ["It is 31 m tall."], "reference": "31 m"}
    rows.write_text(json.dumps(row) + "\n")
    said = run_command("evaluate", rows, "--judge", "lexical").stderr
    advice = "To see which answers are wrong, and why: add --output outcomes.jsonl"
    assert -1 < said.find(advice) < said.find("scoring: 1 of 1")
    assert advice not in run_command("evaluate", rows, "--judge", "lexical", "--json").stderr
