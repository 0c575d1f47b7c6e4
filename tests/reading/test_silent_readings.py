"""Readings that change a number without a word: each is read as its author means it, is an error, or is in the report."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from command_line import run_command
from ragstone.errors import DataError
from ragstone.reading import ReadingReport, read_samples
from ragstone.schema import Sample


def read(data: Any, **options: Any) -> tuple[list[Sample], str]:
    """Return the samples and the report, in one line."""
    report = ReadingReport()
    samples, _ = read_samples(data, report=report, **options)
    return samples, " ".join(str(report).split())


def write(path: Path, content: str | list[dict[str, Any]]) -> Path:
    """Write a table, or rows as JSON lines."""
    text = content if isinstance(content, str) else "".join(json.dumps(row) + "\n" for row in content)
    path.write_text(text, encoding="utf-8")
    return path


def contexts_of(samples: list[Sample]) -> list[list[str] | None]:
    """Return the texts of the passages of each sample."""
    return [None if s.contexts is None else [passage.text for passage in s.contexts] for s in samples]


GOLD = {"context": ["gold"]}


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"question": "q", "retrieved_contexts": None}, {"question": "r", "retrieved_contexts": ["p"]}),
        ({"question": "q", "contexts": None}, {"question": "r", "contexts": ["p"]}),
        ({"question": "q", "retrieved_docs": None}, {"question": "r", "retrieved_docs": ["p"]}),
        (
            {"input": "q", "actual_output": "a", "retrieval_context": None},
            {"input": "r", "actual_output": "a", "retrieval_context": ["p"]},
        ),
        (
            {"input": "q", "actualOutput": "a", "retrievalContext": None},
            {"input": "r", "actualOutput": "a", "retrievalContext": ["p"]},
        ),
        ({"input": "q", "actualOutput": "a"}, {"input": "r", "actualOutput": "a", "retrievalContext": ["p"]}),
    ],
)
def test_ideal_passages_are_not_retrieved_in_rows_without_retrieved_ones(one: dict[str, Any], two: dict[str, Any]):
    """If a file has a column of retrieved passages, `context` never takes its place, and the report says so."""
    samples, report = read([one | GOLD, two | GOLD])
    assert [None, ["p"]] == contexts_of(samples)
    assert "--field contexts=context" in report
    assert [["gold"]] * 2 == contexts_of(read([one | GOLD, two | GOLD], fields={"contexts": "context"})[0])


def test_a_column_that_decides_the_meaning_of_another_may_come_late():
    """Earlier rows were read otherwise, so the user decides. A named field may be absent in some rows of JSON."""
    rows = [{"question": "q"} | GOLD, {"question": "r", "retrieved_contexts": ["p"]} | GOLD]
    assert [["p"], None] == contexts_of(read(rows[::-1])[0])
    with pytest.raises(DataError, match=r"row 2 has 'retrieved_contexts'.*--field contexts=retrieved_contexts"):
        read(rows)
    assert [None, ["p"]] == contexts_of(read(rows, fields={"contexts": "retrieved_contexts"})[0])
    assert [["gold"]] * 2 == contexts_of(read(rows, fields={"contexts": "context"})[0])
    rows = [{"question": "q", "answer": "a"}, {"question": "r", "answer": "a", "response": "b"}]
    with pytest.raises(DataError, match=r"row 2 has 'response'.*--field reference=answer"):
        read(rows)
    samples, _ = read(rows, fields={"reference": "answer"})
    assert [(None, ("a",)), ("b", ("a",))] == [(sample.response, sample.reference) for sample in samples]
    with pytest.raises(DataError, match="no row has the field 'contxts'"):
        read([{"query": "q"}, {"query": "r", "response": "a"}], fields={"contexts": "contxts"})


def test_several_references_in_one_cell(tmp_path: Path):
    """A cell that could have several is in the report with the option, and the option separates them."""
    table = write(tmp_path / "t.csv", "query,response,reference\nq,a,red; white; blue\nr,b,one\ns,c,gr\u00fcn; gelb\n")
    samples, report = read(table)
    assert ["red; white; blue"] == list(samples[0].reference)
    assert "2 rows" in report
    assert "--separator 'reference=;'" in report
    samples, report = read(table, separator="reference=;")
    assert [("red", "white", "blue"), ("one",), ("gr\u00fcn", "gelb")] == [sample.reference for sample in samples]
    assert "reference \u2190 reference (list, 2 a row, 1 to 3)" in report


@pytest.mark.parametrize(
    ("cell", "option"),
    [("1789|1790", "reference=|"), ('"Lima, Lima city"', "reference=,"), ('"red\nblue"', "reference=\\n")],
)
def test_signs_between_references(tmp_path: Path, cell: str, option: str):
    """A bar, a line break, and a comma between names are told. The text of the option is what it needs."""
    table = write(tmp_path / "t.csv", f"query,response,reference\nq,a,{cell}\n")
    assert f"--separator {shlex.quote(option)}" in read(table)[1]
    assert 2 == len(read(table, separator=option)[0][0].reference)


@pytest.mark.parametrize(
    "cell",
    [
        "Yes; it runs daily between the two towns of the lake",
        "Ships sail daily, if wind allows",
        "Ships go every single day, Ferries too",
    ],
)
def test_sentences_are_one_reference(tmp_path: Path, cell: str):
    """A semicolon or a comma of a sentence is not told."""
    assert "--separator" not in read(write(tmp_path / "t.csv", f'query,response,reference\nq,a,"{cell}"\n'))[1]


def test_a_separator_of_each_field(tmp_path: Path):
    """One separator is for all lists. Two are named with their fields, and JSON lists are left as they are."""
    table = write(tmp_path / "t.csv", "query,reference,contexts\nq,a;b,one|two;three\n")
    (sample,), _ = read(table, separator=";")
    assert (("a", "b"), [["one|two", "three"]]) == (sample.reference, contexts_of([sample]))
    assert "--separator 'reference=;'" in read(table, separator="contexts=|")[1]
    (sample,), _ = read(table, separator="contexts=|,reference=;")
    assert (("a", "b"), [["one", "two;three"]]) == (sample.reference, contexts_of([sample]))
    (sample,), _ = read([{"query": "q", "reference": ["a;b"], "contexts": ["c;d"]}], separator=";")
    assert (("a;b",), [["c;d"]]) == (sample.reference, contexts_of([sample]))


@pytest.mark.parametrize(
    "name", ["Mean", "average:", "TOTAL", "Mittelwert", "Moyenne", "std", "Overall", "Ø", "平均", "合計", "Итого"]
)
@pytest.mark.parametrize("row", ["{0},0.5,,0.7", ",{0},0.5,3"])
def test_the_row_of_a_total_is_not_a_sample(tmp_path: Path, name: str, row: str):
    """Spreadsheets end with a mean. It is a row that cannot be read."""
    content = f"id,query,response,score\n1,q,a,1\n{row.format(name)}\n"
    with pytest.raises(DataError, match=f"(?s)row 2 .*{name}.*skip"):
        read(write(tmp_path / "t.csv", content))
    assert 1 == len(read(tmp_path / "t.csv", on_bad_row="skip")[0])


def test_spans_of_phoenix_without_a_reference_are_read(tmp_path: Path):
    """Phoenix keeps the passages in `reference`, which these rows do not have."""
    content = "context.span_id,question,answer,ground_truth\ns1,q one?,a,g\n"
    (sample,), _ = read(write(tmp_path / "t.csv", content))
    assert ("q one?", "a", ("g",), None) == (sample.query, sample.response, sample.reference, sample.contexts)


def test_a_question_with_the_name_of_a_total_is_a_sample(tmp_path: Path):
    """An answer in words makes it a question, and so does the lack of numbers."""
    assert "Mean" == read(write(tmp_path / "t.csv", "query,response\nMean,\n"))[0][0].query
    assert 1 == len(read(write(tmp_path / "t.csv", "query,response\nMean,The sum by the number.\n"))[0])


def test_headers_within_a_table(tmp_path: Path):
    """Concatenated files repeat their header. Another order of columns is an error, because the rows after it differ."""
    samples, report = read(write(tmp_path / "t.csv", "query,response\nq,a\nquery,response\nr,b\n"))
    assert (["q", "r"], True) == ([sample.query for sample in samples], "repeat the header" in report)
    assert 2 == len(read(write(tmp_path / "t.csv", "query,response\nq,a\nQuery, Response\nr,b\n"))[0])
    with pytest.raises(DataError, match="row 2 is a header with the columns in another order"):
        read(write(tmp_path / "t.csv", "query,response\nq,a\nresponse,query\nb,r\n"), on_bad_row="skip")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "query,response\nq,a\n,\n  ,\nr,b\n"),
        ("t.csv", "query,response,reference\nq,a,r\n,\n,,\nr,b,r\n"),
        ("t.jsonl", [{"query": "q"}, {}, {"query": "", "response": None}, {"query": "r"}]),
    ],
)
def test_rows_without_a_value_are_counted(tmp_path: Path, name: str, content: Any):
    """They are not samples."""
    samples, report = read(write(tmp_path / name, content))
    assert ["q", "r"] == [sample.query for sample in samples]
    assert "4 rows" in report
    assert "without a value, left out (2 rows)" in report


def test_empty_rows_of_a_workbook_are_counted(tmp_path: Path):
    """Those between two rows. A sheet ends with many."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (("query", "response"), ("q", "a"), (), ("r", "b"), (" ", None), ()):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    samples, report = read(tmp_path / "t.xlsx")
    assert ["q", "r"] == [sample.query for sample in samples]
    assert "without a value, left out (2 rows)" in report


