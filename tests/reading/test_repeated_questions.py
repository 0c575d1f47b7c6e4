"""Rows that repeat a question: copies of a sample, a row for each passage, and the answers of several systems."""

from __future__ import annotations

import csv
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from command_line import run_command
from ragstone.errors import DataError
from ragstone.reading import ReadingReport, read_samples

QUESTIONS = [
    "Where does the ferry leave?",
    "When does the tower open?",
    "How high is the dam?",
    "Who repaired the clock?",
]
ANSWERS = ["From pier 4.", "At nine.", "It is 62 meters high.", "A watchmaker."]
PAGES = [["The ferry leaves from pier 4.", "The port has six piers."], ["It opens at nine.", "It closes at six."]] * 2


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as a table or as JSON lines."""
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            writer = csv.DictWriter(file, rows[0], delimiter=";")
            writer.writeheader()
            writer.writerows(rows)
    return path


def rows_of(column: str, values: list[Any], *, is_answer_new: bool = False, **more: Any) -> list[dict[str, Any]]:
    """Return a row for each question and value of a column, at a path with dots."""
    rows = []
    for value in values:
        for question, answer in zip(QUESTIONS, ANSWERS, strict=True):
            row = {"question": question, "response": f"{answer} ({value})" if is_answer_new else answer, **more}
            inner = row
            *outer, name = column.split(".")
            for key in outer:
                inner = inner.setdefault(key, {})
            inner[name] = value
            rows.append(row)
    return rows


def options_in(message: str) -> dict[str, Any]:
    """Return the arguments of `read_samples` that the first remedy of a message names."""
    remedy = shlex.split(re.split(r", or |\. ", message.partition("Read each once: ")[2] or message)[0])
    fields = dict(remedy[n + 1].split("=", 1) for n, word in enumerate(remedy) if word == "--field")
    return {"fields": fields, "on_bad_row": "skip" if "--on-bad-row" in remedy else "raise"}


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
@pytest.mark.parametrize("column", ["metric", "annotator", "evaluator_name"])
def test_a_row_for_each_metric_or_annotator_is_no_sample(tmp_path: Path, suffix: str, column: str):
    """The file is refused, because each row would count as a sample. The option in the message reads each once."""
    path = write(tmp_path / f"t.{suffix}", [row | {"value": 1} for row in rows_of(column, ["a", "b", "c"])])
    with pytest.raises(DataError, match=f"12 rows have 4 different samples.*differ in {column}") as error:
        read_samples(path)
    samples, rejected = read_samples(path, **options_in(str(error.value)))
    assert (QUESTIONS, 8) == ([sample.query for sample in samples], len(rejected))
    assert f"--field id=question+{column}" in str(error.value)
    assert 12 == len(read_samples(path, fields={"id": f"question+{column}"})[0])


def test_ids_that_copies_share(tmp_path: Path):
    """Rows of two people have the id of the answer. The first remedy is not one that counts the answer twice."""
    rows = [row | {"id": str(n % 4)} for n, row in enumerate(rows_of("person", ["ann", "ben"]))]
    with pytest.raises(DataError, match="Read each once: --on-bad-row skip") as error:
        read_samples(write(tmp_path / "t.jsonl", rows))
    assert 4 == len(read_samples(tmp_path / "t.jsonl", **options_in(str(error.value)))[0])


def test_metrics_of_several_systems(tmp_path: Path):
    """An answer of a system counts once, and the systems stay apart."""
    rows = [row | {"metric": m} for row in rows_of("exp", ["x", "y"], is_answer_new=True) for m in ("f", "g", "h")]
    with pytest.raises(DataError, match="24 rows have 8 different samples") as error:
        read_samples(write(tmp_path / "t.jsonl", rows))
    options = options_in(str(error.value))
    assert {"fields": {"id": "question+exp"}, "on_bad_row": "skip"} == options
    report = ReadingReport()
    assert 8 == len(read_samples(tmp_path / "t.jsonl", report=report, **options)[0])
    assert "exp: 2 values (x, y)" in next(iter(report.notes))


def test_few_copies_are_told(tmp_path: Path):
    """One row twice may be an accident, so it is read and is the first note of the report."""
    rows = rows_of("n", [1])
    path, report = write(tmp_path / "t.csv", [*rows, rows[0]]), ReadingReport()
    assert 5 == len(read_samples(path, report=report)[0])
    assert "5 rows have 4 different samples" in next(iter(report.notes))
    assert 4 == len(read_samples(path, **options_in(next(iter(report.notes))))[0])


@pytest.mark.parametrize("column", ["exp", "prompt_version", "provider.id", "run.model", "metadata.k", "reranked"])
@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_answers_of_two_systems_in_any_column(tmp_path: Path, column: str, suffix: str):
    """A column of any name that has each question once for each value is named, with options that work."""
    values = {"metadata.k": [5, 10], "reranked": [False, True], "prompt_version": [1, 2]}.get(column, ["a", "b"])
    if suffix == "csv" and "." in column:
        column = column.partition(".")[0]
    path = write(tmp_path / f"t.{suffix}", rows_of(column, values, is_answer_new=True))
    report = ReadingReport()
    samples, _ = read_samples(path, report=report)
    note = next(iter(report.notes))
    assert (8, True) == (len(samples), f"{column}: 2 values" in note)
    option = re.search(r"--field id=(\S+?)\. ", note)
    assert option is not None
    ids = {sample.id for sample in read_samples(path, fields={"id": option[1]})[0]}
    assert {f"{question}+{value}" for question in QUESTIONS for value in values} == ids
    # `report --by` takes one key of the metadata, and no path.
    assert (f"--by {column.removeprefix('metadata.')}." in note) == ("." not in column.removeprefix("metadata."))
    if suffix == "jsonl":
        command = (
            note.partition("each value alone (")[2]
            .partition("), then")[0]
            .replace("ONE.jsonl", str(tmp_path / "1.jsonl"))
        )
        subprocess.run(command, shell=True, check=True)  # noqa: S602 - as a user types it
        assert QUESTIONS == [sample.query for sample in read_samples(tmp_path / "1.jsonl")[0]]


def test_the_means_of_systems_in_a_report(tmp_path: Path):
    """The command that the note names for the mean of each system has both values."""
    rows = [row | {"contexts": ["At nine."]} for row in rows_of("exp", ["x1", "x2"], is_answer_new=True)]
    path, outcomes = write(tmp_path / "t.jsonl", rows), tmp_path / "o.jsonl"
    done = run_command("evaluate", path, "--metrics", "ccrs.cc", "--judge", "lexical", "--output", outcomes)
    command = re.search(r"ragstone report OUTCOMES --data (\S+) --by exp", " ".join(done.stderr.split()))
    assert command is not None, done.stderr
    shown = run_command("report", outcomes, "--data", command[1], "--by", "exp")
    assert ["x1", "x2"] == [value for value in ("x1", "x2") if f"{value}" in shown.stdout]


def test_questions_in_messages_that_are_repeated():
    """They have no column for an id, so that the note names none."""
    rows = [
        {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": f"{n}"}], "exp": exp}
        for n, (question, exp) in enumerate((question, exp) for exp in "ab" for question in QUESTIONS)
    ]
    report = ReadingReport()
    assert 8 == len(read_samples(rows, report=report)[0])
    assert "exp: 2 values (a, b) with the same questions" in next(iter(report.notes))
    assert "--field" not in next(iter(report.notes))
    copies = [{"messages": [{"role": "user", "content": question}]} for question in QUESTIONS * 2]
    report = ReadingReport()
    assert 8 == len(read_samples(copies, report=report)[0])
    assert "8 rows have 4 different samples" in next(iter(report.notes))
    assert "Keep one row of each" in next(iter(report.notes))


def test_answers_that_no_column_tells_apart():
    """They are told, with the number of questions."""
    report = ReadingReport()
    rows = [{"query": q, "response": f"{a}{n}"} for n in range(2) for q, a in zip(QUESTIONS, ANSWERS, strict=True)]
    assert 8 == len(read_samples(rows, report=report)[0])
    assert "8 rows have 4 questions, with several answers each" in next(iter(report.notes))


def run_join(path: Path, message: str, new: str) -> dict[str | None, list[str]]:
    """Run the command in a message, and return the passages of each question in the new file."""
    command = message.partition("Join the passages of a question: ")[2].partition(", or read each row")[0]
    before = path.read_bytes()
    command = command.replace("python -c", f"{sys.executable} -c")
    subprocess.run(command, shell=True, check=True, cwd=path.parent)  # noqa: S602 - as a user types it
    assert before == path.read_bytes()
    samples, _ = read_samples(path.parent / new)
    return {sample.query: [passage.text for passage in sample.contexts or ()] for sample in samples}


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
@pytest.mark.parametrize("column", ["contexts", "passage", "text"])
@pytest.mark.parametrize("ids", ["", "query_id", "id"])
def test_a_row_for_each_passage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, column: str, ids: str):
    """The command in the message joins the passages of a question, also if each row has an id of its own."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"question": question, "response": answer, column: text}
        | ({ids: f"q{n}-{rank}" if ids == "id" else f"q{n}"} if ids else {})
        for n, (question, answer) in enumerate(zip(QUESTIONS, ANSWERS, strict=True))
        for rank, text in enumerate(PAGES[n])
    ]
    joined = dict(zip(QUESTIONS, PAGES, strict=True))
    for name, new in (("t", "NEW.jsonl"), ("NEW", "NEW-2.jsonl"), ("NEW-2", "NEW-2-2.jsonl")):
        path = write(Path(f"{name}.{suffix}"), rows)
        with pytest.raises(
            DataError, match=rf"8 rows have 4 questions: each row has one passage \({column}\)"
        ) as error:
            read_samples(path)
        assert joined == run_join(path, str(error.value), new)
    if own := re.search(r"read each row as a sample: --field id=(\S+)", str(error.value)):
        report = ReadingReport()
        assert 8 == len(read_samples(path, fields={"id": own[1]}, report=report)[0])
        assert joined == run_join(path, next(iter(report.notes)), new)


