"""Options that messages name: never a correct answer as the response, an alternative, an id or a constant text.

And readings of the wrong column that pass without an error: each is in the report.
"""

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

from ragstone.errors import DataError
from ragstone.reading import ReadingReport, read_samples
from ragstone.schema import Sample

QUESTIONS = ["Where does the ferry leave?", "Who built the north tower?", "When does the museum open?"]
ANSWERS = ["The ferry leaves from pier 4.", "Anna Berg built the tower in 1912.", "The museum opens at nine."]
GOLD = ["Pier 4", "Anna Berg", "At nine"]
TEXTS = [
    ["Ferries leave from pier 4 all year.", "The port has six piers in total."],
    ["Anna Berg built it in 1912.", "The tower is 40 m high."],
    ["Opening hours are nine to five.", "It is always closed on Monday."],
]
N = range(3)
Q, A, G, P = QUESTIONS[0], ANSWERS[0], GOLD[0], TEXTS[0]


def write(path: Path, rows: Any) -> Path:
    """Write rows in the format of the suffix."""
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        lines = [json.dumps(row) for row in rows] if path.suffix == ".jsonl" else [json.dumps(rows)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read(data: Any, **options: Any) -> tuple[list[Sample], str]:
    """Return the samples and the report in one line, or no samples and the error."""
    report = ReadingReport()
    try:
        samples, _ = read_samples(data, report=report, **options)
    except DataError as error:
        return [], str(error)
    return samples, " ".join(str(report).split())


def named(message: str) -> dict[str, str]:
    """Return the columns that a message proposes, by field. No field is proposed with two columns."""
    options = re.findall(r"(?<!otherwise: )--field ('[^']+'|[^\s:;,)]+)", message)
    pairs = {tuple(shlex.split(option)[0].split("=", 1)) for option in options}
    fields = [(field, column) for field, column in pairs if column != "COLUMN"]
    assert len({field for field, _ in fields}) == len(fields), message
    return dict(fields)


def parts(sample: Sample) -> dict[str, Any]:
    """Return the fields that a sample has."""
    contexts = None if sample.contexts is None else [passage.text for passage in sample.contexts]
    found = {"query": sample.query, "response": sample.response, "reference": [*sample.reference], "contexts": contexts}
    return {field: value for field, value in found.items() if value}


def followed(path: Path, *, is_benchmark: bool = True) -> dict[str, Any]:
    """Return the first sample after all that the messages propose, for answers of people or of an application."""
    fields: dict[str, str] = {}
    rows = None
    for _ in range(4):
        samples, message = read(path, fields=fields, rows=rows)
        command = re.search(r"(?:jq|python) -\w .*? \S+ > NEW.jsonl", message)
        if samples or not command:
            found = named(message if is_benchmark else re.sub(r"\(if it is the correct answer\): \S+ \S+", "", message))
            if samples and found.items() <= fields.items():
                break
            fields |= {name: column for name, column in found.items() if column not in fields.values()}
            lists = re.search(r"--rows (\w+)", message)
            rows = lists[1] if lists and not samples else rows
        else:
            shell = command[0].replace("FILE", shlex.quote(str(path)))
            subprocess.run(shell, shell=True, check=True, cwd=path.parent)  # noqa: S602 - as a user types it
            path = path.parent / "NEW.jsonl"
    return parts(samples[0])


BENCHMARKS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "freshqa": (
        "csv",
        [
            {"id": n, "question": QUESTIONS[n], "source": "https://a.example/x"}
            | {"answer_0": GOLD[n], "answer_1": GOLD[n].upper(), "answer_2": ""}
            for n in N
        ],
        {"reference": [G, G.upper()]},
    ),
    "triviaqa": (
        "json",
        {
            "Data": [
                {"Question": QUESTIONS[n], "Answer": {"Aliases": [GOLD[n], "x"], "Value": GOLD[n], "Type": "Entity"}}
                | {"EntityPages": [{"Title": "A"}], "SearchResults": []}
                for n in N
            ],
            "Version": 1.0,
        },
        {"reference": [G, "x"]},
    ),
    "pubmedqa": (
        "json",
        {
            str(n): {"QUESTION": QUESTIONS[n], "CONTEXTS": TEXTS[n], "LABELS": ["AIM", "RESULT"]}
            | {"final_decision": "yes", "LONG_ANSWER": ANSWERS[n]}
            for n in N
        },
        {"reference": [A], "contexts": P},
    ),
    "label studio": (
        "json",
        [
            {"id": n, "data": {"question": QUESTIONS[n], "contexts": TEXTS[n]}, "predictions": []}
            | {
                "annotations": [
                    {"id": n, "result": [{"value": {"choices": ["Correct"]}}, {"value": {"text": [GOLD[n]]}}]},
                ]
            }
            for n in N
        ],
        {"reference": [G], "contexts": P},
    ),
    "asqa": (
        "json",
        {
            split: {
                f"{split}{n}": {
                    "ambiguous_question": QUESTIONS[n],
                    "qa_pairs": [{"question": "x", "short_answers": ["y"]}],
                }
                | {"annotations": [{"long_answer": ANSWERS[n], "knowledge": []}]}
                for n in N
            }
            for split in ("dev", "train")
        },
        {"reference": [A]},
    ),
    "musique": (
        "jsonl",
        [
            {"id": f"2hop__{n}", "question": QUESTIONS[n], "answer": GOLD[n], "answer_aliases": ["x"]}
            | {"paragraphs": [{"idx": k, "title": "T", "paragraph_text": text} for k, text in enumerate(TEXTS[n])]}
            | {"question_decomposition": [{"id": 1, "question": "x", "answer": "y"}]}
            for n in N
        ],
        {"reference": [G, "x"], "contexts": P},
    ),
    "qasper": (
        "jsonl",
        [
            {"id": n, "title": "T", "qas": [{"question": QUESTIONS[n], "answers": [{"answer": "z", "type": "a"}]}]}
            for n in N
        ],
        {"reference": ["z"]},
    ),
    "boolq": (
        "jsonl",
        [{"question": QUESTIONS[n], "answer": n == 0, "passage": TEXTS[n][0]} for n in N],
        {"reference": ["yes"], "contexts": P[:1]},
    ),
    "best answers": (
        "csv",
        [{"Question": QUESTIONS[n], "Best Answer": GOLD[n], "Incorrect Answers": "never"} for n in N],
        {"reference": [G]},
    ),
    "human answers": (
        "csv",
        [{"question": QUESTIONS[n], "human_answer": GOLD[n], "llm": ANSWERS[n]} for n in N],
        {"reference": [G], "response": A},
    ),
    "gold passages": (
        "jsonl",
        [
            {"question": QUESTIONS[n], "gold": {"answer": GOLD[n], "passages": ["x"]}}
            | {"prediction": {"answer": ANSWERS[n], "passages": TEXTS[n]}}
            for n in N
        ],
        {"reference": [G], "response": A, "contexts": P},
    ),
}

