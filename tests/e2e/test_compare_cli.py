"""`ragstone compare` as a user meets it: verdict, gate, exit codes, `--json`."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from command_line import run_command, run_in_new_process


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Outcomes of four systems on the same 60 samples, written as the JSONL of `evaluate --output`."""
    folder = tmp_path_factory.mktemp("systems")
    base = [random.Random(i).uniform(0.4, 0.6) for i in range(60)]
    found = {}
    for number, (name, shift) in enumerate({"old": 0.0, "same": 0.0, "better": 0.08, "worse": -0.08}.items()):
        noise = random.Random(f"{number}")
        lines = [
            {
                "sample_id": f"q{i}",
                "metric": metric,
                "metric_version": "1",
                "judge": "j",
                "judge_hash": "h",
                "outcome": "score",
                "method": "x",
                "value": base[i] + noise.gauss(0, 0.05) + (shift if metric == "ccrs.qr" else 0),
            }
            for metric in ("ccrs.qr", "ccrs.cc")
            for i in range(60)
        ]
        found[name] = folder / f"{name}.jsonl"
        found[name].write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return found


def test_the_verdict_comes_first_and_the_tables_if_asked_for(files: dict[str, Path]) -> None:
    """On stdout, and the exit code is 0: a difference is no failure."""
    done = run_command("compare", files["old"], files["worse"])

    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.startswith("old beats worse on ccrs.qr by ")
    assert "Contextual coherence (ccrs.cc): no significant difference between worse and old (" in done.stdout
    assert "mean [95% CI]" not in done.stdout
    assert "method: paired " in done.stdout
    assert "Add --full for the tables" in done.stdout
    assert "mean [95% CI]" in run_command("compare", files["old"], files["worse"], "--full").stdout


@pytest.mark.parametrize(
    ("candidate", "options", "code"),
    [
        ("better", ["--fail-if-worse"], 0),
        ("same", ["--fail-if-worse"], 0),
        ("worse", ["--fail-if-worse"], 1),
        ("worse", ["--fail-if-worse", "--gate-metrics", "ccrs.cc"], 0),
        ("same", ["--margin", "0.1"], 0),
        ("same", ["--margin", "0.001"], 1),
        ("worse", ["--margin", "0.2"], 0),
    ],
)
def test_the_gate_decides_the_exit_code(files: dict[str, Path], candidate: str, options: list[str], code: int) -> None:
    """0 lets through, 1 does not; the table of the gate stands at the end."""
    done = run_command("compare", files["old"], files[candidate], *options, "--set", "analysis.n_permutations=1000")
    assert (code, "") == (done.returncode, done.stderr)
    assert ("FAILED" if code else "no regression found") in done.stdout.rsplit("\nbaseline old: ", 1)[1]


def test_json_holds_everything(files: dict[str, Path]) -> None:
    """Names, families, claims and the gate, for programs."""
    done = run_command(
        "compare", f"älter={files['old']}", f"b={files['better']}", f"c={files['worse']}",
        "--baseline", "b", "--set", "analysis.across_metrics=true", "--hypothesis", "b > c on ccrs.qr", "--margin", "0.3", "--set", "analysis.min_effect=0.02",
        "--set", "analysis.confidence_level=0.9", "--set", "analysis.seed=3", "--json",
    )  # fmt: skip
    found = json.loads(done.stdout)

    assert 0 == done.returncode, done.stderr
    assert (["älter", "b", "c"], "b", 0.9, 3, True) == tuple(
        found[key] for key in ("systems", "baseline", "confidence_level", "seed", "across_metrics")
    )
    assert [[("älter", "b"), ("c", "b")]] * 2 == [
        [(p["system"], p["other"]) for p in m["pairs"]] for m in found["metrics"]
    ]
    assert [0.02, 0.02] == [m["min_effect"] for m in found["metrics"]]
    assert [("b > c on ccrs.qr", True)] == [(h["name"], h["supported"]) for h in found["hypotheses"]]
    assert (True, 4) == (found["gate"]["ok"], len(found["gate"]["gates"]))
    assert json.loads(run_command("compare", files["old"], files["better"], "--json", "--full").stdout)["gate"] is None