def test_a_layout_is_that_of_the_first_row_with_a_value():
    """An empty row before it does not hide it. An empty answer of a layout is an answer."""
    (sample,), report = read([{}, {"input": "q", "actualOutput": "", "retrievalContext": ["p"]}])
    assert ("q", "", [["p"]]) == (sample.query, sample.response, contexts_of([sample]))
    assert "rows of deepeval" in report


@pytest.mark.parametrize(
    ("field", "column", "values"),
    [
        ("reference", "expected", [1, 0]),
        ("reference", "ground_truth", ["1", "0"]),
        ("reference", "expected", ["true", "false"]),
        ("response", "result", ["PASS", "FAIL"]),
        ("response", "output", ["passed", "passed"]),
    ],
)
def test_labels_are_not_texts(field: str, column: str, values: list[Any]):
    """A column of which all values are labels is not read, unless the user names it. The report says so."""
    rows = [{"query": f"q{n}", column: value} for n, value in enumerate(values)]
    samples, report = read(rows)
    assert [((), None)] * 2 == [(sample.reference, sample.response) for sample in samples]
    assert f"{column}: labels, not read as {field}; otherwise: --field {field}={column}" in report
    assert 2 == len(read(rows, fields={field: column})[0])
    assert 3 == len(read([*rows, {"query": "r", column: "Lima"}])[0])
    assert 1 == len(read(rows[:1])[0])


