"""Columns that were read as another field than they are, and values of files that stopped the reader with a traceback."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import DataError
from ragstone.reading import ReadingReport, read_samples
from ragstone.schema import Sample

QUESTIONS = ["Where does the ferry leave?", "Who built the north tower?", "When does the museum open?"]
ANSWERS = ["The ferry leaves from pier 4.", "Anna Berg built the tower in 1912.", "The museum opens at nine."]
TEXTS = [
    ["Ferries leave from pier 4 all year.", "The port has six piers in total."],
    ["Anna Berg built it in 1912.", "The tower is 40 m high."],
    ["Opening hours are nine to five.", "It is always closed on Monday."],
]
N = range(3)


def read(data: Any, **options: Any) -> tuple[list[Sample], str]:
    """Return the samples, and the report in one line."""
    report = ReadingReport()
    samples, _ = read_samples(data, report=report, **options)
    return samples, " ".join(str(report).split())


def rows_of(**columns: Any) -> list[dict[str, Any]]:
    """Return three rows with a question, an answer and some columns."""
    return [
        {"question": QUESTIONS[n], "answer": ANSWERS[n]} | {name: values[n] for name, values in columns.items()}
        for n in N
    ]


@pytest.mark.parametrize(
    "value", [[[0.12, 0.5, 0.9]], [[1, 2, 3, 4], [5, 6, 7, 8]], [[None, None, None]], [[[1], 2, 3]]]
)
def test_lists_of_numbers_next_to_passages(value: Any):
    """Embeddings and boxes are neither passages nor an error."""
    samples, report = read(rows_of(contexts=TEXTS, embeddings=[value] * 3))
    assert TEXTS == [[passage.text for passage in sample.contexts or ()] for sample in samples]
    assert "not used: embeddings" in report


def test_any_value_in_any_column_is_read_or_refused():
    """Only a `DataError` stops the reader, whatever the values of the columns are."""
    leaves = [
        None,
        "",
        "two words",
        1,
        0.5,
        True,
        [],
        {},
        "[1, 2]",
        "{}",
        "[]",
        [[]],
        [""],
        {"text": None},
        float("nan"),
    ]
    keys = ["text", "id", "score", "content", "metadata", "role", "query", "answer", "documents", "value", ""]
    names = [
        "query", "response", "contexts", "reference", "context", "embeddings", "history", "messages", "id", "inputs",
        "qrels", "ratings", "metadata", "context_1", "answer_1", "input", "instruction", "prompt", "sub_questions",
    ]  # fmt: skip
    choose = random.Random(7)

    def value(depth: int) -> Any:
        kind = choose.random() if depth else 0
        if kind < 0.4:
            return choose.choice(leaves)
        parts = [value(depth - 1) for _ in range(choose.randrange(4))]
        return parts if kind < 0.7 else {choose.choice(keys): part for part in parts}

    for _ in range(1500):
        columns = choose.sample(names, choose.randrange(1, 6))
        rows = [{name: choose.choice([value(2), "two words"]) for name in columns} for _ in range(3)]
        try:
            read_samples(rows)
        except DataError:
            continue


def _talk(n: int, labels: tuple[str, str]) -> list[str]:
    pairs = zip(QUESTIONS[:n], ANSWERS[:n], strict=True)
    return [f"{label}{text}" for pair in pairs for label, text in zip(labels, pair, strict=True)]


@pytest.mark.parametrize("name", ["Context", "contexts", "passages"])
@pytest.mark.parametrize(
    "talks",
    [
        [_talk(n, ("", "")) for n in N],
        [_talk(n, ("Q: ", "A: ")) for n in N],
        [QUESTIONS[:n] for n in N],
        ["\n".join(_talk(n, ("User: ", "Assistant: "))) for n in N],
    ],
    ids=["turns", "labels", "questions", "one-text"],
)
def test_the_conversation_before_a_question_is_not_its_passages(name: str, talks: list[Any]):
    """The questions and answers before the one of the row were read as passages, with a score for each."""
    samples, report = read(rows_of(**{name: talks}))
    assert [None] * 3 == [sample.contexts for sample in samples]
    assert f"{name}: turns of a conversation, not read as contexts; otherwise: --field contexts={name}" in report


def test_passages_with_questions_in_them_are_read():
    """A passage of a list of frequent questions has a question, and its answer after it."""
    faq = [
        [f"Q: {q} A: {a}", "Which pier? It is written on the ticket."] for q, a in zip(QUESTIONS, ANSWERS, strict=True)
    ]
    samples, _ = read(rows_of(contexts=faq))
    assert faq == [[passage.text for passage in sample.contexts or ()] for sample in samples]


@pytest.mark.parametrize(
    "prompt",
    [
        "You are a helpful assistant. Use only these texts.\n\n[1] {0}\n[2] {1}\n\nQuestion: {q}\nAnswer:",
        "Answer the following question:\n{q}\nYour answer should be based on the following passages:\n{0}\n\n{1}\noutput:",
        "{q}\n\nUse what you find in these excerpts:\n{0}\n{1}",
    ],
)
def test_prompts_with_passages_are_not_questions(prompt: str):
    """They were read as the question, so that its relevance was judged against the passages."""
    prompts = [prompt.format(*TEXTS[n], q=QUESTIONS[n]) for n in N]
    samples, report = read([{"prompt": prompts[n], "response": ANSWERS[n]} for n in N])
    assert [None] * 3 == [sample.query for sample in samples]
    assert "prompt: prompts with passages in them, not read as query; otherwise: --field query=prompt" in report


@pytest.mark.parametrize("question", ["Which one is right?\n1) The tower\n2) The pier", "Two things:\nwhere and when?"])
def test_prompts_without_passages_are_questions(question: str):
    """A question may have several lines, and a list of answers."""
    samples, _ = read([{"prompt": f"{question} ({n})", "response": ANSWERS[n]} for n in N])
    assert [f"{question} ({n})" for n in N] == [sample.query for sample in samples]


def test_input_next_to_an_instruction_is_not_the_question():
    """Alpaca's rows have the question as `instruction`, and a passage or nothing as `input`."""
    rows = [{"instruction": QUESTIONS[n], "input": TEXTS[n][0], "output": ANSWERS[n]} for n in N]
    samples, report = read(rows)
    assert [None] * 3 == [sample.query for sample in samples]
    assert "--field query=instruction" in report
    assert "input: next to instruction, and may be passages (--field contexts=input), not read as query" in report
    named, _ = read(rows, fields={"query": "instruction", "contexts": "input"})
    assert [(QUESTIONS[n], TEXTS[n][0]) for n in N] == [(s.query, s.contexts[0].text) for s in named if s.contexts]


