"""Rows with other libraries' field names become samples."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ragstone.errors import DataError
from ragstone.reading import sample_from_row
from ragstone.schema import fingerprint

Q, C, A, R = "Why?", "Because it is.", "It is.", "It just is."


@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"query": Q, "contexts": [C], "response": A, "reference": R}, id="ragstone"),
        pytest.param({"user_input": Q, "retrieved_contexts": [C], "response": A, "reference": R}, id="ragas"),
        pytest.param({"question": Q, "contexts": [C], "answer": A, "ground_truths": [R]}, id="ragas, old names"),
        pytest.param({"input": Q, "retrieval_context": [C], "actual_output": A, "expected_output": R}, id="deepeval"),
        pytest.param({"inputs": Q, "context": C, "outputs": A, "reference_outputs": R}, id="openevals"),
        pytest.param({"input": Q, "context": C, "output": A, "expected": R}, id="phoenix, autoevals"),
        pytest.param(
            {
                "inputs": {"question": Q},
                "outputs": {"answer": A, "contexts": [C]},
                "expectations": {"expected_response": R},
            },
            id="mlflow",
        ),
        pytest.param(
            {"query": Q, "retrieved_context": [{"doc_id": "d", "text": C}], "response": A, "gt_answer": R},
            id="ragchecker",
        ),
        pytest.param({"query": Q, "contexts": f'["{C}"]', "response": A, "reference": f'["{R}"]'}, id="csv cells"),
        pytest.param(
            {
                "query": Q,
                "source_nodes": [{"node": {"text": C, "id_": 1}, "score": 0.5}],
                "response": A,
                "reference": R,
            },
            id="llama-index",
        ),
        pytest.param({"query": Q, "documents": [{"page_content": C}], "response": A, "reference": R}, id="langchain"),
    ],
)
def test_field_names_in_circulation_are_read_as_they_are(row: dict[str, object]) -> None:
    """One sample comes out, whoever named the columns."""
    sample = sample_from_row(row, position=3)

    assert (f"q-{fingerprint(Q)}", Q, A, (R,)) == (sample.id, sample.query, sample.response, sample.reference)
    assert [C] == [p.text for p in sample.contexts or ()]


@pytest.mark.parametrize(("retrieved", "expected"), [([C], [C]), (None, None)])
def test_ideal_passages_are_not_what_was_retrieved(retrieved: list[str] | None, expected: list[str] | None) -> None:
    """In deepeval's rows `context` is the ideal beside `retrieval_context`, also where the latter is empty."""
    sample = sample_from_row({"input": Q, "retrieval_context": retrieved, "context": ["ideal"]}, position=1)

    assert expected == (None if sample.contexts is None else [p.text for p in sample.contexts])
    assert ["ideal"] == sample.metadata["context"]


def test_a_question_s_id_beside_the_row_s_own() -> None:
    """Several contexts of one question: `question_id` is the id only where there is no other."""
    shared = sample_from_row({"id": "7-1", "question_id": 7, "query": Q}, position=1)
    alone = sample_from_row({"id": None, "question_id": 7, "query": Q}, position=1)
    assert ("7-1", {"question_id": 7}) == (shared.id, shared.metadata)
    assert "7" == alone.id


def test_missing_values_are_missing_and_not_text() -> None:
    """None and NaN (a pandas hole) do not become the strings "None" and "nan"."""
    sample = sample_from_row(
        {"query": Q, "response": None, "reference": float("nan"), "contexts": float("nan")}, position=1
    )

    assert (None, (), None) == (sample.response, sample.reference, sample.contexts)


def test_an_empty_retrieval_is_not_an_unknown_one() -> None:
    """`[]` says that nothing was found."""
    assert () == sample_from_row({"contexts": []}, position=1).contexts
    assert None is sample_from_row({}, position=1).contexts


def test_text_that_starts_with_a_bracket_stays_text() -> None:
    """Only a JSON list is a list."""
    sample = sample_from_row({"contexts": "[1] see the appendix"}, position=1)

    assert ["[1] see the appendix"] == [p.text for p in sample.contexts or ()]


def test_other_columns_become_metadata() -> None:
    """Nothing a row holds is thrown away."""
    assert {"kind": "hard"} == sample_from_row({"query": Q, "kind": "hard"}, position=1).metadata


def test_a_rows_metadata_is_kept_as_it_is() -> None:
    """It is not nested, and wins over a field of the same name; what is not an object is one field of many."""
    row = {"query": Q, "kind": "hard", "metadata": {"kind": "easy", "page": 3}}
    assert {"kind": "easy", "page": 3} == sample_from_row(row, position=1).metadata
    assert {"metadata": "text"} == sample_from_row({"query": Q, "metadata": "text"}, position=1).metadata