APPLICATIONS: dict[str, tuple[str, Any]] = {
    "trulens": (
        "csv",
        [
            {"record_id": f"r{n}", "ai.observability.record_root.input": QUESTIONS[n]}
            | {"ai.observability.record_root.output": ANSWERS[n]}
            | {"ai.observability.retrieval.retrieved_contexts": json.dumps(TEXTS[n])}
            for n in N
        ],
    ),
    "attributes": (
        "jsonl",
        [
            {
                "attributes": {"ai.observability.record_root.input": QUESTIONS[n]}
                | {"ai.observability.record_root.output": ANSWERS[n], "ai.observability.retrieval.contexts": TEXTS[n]}
            }
            for n in N
        ],
    ),
    "dify": (
        "jsonl",
        [
            {"id": f"m{n}", "query": QUESTIONS[n], "answer": ANSWERS[n]}
            | {"metadata": {"retriever_resources": [{"segment_id": "s", "content": text} for text in TEXTS[n]]}}
            for n in N
        ],
    ),
    "ragflow": (
        "jsonl",
        [
            {"question": QUESTIONS[n], "answer": ANSWERS[n]}
            | {
                "reference": {
                    "chunks": [{"id": "c", "content": text, "similarity": 0.8} for text in TEXTS[n]],
                    "doc_aggs": [{"doc_name": "a.pdf", "count": 2}],
                }
            }
            for n in N
        ],
    ),
    "log rows": (
        "jsonl",
        [
            {"event": event, "request_id": f"r{n}", "time": n} | part
            for n in N
            for event, part in (
                ("asked", {"query": QUESTIONS[n]}),
                ("found", {"query": QUESTIONS[n], "contexts": TEXTS[n]}),
                ("answered", {"response": ANSWERS[n]}),
            )
        ],
    ),
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_correct_answers_are_proposed_as_references(tmp_path: Path, name: str):
    """A correct answer, by its name or by the object around it, is not proposed as a response, and the options work."""
    suffix, rows, expected = BENCHMARKS[name]
    assert {"query": Q} | expected == followed(write(tmp_path / f"t.{suffix}", rows))


@pytest.mark.parametrize("name", APPLICATIONS)
def test_records_of_applications(tmp_path: Path, name: str):
    """The options read question, answer and passages at paths, keys with dots in them, and rows that are joined."""
    suffix, rows = APPLICATIONS[name]
    found = followed(write(tmp_path / f"t.{suffix}", rows), is_benchmark=False)
    assert {"query": Q, "response": A, "contexts": P} == {
        name: found.get(name) for name in ("query", "response", "contexts")
    }


@pytest.mark.parametrize("answer", ["answer", "reply"])
def test_messages_of_a_request(answer: str):
    """The messages within a request are proposed, also if the answer is read."""
    body = {"choices": [{"message": {"role": "assistant", "content": A}}]}
    row = {
        "request": {"messages": [{"role": "user", "content": Q}], "model": "m"},
        answer: body if answer == "answer" else A,
    }
    (sample,), _ = read([row], fields=named(read([row])[1]))
    assert (Q, A) == (sample.query, sample.response)


@pytest.mark.parametrize(
    "names", [("context_v1", "context_v2"), ("chunks_run_1", "chunks_run_2"), ("contextModel1", "contextModel2")]
)
def test_alternatives_of_passages_are_not_joined(names: tuple[str, str]):
    """Versions of the passages are not the parts of one list, and one of them can be read."""
    rows = [{"question": QUESTIONS[n], "response": ANSWERS[n]} | dict(zip(names, TEXTS[n], strict=True)) for n in N]
    samples, report = read(rows)
    assert [None] * 3 == [sample.contexts for sample in samples]
    assert f"{', '.join(names)}: alternatives, not read as contexts" in report
    assert P[:1] == parts(read(rows, fields=named(report))[0][0])["contexts"]


@pytest.mark.parametrize(
    ("second", "columns"), [(TEXTS, "my chunk1+my chunk2"), ([[None, t[0][:12]] for t in TEXTS], "my chunk1")]
)
def test_numbered_columns_with_the_same_text(second: list[list[str]], columns: str):
    """If a text contains that of the next column, they are alternatives. Others are parts of one list."""
    rows = [{"question": QUESTIONS[n], "my chunk1": TEXTS[n][0], "my chunk2": second[n][1]} for n in N]
    assert {"contexts": columns} == named(read(rows)[1])


def test_answers_of_several_systems_are_no_references():
    """A full set of numbered answers may be of people or of systems, and the report has the option for both."""
    rows = [{"question": QUESTIONS[n], "answer_1": ANSWERS[n], "answer_2": GOLD[n]} for n in N]
    samples, report = read(rows)
    assert (None, ()) == (samples[0].response, samples[0].reference)
    assert (
        "If all are correct: --field reference=answer_1+answer_2; if each is of another system: --field resp" in report
    )


@pytest.mark.parametrize(
    "column",
    [
        {"reply": ["OK"] * 3},
        {"reply": ["PASS", "FAIL", "PASS"]},
        {"reply": ["run-1", "run-2", "run-3"], "id": ["run-1", "run-2", "run-3"]},
        {"labels": [["AIM", "RESULT"]] * 3},
        {"target": ["Pier 4"] * 3},
        {"predictions": [[]] * 3},
        {"wrong_answer": ANSWERS},
        {"annotations": [[{"short_answers": [{"start": 1}]}]] * 3},
    ],
)
def test_columns_that_are_not_proposed(column: dict[str, list[Any]]):
    """Constant texts, verdicts, ids, empty lists, wrong answers and objects without a text are proposed for no field."""
    assert {} == named(
        read([{"question": QUESTIONS[n]} | {name: values[n] for name, values in column.items()} for n in N])[1]
    )


@pytest.mark.parametrize(
    ("column", "text"), [("expected_context", P[0]), ("gold_contexts", P), ("supporting.gold_passages", P)]
)
def test_ideal_passages_are_named_as_such(column: str, text: Any):
    """They are not proposed, and the option that reads them says what they are."""
    value = {column.partition(".")[2]: text} if "." in column else text
    samples, report = read([{"question": Q, "response": A, column.partition(".")[0]: value}])
    assert (None, {}) == (samples[0].contexts, named(report))
    assert f"{column}: ideal passages, not read as contexts; otherwise: --field contexts={column}" in report


def test_messages_and_json_are_proposed_with_their_kind():
    """The report says what the values of a column are."""
    turns = [{"role": "user", "content": Q}, {"role": "assistant", "content": A}]
    assert "perhaps turns (messages): --field messages=turns" in read([{"turns": turns, "reference": G}])[1]
    rows = [{"request": json.dumps({"question": question}), "response": "a"} for question in QUESTIONS]
    assert "perhaps request (JSON texts): --field query=request" in read(rows)[1]


def test_outputs_of_promptfoo(tmp_path: Path):
    """Cells with a verdict before the answer are proposed for no field, and the message names the format that is read."""
    rows = [{"query": QUESTIONS[n], "[openai:m] {{query}}": f"[PASS] {ANSWERS[n]}"} for n in N]
    _, report = read(write(tmp_path / "t.csv", rows))
    assert "outputs of promptfoo. Write them as JSON, which is read: promptfoo eval -o results.json" in report
    assert {} == named(report)


@pytest.mark.parametrize(
    ("name", "values"),
    [("reranked", [texts[:1] for texts in TEXTS]), ("final_contexts", [texts[::-1] for texts in TEXTS])],
)
@pytest.mark.parametrize("is_nested", [False, True])
def test_passages_after_a_reranker(name: str, values: list[list[str]], *, is_nested: bool):
    """A second list with the same passages, fewer or in another order, is in the report, and the option reads it."""
    rows = [
        {"question": QUESTIONS[n], "response": "a", "contexts": TEXTS[n]}
        | ({"trace": {name: values[n]}} if is_nested else {name: values[n]})
        for n in N
    ]
    samples, report = read(rows)
    assert P == parts(samples[0])["contexts"]
    assert "passages of contexts, not read. If the model got these:" in report
    assert values[0] == parts(read(rows, fields=named(report))[0][0])["contexts"]
    assert "If the model got" not in read([{"question": Q, "contexts": P, "copy": P, "other": ["Something else."]}])[1]


@pytest.mark.parametrize("column", ["original_query", "user_message", "metadata.raw question"])
def test_rewritten_questions(column: str):
    """A question in other words is in the report, and the option reads it."""
    outer, _, inner = column.partition(".")
    rows = [
        {"query": f"{question[:-1]} today?", "response": "a", outer: {inner: question} if inner else question}
        for question in QUESTIONS
    ]
    samples, report = read(rows)
    assert f"{Q[:-1]} today?" == samples[0].query
    assert f"{column}: another wording of query, not read" in report
    assert Q == read(rows, fields=named(report))[0][0].query


def test_a_translated_question():
    """Its name says so, because no word is the same."""
    rows = [{"query": question, "original_query": f"Wo, wann und wer {n}?"} for n, question in enumerate(QUESTIONS)]
    assert "original_query: another wording of query" in read(rows)[1]
    rows = [{"query": question, "summary of it": f"Wo, wann und wer {n}?"} for n, question in enumerate(QUESTIONS)]
    assert "another wording" not in read(rows)[1]


@pytest.mark.parametrize(
    "passage",
    [
        {"text": "a", "used": False},
        {"text": "a", "used": False, "metadata": {"page": 1}},
        {"text": "a", "metadata": {"in_prompt": False}},
    ],
)
def test_passages_that_the_model_did_not_get(passage: dict[str, Any]):
    """They are counted."""
    rows = [{"query": "q", "contexts": [passage, {"text": "b", "used": True}]}] * 2
    assert "2 passages marked as not in the prompt" in read(rows)[1]


def test_titles_as_passages():
    """Texts of a few words each are in the report, and another column of passages is named."""
    rows = [{"question": QUESTIONS[n], "contexts": ["Ferry times", f"Port no {n}"], "chunks": TEXTS[n]} for n in N]
    samples, report = read(rows)
    assert "contexts: a few words each, perhaps titles, read as contexts" in report
    assert P == parts(read(rows, fields=named(report))[0][0])["contexts"]
    assert ["Ferry times", "Port no 0"] == parts(samples[0])["contexts"]
    assert "perhaps titles" not in read([{"question": QUESTIONS[n], "contexts": TEXTS[n]} for n in N])[1]


@pytest.mark.parametrize("text", ["Support session on the web", "User u{0} on the page /tickets in English"])
def test_a_context_that_describes_the_session(text: str):
    """A short text that hardly differs between rows is in the report, and another column of passages is named."""
    rows = [{"question": QUESTIONS[n], "context": text.format(n), "chunks": TEXTS[n]} for n in N]
    _, report = read(rows)
    assert "the same text in all rows, read as contexts" in report
    assert {"contexts": "chunks"} == named(report)
    assert "the same text" not in read([{"question": QUESTIONS[n], "context": TEXTS[n][0]} for n in N])[1]


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv"])
def test_a_request_in_several_log_rows(tmp_path: Path, suffix: str):
    """Rows with the same id and other fields of a request are refused, and the command joins them."""
    blank = dict.fromkeys(("query", "response"), "")
    rows = [
        {"event": f"e{part}", "request_id": f"r{n}"} | (blank if suffix == "csv" else {}) | part
        for n in N
        for part in ({"query": QUESTIONS[n]}, {"response": ANSWERS[n]})
    ]
    path = write(tmp_path / f"t.{suffix}", rows)
    samples, message = read(path)
    assert [] == samples
    command = message.partition("Join them: ")[2].replace("python -c", f"{sys.executable} -c")
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)  # noqa: S602 - as a user types it
    samples, _ = read(next(tmp_path.glob("NEW.*")))
    assert [*zip(QUESTIONS, ANSWERS, strict=True)] == sorted(
        ((s.query, s.response) for s in samples), key=lambda s: QUESTIONS.index(str(s[0]))
    )