def test_references_that_are_addresses():
    """They are sources."""
    samples, report = read([{"query": "q", "references": ["https://a.example/b"]}])
    assert () == samples[0].reference
    assert "--field reference=references" in report
    assert ("https://a.example/b",) == read([{"query": "q", "reference": "https://a.example/b"}])[0][0].reference


def test_assertions_of_promptfoo_are_not_references(tmp_path: Path):
    """Neither is its column read, nor is an assertion in another column read without a word."""
    samples, report = read(write(tmp_path / "t.csv", "question,__expected,answer\nq,contains: Lima,a\n"))
    assert ((), "a") == (samples[0].reference, samples[0].response)
    assert "__expected: assertions of promptfoo" in report
    assert "--field reference=__expected" not in report
    assert "1 assertion" in read([{"query": "q", "expected": "llm-rubric: is polite"}])[1]


def test_answers_beside_the_answers_of_a_model(tmp_path: Path):
    """The response is the model's, and the report says how to read the other column."""
    table = "Question,Answer,Expected Answer,Model Response\nq,gold,long gold,model\n"
    (sample,), report = read(write(tmp_path / "t.csv", table))
    assert ("model", ("long gold",)) == (sample.response, sample.reference)
    assert "--field response=Answer" in report
    assert "gold" == read(tmp_path / "t.csv", fields={"response": "Answer"})[0][0].response