def test_names_can_be_mapped() -> None:
    """A data set in any language works with one argument."""
    assert Q == sample_from_row({"Frage": Q, "query": "?"}, position=1, fields={"query": "Frage"}).query


@pytest.mark.parametrize(
    ("row", "match"),
    [
        (["a"], "must be an object"),
        ({"query": "a", "question": "b"}, "both 'query' and 'question'.*--field query=question"),
        ({"contexts": 5}, "row 7: contexts must be a list of passages, got int 5"),
        ({"contexts": [{"title": "x"}]}, "passage 1 must be text or an object"),
        ({"query": ["a"]}, "query must be text"),
        ({"response": True}, "response must be text"),
    ],
)
def test_rows_that_cannot_be_read_say_why(row: dict[str, object], match: str) -> None:
    """The message names the row, the value and the way out."""
    with pytest.raises(DataError, match=match):
        sample_from_row(row, position=7)


def test_a_mapped_name_must_exist() -> None:
    """A typo in the mapping is not an empty column."""
    with pytest.raises(DataError, match="no row has the field 'Fage'"):
        sample_from_row({"Frage": Q}, position=1, fields={"query": "Fage"})


@pytest.mark.parametrize("texts", [["it's one", 'two "q"'], ["a\nb"], ["back\\slash"], []])
def test_lists_as_pandas_writes_them_into_csv_are_lists(texts: list[str]) -> None:
    """`str` of a list is what `DataFrame.to_csv` leaves in a cell."""
    sample = sample_from_row({"query": Q, "contexts": str(texts), "reference": str(texts)}, position=1)

    assert texts == [p.text for p in sample.contexts or ()]
    assert tuple(texts) == sample.reference


@pytest.mark.parametrize(
    "items",
    [
        ["p1", "p2"],
        ["it's one", 'two "q"', "both ' and \"", "line\nbreak", "back\\slash\\", "[a] ... 'b' {c}"],
        ["a long passage " * 10, "another long passage " * 10, "x"],
        [{"text": "a } b", "id": "1", "score": 0.5}, {"text": "it's ' '", "id": "2", "score": None}],
    ],
)
def test_arrays_as_numpy_writes_them_into_csv_are_lists(items: list[object]) -> None:
    """A frame from `read_parquet` holds arrays. `to_csv` writes them without commas, long ones over several lines."""
    cell = str(np.array(items, dtype=object))
    found = sample_from_row({"query": Q, "contexts": cell}, position=1).contexts
    assert sample_from_row({"query": Q, "contexts": items}, position=1).contexts == found
    assert len(items) == len(found or ())


def test_an_array_that_numpy_shortened_is_an_error() -> None:
    """The omitted passages would be missing without a word."""
    cell = str(np.array([f"p{n}" for n in range(1001)], dtype=object))

    with pytest.raises(DataError, match=r"row 1: contexts: .* items are omitted \(\.\.\.\)"):
        sample_from_row({"query": Q, "contexts": cell}, position=1)


def test_arrays_under_two_names_of_one_field_are_compared() -> None:
    """A data frame with both the old and the new column holds arrays."""
    np = pytest.importorskip("numpy")
    row = {"query": Q, "contexts": np.array(["a", "b"]), "documents": np.array(["a", "b"])}

    assert ["a", "b"] == [p.text for p in sample_from_row(row, position=1).contexts or ()]


def test_whole_numbers_are_ids_without_a_fraction() -> None:
    """Pandas makes floats of a column of whole numbers with a hole in it."""
    assert "7" == sample_from_row({"id": 7.0, "query": Q}, position=1).id


def test_whole_numbers_are_texts_and_passages_without_a_fraction() -> None:
    """The same data are the same as CSV and as a data frame."""
    row = {"query": Q, "response": 24.0, "reference": [24.0, 0.5], "contexts": [{"id": 12.0, "text": "A"}]}
    sample = sample_from_row(row | {"qrels": {12.0: 1}}, position=1)
    assert ("24", ("24", "0.5"), {"12": 1.0}) == (sample.response, sample.reference, sample.qrels)
    named = sample_from_row(
        {"query": Q, "contexts": ["A"], "retrieved_context_ids": [12.0], "reference_context_ids": [12.0]}, position=1
    )
    assert named.qrels == sample.qrels
    assert "12" == sample.contexts[0].id == named.contexts[0].id