def test_rows_that_share_an_id_and_are_no_parts():
    """Turns of a session have questions of their own, and are told. Whole requests of a session are read."""
    rows = [{"session": f"s{n % 2}", key: f"{key} {n}"} for n in range(4) for key in ("query", "response")]
    samples, report = read(rows)
    assert (8, True) == (len(samples), "no row has both a question and an answer" in report)
    rows = [{"session": f"s{n % 2}", "query": f"q {n}", "response": "a"} for n in range(4)]
    samples, report = read(rows)
    assert (4, False) == (len(samples), "no row has both" in report)


def test_spans_in_a_table():
    """Each row is a step of a request, so that no column is proposed."""
    row = {"context.span_id": "s", "span_kind": "CHAIN", "attributes.input.value": Q, "attributes.output.value": A}
    _, message = read([row])
    assert ({}, True) == (named(message), "spans of Phoenix. Write the data frame as Parquet" in message)


@pytest.mark.parametrize(
    ("response", "contexts"),
    [
        ([{"type": "file_search_call", "results": [{"text": P[0]}]}, {"type": "message", "role": "assistant"}], P[:1]),
        ([{"type": "message", "role": "assistant"}], None),
    ],
)
def test_the_message_after_the_calls_of_tools(response: list[dict[str, Any]], contexts: Any):
    """Items of OpenAI's responses that are not messages are not an empty answer, and their passages are proposed."""
    response[-1]["content"] = [{"type": "output_text", "text": A}]
    rows = [{"input": Q, "output": response}]
    (sample,), report = read(rows)
    assert (A, "empty text" in report) == (sample.response, False)
    assert contexts == parts(read(rows, fields=named(report))[0][0]).get("contexts")