def test_an_id_of_several_columns_takes_none_away():
    """A column in the id is still the field that its name says."""
    rows = [{"id": "1", "query": "q", "context": text} for text in ("c", "d")]
    samples, _ = read(rows, fields={"id": "id+context"})
    assert (["1+c", "1+d"], [["c"], ["d"]]) == ([sample.id for sample in samples], contexts_of(samples))
    (sample,), _ = read(rows[:1], fields={"id": "query"})
    assert ("q", "q") == (sample.id, sample.query)


def test_nested_fields_are_listed_and_can_be_named():
    """A report names them by their path, and the option that it proposes reads them."""
    row = {
        "input": {"question": "q"}, "output": {"answer": "a", "sources": ["s", "t"]}, "metadata": {"ground_truth": "g", "k": 1},
    }  # fmt: skip
    (sample,), report = read([row])
    assert ("q", "a", None, ()) == (sample.query, sample.response, sample.contexts, sample.reference)
    assert "--field contexts=output.sources" in report
    assert "--field reference=metadata.ground_truth" in report
    assert "metadata.k" not in report
    (sample,), report = read([row], fields={"contexts": "output.sources", "reference": "metadata.ground_truth"})
    assert ([["s", "t"]], ("g",)) == (contexts_of([sample]), sample.reference)
    assert "contexts \u2190 output.sources" in report
    assert {"k": 1, "ground_truth": "g"}.items() <= sample.metadata.items()
    with pytest.raises(DataError, match=r"no row has the field 'output\.nothing'"):
        read([row], fields={"contexts": "output.nothing"})


def test_the_answer_of_outputs_is_not_a_reference():
    """What a run returned is its response, so that nothing is left open."""
    (sample,), report = read([{"inputs": {"question": "q"}, "outputs": {"answer": "a", "documents": ["d"]}}])
    assert ("a", [["d"]]) == (sample.response, contexts_of([sample]))
    assert "reference=answer" not in report


def test_an_object_of_references_names_its_keys():
    """The option in the error reads one."""
    row = {"query": "q", "reference_outputs": {"route": "x", "text_of_it": "y"}}
    with pytest.raises(DataError, match=r"--field reference=reference_outputs\.route"):
        read([row])
    assert ("y",) == read([row], fields={"reference": "reference_outputs.text_of_it"})[0][0].reference
    assert ("x",) == read([{"query": "q", "reference_outputs": {"route": "x", "n": 1}}])[0][0].reference


@pytest.mark.parametrize("contexts", [["['n1', 'n2']"], ['["n1", "n2"]']])
def test_a_list_in_the_text_of_a_list(contexts: list[str]):
    """It is read, and counted. Several texts in brackets are texts, and counted."""
    samples, report = read([{"query": "q", "contexts": contexts}])
    assert [["n1", "n2"]] == contexts_of(samples)
    assert "a list in the text of a list" in report
    assert "bracket" in read([{"query": "q", "contexts": ["['n1']", "['n2']"]}])[1]


def test_names_of_files_are_not_passages():
    """Neither are they read, nor are ids read without a word."""
    samples, report = read([{"query": "q", "contexts": ["doc1.pdf", "guides/doc 2.md"]}])
    assert [None] == contexts_of(samples)
    assert "--field contexts=contexts" in report
    assert [["Read the note in guide.txt"]] == contexts_of(
        read([{"query": "q", "contexts": ["Read the note in guide.txt"]}])[0]
    )
    samples, report = read(
        [{"query": "q", "contexts": ["chunk_77", "a1b2c3d4-0012"]}, {"query": "r", "contexts": ["Lima"]}]
    )
    assert [["chunk_77", "a1b2c3d4-0012"], ["Lima"]] == contexts_of(samples)
    assert "2 passages with only an id" in report


