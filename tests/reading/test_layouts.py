"""Files that a person wrote who had not read the reader: each is read as a careful person reads it, or the message says how.

`layouts/truth.json` has what each file says, and `layouts/states.json` what Ragstone does with it. The reference page of the
records counts these states, and shows the files that have a `name`.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ragstone
from ragstone.cli._app import app
from ragstone.errors import RagstoneError
from ragstone.reading import FIELD_ALIASES, Choice, ReadingReport, iter_samples, read_samples

FOLDER = Path(__file__).parent / "layouts"
TRUTH: list[dict[str, Any]] = json.loads((FOLDER / "truth.json").read_text(encoding="utf-8"))
STATES: list[dict[str, Any]] = json.loads((FOLDER / "states.json").read_text(encoding="utf-8"))
NO_CASES = {"truth.json", "states.json", "make.py", "make_more.py", "bm25.qrels", "app.py"}
CASES = [
    pytest.param(case, state, id=f"{case['file']}-{shlex.split(case['command'])[0]}-{state['state']}")
    for case, state in zip(TRUTH, STATES, strict=True)
]
Row = dict[str, Any]


def arguments_of(options: str) -> tuple[Choice, Row]:
    """Return the arguments of `iter_samples` for options of the command `evaluate`."""
    words = shlex.split(options.replace("{d}", str(FOLDER)))
    named: list[tuple[str, str]] = [(name, value) for name, value in pairwise(words) if name.startswith("--")]
    given = dict(named)
    fields = dict(value.split("=", 1) for name, value in named if name == "--field")
    choice = Choice(
        **{name: given.get(f"--{name}") for name in ("rows", "separator", "encoding")},
        limit=int(given["--limit"]) if "--limit" in given else None,
    )
    more = {"fields": fields, "qrels": given.get("--qrels"), "with_app": "--app" in given}
    return choice, {**more, "on_bad_row": given.get("--on-bad-row", "raise")}


def read(path: Path, options: str) -> tuple[list[Row], str]:
    """Return the samples that `evaluate` reads, and all that it says about them, in one line."""
    report = ReadingReport()
    choice, more = arguments_of(options)
    try:
        samples = list(iter_samples(path, [], choice=choice, report=report, **more))
    except RagstoneError as error:
        return [], " ".join(str(error).split())
    return [as_row(sample, sample.contexts) for sample in samples], " ".join("\n".join(report.lines()).split())


def read_traces(path: Path) -> tuple[list[Row], str]:
    """Return the requests that `replay` reads, and the reasons of the records that are not."""
    skipped: list[Any] = []
    try:
        traces = list(ragstone.read_traces(path, on_rejected=skipped.append))
    except RagstoneError as error:
        return [], " ".join(str(error).split())
    return [as_row(trace, trace.prompt_contexts) for trace in traces], " ".join(each.reason for each in skipped)


def as_row(record: Any, passages: Any) -> Row:
    """Return a sample or a trace under the names of the truth."""
    texts = None if passages is None else [spaced(passage.text) for passage in passages]
    reference, history = [spaced(text) for text in record.reference], len(record.history)
    return {
        "query": record.query,
        "response": record.response,
        "contexts": texts,
        "reference": reference,
        "history": history,
    }


def spaced(text: Any) -> str:
    """Return a text with single blanks, or an empty text for an unknown one."""
    return " ".join((text or "").split())


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts of one answer or of several."""
    for each in value if isinstance(value, list) else [value]:
        yield from texts_in(each) if isinstance(each, list) else [spaced(each)]


def is_same(name: str, expected: Any, actual: Any, case: Row) -> bool:
    """Return whether a field of a sample is that of the truth. A passage may have its title before its text."""
    if name in ("query", "response"):
        is_free = name == "response" and "--app" in case["command"]
        return is_free or spaced(actual) in texts_in(expected)
    if name == "reference":
        return set(texts_in(expected)) - {""} == set(actual)
    if name != "contexts":
        return name != "history" or expected == actual
    if expected is None or actual is None or "--app" in case["command"]:
        return expected is actual or "--app" in case["command"] or ("empty_or_null" in case and not expected)
    if "empty_or_null" in case and not expected and not any(actual):
        return True
    return len(expected) == len(actual) and all(a.endswith(spaced(e)) for a, e in zip(actual, expected, strict=True))