def test_a_list_of_objects_as_the_answer():
    """Objects with an answer each are correct answers, as KILT has them, and equal faults are one line of the message."""
    rows = [
        {"input": question, "output": [{"answer": G, "provenance": [{"title": question}]}]} for question in QUESTIONS
    ]
    _, message = read(rows)
    assert 1 == message.count("must be text")
    assert [G] == parts(read(rows, fields=named(message))[0][0])["reference"]


def test_replies_in_an_unknown_object():
    """The path of the reply is named, and not that of a passage next to it."""
    reply = {
        "choices": [{"message": {"role": "assistant", "content": A}}],
        "search_results": [{"snippet": f"{A} {P[0]}"}],
    }
    rows = [{"query": Q, "completion": reply}]
    (sample,), _ = read(rows, fields=named(read(rows)[1]))
    assert (A, f"{A} {P[0]}") == (sample.response, (sample.contexts or ())[0].text)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("Frage", "Antwort des Systems", "Musterantwort"), ("query", "response", "reference")),
        (("Question", "R\u00e9ponse g\u00e9n\u00e9r\u00e9e", "R\u00e9ponse attendue"), ("response", "reference")),
        (("pregunta", "respuesta_generada", "respuesta_esperada"), ("query", "response", "reference")),
        (("\u95ee\u9898", "\u6a21\u578b\u56de\u7b54", "\u6807\u51c6\u7b54\u6848"), ("query", "response", "reference")),
        (("Customer message", "Bot reply", "possible_answers"), ("query", "response", "reference")),
    ],
)
def test_names_in_other_languages(names: tuple[str, str, str], expected: tuple[str, ...]):
    """Correct answers and those of a model are told apart."""
    rows = [dict(zip(names, values, strict=True)) for values in zip(QUESTIONS, ANSWERS, GOLD, strict=True)]
    assert dict(zip(expected, names[-len(expected) :], strict=True)) == named(read(rows)[1])