def test_ids_that_are_placeholders(tmp_path: Path):
    """A table has no id there. Two of them are two rows."""
    samples, report = read(write(tmp_path / "t.csv", "id,query\nnan,q\nNone,r\n7,s\n"))
    assert ("7", 3) == (samples[2].id, len({sample.id for sample in samples} - {"nan", "None"}))
    assert "id 2" in report
    with pytest.raises(DataError, match="row 1 does not have a value of 'id'"):
        read(write(tmp_path / "t.csv", "id,query\nnan,q\n"), fields={"id": "id+query"})


def test_an_empty_cell_of_contexts_is_unknown(tmp_path: Path):
    """As a placeholder is. An empty list is a retrieval that found nothing."""
    samples, report = read(write(tmp_path / "t.csv", "query,contexts\nq,\nr,nan\ns,[]\n"))
    assert [None, None, []] == contexts_of(samples)
    assert "1 empty cell read as missing: contexts" in report
    assert [None] == contexts_of(read([{"query": "q", "contexts": ""}])[0])
    assert [None] == contexts_of(read(write(tmp_path / "t.csv", "query,context_1,context_2\nq,,\n"))[0])


@pytest.mark.parametrize(
    "cell", ["<doc>one</doc><doc>two</doc>", "1. one\n2. two", "[1] one [2] two", "Document 1: one Document 2: two"]
)
@pytest.mark.parametrize("is_table", [True, False])
def test_several_passages_in_one_text(tmp_path: Path, cell: str, is_table: bool):
    """Tags and numbers are told."""
    table = write(tmp_path / "t.csv", f'query,contexts\nq,"{cell}"\n')
    samples, report = read(table if is_table else [{"query": "q", "contexts": cell}])
    assert [[cell]] == contexts_of(samples)
    assert "several passages" in report


def test_texts_of_trulens(tmp_path: Path):
    """Texts that are JSON are read without their quotes in its records, and are counted in other files."""
    table = 'record_id,app_id,input,output\nr,app,"""What?""","""The \\""one\\""."""\n'
    (sample,), _ = read(write(tmp_path / "t.csv", table))
    assert ("What?", 'The "one".') == (sample.query, sample.response)
    (sample,), report = read([{"query": '"What?"', "response": "a"}])
    assert '"What?"' == sample.query
    assert "1 JSON text" in report


def test_conversations_of_sharegpt():
    """The last question and its answer."""
    talk = [{"from": "human", "value": "p"}, {"from": "gpt", "value": "b"}, {"from": "human", "value": "q"}]
    (sample,), _ = read([{"id": "x", "conversations": [*talk, {"from": "gpt", "value": "a"}]}])
    assert ("q", "a", 2) == (sample.query, sample.response, len(sample.history))


SQUAD = {"id": "1", "question": "q", "answers": [{"text": "a", "answer_start": 0}, {"text": "b", "answer_start": 0}]}


@pytest.mark.parametrize(
    "rows",
    [
        [{"title": "T", "paragraphs": [{"context": "c", "qas": [SQUAD, SQUAD | {"id": "2"}]}]}],
        [
            SQUAD | {"id": n, "title": "T", "context": "c", "answers": {"text": ["a", "b"], "answer_start": [0, 0]}}
            for n in "12"
        ],
    ],
)
def test_squad(rows: list[dict[str, Any]]):
    """Each question is a row, in articles too. Paragraphs are not retrieved; they are contexts if the user names them."""
    samples, report = read(rows)
    assert [("1", "q", ("a", "b")), ("2", "q", ("a", "b"))] == [(s.id, s.query, s.reference) for s in samples]
    assert [None] * 2 == contexts_of(samples)
    assert ": 2 rows" in report
    assert "--field contexts=context" in report
    assert [["c"]] * 2 == contexts_of(read(rows, fields={"contexts": "context"})[0])


def test_the_example_of_a_remedy_has_a_column_of_the_file():
    """Not one of another file."""
    with pytest.raises(DataError, match="--field query=kysymys"):
        read([{"nro": 1, "kysymys": "Miksi?"}])


