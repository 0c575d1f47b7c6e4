"""Columns of a row are read as fields by their names, and the report says which, and which were not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragstone import Sample, evaluate
from ragstone.cli._app import app
from ragstone.errors import DataError
from ragstone.reading import ReadingReport, read_samples, sample_from_row
from ragstone.reading._columns import guess_field

Q, C, A, R = "Why?", "Because it is.", "It is.", "It just is."


def read(rows: list[dict[str, object]], **options: object) -> tuple[list[Sample], ReadingReport]:
    """Return the samples of rows, and the report."""
    report = ReadingReport()
    samples, _ = read_samples(rows, report=report, **options)
    return samples, report


def parts(sample: Sample) -> tuple[object, ...]:
    """Return query, texts of contexts, response and reference."""
    contexts = None if sample.contexts is None else [passage.text for passage in sample.contexts]
    return sample.query, contexts, sample.response, sample.reference


@pytest.mark.parametrize(
    "query", ["question", "Question", " QUESTION ", "user_input", "User Input", "user-input", "userInput"]
)
@pytest.mark.parametrize(
    "reference", ["expected_answer", "Expected Answer", "generation_gt", "ground_truths", "Gold-Answer"]
)
@pytest.mark.parametrize(
    "contexts", ["retrieved_contents", "Retrieved Contexts", "retrievedContexts", "retrieved_docs"]
)
@pytest.mark.parametrize("response", ["generated_texts", "Generated Answer", "model_output", "actualOutput"])
def test_spellings_of_a_name_are_one_name(query: str, contexts: str, response: str, reference: str) -> None:
    """Case, blanks, dashes and underscores do not matter."""
    row = {query: Q, contexts: [C], response: A, reference: R}

    assert (Q, [C], A, (R,)) == parts(sample_from_row(row, position=1))


@pytest.mark.parametrize(
    ("row", "contexts"),
    [
        ({"context_1": "a", "context_2": "b"}, ["a", "b"]),
        ({"context_2": "b", "context_10": "c", "context_1": "a"}, ["a", "b", "c"]),
        ({"Context 1": "a", "Context 2": ""}, ["a"]),
        ({"contexts.0": "a", "contexts.1": "b"}, ["a", "b"]),
        ({"passage1": "a", "passage2": None}, ["a"]),
        ({"document_1": "['a', 'b']", "document_2": "c"}, ["a", "b", "c"]),
        ({"context_1": "", "context_2": ""}, None),
        ({"contexts": ["a"], "context_1": "b"}, ["a"]),
    ],
)
def test_numbered_columns_are_one_list(row: dict[str, object], contexts: list[str] | None) -> None:
    """They are ordered by their number. Empty cells are not passages."""
    assert contexts == parts(sample_from_row({"query": Q, **row}, position=1))[1]


def test_numbered_references_are_alternatives() -> None:
    """Each is one correct answer."""
    assert ("a", "b") == sample_from_row({"query": Q, "reference_1": "a", "reference_2": "b"}, position=1).reference


@pytest.mark.parametrize(
    ("row", "options", "expected"),
    [
        ({"answer": R}, {}, (R, ())),
        ({"answer": R, "response": A}, {}, (A, (R,))),
        ({"answer": R, "output": A}, {}, (A, (R,))),
        ({"answer": R, "generated_answer": A}, {}, (A, (R,))),
        ({"answer": A, "reference": R}, {}, (A, (R,))),
        ({"answer": A, "expected_answer": R}, {}, (A, (R,))),
        ({"answer": R}, {"fields": {"reference": "answer"}}, (None, (R,))),
        ({"answer": R, "output": A}, {"fields": {"reference": "answer"}}, (A, (R,))),
        ({"answer": A, "gold": R}, {"fields": {"response": "answer", "reference": "gold"}}, (A, (R,))),
    ],
)
def test_answer_is_the_response_or_the_correct_answer(
    row: dict[str, object], options: dict[str, object], expected: tuple[object, ...]
) -> None:
    """Another column for the response shows that `answer` is the correct one."""
    (sample,), _ = read([{"query": Q, **row}], **options)

    assert expected == (sample.response, sample.reference)


@pytest.mark.parametrize(("fields", "reference"), [(None, (R,)), ({"response": "answer"}, ())])
def test_answer_is_the_reference_if_an_application_answers(
    fields: dict[str, str] | None, reference: tuple[str, ...]
) -> None:
    """The response comes from the application, unless the user says what the column is."""
    result = evaluate([{"query": Q, "answer": R}], ["exact_match"], app=lambda query: R, fields=fields, judge="lexical")

    assert reference == result.samples[0].reference


def test_a_later_row_does_not_change_what_answer_is() -> None:
    """One column has one meaning in a file."""
    samples, _ = read([{"query": "a", "answer": R, "output": A}, {"query": "b", "answer": R}])
    assert [(A, (R,)), (None, (R,))] == [(s.response, s.reference) for s in samples]

    with pytest.raises(DataError, match="row 1 has both 'response' and 'answer'"):
        sample_from_row({"query": Q, "answer": R, "response": A, "reference": "x"}, position=1)


@pytest.mark.parametrize(
    "value", [["https://a.example/x", "http://b.example"], "['https://a.example/x']", "https://a.example/x"]
)
def test_addresses_are_not_passages(value: object) -> None:
    """A column of URLs is not used, unless the user says so."""
    row = {"query": Q, "documents": value}
    (sample,), report = read([row])
    (forced,), _ = read([row], fields={"contexts": "documents"})

    assert None is sample.contexts
    assert "--field contexts=documents" in str(report)
    assert "https://a.example/x" == (forced.contexts or ())[0].text


def test_addresses_beside_passages_do_not_disagree() -> None:
    """The column of texts is read."""
    (sample,), _ = read([{"query": Q, "documents": ["https://a.example"], "contexts": [C]}])

    assert [C] == parts(sample)[1]


@pytest.mark.parametrize(
    "text",
    ["nan", "NaN", "None", "null", "NULL", "N/A", "<NA>", "#N/A", " nan ", "#NV", "#N/D", "\\N", "-", "—", "k. A."],
)
@pytest.mark.parametrize("column", ["query", "contexts", "response", "reference"])
def test_a_placeholder_in_a_table_is_a_missing_value(tmp_path: Path, column: str, text: str) -> None:
    """It is not scored as an answer, and counted. In JSON it is a text."""
    row = {"query": Q, "contexts": C, "response": A, "reference": R} | {column: text}
    table, lines = tmp_path / "rows.csv", tmp_path / "rows.jsonl"
    table.write_text(f"{','.join(row)}\n{','.join(row.values())}\n")
    lines.write_text(json.dumps(row))
    report, other = ReadingReport(), ReadingReport()

    (sample,), _ = read_samples(table, report=report)
    (text_sample,), _ = read_samples(lines, report=other)

    missing = () if column == "reference" else None
    assert missing == getattr(sample, column)
    assert {"placeholder": {column: 1}} == {kind: dict(names) for kind, names in report.values.items()}
    assert missing != getattr(text_sample, column)
    assert {"placeholder_text": {column: 1}} == {kind: dict(names) for kind, names in other.values.items()}


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ("evidence_list", "contexts"),
        ("used_contexts_v2", "contexts"),
        ("Kontext", "contexts"),
        ("my_question_text", "query"),
        ("final_output_v2", "response"),
        ("truth", "reference"),
        ("the gold standard", "reference"),
    ],
)
def test_a_guess_is_shown_with_its_option_and_not_applied(column: str, field: str) -> None:
    """The value stays metadata, and the option reads it."""
    known = {"id": "1"} | ({"response": "r"} if field == "query" else {"query": "q"})
    row = known | {column: "text"}
    (without,), _ = read([known])
    (sample,), report = read([row])
    (named,), _ = read([row], fields={field: column})

    assert parts(without) == parts(sample)
    assert {column: "text"} == sample.metadata
    assert [f"--field {field}={column}" if " " not in column else f"--field '{field}={column}'"] == report.remedies(
        [field]
    )
    assert parts(named) != parts(sample)


@pytest.mark.parametrize("column", ["answer_score", "query_type", "context_length", "response_id", "notes"])
def test_a_column_that_describes_another_is_not_guessed(column: str) -> None:
    """It is listed as not used."""
    _, report = read([{"id": "1", "sub_questions": ["x"], column: "text"}])

    assert ({}, [column]) == (report.guesses, list(report.unused))


def test_an_error_without_known_names_has_the_options() -> None:
    """The command can be copied."""
    with pytest.raises(DataError, match="--field query=Frage --field response=Antwort"):
        sample_from_row({"Frage": Q, "Antwort": A}, position=1)


def test_the_report_names_columns_sizes_and_counts() -> None:
    """Each line is one field or one count, and no text of a row is in it."""
    rows = [
        {"Question": "a", "Contexts": ["x", "y"], "answer": "", "notes": 1},
        {"Question": "b", "Contexts": [], "answer": "[1] z", "notes": 1, "more": 2},
    ]
    _, report = read(rows)

    assert [
        "  query     ← Question",
        "  contexts  ← Contexts (list, 1 a row, 0 to 2)",
        "  response  ← answer",
        "  reference ← \N{EN DASH}; perhaps answer (if it is the correct answer): --field reference=answer",
        "  not used: notes, more",
        "  1 empty text: response",
        "  1 text with a bracket at the beginning, read as text: response",
    ] == report.lines()[1:]
    assert (2, 1) == (report.n_rows, report.n_other_columns)


def test_one_fault_of_many_rows_is_one_line() -> None:
    """The same sentence is not repeated for each row."""
    with pytest.raises(DataError) as caught:
        read([{"Frage": Q}] * 5)

    assert 1 == str(caught.value).count("does not have a field with a known name")
    assert "(and 4 more rows)" in str(caught.value)


def test_the_report_is_short_and_its_size_does_not_depend_on_the_rows() -> None:
    """At most 12 lines, and a bounded number of columns and reasons."""
    rows: list[dict[str, object]] = [{"query": f"{n}", f"column {n}": n, "contexts": 5 + (n == 1)} for n in range(1000)]
    rows += [{"query": "q", "contexts": [n]} for n in range(1000)]
    report = ReadingReport()

    read_samples(rows, on_bad_row="skip", report=report)

    assert (12, 100, 100) == (len(report.lines()), len(report.unused), len(report.reasons))
    assert 999 == report.to_dict()["rejected"][0]["n"]


@pytest.mark.parametrize("arguments", [["--dry-run"], ["--dry-run", "--json"], ["--json"], []])
def test_evaluate_prints_the_report(tmp_path: Path, arguments: list[str]) -> None:
    """It is on standard error before the first call, and in the JSON."""
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"Question": Q, "contexts": [C], "response": A, "truth": R}))

    result = CliRunner().invoke(app, ["evaluate", str(path), "--metrics", "ccrs.ac", "--judge", "lexical", *arguments])

    assert "  query     ← Question" in result.stderr
    assert "  reference ← \N{EN DASH}; perhaps truth: --field reference=truth" in result.stderr
    if "--json" in arguments:
        assert {"columns": {"Question": 1}} == json.loads(result.stdout)["reading"]["fields"]["query"]
    elif arguments:
        assert "0 applicable: if these columns are the missing fields: --field reference=truth" in result.stderr
    else:
        assert "if these columns are the missing fields: --field reference=truth" in result.stdout


def test_the_report_comes_before_the_first_call() -> None:
    """A user can stop before paying."""
    events: list[str] = []

    def answer(query: str) -> str:
        events.append("call")
        return query

    evaluate(
        [{"query": Q, "reference": R}],
        ["exact_match"],
        app=answer,
        judge="lexical",
        on_read=lambda report: events.append(str(report.n_rows)),
    )

    assert ["1", "call"] == events


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("best_answer", "reference"), ("short_answer", "reference"), ("model_short_answer", "response"),
        ("gpt_long_answer", "response"), ("expected_model_answer", "reference"), ("wrong_answer", None),
    ],
)  # fmt: skip
def test_an_answer_with_the_name_of_a_model_is_a_response(name: str, field: str | None):
    """Unless another word says that it is correct."""
    assert field == guess_field(name)