def test_questions_by_id_with_their_passage(tmp_path: Path):
    """An object by id whose rows have several questions each, as DROP has them: the command writes a row for each."""
    data = {
        f"p{n}": {"passage": TEXTS[n][0], "qa_pairs": [{"question": QUESTIONS[n], "gold_answer": GOLD[n]}]} for n in N
    }
    found = followed(write(tmp_path / "t.json", data))
    assert {"query": Q, "reference": [G], "contexts": P[:1]} == found


def test_messages_of_people_are_no_passages():
    """A thread of texts with their authors is not proposed for contexts."""
    rows = [{"question": QUESTIONS[n], "thread": [{"user": "B", "text": ANSWERS[n]}]} for n in N]
    assert {} == named(read(rows)[1])


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("t.yaml", "samples:\n  - query: Why?\n    response: So.\n", "a YAML document"),
        ("t.yml", "- query: Why?\n", "a YAML document"),
        ("t.toml", "[[samples]]\nquery = 'Why?'\n", "a TOML document"),
        ("t.md", "# Results\n\n| query | response |\n|---|---|\n| q | a |\n", "a Markdown table"),
    ],
)
def test_files_of_other_kinds(tmp_path: Path, name: str, content: str, kind: str):
    """They are named, with the way to a file that is read. A table in a cell is the text of an answer."""
    (tmp_path / name).write_text(content)
    assert f"is {kind}." in read(tmp_path / name)[1]
    (tmp_path / "t.csv").write_text('query,response\nq,"| a | b |\n|---|---|\n| 1 | 2 |"\n')
    assert ["q"] == [sample.query for sample in read(tmp_path / "t.csv")[0]]