def differs(rows: list[Row], case: Row) -> str:
    """Return the first difference between samples and the truth, or "" if they are one of its readings."""
    found = []
    for name in ("rows", "either", "also_rows", "rows_ok"):
        readings = case.get(name) or []
        for reading in [readings] if name == "rows" and readings else readings:
            if len(reading) != len(rows):
                found.append(f"{len(rows)} samples instead of {len(reading)}")
                continue
            found.append("")
            for n, (actual, expected) in enumerate(zip(rows, reading, strict=True)):
                for key, value in expected.items():
                    if not is_same(key, value, actual.get(key), case):
                        found[-1] = found[-1] or f"{n}: {key} {actual.get(key)!r} instead of {value!r}"
    if not found:
        return "" if len(rows) == case.get("samples", len(rows)) and rows else f"{len(rows)} samples"
    return "" if "" in found else found[0]


def run(case: Row, options: str = "") -> tuple[list[Row], str, int]:
    """Return what a command reads, what it says, and its exit status. Commands with labels are run as a user types them."""
    command, _, given = case["command"].partition(" ")
    path = FOLDER / case["file"]
    if command == "evaluate":
        rows, message = read(path, f"{given} {options}".replace("--dry-run", "").replace("--json", ""))
        return rows, message, 0 if rows else 2
    if command == "replay":
        rows, message = read_traces(path)
        return rows, message, 0 if rows else 2
    words = shlex.split(
        f"{case['command']} --judge lexical {options}" if command == "lab" else f"{case['command']} {options}"
    )
    result = CliRunner().invoke(app, [word.replace("{f}", str(path)).replace("{d}", str(FOLDER)) for word in words])
    return [], " ".join(f"{result.output} {result.stderr} {result.exception or ''}".split()), result.exit_code


def column_of(value: str) -> str:
    """Return the column that an option names: the metric of a label is chosen by the user."""
    name, _, column = value.partition("=")
    return column if name in FIELD_ALIASES else name


def run_named(message: str, case: Row, directory: Path) -> list[Row]:
    """Run the command in a message, as a user types it, and return what the new file says."""
    found = re.search(r"jq -.*? > NEW\.jsonl|python -c \"import pandas.*?\" (?:FILE|[^\s,]+)", message)
    assert found is not None, message
    command = found[0].replace("FILE", shlex.quote(str(FOLDER / case["file"])))
    command = re.sub("^python", shlex.quote(sys.executable), command)
    subprocess.run(command, shell=True, check=True, cwd=directory)  # noqa: S602 - as a user types it
    (made,) = directory.glob("NEW.*")
    return read(made, case["command"].partition("{f}")[2].replace("--dry-run", ""))[0]


@pytest.mark.parametrize(("case", "state"), CASES)
def test_a_file_of_a_stranger(case: Row, state: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read at once, after the options or the command that the messages name, or a message says what is wrong."""
    monkeypatch.chdir(tmp_path)
    rows, message, code = run(case)
    given: set[str] = set()
    for options in state.get("options", []):
        values = {column_of(word) for word in shlex.split(options) if not word.startswith("--")}
        assert [] == [value for value in values - given if value not in message], message
        given |= values
        rows, message, code = run(case, options)
    assert [] == [text for text in state.get("says", []) if text not in message], message
    if state["state"] == "command":
        rows, code = run_named(message, case, tmp_path), 0
    if state["state"] in ("refused", "open"):
        assert (state["state"] == "refused") <= (code != 0)
        return
    assert 0 == code, message
    is_compared = case["command"].split()[0] in ("evaluate", "replay") and state["state"] != "told"
    assert "" == (differs(rows, case) if is_compared else ""), message


def test_all_files_have_a_state() -> None:
    """No file is left out, and at least nine of ten are read or say what to do."""
    present = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()} - NO_CASES
    named = {case["file"] for case in TRUTH}
    assert [] == sorted(
        name
        for name in present
        if name not in named and name.partition("/")[0] not in {n.partition("/")[0] for n in named}
    )
    assert [case["file"] for case in TRUTH] == [state["file"] for state in STATES]
    states = Counter(state["state"] for state in STATES)
    assert states["open"] * 10 <= states.total()


def test_passages_of_autorag_have_scores():
    """Contents, ids and scores are three lists of the same length."""
    row = {
        "qid": "q1",
        "query": "Why?",
        "retrieved_contents": ["a", "b"],
        "retrieved_ids": ["x", "y"],
        "retrieve_scores": [0.5, 0.25],
    }
    ((sample,), _) = read_samples([row])

    assert [("a", "x", 0.5), ("b", "y", 0.25)] == [(p.text, p.id, p.score) for p in sample.contexts or ()]


@pytest.mark.parametrize(("role", "content"), [("from", "value"), ("role", "content")])
def test_turns_of_sharegpt_have_two_spellings(role: str, content: str):
    """Tools that convert such files rename the keys of turns, and not that of the list."""
    turns = [{role: "human", content: "Why?"}, {role: "gpt", content: "So."}]
    ((sample,), _) = read_samples([{"conversations": turns}])

    assert ("Why?", "So.") == (sample.query, sample.response)
