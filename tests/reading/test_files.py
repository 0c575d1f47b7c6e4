"""Small files in the layouts that people have: each is read as they mean it, or its first message names the remedy.

`files/expected.toml` states for each file the command that a user types first, and what a correct reading is.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import ragstone
from ragstone.cli._app import app
from ragstone.reading import read_samples

FILES = Path(__file__).parent / "files"
EXPECTED = tomllib.loads((FILES / "expected.toml").read_text(encoding="utf-8"))["file"]
NOT_SHOWN = {".gitattributes", "make_files.py", "expected.toml", "bm25.qrels"}


def every_case(*keys: str) -> list[Any]:
    """Return the cases that have one of the keys, as parameters of a test."""
    return [
        pytest.param(
            file["name"],
            case,
            id=f"{file['name']}-{shlex.split(case['command'])[0]}",
            marks=[pytest.mark.xfail(reason=f"part of the work: {case['fails']}")] if "fails" in case else [],
        )
        for file in EXPECTED
        for case in file["case"]
        if any(key in case for key in keys)
    ]


def texts_of(passages: Any) -> list[str]:
    """Return the texts of passages, or a question mark for unknown contexts."""
    return ["?"] if passages is None else [passage.text for passage in passages]


def actual_field(record: Any, name: str, expected: Any) -> Any:
    """Return a field of a sample or a trace in the form in which the expectation states it."""
    contexts = record.prompt_contexts if isinstance(record, ragstone.Trace) else record.contexts
    if name == "contexts":
        return texts_of(contexts)
    if name == "context_parts":
        return [part for part, text in zip(expected, texts_of(contexts), strict=False) if part in text]
    if name == "passage_ids":
        return [passage.id for passage in contexts or ()]
    if name == "id_parts":
        return [part for part in expected if part in record.id]
    if name == "history":
        return len(record.history)
    value = getattr(record, name)
    return list(value or ()) if name == "reference" else value or ""


def fields(record: Any, expected: dict[str, Any]) -> dict[str, Any]:
    """Return the named fields of a sample or a trace."""
    return {name: actual_field(record, name, value) for name, value in expected.items()}


def all_texts(record: Any) -> list[str]:
    """Return each text of a sample that a metric reads."""
    parts = [record.query, record.response, *record.reference, *texts_of(record.contexts)]
    return [part for part in parts if part]


def samples_of(name: str, case: dict[str, Any]) -> list[Any]:
    """Return what is read from a file, after the remedy if the case has one."""
    given = dict(case.get("with", {}))
    if "qrels" in case:
        given["qrels"] = FILES / case["qrels"]
    return list(read_samples(FILES / name, **given)[0])


def run(command: str, name: str, **places: str) -> Result:
    """Run a command of `expected.toml` in this process. `places` are what stands for a store or a file of outcomes."""
    places |= {"FILE": str(FILES / name), "bm25.qrels": str(FILES / "bm25.qrels")}
    return CliRunner().invoke(app, [places.get(word, word) for word in shlex.split(command)])


def printed(result: Result) -> str:
    """Return what a command printed and the message of an error, in one line."""
    return " ".join(f"{result.output} {result.exception or ''}".split())


def compare(records: list[Any], case: dict[str, Any], n: int) -> None:
    """Compare the records of a file with what the case states."""
    assert n == len(records)
    for place, name in ((0, "first"), (-1, "last")):
        expected = case.get(name, {})
        assert expected == fields(records[place], expected)


@pytest.mark.parametrize(("name", "case"), every_case("samples"))
def test_samples(name: str, case: dict[str, Any]):
    """The file is read as its author means it, with the arguments of the remedy if it has several meanings."""
    samples = samples_of(name, case)
    compare(samples, case, case["samples"])
    if "contexts_each" in case:
        assert [case["contexts_each"]] * len(samples) == [len(sample.contexts) for sample in samples]
    if "references_each" in case:
        assert [case["references_each"]] * len(samples) == [list(sample.reference) for sample in samples]
    never = case.get("never", [])
    assert [] == [text for sample in samples for text in all_texts(sample) if any(bad in text for bad in never)]


@pytest.mark.parametrize(("name", "case"), every_case("traces"))
def test_traces(name: str, case: dict[str, Any]):
    """The export is read as requests with their passages. Their order in the file does not matter."""
    traces = list(ragstone.read_traces(FILES / name))
    traces.sort(key=lambda trace: trace.query != case["first"]["query"])
    compare(traces, case, case["traces"])


@pytest.mark.parametrize(("name", "case"), every_case("remedy"))
def test_remedy(name: str, case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The first message of the command names what the user should do."""
    monkeypatch.chdir(tmp_path)
    message = printed(run(case["command"], name, **sources(name, case["command"], tmp_path)))
    assert [] == [text for text in case["remedy"] if text not in message], message


@pytest.mark.parametrize(("name", "case"), every_case("says", "labels"))
def test_command(name: str, case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The command succeeds, with the options of the remedy if there is one, and prints what the user must know."""
    monkeypatch.chdir(tmp_path)
    command = f"{case['command']} {case.get('options', '')} {'--json' if 'labels' in case else ''}"
    result = run(command, name, **sources(name, command, tmp_path))
    assert 0 == result.exit_code, printed(result)
    assert [] == [text for text in case.get("says", []) if text not in printed(result)], printed(result)
    if "labels" in case:
        assert [case["labels"]] == list(json.loads(result.stdout)["n_labeled"].values())


def sources(name: str, command: str, directory: Path) -> dict[str, str]:
    """Return a store with the requests of `ragstone-traces.jsonl`, or the outcomes of the file, if a command needs it."""
    makers = {"STORE": ("replay FILE --store", "ragstone-traces.jsonl"), "OUTCOMES": ("evaluate FILE --output", name)}
    made = {}
    for place in makers.keys() & set(shlex.split(command)):
        made[place] = str(directory / place)
        making, source = makers[place]
        options = " ".join(re.findall(r"--field \S+", command))
        result = run(f"{making} {made[place]} --metrics ccrs.cc --judge lexical {options}", source)
        assert 0 == result.exit_code, printed(result)
    return made


def test_every_file_is_expected():
    """Each file of the directory has an entry in `expected.toml`, and the entries are more than 44."""
    present = {path.name for path in FILES.iterdir() if path.is_file()} - NOT_SHOWN
    assert sorted(present) == sorted(file["name"] for file in EXPECTED)
    assert 44 <= len(EXPECTED)