def test_hypotheses_come_from_a_file(files: dict[str, Path], tmp_path: Path) -> None:
    """Their results stand before the pairs of systems, and a line that is none is named."""
    stated = tmp_path / "stated.txt"
    stated.write_text(
        "# before looking at the data\n\nH1: better > worse on ccrs.qr\n"
        "H3: better > same or same > worse on some metric\nH4: better > worse on ccrs.qr and same != old\n"
    )
    done = run_command("compare", *(f"{name}={path}" for name, path in files.items()), "--hypothesis", str(stated))
    assert 0 == done.returncode, done.stderr
    lines = done.stdout.splitlines()
    expected = ["hypothesis H1: supported", "hypothesis H3: supported", "hypothesis H4: not supported"]
    assert expected == [line.partition(" (p ")[0] for line in lines[:3]]
    for line in ("better > worse", "H1: better > same", ": x"):
        stated.write_text(f"H1: better > worse\n{line}\n")
        refused = run_command("compare", str(files["old"]), str(files["same"]), "--hypothesis", str(stated))
        assert 2 == refused.returncode
        assert "a line must be NAME: HYPOTHESIS" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["old"], "at least two systems, got 1"),
        (["old", "missing"], "was not found"),
        (["old", "same", "--gate-metrics", "ccrs"], "requires a gate: --fail-if-worse, or --margin"),
        (["a=old", "a=same"], "two systems have the name 'a'. Write NAME=FILE"),
        (["old", "old=same"], "two systems have the name 'old'. Write NAME=FILE"),
        (["old", "same", "--metrics", "bleu"], "no system has outcomes of 'bleu'. Available: ccrs.cc, ccrs.qr"),
        (["old", "same", "--baseline", "x"], "unknown baseline 'x'"),
        (["old", "same", "--hypothesis", "old >> same"], "is not a hypothesis about these systems"),
        (
            ["old", "same", "--set", "analysis.confidence_level=2"],
            "analysis.confidence_level must be a number above 0 and below 1",
        ),
        (["old", "same", "--margin", "-1"], "margin must be a finite number above 0"),
    ],
)
def test_what_cannot_work_is_said(files: dict[str, Path], arguments: list[str], message: str) -> None:
    """Exit code 2, one line that says what to change, and nothing on stdout."""
    names = [a.rpartition("=") for a in arguments]
    done = run_command("compare", *(f"{name}{is_}{files.get(file, file)}" for name, is_, file in names))
    assert (2, "", 1) == (done.returncode, done.stdout, done.stderr.count("\n"))
    assert message in done.stderr


def test_evaluate_writes_what_compare_reads(tmp_path: Path) -> None:
    """The whole way: two files of answers, scored, compared."""
    for name, answer in (("old", "No idea."), ("new", "At the river.")):
        rows = [
            {"id": f"q{i}", "query": "Where is it?", "contexts": ["It is at the river."], "response": answer}
            for i in range(8)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        done = run_command(
            "evaluate", tmp_path / f"{name}.jsonl", "--metrics", "ccrs.cc", "--judge", "lexical",
            "-o", tmp_path / f"{name}-scores.jsonl",
        )  # fmt: skip
        assert 0 == done.returncode, done.stderr
    done = run_command("compare", tmp_path / "old-scores.jsonl", tmp_path / "new-scores.jsonl", "--fail-if-worse")
    assert 0 == done.returncode, done.stderr
    assert done.stdout.startswith("new-scores beats old-scores on ccrs.cc by ")
    assert "which is not a judge" in done.stdout


def test_the_exit_code_reaches_the_shell(files: dict[str, Path]) -> None:
    """In a process of its own, as CI sees it."""
    done = run_in_new_process("compare", files["old"], files["worse"], "--fail-if-worse")
    assert (1, "") == (done.returncode, done.stderr)