def test_a_row_without_any_known_field_is_named() -> None:
    """A table full of "not applicable" would not say why."""
    with pytest.raises(DataError, match=r"row 2 does not have a field with a known name; it has 'Frage'"):
        sample_from_row({"Frage": Q}, position=2)


@pytest.mark.parametrize(
    ("given", "label"),
    [
        (1, 1.0),
        (0.5, 0.5),
        (True, 1.0),
        (False, 0.0),
        ("1", 1.0),
        (" 2.0 ", 2.0),
        ("yes", 1.0),
        ("No", 0.0),
        ("TRUE", 1.0),
        (np.int64(3), 3.0),
        (np.True_, 1.0),
        (None, None),
        (math.nan, None),
        (" ", None),
    ],
)
def test_a_label_is_read_as_people_write_it(given: object, label: float | None) -> None:
    """Truth values, words, numbers in quotes and NumPy's own are labels; nothing, blank and NaN are none."""
    sample = sample_from_row({"query": Q, "contexts": [{"text": C, "relevance": given}]}, position=1)

    assert label == sample.contexts[0].relevance


@pytest.mark.parametrize("given", ["maybe", "nan", math.inf, [1], {"grade": 1}, np.array([0, 1])])
def test_a_label_that_cannot_be_read_is_refused(given: object) -> None:
    """A label is never dropped in silence: the judge would be asked in its place."""
    with pytest.raises(DataError, match=r"row 7: passage 2 has the relevance .*; a label is a number") as caught:
        sample_from_row({"query": Q, "contexts": [C, {"text": C, "relevance": given}]}, position=7)

    assert repr(given) in str(caught.value)


def test_passages_take_the_ids_that_ragas_keeps_beside_them():
    """`retrieved_context_ids` name the passages, and `reference_context_ids` those that are relevant."""
    row = {"user_input": Q, "retrieved_contexts": [C, A], "retrieved_context_ids": ["d7", 12]}

    sample = sample_from_row(row | {"reference_context_ids": ["d7"]}, position=1)

    assert ["d7", "12"] == [p.id for p in sample.contexts or ()]
    assert {"d7": 1.0} == sample.qrels


@pytest.mark.parametrize("ids", [["d7"], [], None, "d7"], ids=["too few", "none", "absent", "no list"])
def test_ids_that_do_not_fit_the_passages_name_none(ids: object) -> None:
    """An id on the wrong passage would be worse than none."""
    row = {"user_input": Q, "retrieved_contexts": [C, A], "retrieved_context_ids": ids}

    assert [None, None] == [p.id for p in sample_from_row(row, position=1).contexts or ()]


def test_the_order_of_the_names_in_a_row_does_not_matter():
    """The first of our names counts, and the first field with two different values is the error."""
    row = {"answer": A, "response": A, "question": Q, "query": Q, "id": 3, "question_id": 4}
    assert ("3", Q, A) == ((sample := sample_from_row(row, position=1)).id, sample.query, sample.response)
    assert {"question_id": 4} == sample.metadata
    for names in (("answer", "response", "question", "query"), ("query", "question", "response", "answer")):
        with pytest.raises(DataError, match="row 1 has both 'query' and 'question'"):
            sample_from_row({name: name for name in names}, position=1)


@pytest.mark.parametrize(("query", "response"), [("[a] b", "c"), ("a", "[b]"), ("a", None), (None, "b"), (None, None)])
def test_texts_in_brackets_are_texts(query, response):
    """Without messages, question and answer stay as they are."""
    row = {"query": query, "response": response, "reference": R}
    sample = sample_from_row(row, position=1)
    assert (query, response, ()) == (sample.query, sample.response, sample.history)


@pytest.mark.parametrize(
    "row",
    [
        {"contexts": '["\\ud800 a", "b"]'},
        {"contexts": "['\\ud800 a', 'b']"},
        {"reference": '["\\ud800 a"]'},
        {"messages": '[{"role": "user", "content": "\\ud800 a"}]', "query": None},
    ],
    ids=["JSON", "Python", "reference", "messages"],
)
def test_texts_in_a_cell_can_be_stored(row: dict[str, object]) -> None:
    """An escape of half a character, which UTF-8 cannot encode, becomes U+FFFD."""
    sample = sample_from_row({"query": Q, **row}, position=1)
    assert "\ufffd a" in sample.model_dump_json()


def test_escaped_pairs_in_a_cell_are_one_character() -> None:
    """JSON writes characters beyond 16 bits as two escapes."""
    (passage,) = sample_from_row({"query": Q, "contexts": '["\\ud83d\\ude00"]'}, position=1).contexts or ()
    assert passage.text == "\U0001f600"