def test_one_round_for_the_encoding_and_the_separator(tmp_path: Path):
    """The option of the error reads the file."""
    (tmp_path / "t.csv").write_bytes("sep=;\r\nquery;response\r\nCaf\xe9;a\r\n".encode("cp1252"))
    with pytest.raises(DataError, match="--encoding cp1252"):
        read(tmp_path / "t.csv")
    assert ["Caf\xe9"] == [sample.query for sample in read(tmp_path / "t.csv", encoding="cp1252")[0]]


def test_a_report_counts_and_spells():
    """The number of skipped rows is in the first line, and one is not several."""
    report = ReadingReport()
    read_samples([{"query": "q", "reference": "r"}], report=report)
    assert "  reference \u2190 reference" in report.lines()
    report = ReadingReport()
    read_samples([{"query": " ", "response": "a"}, {"query": "q", "contexts": 3}], report=report, on_bad_row="skip")
    assert "read rows: 2 rows, 1 of them skipped" == report.lines()[0].removesuffix(
        ", 1 with other columns than the first"
    )
    assert "  1 empty text: query" in report.lines()


def test_lines_of_errors_fit_a_terminal(tmp_path: Path):
    """At most 180 characters, however many columns there are."""
    rows = [{f"spalte_mit_langem_namen_{n}_{m}": "x" for n in range(40)} for m in range(3)]
    done = run_command(
        "evaluate", write(tmp_path / "t.jsonl", rows), "--metrics", "ccrs.cc", "--judge", "lexical", "--dry-run"
    )
    assert 2 == done.returncode
    assert [] == [line for line in done.stderr.splitlines() if len(line) > 180]


def test_nested_fields_of_a_row_without_a_known_name():
    """The options of the error read the fields, at any depth. A text in an object has the meaning of the object."""
    row = {"request": {"body": {"question": "q"}}, "reply": {"text": "a", "docs": [{"text": "d"}]}}
    with pytest.raises(DataError, match=r"--field query=request\.body\.question --field response=reply\.text"):
        read([row])
    (sample,), _ = read(
        [row], fields={"query": "request.body.question", "response": "reply.text", "contexts": "reply.docs"}
    )
    assert ("q", "a", [["d"]]) == (sample.query, sample.response, contexts_of([sample]))


def test_ratings_are_told():
    """They may be answers of a quiz, so they are read."""
    samples, report = read([{"query": f"q{n}", "expected": n} for n in (1, 4, 5)])
    assert [("1",), ("4",), ("5",)] == [sample.reference for sample in samples]
    assert "expected: numbers, read as reference" in report


@pytest.mark.parametrize("word", ["nil", "undefined", "zero"])
def test_words_that_can_be_answers_are_read(tmp_path: Path, word: str):
    """The answer to "What is 0 divided by 0?" is the word that a program writes for a missing value."""
    (sample,), _ = read(write(tmp_path / "t.csv", f"query,response\nWhat is 0 / 0?,{word}\n"))
    assert word == sample.response


def test_placeholders_in_lists():
    """They are read as texts, and counted."""
    samples, report = read([{"query": "q", "contexts": ["N/A", "text"], "reference": ["None", "r"]}])
    assert ([["N/A", "text"]], ("None", "r")) == (contexts_of(samples), samples[0].reference)
    assert "2 texts with only a placeholder (None, nan), read as text: contexts 1, reference 1" in report


def test_rows_with_paragraphs_are_rows():
    """A question with a list of paragraphs is one sample, and not an article of SQuAD, whose questions are in the list."""
    rows = [{"query": "q", "response": "a", "paragraphs": ["one passage"]}]
    samples, report = read(rows)
    assert ["q"] == [sample.query for sample in samples]
    assert "--field contexts=paragraphs" in report
    named, _ = read(rows, fields={"contexts": "paragraphs"})
    assert [["one passage"]] == contexts_of(named)


def test_an_article_without_questions_is_counted():
    """An object that looks like an article of SQuAD and has no questions does not disappear."""
    rows = [{"title": "t", "paragraphs": ["text"]}]
    with pytest.raises(DataError, match="1 of 1 row cannot be read"):
        read(rows)
