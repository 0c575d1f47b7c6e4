"""What is decided once for rows with the same columns holds for each of them, and the ids of a dataset stay unique."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragstone.errors import DataError
from ragstone.reading import InputFile, ReadingReport, read_samples
from ragstone.reading._mlflow import MlflowFormat
from ragstone.schema import derive_id


def test_a_number_that_is_too_large_for_a_float_is_an_error_of_its_row() -> None:
    """JSON has integers of any size; a grade is a finite number."""
    samples, rejected = read_samples(
        [{"id": "a", "query": "q", "qrels": {"d": 10**400}}, {"id": "b", "query": "q", "contexts": [["text", 1]]}],
        on_bad_row="skip",
    )

    assert [sample.id for sample in samples] == ["b"]
    assert [(row.position, "a grade is a finite number" in row.reason) for row in rejected] == [(1, True)]


def test_a_derived_id_that_a_row_has_is_not_given_again() -> None:
    """A row without an id whose question occurs again gets the next free number."""
    (first,), _ = read_samples([{"query": "Why?"}])
    taken = f"{first.id}-2"

    rows = [{"query": "Why?"}, {"id": taken, "query": "Who?"}, {"query": "Why?"}, {"query": "Why?"}]
    samples, _ = read_samples([row | {"response": f"a{n}"} for n, row in enumerate(rows)])

    assert [sample.id for sample in samples] == [first.id, taken, f"{first.id}-3", f"{first.id}-4"]
    assert first.id == derive_id(first)


def test_a_row_is_not_changed_by_reading_it() -> None:
    """The value at a path is read into a copy, so that the row of the caller stays as it is."""
    row = {"q": {"text": "Why?"}, "answer": "So.", "contexts": ["a"]}
    before = json.loads(json.dumps(row))

    (sample,), _ = read_samples([row], fields={"query": "q.text"})

    assert sample.query == "Why?"
    assert row == before


def test_a_named_column_without_a_value_is_not_metadata() -> None:
    """The user said which field it is, also in the rows that do not have a value."""
    rows = [{"query": "Why?", "gold": "So."}, {"query": "Who?", "gold": None}]

    samples, _ = read_samples(rows, fields={"reference": "gold"})

    assert [(sample.reference, sample.metadata) for sample in samples] == [(("So.",), {}), ((), {})]


def test_a_cell_with_an_address_is_no_passage() -> None:
    """It is reported, however long the address is: most texts of other fields are not examined."""
    report = ReadingReport()
    address = "https://library.example/shelves/geography/rivers/elbe.pdf"

    (sample,), _ = read_samples([{"query": "Why?", "response": "So.", "contexts": address}], report=report)

    assert sample.contexts is None
    assert [note.partition(";")[0] for note in report.notes] == ["contexts: URLs or file names, not read as contexts"]


def test_ids_of_passages_that_a_data_frame_does_not_have() -> None:
    """Pandas writes an empty cell as NaN, which is not a list of another length."""
    report = ReadingReport()

    (sample,), _ = read_samples(
        [{"query": "Why?", "contexts": ["a"], "retrieved_context_ids": float("nan")}], report=report
    )

    assert [passage.id for passage in sample.contexts or ()] == [None]
    assert not report.notes


def test_each_row_counts_for_the_columns_that_have_a_value_in_it() -> None:
    """Rows with the same columns are counted by their values, and a column without a value is not used."""
    report = ReadingReport()
    rows = [
        {"id": "1", "question": "Who?", "answer": "I.", "ground_truth": None, "contexts": ["a", "b"]},
        {"id": "2", "question": "Who else?", "answer": None, "ground_truth": "You.", "contexts": None},
        {"id": "3", "question": "Where?", "answer": "Here.", "ground_truth": "There.", "contexts": []},
    ]

    samples, _ = read_samples(rows, report=report)

    assert {name: dict(use.columns) for name, use in report.fields.items()} == {
        "id": {"id": 3},
        "query": {"question": 3},
        "response": {"answer": 2},
        "reference": {"ground_truth": 2},
        "contexts": {"contexts": 2},
    }
    assert (report.fields["contexts"].fewest, report.fields["contexts"].most) == (0, 2)
    assert [sample.contexts is None for sample in samples] == [False, True, False]
    assert [sorted(sample.metadata) for sample in samples] == [["ground_truth"], ["answer", "contexts"], []]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("2,b,c,d", "more cells than the header"),
        ("2,b", "fewer cells than the header"),
        ('2,"b,c', "a quote without an end"),
    ],
)
def test_a_row_of_a_table_with_other_cells_than_its_header(tmp_path: Path, line: str, problem: str) -> None:
    """It is an error with its line, and the rows before it are read; rows of separators alone are no rows."""
    path = tmp_path / "table.csv"
    path.write_text(f"id,question,answer\n1,Who?,I.\n,,\n\n,,,,\n{line}\n", encoding="utf-8")

    samples, rejected = read_samples(path, on_bad_row="skip")

    assert [sample.id for sample in samples] == ["1"]
    assert [row.reason for row in rejected] == [f"the row that ends in line 6 has {problem}"]


def test_a_table_with_a_column_twice(tmp_path: Path) -> None:
    """Which of both counts is not known. Columns without a name may occur several times."""
    path = tmp_path / "table.csv"
    path.write_text("id,question,question,,\n1,Who?,Where?,,\n", encoding="utf-8")

    with pytest.raises(DataError, match="has 2 columns with the name 'question'"):
        read_samples(path)


@pytest.mark.parametrize("text", ["a\\ud800b", "a\\U0000d800b"])
def test_a_lone_surrogate_in_the_list_of_a_cell(text: str) -> None:
    """UTF-8 cannot encode it, so that it is replaced, in JSON as in Python's spelling."""
    (sample,), _ = read_samples([{"query": "Why?", "contexts": f"['x', '{text}']"}])

    assert [passage.text for passage in sample.contexts or ()] == ["x", "a\N{REPLACEMENT CHARACTER}b"]


@pytest.mark.parametrize(
    ("identity", "shown"),
    [
        ("0x1a2b", "0000000000001a2b"),
        ("AAECAwQFBgc=", "0001020304050607"),
        ("00F067AA0BA902B7", "00f067aa0ba902b7"),
        ("0x" + "1" * 17, None),
        ("not an id", None),
    ],
)
def test_ids_of_spans_of_mlflow(tmp_path: Path, identity: str, shown: str | None) -> None:
    """MLflow writes them as numbers, in Base64, or as OpenTelemetry does; others are no ids of OpenTelemetry."""
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    span = {
        "context": {"trace_id": trace_id, "span_id": identity},
        "name": "answer",
        "start_time": 1,
        "attributes": {"mlflow.spanType": '"CHAIN"', "mlflow.spanInputs": '"Who?"', "mlflow.spanOutputs": '"I."'},
    }
    path = tmp_path / "traces.json"
    path.write_text(json.dumps({"info": {"request_id": "tr-1"}, "data": {"spans": [span]}}), encoding="utf-8")

    (trace,) = MlflowFormat().read(InputFile(path, "traces"))

    assert (trace.otel_span_id, trace.otel_trace_id) == (shown, None if shown is None else trace_id)
