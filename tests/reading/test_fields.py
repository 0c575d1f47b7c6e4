"""Which column is which field: the values decide if the names do not, and the report names every candidate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import DataError
from ragstone.reading import ReadingReport, read_samples
from ragstone.schema import Sample

QUESTIONS = ["Why is the sky blue?", "Who wrote Faust?", "When did Rome fall?", "Where is the port?"]
ANSWERS = ["Because of scattering.", "Goethe wrote it.", "In the year 476.", "North of the town."]
PASSAGES = ["Air scatters blue light.", "Faust is a play by Goethe.", "Rome fell in 476.", "The port is north of it."]


def read(data: Any, **options: Any) -> tuple[list[Sample], str]:
    """Return the samples and the report, in one line."""
    report = ReadingReport()
    samples, _ = read_samples(data, report=report, **options)
    return samples, " ".join(str(report).split())


def table(**columns: Any) -> list[dict[str, Any]]:
    """Return four rows. A column is a list, or one value for all rows."""
    lists = {name: value if isinstance(value, list) else [value] * 4 for name, value in columns.items()}
    return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]


def fields_of(sample: Sample) -> dict[str, Any]:
    """Return the fields of a sample that have a value."""
    contexts = None if sample.contexts is None else [passage.text for passage in sample.contexts]
    found = {"query": sample.query, "contexts": contexts, "response": sample.response, "reference": [*sample.reference]}
    return {name: value for name, value in found.items() if value}


Q, A, P = QUESTIONS[0], ANSWERS[0], PASSAGES[0]
LABELS = ["PASS", "FAIL", "PASS", "PASS"]
UUIDS = [f"0b5e7c9a-1111-4222-8333-{n:012d}" for n in range(4)]
TIMES = [f"2026-03-0{n}T10:00:00Z" for n in (1, 2, 3, 4)]

CHOSEN: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (
        "labels beside a response",
        {"question": QUESTIONS, "response": ANSWERS, "result": LABELS},
        {"query": Q, "response": A},
        "result: labels, not read as response; otherwise: --field response=result",
    ),
    (
        "truth values beside an answer",
        {"question": QUESTIONS, "answer": ANSWERS, "output": [True, False, True, True]},
        {"query": Q, "response": A},
        "output: labels, not read as response",
    ),
    (
        "ids as a question",
        {"id": ["q1", "q2", "q3", "q4"], "query": ["q1", "q2", "q3", "q4"], "question": QUESTIONS, "response": ANSWERS},
        {"query": Q, "response": A},
        "query: ids, not read as query; otherwise: --field query=query",
    ),
    (
        "times beside a response",
        {"question": QUESTIONS, "response": ANSWERS, "output": TIMES},
        {"query": Q, "response": A},
        "output: times, not read as response",
    ),
    (
        "uuids beside a response",
        {"question": QUESTIONS, "response": ANSWERS, "output": UUIDS},
        {"query": Q, "response": A},
        "output: ids, not read as response",
    ),
    (
        "addresses beside a response",
        {"question": QUESTIONS, "response": ANSWERS, "output": [f"https://a.example/{n}" for n in range(4)]},
        {"query": Q, "response": A},
        "output: URLs or file names, not read as response",
    ),
    (
        "the same prompt in all rows",
        {"prompt": "Answer from the passages.", "user_question": QUESTIONS, "response": ANSWERS},
        {"query": Q, "response": A},
        "prompt: the same text in all rows, not read as query; otherwise: --field query=prompt",
    ),
    (
        "the same prompt alone",
        {"prompt": "Answer from the passages.", "response": ANSWERS},
        {"response": A},
        "prompt: the same text in all rows, not read as query; otherwise: --field query=prompt",
    ),
    (
        "one question again and again",
        {"question": Q, "response": ANSWERS},
        {"query": Q, "response": A},
        "question: the same text in all rows, read as query",
    ),
    (
        "the same answer in all rows",
        {"question": QUESTIONS, "answer": "error"},
        {"query": Q, "response": "error"},
        "answer: the same text in all rows, read as response",
    ),
    (
        "gold context beside hits",
        {"question": QUESTIONS, "response": ANSWERS, "context": [["gold"]] * 4, "hits": [[{"contents": P}]] * 4},
        {"query": Q, "response": A, "contexts": [P]},
        "contexts ← hits (list, 1 a row, 1 to 1) (not context, the ideal passages; otherwise: --field contexts=context)",
    ),
    (
        "gold passages beside search results",
        {"question": QUESTIONS, "response": ANSWERS, "passages": [["gold"]] * 4, "search_results": [[P]] * 4},
        {"query": Q, "response": A, "contexts": [P]},
        "otherwise: --field contexts=passages",
    ),
    (
        "gold documents beside retrieved",
        {"question": QUESTIONS, "response": ANSWERS, "documents": [["gold"]] * 4, "retrieved": [[P]] * 4},
        {"query": Q, "response": A, "contexts": [P]},
        "otherwise: --field contexts=documents",
    ),
    (
        "documents without retrieved ones",
        {"question": QUESTIONS, "response": ANSWERS, "documents": [[P]] * 4, "hits": [3, 4, 3, 5]},
        {"query": Q, "response": A, "contexts": [P]},
        "contexts ← documents",
    ),
    (
        "two columns of references",
        {"question": QUESTIONS, "response": ANSWERS, "reference": PASSAGES, "gold_answer": ANSWERS},
        {"query": Q, "response": A, "reference": [P]},
        "reference ← reference; it may also be gold_answer: --field reference=gold_answer",
    ),
    (
        "a span under context",
        {"question": QUESTIONS, "response": ANSWERS, "context": {"span_id": "ab1", "trace_id": "cd"}},
        {"query": Q, "response": A},
        "context: objects without a text, not read as contexts",
    ),
    (
        "a user under context",
        {"question": QUESTIONS, "response": ANSWERS, "context": {"user": "bob"}},
        {"query": Q, "response": A},
        "context: objects without a text, not read as contexts",
    ),
    (
        "passages by id under context",
        {"question": QUESTIONS, "response": ANSWERS, "context": {"doc1": P}},
        {"query": Q, "response": A, "contexts": [P]},
        "contexts ← context",
    ),
]


@pytest.mark.parametrize(("columns", "expected", "says"), [case[1:] for case in CHOSEN], ids=[c[0] for c in CHOSEN])
def test_values_decide_which_column_is_a_field(columns: dict[str, Any], expected: dict[str, Any], says: str):
    """A column whose values cannot be the field is not read next to one that can, and the report names the option."""
    samples, report = read(table(**columns))
    assert expected == fields_of(samples[0])
    assert says in report


@pytest.mark.parametrize(
    ("columns", "column"),
    [
        ({"model": "gpt-4o"}, "model"),
        ({"chatbot": ["A", "A", "B", "B"]}, "chatbot"),
        ({"candidate": ["0.5", "0.7", "0.1", "0.2"]}, "candidate"),
        ({"gold": LABELS}, "gold"),
        ({"evidence": [f"https://a.example/{n}" for n in range(4)]}, "evidence"),
        ({"evidence": "['https://a.example/1']"}, "evidence"),
        ({"reply": UUIDS}, "reply"),
        ({"chunks": [3, 4, 5, 6]}, "chunks"),
    ],
)
def test_columns_that_cannot_be_a_field_are_not_proposed(columns: dict[str, Any], column: str):
    """Labels, numbers, ids, addresses and names of systems are never the option that a report names."""
    report = read(table(question=QUESTIONS, **columns))[1]
    assert "--field" not in report
    assert f"not used: {column}" in report


def test_all_candidates_are_named():
    """A field without a column has one option, and the names of the other columns that may be it."""
    report = read(table(question=QUESTIONS, docs=[[P]] * 4, snippets=[[P]] * 4))[1]
    assert "perhaps docs: --field contexts=docs (or snippets)" in report
    with pytest.raises(DataError, match=r"--field response=response, or --field response=output \(fields="):
        read(table(question=QUESTIONS, response=ANSWERS, output=PASSAGES))


@pytest.mark.parametrize(
    ("row", "option"),
    [
        ({"qa": {"question": Q, "answer": A, "program": "divide(1, 2)"}}, "--field query=qa.question --field reference=qa.answer"),
        ({"_id": "1", "text": Q, "metadata": {}}, "--field query=text"),
        ({"turns": [{"role": "user", "content": Q}, {"role": "assistant", "content": A}], "name": "x"}, "--field messages=turns"),
        (
            {"item": {"question": Q}, "sample": {"output": [{"role": "assistant", "content": A}]}},
            "--field query=item.question --field response=sample.output",
        ),
    ],
)  # fmt: skip
def test_options_of_rows_without_a_known_name(row: dict[str, Any], option: str):
    """The options that the first message names read the row as its author means it."""
    with pytest.raises(DataError) as error:
        read([row])
    assert option in str(error.value)
    fields = dict(pair.split("=", 1) for pair in option.replace("--field ", "").split())
    (sample,), _ = read([row], fields=fields)
    expected = {"query": Q} | ({"reference": [A]} if "reference" in fields else {"response": A})
    assert (expected | ({"response": ""} if "text" in row else {})) | fields_of(sample) == (
        expected | ({"response": ""} if "text" in row else {})
    )


def test_the_answer_of_triviaqa_is_the_reference():
    """Its answer is an object with aliases, which no model wrote."""
    answer = {"aliases": [A, "Scattering"], "value": A, "normalized_value": "scattering", "type": "WikipediaEntity"}
    row = {"question": Q, "question_id": "tc_1", "entity_pages": {}, "search_results": {"title": []}, "answer": answer}
    (sample,), _ = read([row])
    assert {"query": Q, "reference": [A, "Scattering"]} == fields_of(sample)
    with pytest.raises(DataError, match=r"Name a key of it: --field 'reference=answer.aliases\[\]'(?!, or)"):
        read([{"question": Q, "answer": answer}])


def test_several_columns_make_one_list():
    """`+` joins columns to one list of references or passages. Missing ones are left out, and a text has one column."""
    rows = table(question=QUESTIONS, response=ANSWERS, ref_a=PASSAGES, ref_b=["x", "", None, ["y", "z"]])
    samples, report = read(rows, fields={"reference": "ref_a+ref_b"})
    assert [2, 1, 1, 3] == [len(sample.reference) for sample in samples]
    assert "reference ← ref_a+ref_b (list, 1.8 a row, 1 to 3)" in report
    samples, _ = read(rows, fields={"contexts": "ref_b+ref_a"})
    assert ["y", "z", PASSAGES[3]] == fields_of(samples[3])["contexts"]
    samples, _ = read([{"question": Q, "a": {"b": "x"}, "c": "y"}], fields={"reference": "a.b+c"})
    assert ("x", "y") == samples[0].reference
    with pytest.raises(DataError, match=r"'ref_a\+ref_b' was named for 'query', which has one column"):
        read(rows, fields={"query": "ref_a+ref_b"})
    with pytest.raises(DataError, match="no row has the field"):
        read(rows, fields={"contexts": "ref_c+ref_d"})


def as_json(values: list[str], make: Any) -> list[str]:
    """Return JSON texts."""
    return [json.dumps(make(value)) for value in values]


@pytest.mark.parametrize(
    ("request_of", "reply_of"),
    [
        (
            lambda text: {"messages": [{"role": "user", "content": text}]},
            lambda text: {"choices": [{"message": {"role": "assistant", "content": text}}]},
        ),
        (lambda text: {"question": text}, lambda text: text),
        (lambda text: {"input": text}, lambda text: {"answer": text}),
        (lambda text: text, lambda text: text),
    ],
)
def test_requests_and_replies_as_json(request_of: Any, reply_of: Any):
    """MLflow writes both as JSON texts. They are read as the values that they contain, and the report says so."""
    rows = table(request=as_json(QUESTIONS, request_of), response=as_json(ANSWERS, reply_of))
    samples, report = read(rows, fields={"query": "request"})
    assert {"query": Q, "response": A} == fields_of(samples[0])
    assert "response: JSON texts, read as the values that they contain" in report


def test_answers_that_are_json_stay_texts():
    """A model may answer with JSON. The report counts them, and a path reads a key."""
    rows = table(question=QUESTIONS, response=as_json(ANSWERS, lambda text: {"answer": text}))
    samples, report = read(rows)
    assert json.dumps({"answer": A}) == samples[0].response
    assert "4 JSON texts read as it is" in report
    assert A == read(rows, fields={"response": "response.answer"})[0][0].response


HITS = {
    "elasticsearch": {"took": 3, "hits": {"hits": [{"_id": "d1", "_score": 3.5, "_source": {"text": P}}]}},
    "elasticsearch hits": [{"_id": "d1", "_score": 3.5, "_source": {"content": P}}],
    "qdrant": [{"id": "d1", "score": 3.5, "payload": {"text": P}}],
    "pinecone": {"matches": [{"id": "d1", "score": 3.5, "metadata": {"text": P}}]},
    "bedrock": [{"content": {"text": P, "type": "TEXT"}, "location": {"type": "S3"}, "score": 3.5}],
    "bedrock results": {"retrievalResults": [{"content": {"text": P}, "score": 3.5}]},
    "vertex": {"contexts": {"contexts": [{"sourceUri": "gs://x/y.pdf", "text": P, "score": 3.5}]}},
    "score and text": [[3.5, P]],
    "text by score": {P: 3.5},
    "chroma": {"ids": [["d1"]], "documents": [[P]], "distances": [[0.5]]},
    "ms marco": {"is_selected": [1], "passage_text": [P], "url": ["https://a.example"]},
    "pyserini": [{"docid": "d1", "contents": P, "score": 3.5}],
}


@pytest.mark.parametrize("is_text", [False, True])
@pytest.mark.parametrize("name", HITS)
def test_results_of_search_engines_are_passages(name: str, is_text: bool):
    """As their clients return them, and as JSON texts in a cell. A distance is not a score."""
    contexts = json.dumps(HITS[name]) if is_text else HITS[name]
    (sample,), _ = read([{"question": Q, "contexts": contexts}])
    (passage,) = sample.contexts or ()
    assert P == passage.text
    assert passage.score == (None if name in ("chroma", "ms marco") else 3.5)
    assert passage.id == ("d1" if "d1" in str(HITS[name]) else None)


def test_a_row_of_chroma():
    """The lists of one query are its passages, with their ids."""
    row = {"question": Q, "ids": [["d1", "d2"]], "documents": [[P, "b"]], "distances": [[0.1, 0.4]]}
    (sample,), _ = read([row])
    assert [("d1", P), ("d2", "b")] == [(passage.id, passage.text) for passage in sample.contexts or ()]


def test_objects_without_passages_are_errors():
    """A column with the name of contexts that contains something else."""
    with pytest.raises(DataError, match="passage 1 must be text"):
        read([{"question": Q, "contexts": {"user": "bob"}}])
    with pytest.raises(DataError, match="passage 1 must be text"):
        read([{"question": Q, "contexts": [["one", "two"]]}])


def test_the_first_rows_decide_and_the_report_says_how_many(tmp_path: Path):
    """After 50 rows of labels, a column is not read as an answer, and the report says that it looked at 50."""
    path = tmp_path / "t.jsonl"
    rows = [{"question": f"q {n}", "response": f"a {n}", "result": "PASS" if n < 60 else "a"} for n in range(70)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    samples, report = read(path)
    assert [f"a {n}" for n in range(70)] == [sample.response for sample in samples]
    assert "result: labels in the first 50 rows, not read as response" in report


def test_an_empty_id_is_not_that_of_a_passage():
    """The next name of an id counts."""
    hits = [
        {"text": "a", "id": None, "doc_id": "d"},
        {"text": "b", "id": float("nan"), "doc_id": 7},
        {"text": "c", "id": 0},
    ]
    ((sample,), _) = read_samples([{"query": "Why?", "contexts": hits}])

    assert ["d", "7", "0"] == [passage.id for passage in sample.contexts or ()]


@pytest.mark.parametrize(("ids", "qrels"), [(["a", "b"], {"a": 1.0, "b": 1.0}), ([], None), ("['a']", {"a": 1.0})])
def test_ids_of_ideal_passages_are_qrels(ids: Any, qrels: Any):
    """Without any, the relevant passages are unknown."""
    ((sample,), _) = read_samples([{"query": "Why?", "contexts": ["a"], "reference_context_ids": ids}])

    assert qrels == sample.qrels