def test_json_texts_with_question_and_answer():
    """A message that contains both is not the question: its parts are proposed."""
    rows = [{"message": json.dumps({"question": QUESTIONS[n], "answer": ANSWERS[n]}), "time": n} for n in N]
    _, message = read(rows)
    assert {"query": "message.question", "reference": "message.answer"} == named(message)
    assert "--field reference=message.answer (or response, if a model wrote it)" in message


def test_a_question_in_the_header(tmp_path: Path):
    """One column of a form with a question in each row does not make its header a row."""
    names = ("Time", "What was your question?", "What did the bot answer?", "Was it?")
    rows = [dict(zip(names, ("9:00", QUESTIONS[n], ANSWERS[n], "y"), strict=True)) for n in N]
    message = read(write(tmp_path / "t.csv", rows))[1]
    assert {"query": "What was your question?", "response": "What did the bot answer?"} == named(message)


def test_passages_under_the_name_of_a_reference():
    """Objects with their sources are not correct answers, and the options read both meanings."""
    rows = [{"question": QUESTIONS[n], "references": [{"id": "d", "text": text} for text in TEXTS[n]]} for n in N]
    samples, report = read(rows)
    assert [()] * 3 == [sample.reference for sample in samples]
    option = re.search(r"not read as reference; otherwise: --field '([^']+)'", report)
    assert option is not None
    assert P == parts(read(rows, fields=dict([option[1].split("=", 1)]))[0][0])["reference"]
    assert P == parts(read(rows, fields=named(report))[0][0])["contexts"]


