"""`ragstone report` and `ragstone traces`, as a user meets them: on a store, a file of outcomes, and wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import run_command, run_in_new_process
from ragstone.experiments import evaluate

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
        "ccrs.ac (wrong",
    ):
        assert part in done.stdout
    command = next(line for line in done.stdout.splitlines() if line.startswith("one answer"))
    shown = run_command(*command.split("ragstone ")[1].split())
    assert 0 == shown.returncode, shown.stderr
    assert "Dogs stay outside." in shown.stdout

    as_json = json.loads(run_command("report", outcomes, "--data", data, "--json").stdout)
    assert 6 == as_json["verdict"][0]["numbers"]["n_wrong"]
    assert 5 == len(as_json["metrics"])


def test_answers_of_a_file(files: tuple[Path, Path]) -> None:
    """Listed by label and score."""
    data, outcomes = files
    done = run_command("traces", outcomes, "--data", data, "--where", "topic=dogs and ccrs.ac<0.5")
    assert ["q11", "q7", "q9"] == sorted(
        line.strip() for line in done.stdout.splitlines() if line.strip() in {r["id"] for r in ROWS}
    )
    listed = json.loads(run_command("traces", outcomes, "--data", data, "--worst", "2", "--json").stdout)
    assert [2, True] == [len(listed), all(answer["cause"] for answer in listed)]
    none = run_command("traces", outcomes, "--data", data, "--where", "ccrs.ac>5")
    assert "no answers found" in none.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("report", "absent.db"), "neither a file of outcomes nor a store"),
        (("report", "OUTCOMES", "--target", "ccrs.ac"), "--target must be METRIC=MEAN, got 'ccrs.ac'"),
        (("report", "OUTCOMES", "--target", "ccrs.ac=high"), "--target must be METRIC=MEAN, got 'ccrs.ac=high'"),
        (("report", "OUTCOMES", "--target", "udcg=0.5"), "no scores of the metric 'udcg'"),
        (("traces", "OUTCOMES", "nope"), "trace 'nope' not found"),
        (("traces", "OUTCOMES", "--cause", "bad"), "unknown cause 'bad'. Causes: no_relevant_passage"),
        (("traces", "OUTCOMES", "--where", "topic=dogs"), "no sample has 'topic'"),
    ],
)
def test_wrong_input(files: tuple[Path, Path], arguments: tuple[str, ...], message: str) -> None:
    """Value, rule and way out."""
    given = [str(files[1]) if argument == "OUTCOMES" else argument for argument in arguments]
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
