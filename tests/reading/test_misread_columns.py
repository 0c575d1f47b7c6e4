"""Columns that were read as another field than they are, and values of files that stopped the reader with a traceback."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
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


@pytest.mark.parametrize(
    ("column", "name"), [(2024, "2024"), (2024.0, "2024"), (("a", "", 1), "a.1"), (float("nan"), "nan")]
)
def test_names_of_columns_become_texts(column: Any, name: str):
    """Names of any type, as pandas has them, stopped the reader with a traceback."""
    rows = [row | {column: 7} for row in rows_of()]
    assert [{name: 7}] * 3 == [sample.metadata for sample in read(rows)[0]]
    frame = pytest.importorskip("pandas").DataFrame(rows)
    frame.columns = [*frame.columns[:2], column]
    assert [{name: 7}] * 3 == [sample.metadata for sample in read(frame)[0]]
    with pytest.raises(DataError, match=f"the data frame has 2 columns with the name '{name}'"):
        read(frame.assign(**{name: 8}))


def test_a_named_index_of_a_frame_is_a_column():
    """As in the Parquet file that pandas writes. An index without a name is a number of rows."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(rows_of(), index=pd.MultiIndex.from_tuples([("a", 1), ("b", 2), ("c", 3)], names=["id", None]))
    samples, _ = read(frame)
    assert [("a", {}), ("b", {}), ("c", {})] == [(sample.id, sample.metadata) for sample in samples]
    assert (["id", None], ["question", "answer"]) == (list(frame.index.names), list(frame.columns))
    kept = frame.reset_index(level="id").set_index("id", drop=False)
    assert samples == read(kept)[0]
    assert not {"a", "b", "c"} & {sample.id for sample in read(frame.droplevel("id"))[0]}


