"""The reading report: used keys are not listed as unused, alternatives are those of the file, and an application is not called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import run_command
from ragstone.reading import ReadingReport, read_samples

BLOCKS = [{"type": "text", "text": "Old."}]
MESSAGES = [{"role": "user", "content": "How old?"}]


def report(*rows: dict[str, Any]) -> str:
    """Return the report about rows."""
    made = ReadingReport()
    read_samples(list(rows), report=made)
    return str(made)


@pytest.mark.parametrize(
    "row",
    [{"input": MESSAGES, "output": "Old."}, {"query": "How old?", "output": BLOCKS, "contexts": ["c"]}],
    ids=["messages", "content blocks"],
)
def test_keys_of_messages_are_used(row: dict[str, Any]):
    """The column that has them is read, so a list of unused columns does not contain them. Others stay in it."""
    rows = [row | {"note_of_mine": f"n{n}"} for n in range(3)]
    (line,) = [line for line in report(*rows).splitlines() if "not used" in line]
    assert "  not used: note_of_mine" == line


@pytest.mark.parametrize("name", ["actualOutput", "actual_output"])
def test_alternatives_that_a_row_does_not_have_are_not_named(name: str):
    """Deepeval writes one of two spellings."""
    row = {
        "input": "How old?",
        name: "Old.",
        "retrievalContext": ["c"],
        "metricsData": [],
        "success": True,
        "name": "t",
    }
    text = report(row)
    (other,) = {"actualOutput", "actual_output"} - {name}
    assert other not in text


def test_a_dry_run_does_not_call_the_application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It prints what was read: `answer` is the reference, as in the run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "called_app.py").write_text("def ask(query):\n    raise AssertionError('called')\n")
    (tmp_path / "q.jsonl").write_text(
        "".join(json.dumps({"question": f"Why {n}?", "answer": "So."}) + "\n" for n in range(3))
    )
    command = ("evaluate", "q.jsonl", "--app", "called_app:ask", "--repeats", "2", "--judge", "lexical", "--dry-run")
    done = run_command(*command)
    assert 0 == done.returncode, done.stderr
    assert "reference ← answer" in done.stderr
    assert "called_app:ask would be called 6 times (3 samples)" in done.stdout
    facts = json.loads(run_command(*command, "--json").stdout)
    assert (3, 6, "answer") == (
        facts["n_samples"],
        facts["n_application_calls"],
        next(iter(facts["reading"]["fields"]["reference"]["columns"])),
    )
    assert not list(tmp_path.glob("*.traces.jsonl"))


@pytest.mark.parametrize("option", ["--retriever-tool", "--no-retriever-tool"])
@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_tools_of_an_application_need_one(option: str, more: list[str], tmp_path: Path):
    """The options do not change what is read from a file, so they are refused and not ignored."""
    (tmp_path / "m.jsonl").write_text(
        json.dumps({"messages": [*MESSAGES, {"role": "assistant", "content": "Old."}]}) + "\n"
    )
    done = run_command("evaluate", tmp_path / "m.jsonl", option, "search", "--judge", "lexical", *more)
    assert 2 == done.returncode, done.stdout
    assert "are about the calls of --app" in done.stderr


def test_commands_of_a_report_are_in_one_line():
    """They can be copied. Other lines are broken between words."""
    made = ReadingReport()
    command = 'jq -c \'(arrays[], objects) | .["answers"][] + del(.["answers"])\' FILE > NEW.jsonl'
    words = "answers of several systems, which are not read because each row has to be one of them"
    made.note(f"{words}. Write a row for each: {command}")
    made.note(words)

    lines = str(made).splitlines()
    assert [line for line in lines if command in line]
    assert [
        "  answers of several systems, which are not read because each row has to be one",
        "      of them",
    ] == lines[-2:]


def test_a_report_keeps_a_hundred_unused_columns():
    """Its size does not depend on the file."""
    made = ReadingReport()
    made.leave(f"column {n}" for n in range(150))

    assert [f"column {n}" for n in range(100)] == list(made.unused)


def test_a_field_that_was_read_has_an_option_for_a_row_alone():
    """If the row has another column that may be it."""
    made = ReadingReport()
    made.use({"query": "question"})
    made.guess("query", "prompt", "messages")
    made.guess("response", "question")
    made.guess("reference", "ideal", "the first of several")

    assert ["--field reference=ideal (the first of several)"] == made.remedies(("query", "response", "reference"))
    assert ["--field query=prompt"] == made.remedies(("query",), {"prompt": "Why?"})
