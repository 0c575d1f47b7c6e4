"""Files that were read wrongly without a word, or refused without a way out: each message is tried as it is named."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import DataError
from ragstone.reading import ReadingReport, read_samples
from ragstone.schema import Sample

QUESTION, ANSWER = "Where does the ferry leave?", "From pier 4 of the harbor."
TEXTS = ["The ferry leaves from pier 4.", "The port has six piers."]


def write(path: Path, content: str | list[dict[str, Any]]) -> Path:
    """Write a table, or rows as JSON lines."""
    text = content if isinstance(content, str) else "".join(json.dumps(row) + "\n" for row in content)
    path.write_text(text, encoding="utf-8")
    return path


def read(data: Any, **options: Any) -> tuple[list[Sample], str]:
    """Return the samples and the report in one line, or no samples and the error."""
    report = ReadingReport()
    try:
        samples, _ = read_samples(data, report=report, **options)
    except DataError as error:
        return [], str(error)
    return samples, " ".join(str(report).split())


def named(message: str) -> dict[str, Any]:
    """Return the arguments of `read_samples` for the options in a message whose columns are named."""
    pairs = [shlex.split(option)[0].split("=", 1) for option in re.findall(r"--field ('[^']+'|[^\s:;,)]+)", message)]
    separators = [shlex.split(option)[0] for option in re.findall(r"--separator ('[^']+'|\S+)", message)]
    fields = {field: column for field, column in pairs if column != "COLUMN"}
    return {"fields": fields, "separator": separators[0] if separators else None}


def texts(sample: Sample) -> list[str]:
    """Return the texts of the passages of a sample."""
    return [passage.text for passage in sample.contexts or ()]


@pytest.mark.parametrize(
    "response",
    [
        {"status_code": 200, "request_id": "r-1", "body": {"answer": ANSWER}},
        {"status": "ok", "data": {"message": {"text": ANSWER, "model": "m"}}},
        {"id": "c-1", "object": "reply", "candidates": [{"content": {"parts": [{"text": ANSWER}]}}]},
        json.dumps({"answer": ANSWER, "confidence": 0.5}),
        json.dumps({"status": "ok", "data": {"text": ANSWER, "model": "m"}}),
    ],
)
def test_the_key_of_an_answer(tmp_path: Path, response: Any):
    """The option names the key with the answer, at any depth, and neither a status nor an id."""
    path = write(tmp_path / "t.jsonl", [{"question": QUESTION, "response": response}])
    samples, message = read(path)
    assert ANSWER not in [sample.response for sample in samples]
    (sample,), _ = read(path, **named(message))
    assert (QUESTION, ANSWER) == (sample.query, sample.response)


@pytest.mark.parametrize(
    "row",
    [
        {"question": QUESTION, "response": {"choices": [{"message": {"role": "assistant", "content": ANSWER}}]}},
        {
            "custom_id": "q1",
            "response": {
                "status_code": 200,
                "body": {"choices": [{"message": {"role": "assistant", "content": ANSWER}}]},
            },
        },
        {
            "prompt": QUESTION,
            "referenceResponse": "Pier 4",
            "modelResponses": [{"response": ANSWER, "modelIdentifier": "m"}],
        },
    ],
)
def test_replies_of_known_services(row: dict[str, Any]):
    """Completions and batches of OpenAI, and responses of Amazon Bedrock, are read without an option."""
    assert [ANSWER] == [sample.response for sample in read([row])[0]]


def test_references_beside_the_record_of_bedrock():
    """The reference responses may be in the turn or in its input record."""
    turn = {"prompt": {"content": [{"text": QUESTION}]}, "referenceResponses": [{"content": [{"text": "Pier 4"}]}]}
    (sample,), _ = read([{"conversationTurns": [turn]}])
    assert (QUESTION, ("Pier 4",)) == (sample.query, sample.reference)


@pytest.mark.parametrize(
    "contexts",
    [
        [{"id": "v1", "score": 0.5, "metadata": {"chunk_text": text}} for text in TEXTS],
        {"matches": [{"id": "v1", "score": 0.5, "metadata": {"chunk_text": text, "source": "a"}} for text in TEXTS]},
        [[7, text, 0.25] for text in TEXTS],
        [["c0ffee-1", text, 0.25] for text in TEXTS],
    ],
)
def test_hits_of_vector_databases(contexts: Any):
    """Matches of Pinecone, and rows of pgvector with an id, a text and a distance, are passages."""
    (sample,), _ = read([{"question": QUESTION, "response": ANSWER, "contexts": contexts}])
    assert TEXTS == texts(sample)


@pytest.mark.parametrize("column", ["contexts", "matches"])
def test_hits_under_an_unknown_key(column: str):
    """The message names the path of the texts in all hits. A column of hits is proposed for contexts."""
    key = "chunk_text" if column == "matches" else "wording"
    hits = [{"id": "v1", "distance": 0.5, "payload": {key: text}} for text in TEXTS]
    rows = [{"question": QUESTION, "response": ANSWER, column: hits}]
    _, message = read(rows)
    (sample,), _ = read(rows, **named(message))
    assert TEXTS == texts(sample)


@pytest.mark.parametrize("joint", [" // ", "\n---\n", "\n=====\n", "\n"])
@pytest.mark.parametrize("is_table", [False, True])
def test_signs_between_passages(tmp_path: Path, joint: str, is_table: bool):
    """Signs between passages are told, also in texts of JSON, and the option separates at them."""
    row = {"question": QUESTION, "response": ANSWER, "contexts": joint.join(TEXTS)}
    table = "question,response,contexts\n" + ",".join(f'"{value}"' for value in row.values()) + "\n"
    path = write(tmp_path / ("t.csv" if is_table else "t.jsonl"), table if is_table else [row])
    samples, report = read(path)
    assert [1] == [len(texts(sample)) for sample in samples]
    (sample,), _ = read(path, **named(report))
    assert TEXTS == texts(sample)


def test_quoted_passages_without_brackets():
    """They are a list, and the report says so. A text that begins with a quote is not one."""
    joined = ", ".join(f'"{text}"' for text in TEXTS)
    (sample,), report = read([{"question": QUESTION, "contexts": joined}])
    assert (TEXTS, True) == (texts(sample), "quoted texts without brackets" in report)
    (sample,), _ = read([{"question": QUESTION, "contexts": '"Yes", he said, and left'}])
    assert ['"Yes", he said, and left'] == texts(sample)


@pytest.mark.parametrize("place", ["manual_{0}.pdf p.2", "guide_{0}.pdf, page 3", "a_{0}.pdf#page=2", "b_{0}.md:12-20"])
@pytest.mark.parametrize("column", ["reference", "contexts"])
def test_places_in_files_are_no_texts(place: str, column: str):
    """They are not read. The option reads them, if they are the answers."""
    rows = [{"question": f"{n}?", "response": ANSWER, column: place.format(n)} for n in range(3)]
    samples, report = read(rows)
    assert [((), None)] * 3 == [(sample.reference, sample.contexts) for sample in samples]
    assert f"{column}: places in files, not read as {column}" in report
    samples, _ = read(rows, **named(report.partition("places in files")[2]))
    assert [place.format(0)] == (texts(samples[0]) or list(samples[0].reference))
    (sample,), _ = read([{"question": "q", "response": "a", column: "See manual.pdf for the steps of it"}])
    assert ["See manual.pdf for the steps of it"] == (texts(sample) or list(sample.reference))


@pytest.mark.parametrize(
    "prompt",
    [
        "Answer from the context.\n\nContext:\nThe ferry leaves from pier 4.\n\nQuestion: Where?\nAnswer:",
        "Use these documents.\n<documents>\nThe ferry leaves from pier 4.\n</documents>\n\nWhere?",
        "## Retrieved passages:\n1. The ferry.\n\nWhere?",
    ],
)
def test_prompts_with_passages_are_no_questions(prompt: str):
    """A whole prompt is not the question, unless the option says so. A question of the user is one."""
    rows = [{"prompt": f"{prompt} {n}", "response": ANSWER} for n in range(2)]
    samples, report = read(rows)
    assert [None, None] == [sample.query for sample in samples]
    assert "prompts with passages in them" in report
    assert [f"{prompt} {n}" for n in range(2)] == [sample.query for sample in read(rows, **named(report))[0]]
    _, message = read([{"prompt": prompt, "completion": ANSWER}])
    assert "'prompt' has passages in it" in message
    assert prompt == read([{"prompt": prompt, "completion": ANSWER}], **named(message))[0][0].query
    assert "What is this context:\nfoo?" == read([{"prompt": "What is this context:\nfoo?"}])[0][0].query


@pytest.mark.parametrize("row", [{"expected_facts": TEXTS}, {"expectations": {"expected_facts": TEXTS}}])
def test_required_facts_are_no_alternatives(tmp_path: Path, row: dict[str, Any]):
    """Each reference is a whole correct answer, so they are not read, and the command joins them."""
    path = write(tmp_path / "t.jsonl", [{"question": QUESTION, "response": ANSWER} | row])
    (sample,), report = read(path)
    assert ((), True) == (sample.reference, "parts that are all required" in report)
    assert "--field reference" not in report
    command = re.search(r"jq -c '[^']+' \S+ > NEW.jsonl", report)
    assert command is not None
    subprocess.run(command[0], shell=True, check=True, cwd=tmp_path)  # noqa: S602 - as a user types it
    assert ("\n".join(TEXTS),) == read(tmp_path / "NEW.jsonl")[0][0].reference


@pytest.mark.parametrize(
    "total", ["Accuracy,83%,,", "Accuracy:,,,83 %", "Pass rate,5/6,,", "F1,0.71 ± 0.02,,", "Mean,,,-0.5"]
)
def test_rows_of_totals(tmp_path: Path, total: str):
    """A row with the name of a measure and numbers is not a sample. The named option leaves it out."""
    path = write(tmp_path / "t.csv", f"question,answer,reference,score\nq,a,r,1\n{total}\n")
    _, message = read(path)
    assert "row 2 is a total" in message
    assert ["q"] == [sample.query for sample in read(path, on_bad_row="skip")[0]]


def test_questions_that_begin_like_a_total(tmp_path: Path):
    """A question with a number as its answer is a sample."""
    path = write(tmp_path / "t.csv", "question,answer\nTotal population of Orla?,5000\n")
    assert ["Total population of Orla?"] == [sample.query for sample in read(path)[0]]


@pytest.mark.parametrize("types", ["string,string,float", "VARCHAR(255),text,double", "str,str,list[str]"])
def test_a_row_of_types(tmp_path: Path, types: str):
    """It is left out below the header, and told. A row of words is a sample."""
    samples, report = read(write(tmp_path / "t.csv", f"question,answer,extra\n{types}\nq,a,b\n"))
    assert (["q"], True) == ([sample.query for sample in samples], "a row of types" in report)
    assert 2 == len(read(write(tmp_path / "t.csv", "question,answer\nq,a\nstring,text\n"))[0])


@pytest.mark.parametrize("text", ["NONE", "TBD", "?", "TODO", "..."])
def test_values_that_stand_for_a_missing_one(tmp_path: Path, text: str):
    """They are missing in a table, and counted in JSON."""
    (sample,), report = read(write(tmp_path / "t.csv", f"question,answer,reference\nq,a,{text}\n"))
    assert ((), True) == (sample.reference, "1 placeholder" in report)
    assert "1 text with only a placeholder" in read([{"question": "q", "reference": text}])[1]


@pytest.mark.parametrize(("sign", "suffix"), [(",", "csv"), (";", "csv"), ("\t", "tsv")])
def test_a_file_without_a_header(tmp_path: Path, sign: str, suffix: str):
    """The command writes a header, and the file is read."""
    lines = [sign.join(("7", f"{QUESTION} {n}", ANSWER)) for n in range(3)]
    _, message = read(write(tmp_path / f"t.{suffix}", "\n".join(lines)))
    command = message.partition("reference above it: ")[2].partition(" (and ")[0].partition("\n")[0]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)  # noqa: S602 - as a user types it
    assert [f"{QUESTION} {n}" for n in range(3)] == [sample.query for sample in read(tmp_path / "NEW.csv")[0]]


@pytest.mark.parametrize(
    ("row", "hint"),
    [
        ({"_id": "d1", "title": "Ferries", "text": "They leave."}, "corpus of BEIR"),
        ({"query-id": "q1", "corpus-id": "d1", "score": 1}, "--qrels FILE"),
        ({"speaker": "User", "text": "Where?", "timestamp": "2026"}, '"messages"'),
    ],
)
def test_rows_that_are_not_samples(row: dict[str, Any], hint: str):
    """The message says what such rows are for."""
    assert hint in read([row])[1]


@pytest.mark.parametrize(
    "text",
    [
        "WEBVTT\n\n00:00:01.000 --> 00:00:03.000\nHello\n",
        "User: Where does it leave?\nAssistant: Here.\n",
        "[00:12] Hi\n",
    ],
)
def test_transcripts(tmp_path: Path, text: str):
    """They are named, with the form that is read."""
    message = read(write(tmp_path / "t.txt", text))[1]
    assert 'is a transcript. Write each conversation as a line: {"messages"' in message


def test_columns_in_other_languages(tmp_path: Path):
    """Without a known name and next to one, the missing fields and their option are named, and nothing is guessed."""
    table = f"kysymys,vastaus,ohje\n{QUESTION},{ANSWER},From pier 4\n"
    _, message = read(write(tmp_path / "t.csv", table))
    assert ["query=kysymys"] == re.findall(r"query=\w+", message)
    assert ["response", "contexts", "reference"] == re.findall(r"--field (\w+)=COLUMN", message)
    (sample,), report = read(write(tmp_path / "t.csv", table.replace("kysymys", "query")))
    assert (QUESTION, None) == (sample.query, sample.response)
    assert "not read: 'vastaus', 'ohje'" in report
    assert ["response", "contexts", "reference"] == re.findall(r"--field (\w+)=COLUMN", report)


@pytest.mark.parametrize("answer", ["12.5%", 0.125, 94])
def test_numeric_answers_of_nested_questions(answer: Any):
    """The option for the reference names a number, as FinQA has it."""
    rows = [{"id": str(n), "pre_text": ["a"], "qa": {"question": f"{n}?", "answer": answer}} for n in range(2)]
    message = read(rows)[1]
    assert [(str(answer),)] * 2 == [sample.reference for sample in read(rows, **named(message))[0]]


def test_texts_of_langsmith_in_a_table(tmp_path: Path):
    """Columns with dots and keys of JSON cells are proposed for the field that their name has."""
    table = "inputs.question,outputs.answer,reference_outputs.answer\nq,a,r\n"
    path = write(tmp_path / "t.csv", table)
    (sample,), _ = read(path, **named(read(path)[1]))
    assert ("q", "a", ("r",)) == (sample.query, sample.response, sample.reference)
    cells = [json.dumps(value).replace('"', '""') for value in ({"question": "q"}, {"answer": "a", "documents": TEXTS})]
    path = write(tmp_path / "u.csv", f'inputs,outputs\n"{cells[0]}","{cells[1]}"\n')
    samples, report = read(path)
    assert ["a"] == [sample.response for sample in samples]
    assert TEXTS == texts(read(path, **named(report))[0][0])


@pytest.mark.parametrize(
    "response",
    [
        {"sources": [{"text": "A passage that is longer than the answer."}], "text": ANSWER, "mode": "chat"},
        {"output": [{"results": [{"text": "A passage that is longer."}]}, {"content": [{"text": ANSWER}]}]},
        json.dumps({"sources": [{"text": "A passage that is longer than the answer."}], "text": ANSWER}),
    ],
)
def test_a_passage_next_to_an_answer_is_not_named(response: Any):
    """The option reads the answer, and not a longer passage before it."""
    rows = [{"question": QUESTION, "response": response}]
    (sample,), _ = read(rows, **named(read(rows)[1]))
    assert ANSWER == sample.response


def test_paragraphs_without_questions_in_them():
    """Only articles of SQuAD have their questions in the paragraphs. Other rows keep their samples."""
    rows = [{"question": QUESTION, "answer": ANSWER, "paragraphs": [{"text": text} for text in TEXTS]}]
    (sample,), report = read(rows)
    assert (QUESTION, ANSWER) == (sample.query, sample.response)
    assert TEXTS == texts(read(rows, fields={"contexts": "paragraphs"})[0][0])
    assert ("--field contexts=paragraphs" in report, "SQuAD" in report) == (True, False)


def test_a_status_in_all_rows_is_no_answer(tmp_path: Path):
    """One number in all rows is not the response if another column can be it. The option reads it."""
    path = write(tmp_path / "t.csv", "question,response,answer\n" + "".join(f"q{n},200,a{n}\n" for n in range(3)))
    samples, report = read(path)
    assert [("a0", ()), ("a1", ()), ("a2", ())] == [(sample.response, sample.reference) for sample in samples]
    assert "response: one number in all rows, not read as response" in report
    assert "200" == read(path, fields={"response": "response"})[0][0].response


@pytest.mark.parametrize("values", [["doc_000", "doc_009"], ["Handbook, p. 3", "Handbook (page 12)"]])
def test_ids_and_citations_are_no_references(values: list[str]):
    """They name where the answer is."""
    rows = [{"question": f"{n}?", "response": "a", "ground_truth": value} for n, value in enumerate(values)]
    samples, report = read(rows)
    assert [(), ()] == [sample.reference for sample in samples]
    assert values == [sample.reference[0] for sample in read(rows, **named(report.partition("not read as")[2]))[0]]


def test_flat_results_of_chroma():
    """The lists of one query may be within a list."""
    (sample,), _ = read([{"ids": ["d1", "d2"], "documents": TEXTS, "distances": [0.1, 0.2]}])
    assert [("d1", TEXTS[0]), ("d2", TEXTS[1])] == [(passage.id, passage.text) for passage in sample.contexts or ()]


def test_rows_without_a_value_in_a_field(tmp_path: Path):
    """A note below the table is not a sample."""
    samples, report = read(write(tmp_path / "t.csv", "question,answer,rater\nq,a,x\n,,kappa 0.61\n"))
    assert (["q"], True) == ([sample.query for sample in samples], "without a value in any field" in report)


def test_headers_that_are_questions(tmp_path: Path):
    """The columns of a form are questions, and the rows are answers, so that there is a header."""
    message = read(write(tmp_path / "t.csv", "What did you ask?,What did it say?\nferry times,at nine\n"))[1]
    assert "does not have a field with a known name" in message
    assert "printf" not in message


def test_a_list_of_answers_may_be_the_correct_ones():
    """The option for the reference is named, because a response is one text."""
    rows = [{"question": QUESTION, "answer": ["Pier 4", "pier four"]}]
    (sample,), _ = read(rows, **named(read(rows)[1]))
    assert (None, ("Pier 4", "pier four")) == (sample.response, sample.reference)


def test_lists_in_an_object_of_contexts():
    """The path of the texts is named, also in JSON texts."""
    for contexts in ({"kept": TEXTS, "n": 2}, json.dumps({"kept": TEXTS, "n": 2})):
        rows = [{"question": QUESTION, "contexts": contexts}]
        assert TEXTS == texts(read(rows, **named(read(rows)[1]))[0][0])


def test_databases_of_other_applications(tmp_path: Path):
    """The message says how to write a table of it."""
    (tmp_path / "t.db").write_bytes(b"SQLite format 3\x00" + bytes(200))
    assert "sqlite3 -csv -header" in read(tmp_path / "t.db")[1]


def test_objects_that_contain_rows(tmp_path: Path):
    """A row with another number of values than the columns is refused. Rows by id have their key as the id."""
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"columns": ["query", "response"], "data": [["q", "a"], ["r"]]}), encoding="utf-8")
    assert "a row has 1 values" in read(path)[1]
    path.write_text(json.dumps({"x1": {"query": "q"}, "x2": {"query": "r"}}), encoding="utf-8")
    assert ["x1", "x2"] == [sample.id for sample in read(path)[0]]


def test_ids_of_another_number_than_the_passages():
    """They are not given to the passages, and the report says so."""
    (sample,), report = read([{"query": "q", "retrieved_contexts": TEXTS, "retrieved_context_ids": ["d1"]}])
    assert [None, None] == [passage.id for passage in sample.contexts or ()]
    assert "retrieved_context_ids: not used" in report


@pytest.mark.parametrize("field", ["query", "reference"])
def test_codes_are_not_read_if_another_column_can_be_the_field(tmp_path: Path, field: str):
    """Texts with one beginning and a number are ids of questions or answers. Without another column they are read."""
    other, rest = ("query_text", "answer") if field == "query" else ("solution", "question")
    rows = "".join(f"Q{n},Why {n} of it?,text {n}\n" for n in range(3))
    samples, report = read(write(tmp_path / "t.csv", f"{field},{other},{rest}\n{rows}"))
    assert [None, ()][field == "reference"] == getattr(samples[0], field)
    assert f"{field}: codes with one beginning, not read as {field}" in report
    alone = "".join(f"Q{n},text {n}\n" for n in range(3))
    samples, _ = read(write(tmp_path / "t.csv", f"{field},{rest}\n{alone}"))
    assert ["Q0", ("Q0",)][field == "reference"] == getattr(samples[0], field)