def test_input_next_to_one_instruction_for_all_rows_is_the_question():
    """An instruction that is the same in all rows is that of the system."""
    rows = [{"instruction": "Answer in one sentence.", "input": QUESTIONS[n], "output": ANSWERS[n]} for n in N]
    assert QUESTIONS == [sample.query for sample in read(rows)[0]]


@pytest.mark.parametrize("kind", ["xlsx", "parquet", "arrow", "pandas"])
def test_columns_with_the_same_name_are_refused(tmp_path: Path, kind: str):
    """The values of the last one were read without a word. A CSV file was refused."""
    import openpyxl
    import pandas as pd
    import pyarrow as pa
    from pyarrow import parquet

    names, row, path = ["question", "answer", "answer"], [QUESTIONS[0], "of A", "of B"], tmp_path / f"t.{kind}"
    table = pa.table([[cell] for cell in row], names=names)
    data: Any = path
    if kind == "xlsx":
        book = openpyxl.Workbook()
        for cells in (names, row):
            book.active.append(cells)
        book.save(path)
    elif kind == "parquet":
        parquet.write_table(table, path)
    else:
        data = table if kind == "arrow" else pd.DataFrame([row], columns=names)
    with pytest.raises(DataError, match=r"has 2 columns with the name 'answer'\. Rename or remove all but one"):
        read_samples(data)


@pytest.mark.parametrize("joined", [["a"], None])
def test_the_last_line_does_not_take_the_column_of_another_field(joined: Any):
    """The option removed the response: it read the same column as the correct answer."""
    report = ReadingReport()
    read_samples(rows_of(alias=[joined] * 3), report=report)
    assert "(if it is the correct answer)" in " ".join(str(report).split())
    assert [] == report.remedies(report.guesses)


def test_options_of_the_last_line_say_under_which_condition_they_are_right():
    """A nested answer may be of a model, or the correct one."""
    report = ReadingReport()
    read_samples([{"question": QUESTIONS[n], "data": {"answer": ANSWERS[n]}} for n in N], report=report)
    (option,) = report.remedies(report.guesses)
    assert "(or response, if a model wrote it)" in option, json.dumps(report.to_dict())