def test_a_layout_says_what_is_read_from_where():
    """Also for fields that are made of several keys, and a column that the user names is not read by the layout."""
    row = {"question": Q, "answer": G, "supporting_facts": [["T", 0]], "context": [["T", P]], "type": "bridge"}
    (sample,), report = read([row])
    assert (
        "rows of HotpotQA: id \u2190 _id + id, query \u2190 question, reference \u2190 answer, contexts \u2190 context, qrels"
        in report
    )
    assert [" ".join(P)] == parts(sample)["contexts"]
    (sample,), _ = read([row | {"context": [["T", [P[0], 7]]]}])
    assert P[:1] == parts(sample)["contexts"]
    (sample,), _ = read([row | {"context": P}], fields={"contexts": "context"})
    assert P == parts(sample)["contexts"]


@pytest.mark.parametrize(("values", "is_read"), [(["pass", "no", "1"], False), (["yes", "5", "no"], True)])
def test_labels_and_numbers_in_one_column(values: list[str], *, is_read: bool):
    """With a word of a verdict they are labels. Yes, no and numbers can be answers."""
    samples, report = read([{"question": q, "output": value} for q, value in zip(QUESTIONS, values, strict=True)])
    assert (is_read, not is_read) == (
        samples[0].response == values[0],
        "output: labels, not read as response" in report,
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            {"response": A, "rank 1 passage": P[0], "rank 2 passage": P[1]},
            {"contexts": "rank 1 passage+rank 2 passage"},
        ),
        ({"response": A, "retrieval": {"initial": P, "reranked": P[:1]}}, {"contexts": "retrieval.reranked"}),
        ({"draft_answer": "x y", "revised_answer": A}, {"response": "revised_answer"}),
        ({"response": A, "corrected_response": G}, {"reference": "corrected_response"}),
        ({"response": A, "feedback": {"rating": "down", "correction": G}}, {"reference": "feedback.correction"}),
    ],
)
def test_columns_of_applications(row: dict[str, Any], expected: dict[str, str]):
    """Numbers within names, lists under a retrieval, later versions of a text, and corrections."""
    assert expected == named(read([{"query": Q, **row}])[1])


def test_an_instruction_next_to_an_input():
    """The input may be the text that the instruction is about, so that the instruction is named. A constant one is not."""
    rows = [{"instruction": QUESTIONS[n], "input": TEXTS[n][0], "output": ANSWERS[n]} for n in N]
    assert "perhaps instruction: --field query=instruction" in read(rows)[1]
    assert "perhaps instruction" not in read([row | {"instruction": "Answer the question."} for row in rows])[1]


@pytest.mark.parametrize(
    ("rows", "command"),
    [([[q, "a"] for q in QUESTIONS], "query: .[0]"), ([json.dumps({"query": q}) for q in QUESTIONS], "fromjson")],
)
def test_rows_that_are_no_objects(tmp_path: Path, rows: Any, command: str):
    """Equal faults are one line, and the command makes objects of lists and of JSON texts."""
    path = write(tmp_path / "t.jsonl", rows)
    _, message = read(path)
    assert (1, True) == (message.count("must be an object"), command in message)
    assert Q == followed(path)["query"]


def test_empty_arrays_are_no_answers():
    """An array without elements, as pandas reads it from Parquet, is empty: nothing is proposed for its column."""
    np = pytest.importorskip("numpy")
    rows = [
        {"query": query, "response": "Here.", "generated_text": np.array([])}
        for query in ("Where is it?", "Where is the key?")
    ]
    report = ReadingReport()
    samples, _ = read_samples(rows, report=report)
    assert ["Here."] * 2 == [sample.response for sample in samples]
    assert "generated_text=" not in str(report)


def test_rows_of_one_question_can_share_a_number():
    """The answer of one question is the same number in all rows, and is its reference."""
    rows = [{"query": "How high is it?", "contexts": [f"Tower {n} is 41 m high."], "reference": "41"} for n in range(5)]
    assert {("41",)} == {sample.reference for sample in read_samples(rows, report=ReadingReport())[0]}
    others = [row | {"query": f"How high is tower {n}?"} for n, row in enumerate(rows)]
    assert {()} == {sample.reference for sample in read_samples(others, report=ReadingReport())[0]}
