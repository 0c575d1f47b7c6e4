"""Rows that nobody documents: each is read as its author means it, is an error, or is counted in the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import run_command
from ragstone.errors import DataError
from ragstone.reading import ReadingReport, read_label_file, read_samples

SCORED = [("one", None, 0.9), ("two", None, 0.5)]
NAMED = [("one", "doc1", None), ("two", "doc2", None)]


@pytest.mark.parametrize(
    ("name", "contexts", "expected"),
    [
        ("pairs.jsonl", '[["one", 0.9], ["two", 0.5]]', SCORED),
        ("pairs.csv", "\"[('one', 0.9), ('two', 0.5)]\"", SCORED),
        ("named.jsonl", '{"doc1": "one", "doc2": "two"}', NAMED),
        ("named.csv", '"{""doc1"": ""one"", ""doc2"": ""two""}"', NAMED),
        ("titles.jsonl", '[["Bees", ["They fly.", " They sting."]]]', [("They fly. They sting.", "Bees", None)]),
        ("one.jsonl", '{"title": "Bees", "text": "They fly."}', [("They fly.", None, None)]),
    ],
)
def test_passages_with_scores_and_ids(
    tmp_path: Path, name: str, contexts: str, expected: list[tuple[str, str | None, float | None]]
):
    """Pairs of text and score, texts by id, and a title with its sentences are passages."""
    lines = f"query,contexts\nq,{contexts}\n" if name.endswith("csv") else f'{{"query": "q", "contexts": {contexts}}}\n'
    (tmp_path / name).write_text(lines, encoding="utf-8")
    ((sample,), _) = read_samples(tmp_path / name)
    assert expected == [(passage.text, passage.id, passage.score) for passage in sample.contexts or ()]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("short.csv", "query,response,reference\nq,a\n", "line 2 has fewer cells than the header"),
        ("null.jsonl", '{"query": "q", "contexts": ["one", null]}\n', "passage 2 must be text .* got NoneType"),
        ("about.jsonl", '{"query": "q", "contexts": {"title": "Bees", "author": "Moss"}}\n', "passage 1 must be text"),
        ("nested.jsonl", '{"query": "q", "contexts": [["one", "two"]]}\n', "passage 1 must be text"),
        ("values.jsonl", '{\n "query": "q"\n}\n{\n "query": "r"\n}\n', r"jq -c \. FILE"),
        ("table.md", "| query | response |\n|---|:-:|\n| q | a |\n", "a Markdown table. Save it as CSV"),
    ],
)
def test_rows_that_have_no_meaning_are_errors(tmp_path: Path, name: str, content: str, message: str):
    """The message names the place and the problem."""
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_samples(tmp_path / name)


@pytest.mark.parametrize("suffix", ["jsonl", "json"])
def test_pretty_printed_list(tmp_path: Path, suffix: str):
    """The suffix of JSON lines does not make lines of one document."""
    path = tmp_path / f"rows.{suffix}"
    path.write_text('[\n {\n  "query": "q"\n },\n {\n  "query": "r"\n }\n]\n', encoding="utf-8")
    assert ["q", "r"] == [sample.query for sample in read_samples(path)[0]]


@pytest.mark.parametrize("text", ["NA", "n/a", "#REF!", "#DIV/0!"])
def test_values_that_a_table_does_not_have(tmp_path: Path, text: str):
    """What Excel could not compute is missing, and is counted."""
    (tmp_path / "rows.csv").write_text(f"query,response,reference\nq,{text},r\n", encoding="utf-8")
    report = ReadingReport()
    ((sample,), _) = read_samples(tmp_path / "rows.csv", report=report)
    assert (None, ("r",)) == (sample.response, sample.reference)
    assert {"placeholder": {"response": 1}} == report.values


def test_empty_references_are_counted():
    """A missing value in a list of references is not a reference."""
    report = ReadingReport()
    ((sample,), _) = read_samples([{"query": "q", "reference": ["r", None, " "]}], report=report)
    assert ("r",) == sample.reference
    assert {"empty": {"reference": 2}} == report.values


@pytest.mark.parametrize(
    ("encoding", "text", "letter"),
    [
        ("cp932", "\u6771\u4eac\u306e\u5929\u6c17", "\u6771"),
        ("cp1252", "Caf\xe9", "\xe9"),
        ("cp1251", "\u041f\u0440\u0438\u0432\u0435\u0442", "\u041f"),
    ],
)
def test_the_proposed_encoding_fits_the_bytes(tmp_path: Path, encoding: str, text: str, letter: str):
    """Encodings that fit are named with a letter that they show, and the named encoding reads the file."""
    path = tmp_path / "rows.csv"
    path.write_bytes(f"query,response\nq,{text}\n".encode(encoding))
    with pytest.raises(DataError, match=f"in {encoding}: {letter!r}.*--encoding"):
        read_samples(path)
    assert [text] == [sample.response for sample in read_samples(path, encoding=encoding)[0]]


def test_references_of_another_question_are_refused():
    """The same id does not make two questions one."""
    rows = [{"id": "a", "query": "Why?"}, {"id": "b", "query": "How?"}]
    (known, other), _ = read_samples([row | {"reference": "r"} for row in rows])
    assert [("r",), ("r",)] == [s.reference for s in read_samples(rows, references={"a": known, "b": other})[0]]
    with pytest.raises(DataError, match="row 2 has the id 'b', and another question"):
        read_samples(rows, references={"a": known, "b": known})


def test_a_row_of_a_known_id_is_a_sample_without_an_answer():
    """An empty text is an empty answer, and a missing one is unknown: both are counted if a file has their id."""
    rows = [{"id": "a", "response": "r"}, {"id": "b", "response": ""}, {"id": "c", "response": None}]
    references = {name: (name,) for name in "abc"}
    samples, _ = read_samples(rows, references=references)
    assert [("a", "r"), ("b", ""), ("c", None)] == [(sample.id, sample.response) for sample in samples]


def test_the_remedy_of_repeated_ids_is_no_label():
    """A column that says how good an answer is does not tell answers apart."""
    rows = [{"id": "a", "query": "q", "label": n, "model": f"m{n}"} for n in range(3)]
    with pytest.raises(DataError, match="--field id=id\\+model "):
        read_samples(rows)


def test_lines_of_a_report_fit_a_terminal():
    """At most 80 characters in a line, and an option stays with its value."""
    report = ReadingReport()
    read_samples([{"query": "q", **{f"expected_{'long_' * n}answer_of_people": "x" for n in range(6)}}], report=report)
    lines = str(report).split("\n")
    assert len(lines) > len(report.lines())
    assert [] == [line for line in lines if len(line) > 80]
    assert "--field reference=expected_answer_of_people" in str(report)


def test_one_of_several_lists_is_named_in_all_commands(tmp_path: Path):
    """`--rows` and `--field` read the same rows in `evaluate` and in the commands that it proposes."""
    rows = [{"id": str(n), "Frage": f"Why {n}?", "response": "a", "contexts": ["a"]} for n in range(4)]
    (tmp_path / "data.json").write_text(json.dumps({"first": [{"query": "x"}], "second": rows}), encoding="utf-8")
    data, options = tmp_path / "data.json", ("--rows", "second", "--field", "query=Frage")
    out = tmp_path / "out.jsonl"
    done = run_command("evaluate", data, *options, "--judge", "lexical", "--metrics", "ccrs.cc", "-o", out)
    assert 0 == done.returncode, done.stderr
    assert f"ragstone report {out} --data {data} --rows second --field query=Frage" in " ".join(done.stderr.split())
    for command in (
        ("report", out, "--data", data),
        ("traces", out, "--data", data),
        ("compare", out, f"b={out}", "--data", data, "--data", data),
    ):
        assert 2 == run_command(*command).returncode
        assert 0 == run_command(*command, *options).returncode


def test_labels_in_one_of_several_lists(tmp_path: Path):
    """`rows` names the list of labels."""
    path = tmp_path / "labels.json"
    path.write_text(json.dumps({"a": [{"id": "x", "label": 0}], "b": [{"id": "y", "label": 1}]}), encoding="utf-8")
    assert [("y", 1.0)] == [(label.sample_id, label.value) for label in read_label_file(path, rows="b").records]


@pytest.mark.parametrize(
    "line", ['{"query": "Why?", "query": "How?"}', '{"query": "Why?", "metadata": {"a": 1, "b": 2, "a": 3}}']
)
def test_a_key_that_is_repeated_is_an_error_of_its_row(tmp_path: Path, line: str):
    """The last value would count, and nobody would know."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"query": "When?"}\n' + line + "\n")
    samples, (rejected,) = read_samples(path, on_bad_row="skip")

    assert ["When?"] == [sample.query for sample in samples]
    name = "query" if "How" in line else "a"
    assert f"line 2: an object has the key {name!r} several times. Rename or remove all but one" == rejected.reason