def test_a_row_for_each_passage_in_a_list(tmp_path: Path):
    """The command joins lists of one. It is not named for lists in texts, and for columns inside of objects."""
    rows = [
        {"question": question, "response": answer, "contexts": [text]}
        for question, answer, pages in zip(QUESTIONS, ANSWERS, PAGES, strict=True)
        for text in pages
    ]
    path = tmp_path / "t.jsonl"
    with pytest.raises(DataError, match="each row has one passage") as error:
        read_samples(write(path, rows))
    assert dict(zip(QUESTIONS, PAGES, strict=True)) == run_join(path, str(error.value), "NEW.jsonl")
    for other in (
        [row | {"contexts": json.dumps(row["contexts"])} for row in rows],
        [{"inputs": {"question": row.pop("question")}, "outputs": row} for row in rows],
    ):
        with pytest.raises(DataError, match="write one row for each, with a list"):
            read_samples(write(path, other))


def test_rows_in_memory_that_can_be_read_once():
    """A generator is not read again, so that its rows are samples, and the report says that questions occur again."""
    report = ReadingReport()
    rows = rows_of("metric", ["a", "b", "c"])
    assert 12 == len(read_samples((row for row in rows), report=report)[0])
    assert "several rows have the same question" in next(iter(report.notes))


def test_the_command_that_joins_passages_keeps_the_correct_answer(tmp_path: Path):
    """It groups by each column of the question and its answers."""
    lines = [f"Why {n}?,So.,It is so.,{n} part {k}" for n in range(3) for k in range(2)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["question,response,ground_truth,passage", *lines]))

    with pytest.raises(DataError, match=re.escape("rows.groupby(['question', 'response', 'ground_truth'], sort=False")):
        read_samples(path)