@pytest.mark.parametrize("metadata", ["trace_metadata", "request_metadata"])
def test_a_table_of_traces_of_mlflow(metadata: str):
    """A proposed option read the name of the user as the question."""
    row = {"trace_id": "t", "request": "Who?", "response": "A.", metadata: {"mlflow.user": "Who?"}, "spans": []}
    with pytest.raises(
        DataError, match=r"row 1 is a trace of MLflow\. .*: frame\.to_json\('traces\.json', orient='records'\)"
    ):
        read([row])
    assert "A." == read([row], fields={"query": "request"})[0][0].response


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


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as JSON lines, or as one list by the suffix."""
    text = json.dumps(rows) if path.suffix == ".json" else "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path


def error_of(data: Any, **options: Any) -> str:
    """Return the error of the reader."""
    with pytest.raises(DataError) as caught:
        read_samples(data, **options)
    return str(caught.value)


def after_command(message: str, path: Path) -> list[dict[str, Any]]:
    """Return the rows that the command of a message writes."""
    (command,) = re.findall(r"jq -c '([^']+)' FILE > NEW\.jsonl", message)
    done = subprocess.run(["jq", "-c", command, str(path)], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")


def test_questions_without_an_answer_have_no_reference():
    """SQuAD writes questions that cannot be answered with an empty list of texts."""
    rows = [
        {"id": str(n), "context": TEXTS[n][0], "question": QUESTIONS[n], "answers": {"text": texts, "answer_start": []}}
        for n, texts in enumerate([["pier 4"], [], ["nine", "at nine"]])
    ]
    assert [("pier 4",), (), ("nine", "at nine")] == [sample.reference for sample in read(rows)[0]]


@needs_jq
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_the_command_for_truth_values(tmp_path: Path, suffix: str):
    """It reads a list of rows, and rows on lines."""
    path = write_lines(tmp_path / f"t{suffix}", [{"question": q, "answer": n > 0} for n, q in enumerate(QUESTIONS)])
    rows = after_command(error_of(path), path)
    assert ["no", "yes", "yes"] == [sample.response for sample in read(rows)[0]]


@needs_jq
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_answers_of_several_systems_are_not_correct_answers(tmp_path: Path, suffix: str):
    """The report names the command that writes a row for each, and not the option that reads them as references."""
    answers = [[{"model": m, "text": f"{ANSWERS[n]} {m}"} for m in "ab"] for n in N]
    path = write_lines(tmp_path / f"t{suffix}", [{"question": QUESTIONS[n], "answers": answers[n]} for n in N])
    _, report = read(path)
    assert "--field" not in report
    rows = after_command(report, path)
    assert [(QUESTIONS[0], "a"), (QUESTIONS[0], "b")] == [(row["question"], row["model"]) for row in rows][:2]
    assert 6 == len(rows)


def test_lists_of_answers_are_proposed_by_their_first_one():
    """The whole list is not one answer, and the option that named it was followed by an error."""
    rows = rows_of(candidates=[[ANSWERS[n], "I do not know."] for n in N])
    rows = [{key: value for key, value in row.items() if key != "answer"} for row in rows]
    _, report = read(rows)
    assert "candidates.0 (the first of several): --field response=candidates.0" in report
    assert ANSWERS == [sample.response for sample in read(rows, fields={"response": "candidates.0"})[0]]


def test_the_passage_of_a_prediction_is_not_the_answer():
    """A reader of passages writes both, and several predictions for a question."""
    rows = [
        {
            "question": QUESTIONS[n],
            "predictions": [{"prediction": {"passage": text * 3, "text": ANSWERS[n]}} for text in TEXTS[n]],
        }
        for n in N
    ]
    _, report = read(rows)
    assert (
        "predictions.0.prediction.text (the first of several): --field response=predictions.0.prediction.text" in report
    )


def test_passages_of_a_training_set_are_not_proposed_as_contexts():
    """They are those with and those without the answer, and no retrieval."""
    rows = rows_of(
        **{name: [[{"text": TEXTS[n][0], "score": 1}] for n in N] for name in ("positive_ctxs", "negative_ctxs")}
    )
    _, report = read(rows)
    assert "positive_ctxs: ideal passages, not read as contexts" in report
    assert "negative_ctxs: " not in report
    assert "perhaps positive_ctxs" not in report


@pytest.mark.parametrize("column", ["id+model", "task_id+model"])
def test_an_id_of_several_columns_in_a_known_layout(column: str):
    """The option that the message names works, and so does the name in the file."""
    rows = [
        {
            "task_id": f"t{n // 2}",
            "model": "ab"[n % 2],
            "input": [{"speaker": "user", "text": QUESTIONS[n // 2]}],
            "contexts": [],
            "targets": [{"text": ANSWERS[n // 2]}],
            "predictions": [{"text": f"{ANSWERS[n // 2]} {n}"}],
        }
        for n in range(6)
    ]
    assert "--field id=id+model" in error_of(rows)
    samples, _ = read(rows, fields={"id": column})
    assert ["t0+a", "t0+b", "t1+a", "t1+b", "t2+a", "t2+b"] == [sample.id for sample in samples]


def test_different_questions_with_one_id_are_not_copies():
    """The turns of a conversation were called the same sample, and the option that was named left most of them out."""
    answers = [{"text": "at nine"}, {"text": "nine"}]
    rows = [{"id": "s1", "turn": n, "utterance": QUESTIONS[n], "answers": answers} for n in N]
    message = error_of(rows, fields={"query": "utterance"})
    assert "--field id=id+turn" in message
    assert "different sample" not in message
    assert QUESTIONS == [sample.query for sample in read(rows, fields={"query": "utterance", "id": "id+turn"})[0]]


def test_the_path_of_messages_in_a_question():
    """The message named a path that no row has."""
    rows = [{"input": {"messages": [{"role": "user", "content": q}]}, "output": {"role": "assistant", "content": "a b"}} for q in QUESTIONS]  # fmt: skip
    assert "--field query=input.messages.0.content" in error_of(rows)
    assert QUESTIONS == [sample.query for sample in read(rows, fields={"query": "input.messages.0.content"})[0]]


@pytest.mark.parametrize("name", ["title", "Timestamp", "value", "comment"])
def test_texts_without_a_question_mark_are_not_proposed_as_questions(name: str):
    """Titles, times and values of a long table are no questions."""
    rows = [{name: f"2026/11/0{n} some {n} text", "note": n} for n in N]
    assert f"query={name}" not in error_of(rows)
    asked = [{name: QUESTIONS[n], "note": n} for n in N]
    assert f"query={name}" in error_of(asked)


def test_settings_of_a_run_are_not_proposed_as_an_answer():
    """`completion_fns` has the names of models."""
    assert "response=" not in error_of([{"spec": {"completion_fns": ["gpt"], "seed": n}} for n in N]).replace(
        "response=COLUMN", ""
    )


def test_tabs_separate_cells_below_a_header_with_commas(tmp_path: Path):
    """A name of a column has a comma more often than a tab."""
    path = tmp_path / "t.csv"
    path.write_text(f"query\tresponse\tnote, internal, of us\n{QUESTIONS[0]}\tyes, no\tn\n", encoding="utf-8")
    (sample,), _ = read(path)
    assert (QUESTIONS[0], "yes, no") == (sample.query, sample.response)


@pytest.mark.parametrize(
    ("columns", "option"),
    [
        ({"model_response": ANSWERS, "answer_0": ["4", "Anna", "9"], "answer_1": ["four", "", "nine"]}, "reference=answer_0+answer_1"),
        ({"source 1": [t[0] for t in TEXTS], "source 2": [t[1] for t in TEXTS]}, "'contexts=source 1+source 2'"),
        ({"filtered_resps": [[a] for a in ANSWERS]}, "response=filtered_resps.0"),
        ({"documents": TEXTS, "text": ANSWERS}, "response=text"),
        ({"fragmentos": TEXTS}, "contexts=fragmentos"),
        ({"\u53c2\u7167\u6587\u66f8": TEXTS}, "contexts=\u53c2\u7167\u6587\u66f8"),
        ({"Referenzantwort": ANSWERS}, "reference=Referenzantwort"),
    ],
)  # fmt: skip
def test_columns_that_were_never_named(columns: dict[str, Any], option: str):
    """They are in the report, with the option that reads them."""
    rows = [{"question": QUESTIONS[n]} | {name: values[n] for name, values in columns.items()} for n in N]
    assert option in read(rows)[1].replace("'contexts=\u53c2", "contexts=\u53c2")


@needs_jq
@pytest.mark.parametrize("key", ["used", "in_prompt"])
def test_the_command_for_passages_that_were_not_in_the_prompt(tmp_path: Path, key: str):
    """The report names the key of the file."""
    passages = [[{"text": text, key: k == 0} for k, text in enumerate(TEXTS[n])] for n in N]
    path = write_lines(tmp_path / "t.jsonl", rows_of(passages=passages))
    _, report = read(path)
    assert "3 passages marked as not in the prompt, read as the others: contexts" in report
    assert f"{key}: false. To read the other passages alone" in report
    samples, _ = read(after_command(report, path))
    assert [[texts[0]] for texts in TEXTS] == [[passage.text for passage in s.contexts or ()] for s in samples]


@pytest.mark.parametrize("text", ["ERROR: timeout", "Error (500)", "TimeoutError: no reply", "HTTP 503: overloaded"])
def test_errors_in_place_of_a_response_are_counted(text: str):
    """They are scored, because a user got them."""
    _, report = read([{"query": QUESTIONS[n], "response": text if n else ANSWERS[n]} for n in N])
    assert "2 texts that begin like an error (ERROR: ...), read as text: response" in report.replace("begins", "begin")


def test_answers_about_errors_are_not_counted():
    """An answer may begin with the word."""
    assert (
        "like an error"
        not in read([*rows_of(n=N), {"question": "Which one?", "answer": "Error 404 means: no page."}])[1]
    )


def test_formulas_without_a_stored_value(tmp_path: Path):
    """A program that writes a workbook does not compute them, and the cells are empty."""
    import openpyxl

    book = openpyxl.Workbook()
    for cells in (["question", "answer"], [QUESTIONS[0], "=A2"]):
        book.active.append(cells)
    book.save(tmp_path / "t.xlsx")
    assert "Formulas without a stored value, read as missing" in read(tmp_path / "t.xlsx")[1]


def test_a_total_below_a_table_is_not_a_sample(tmp_path: Path):
    """It has one cell, with a number at its end."""
    path = tmp_path / "t.csv"
    path.write_text(f"no,question,answer\n1,{QUESTIONS[0]},a b\n,Total questions: 1,\n", encoding="utf-8")
    samples, report = read(path)
    assert QUESTIONS[:1] == [sample.query for sample in samples]
    assert "a total below the table, left out: 'Total questions: 1'" in report


def test_objects_that_do_not_name_a_source_are_correct_answers():
    """Objects with a title, an address or an id are passages, under the name of a correct answer as well."""
    plain, _ = read(rows_of(reference=[[{"text": answer}] for answer in ANSWERS]))
    sourced, report = read(rows_of(reference=[[{"text": answer, "title": "T"}] for answer in ANSWERS]))

    assert [(answer,) for answer in ANSWERS] == [sample.reference for sample in plain]
    assert [()] * 3 == [sample.reference for sample in sourced]
    assert "reference: passages with their sources, not read as reference" in report


def test_titles_are_questions_if_half_of_them_are():
    """One title with a question mark among others does not make a column of questions."""
    titles = ["Who reads this?", "The north tower", "Lamps of the coast", "A day at sea"]
    few, many = (
        read([{"title": title, "response": ANSWERS[n % 3]} for n, title in enumerate(column)])[1]
        for column in (titles, [*titles[:3], "When does it open?"])
    )

    assert "query ← – contexts" in few
    assert "query ← –; perhaps title: --field query=title" in many
