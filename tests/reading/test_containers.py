"""The same rows in every container: format, encoding, separator, order of rows and of columns do not change a sample."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import feather

from ragstone.errors import DataError
from ragstone.reading import Choice, ReadingReport, iter_samples, read_samples
from ragstone.reading._files import is_workbook
from ragstone.schema import Sample

COLUMNS = ("id", "query", "contexts", "response", "reference")
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=20)
"""Texts without control characters, which Excel cannot store."""


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw rows with texts that begin with a letter, so that no cell is a number, a list or a placeholder."""
    n = draw(st.integers(1, 4))
    order = draw(st.permutations(COLUMNS))
    made = [
        {
            "id": f"row {i}",
            "query": "Why " + draw(TEXT),
            "contexts": [f"Passage {part}" for part in draw(st.lists(TEXT, min_size=1, max_size=3))],
            "response": "Because " + draw(TEXT),
            "reference": "Since " + draw(TEXT),
        }
        for i in range(n)
    ]
    return [{name: row[name] for name in order} for row in draw(st.permutations(made))]


def as_table(
    made: list[dict[str, Any]],
    separator: str,
    write_list: Callable[[list[str]], str] = json.dumps,
    quoting: Literal[0, 1] = csv.QUOTE_MINIMAL,
) -> str:
    """Return the rows as a table of text, with the passages as a list in their cell."""
    file = io.StringIO()
    writer = csv.DictWriter(file, made[0].keys(), delimiter=separator, quoting=quoting)
    writer.writeheader()
    writer.writerows(row | {"contexts": write_list(row["contexts"])} for row in made)
    return file.getvalue()


def compact_json(items: list[str]) -> str:
    """Return a list as JSON without blanks and escapes."""
    return json.dumps(items, separators=(",", ":"), ensure_ascii=False)


def write_workbook(path: Path, made: list[dict[str, Any]]) -> None:
    """Write the rows as the first sheet of a workbook."""
    frame = pd.DataFrame([row | {"contexts": json.dumps(row["contexts"])} for row in made])
    frame.to_excel(path, index=False)


def write_all(folder: Path, made: list[dict[str, Any]]) -> list[Path]:
    """Write the rows in each container, some without the usual suffix."""
    table = pa.Table.from_pylist(made)
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in made)
    commas, tabs, semicolons = (as_table(made, separator) for separator in (",", "\t", ";"))
    contents = {
        "commas.csv": commas.encode(),
        "python.csv": as_table(made, ",", repr, csv.QUOTE_ALL).encode(),
        "compact.csv": as_table(made, ",", compact_json).encode(),
        "tabs.tsv": tabs.encode(),
        "tabs.txt": tabs.encode(),
        "semicolons.csv": semicolons.encode("utf-8-sig"),
        "excel.csv": f"sep=;\r\n{semicolons}".encode("utf-8-sig"),
        "unicode.csv": tabs.encode("utf-16"),
        "lines.jsonl": lines.encode(),
        "lines.json": lines.encode() if len(made) > 1 else json.dumps(made).encode(),
        "unmarked.jsonl": lines.encode("utf-16-le"),
        "list.json": json.dumps(made, indent=1).encode(),
        "without-suffix": json.dumps({"about": "rows", "n": 1, "results": made}).encode(),
        "columns.json": json.dumps({name: [row[name] for row in made] for name in made[0]}).encode(),
        "lines.jsonl.gz": gzip.compress(lines.encode("utf-8-sig")),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    pq.write_table(table, folder / "rows.parquet")
    feather.write_feather(table, str(folder / "rows.feather"))
    with pa.OSFile(str(folder / "rows.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    write_workbook(folder / "rows.xlsx", made)
    return sorted(folder.iterdir())


def by_id(samples: list[Sample]) -> dict[str, Sample]:
    """Return samples by their ids."""
    return {sample.id: sample for sample in samples}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=rows())
def test_containers_give_the_same_samples(tmp_path_factory: pytest.TempPathFactory, made: list[dict[str, Any]]):
    """Each container gives the samples of the rows themselves."""
    expected = by_id(read_samples(made)[0])
    for path in write_all(tmp_path_factory.mktemp("rows"), made):
        assert expected == by_id(read_samples(path)[0]), path.name


def test_objects_give_the_same_samples():
    """Frames and tables of pandas and Arrow, and columns, give the samples of the rows themselves."""
    made = [{"id": "a", "query": "Why?", "contexts": ["p", "q"]}, {"id": "b", "query": "How?", "contexts": ["r"]}]
    objects = [pd.DataFrame(made), pa.Table.from_pylist(made), pd.DataFrame(made).to_dict(orient="list"), iter(made)]
    expected = by_id(read_samples(made)[0])
    assert [expected] * len(objects) == [by_id(read_samples(data)[0]) for data in objects]


@pytest.mark.parametrize("name", ["polars", "datasets"])
def test_objects_of_other_packages(name: str):
    """Tables of Polars, eager and lazy, and datasets of Hugging Face give their rows. A dataset of splits is an error."""
    package = pytest.importorskip(name)
    made = [{"id": "a", "query": "Why?", "contexts": ["p", "q"]}, {"id": "b", "query": "How?", "contexts": ["r"]}]
    expected = by_id(read_samples(made)[0])
    if name == "polars":
        frames = [package.DataFrame(made), package.DataFrame(made).lazy()]
        assert [expected] * 2 == [by_id(read_samples(frame)[0]) for frame in frames]
    else:
        dataset = package.Dataset.from_list(made)
        assert expected == by_id(read_samples(dataset)[0])
        with pytest.raises(DataError, match=r"several splits: train \(2\)"):
            read_samples(package.DatasetDict(train=dataset))


def report_of(data: Any, **choice: Any) -> tuple[list[Sample], ReadingReport]:
    """Return the samples of a dataset and the report about its reading."""
    report = ReadingReport()
    return list(iter_samples(data, [], choice=Choice(**choice), report=report)), report


def test_report_names_the_choices(tmp_path: Path):
    """The report names the encoding, the separator, the list that was chosen, and the limit."""
    (tmp_path / "a.csv").write_bytes("query;response\nWhy?;So.\nHow?;So.\n".encode("utf-16"))
    samples, report = report_of(tmp_path / "a.csv", limit=1)
    assert ["Why?"] == [sample.query for sample in samples]
    assert ("table, separated by ';'", "utf-16", True) == (report.format, report.encoding, report.has_text_cells)
    assert ["only the first 1 row, which are not a random sample"] == [*report.notes]
    (tmp_path / "b.json").write_text(json.dumps({"models": [{"name": "m"}], "run": {"rows": [{"query": "Why?"}]}}))
    samples, report = report_of(tmp_path / "b.json")
    assert ["Why?"] == [sample.query for sample in samples]
    assert "run.rows" == report.where
    assert ["lists that are not read: models (1)"] == [*report.notes]


def test_separator_splits_cells(tmp_path: Path):
    """A separator splits the passages of a cell. Without it, line breaks in cells are counted in the report."""
    path = tmp_path / "a.csv"
    path.write_text('query,contexts\nWhy?,"first\nsecond"\n')
    samples, report = report_of(path)
    assert [["first\nsecond"]] == [[passage.text for passage in sample.contexts or ()] for sample in samples]
    assert 1 == sum("--separator" in note for note in report.notes)
    samples, _ = report_of(path, separator=r"\n")
    assert [["first", "second"]] == [[passage.text for passage in sample.contexts or ()] for sample in samples]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "query,response\na,b\nWie groß?,x\n".encode("cp1252"), r"line 3 .*byte 0xdf.*'ß'.*--encoding cp1252"),
        ("a.jsonl", '{"query": "Größe"}\n'.encode("latin-1"), r"line 1: not UTF-8.*iconv -f cp1252"),
        ("a.json", b"<!DOCTYPE html>\n<html>", "an HTML page"),
        ("a.json", b"\x80\x04\x95", "a Python pickle"),
        ("a.zip", b"PK\x03\x04 and more", "a ZIP archive"),
        ("a.xlsx", b"PK\x03\x04 and more", "a ZIP archive"),
        ("a.xls", b"\xd0\xcf\x11\xe0 and more", r"Save it as \.xlsx"),
        ("a.csv", b"version https://git-lfs.github.com/spec/v1\noid x\n", "git lfs pull"),
        ("a.txt", b"Dear Ms Moss\nthank you\n", "not a known format"),
        ("a.json", b'{"a": [{"query": 1}], "b": [{"query": 2}, {}]}', r"a \(1\), b \(2\).*--rows a, or --rows b"),
        ("a.json", b'{"a": 1}', "a list of rows"),
        ("a.csv", ("query," + ",".join(f"c{i}" for i in range(20_000)) + "\n" + "," * 20_000 + "1\n").encode(), "columns"),
    ],
)  # fmt: skip
def test_other_files_are_named(tmp_path: Path, name: str, content: bytes, message: str):
    """The error names the kind of a file that cannot be read, its place, and the way out."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_samples(tmp_path / name)


def test_encoding_is_used(tmp_path: Path):
    """A named encoding is used, and a text that does not have it is an error."""
    path = tmp_path / "a.csv"
    path.write_bytes("query\nWie groß?\n".encode("cp1252"))
    assert ["Wie groß?"] == [sample.query for sample in read_samples(path, encoding="cp1252")[0]]
    path.write_bytes(b"query\n\x81\n")
    with pytest.raises(DataError, match="is not cp1252"):
        read_samples(path, encoding="cp1252")


def test_workbook_with_large_parts_is_refused(tmp_path: Path):
    """A workbook whose texts are larger than the limit when decompressed is refused before they are read."""
    write_workbook(tmp_path / "a.xlsx", [{"query": "Why?", "contexts": ["p"]}])
    bomb = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(tmp_path / "a.xlsx") as archive, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as file:
        for part in archive.infolist():
            file.writestr(part, archive.read(part))
        with file.open("xl/media/image1.png", "w", force_zip64=True) as stream:
            for _ in range(257):
                stream.write(bytes(2**20))
    with pytest.raises(DataError, match="a part of more than 256 MiB"):
        read_samples(bomb)


def test_sheet_with_far_cells_is_read_to_its_header(tmp_path: Path):
    """Cells far from the table do not cost time, and a sheet without rows gives no samples."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["query", "response"])
    book.active.append(["Why?", "So."])
    book.active.cell(row=1_048_000, column=2, value="far")
    book.create_sheet("notes")
    book.save(tmp_path / "a.xlsx")
    samples, report = report_of(tmp_path / "a.xlsx")
    assert [("Why?", "So."), (None, "far")] == [(sample.query, sample.response) for sample in samples]
    assert "Sheet" == report.where


@pytest.mark.parametrize(
    "content",
    [
        {"query": "q", "response": "A", "sub_questions": [{"question": "s?", "answer": "x"}]},
        {"query": "q", "response": "A", "contexts": [{"question": "s?", "answer": "x", "text": "t"}]},
        {"query": "q", "response": "A"},
        {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "A"}]},
    ],
)
def test_an_object_with_a_question_is_one_row(content: dict[str, object], tmp_path: Path) -> None:
    """The lists of one sample are its fields, and not the rows of the file."""
    path = tmp_path / "one.json"
    path.write_text(json.dumps(content))
    samples, _ = read_samples(path)
    assert [("q", "A")] == [(sample.query, sample.response) for sample in samples]


def test_lines_may_end_with_a_carriage_return(tmp_path: Path) -> None:
    """Excel for Macintosh writes such files."""
    path = tmp_path / "mac.csv"
    path.write_bytes(b"id,query,response\r1,q,a\r2,r,b\r")
    samples, _ = read_samples(path)
    assert ["1", "2"] == [sample.id for sample in samples]


def test_a_quote_without_an_end_is_an_error(tmp_path: Path) -> None:
    """Otherwise one cell has the text of all further rows, and they are not scored."""
    path = tmp_path / "open.csv"
    path.write_text('id,query,response\n1,q,a\n2,"r,b\n3,s,c\n')
    samples, rejected = read_samples(path, on_bad_row="skip")
    assert (["1"], 1) == ([sample.id for sample in samples], len(rejected))
    with pytest.raises(DataError, match="line 4 has a quote without an end"):
        read_samples(path)


def test_rows_of_empty_cells_are_not_rows(tmp_path: Path) -> None:
    """Excel writes them as commas, and a sheet does not have them."""
    path = tmp_path / "blank.csv"
    path.write_text("id,query,response\n1,q,a\n,,\n2,r,\n")
    samples, _ = read_samples(path)
    assert ["1", "2"] == [sample.id for sample in samples]


def test_a_named_column_with_two_spellings_is_an_error() -> None:
    """Which of them is meant cannot be known."""
    row = {"My Q": "a", "my_q": "b", "response": "c"}
    with pytest.raises(DataError, match="does not have the field 'myq'"):
        read_samples([row], fields={"query": "myq"})


def test_a_cell_that_is_nested_too_deeply_is_an_error_of_its_row() -> None:
    """The reader is recursive, and would end with Python's limit."""
    row = {"query": "q", "contexts": "[" * 2_000 + "'a'," + "]" * 2_000}
    with pytest.raises(DataError, match="nested more than 50 times"):
        read_samples([row])


def test_all_rows_of_a_large_batch_are_read(tmp_path: Path) -> None:
    """A batch of Arrow has any number of rows."""
    table = pa.table({"id": [str(n) for n in range(150)], "query": [f"Question {n}?" for n in range(150)]})
    feather.write_feather(table, str(tmp_path / "rows"))
    assert [f"Question {n}?" for n in range(150)] == [sample.query for sample in read_samples(tmp_path / "rows")[0]]


@pytest.mark.parametrize(
    ("name", "content"), [("rows.parquet", b""), ("rows", b"PAR1"), ("rows", b"ARROW1\x00\x00cut")]
)
def test_a_damaged_table_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    """The error says which format the file has, and which row cannot be read."""
    path = tmp_path / name
    path.write_bytes(content)
    kind = "Arrow" if content.startswith(b"ARROW1") else "Parquet"
    with pytest.raises(DataError, match=f"cannot be read as {kind} from row 1"):
        read_samples(path)


def test_the_row_of_a_sheet_with_too_many_cells_is_named(tmp_path: Path) -> None:
    """The number is that of the row in Excel, which counts empty rows."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["query", "response"], ["Why?", "So."], [], ["How?", "Thus.", "and more"]):
        book.active.append(row)
    book.save(tmp_path / "rows.xlsx")
    samples, rejected = read_samples(tmp_path / "rows.xlsx", on_bad_row="skip")
    assert (["Why?"], ["row 4 has more cells than the header"]) == (
        [sample.query for sample in samples], [row.reason for row in rejected]
    )  # fmt: skip


def test_the_line_of_a_row_below_a_title_is_named(tmp_path: Path) -> None:
    """The number is that of the line in the file."""
    (tmp_path / "rows.csv").write_text("Report of May\nquery,response\nWhy?,So.\nHow?,Thus,and more\n")
    _, rejected = read_samples(tmp_path / "rows.csv", on_bad_row="skip")
    assert ["the row that ends in line 4 has more cells than the header"] == [row.reason for row in rejected]


def test_rows_of_a_json_table_have_a_value_for_each_column(tmp_path: Path) -> None:
    """A row with another number of values is an error, and the others are read."""
    table = {"columns": ["query", "response"], "data": [["Why?", "So."], ["How?"]]}
    (tmp_path / "rows.json").write_text(json.dumps(table))
    samples, rejected = read_samples(tmp_path / "rows.json", on_bad_row="skip")
    assert (["Why?"], ["a row has 1 values, and the table has 2 columns"]) == (
        [sample.query for sample in samples], [row.reason for row in rejected]
    )  # fmt: skip


def test_empty_cells_after_the_last_column_are_no_error(tmp_path: Path) -> None:
    """Excel writes separators up to the widest row of the sheet."""
    (tmp_path / "rows.csv").write_text("query,response\nWhy?,So.,,\n")
    assert [("Why?", "So.")] == [(sample.query, sample.response) for sample in read_samples(tmp_path / "rows.csv")[0]]


def test_tabs_separate_a_header_with_more_commas(tmp_path: Path) -> None:
    """A name of a column may have commas, and hardly a tab."""
    (tmp_path / "rows.tsv").write_text("query\tresponse\tremark, of one, or both, readers\nWhy?\tSo.\tx\n")
    assert [("Why?", "So.")] == [(sample.query, sample.response) for sample in read_samples(tmp_path / "rows.tsv")[0]]


def test_a_torn_first_line_is_one_bad_row(tmp_path: Path) -> None:
    """The next line shows that each line is a row."""
    (tmp_path / "rows.jsonl").write_text('{"query": "Why?",\n{"query": "How?", "response": "Thus."}\n')
    samples, rejected = read_samples(tmp_path / "rows.jsonl", on_bad_row="skip")
    assert (["How?"], 1) == ([sample.query for sample in samples], len(rejected))


def test_many_bad_rows_end_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is no dataset is not read to its end, whether bad rows are skipped or not."""
    monkeypatch.setattr("ragstone.reading._samples._MAX_REJECTED", 3)
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"query": "Why?", "response": "So."}) + "\n" + "[1]\n" * 9)

    with pytest.raises(DataError, match=r"^3 of 4 rows cannot be read:(?s:.*)It was not read on$"):
        read_samples(path, on_bad_row="skip")


@pytest.mark.parametrize(
    ("name", "is_one"), [("xl/workbook.xml", True), ("xl/Workbook.xml", True), ("word/document.xml", False)]
)
def test_a_workbook_is_known_by_its_main_part(name: str, is_one: bool) -> None:
    """Some programs write its name with a capital letter."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, "")
    assert is_one == is_workbook(file)


@pytest.mark.parametrize(
    ("part", "kind"), [("word/document.xml", "a Word document"), ("ppt/slides/slide1.xml", "a ZIP archive")]
)
def test_a_document_is_known_by_a_part_after_others(tmp_path: Path, part: str, kind: str) -> None:
    """The first part of an archive of Office has thousands of bytes."""
    path = tmp_path / "answers.docx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "x" * 5000)
        archive.writestr(part, "<w/>")

    with pytest.raises(DataError, match=rf"is {kind}\. "):
        read_samples(path)


def test_of_many_lists_the_first_twenty_are_named() -> None:
    """A document with hundreds of lists does not fill the screen."""
    rows = [{"question": "Why?", "answer": "So."}]
    with pytest.raises(
        DataError, match=r"has 25 lists: list_0 \(1\), (?s:.*)list_19 \(1\), and 5 more\. Name"
    ) as caught:
        read_samples({f"list_{n}": rows for n in range(25)})

    assert "--rows list_4" in str(caught.value)
    assert "--rows list_5" not in str(caught.value)


def test_columns_of_different_lengths_are_no_table() -> None:
    """Values of one row would be those of another."""
    with pytest.raises(DataError, match="has 2 lists"):
        read_samples({"question": ["Why?", "How?"], "answer": ["So."]})


def test_a_large_document_without_rows_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list that was named is empty or missing."""
    pytest.importorskip("ijson")
    monkeypatch.setattr("ragstone.reading._json.MAX_ROW_BYTES", 100)
    monkeypatch.setattr("ragstone._util.row_limits.MAX_ROW_BYTES", 100)
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"about": "[],".rjust(20) * 500, "results": []}, indent=1))

    with pytest.raises(DataError, match=r"'.*rows.json' does not have an item at 'results'"):
        read_samples(path, rows="results")


@pytest.mark.parametrize(
    ("cell", "passages"),
    [
        ("It is old; so it is.;It is red.", ["It is old; so it is.", "It is red."]),
        ("It is old; so it is.|It is red;blue.", ["It is old; so it is.", "It is red;blue."]),
        ("It is old.", ["It is old."]),
        ('["It is old;red."]', ["It is old;red."]),
    ],
)
def test_cells_of_deepeval_have_several_passages(cell: str, passages: list[str]) -> None:
    """A semicolon with a blank after it belongs to a sentence."""
    row = {"input": "Why?", "actual_output": "So.", "expected_output": "So.", "context": "", "retrieval_context": cell}
    ((sample,), _) = read_samples([row])

    assert passages == [passage.text for passage in sample.contexts or ()]


def test_a_list_of_a_table_cannot_be_chosen(tmp_path: Path) -> None:
    """Only documents and workbooks have several."""
    path = tmp_path / "rows.csv"
    path.write_text("query,response\nWhy?,So.\n")

    with pytest.raises(
        DataError, match="--rows results chooses a list of a JSON document or a sheet, and this is table"
    ):
        read_samples(path, rows="results")


def test_a_list_within_four_objects_is_found() -> None:
    """Answers of services have their rows below several names."""
    rows = [{"question": "Why?", "answer": "So."}]
    ((sample,), _) = read_samples({"a": {"b": {"c": {"rows": rows}}}})

    assert "Why?" == sample.query
    with pytest.raises(DataError, match="must contain a list of rows"):
        read_samples({"a": {"b": {"c": {"d": {"rows": rows}}}}})


def test_columns_in_another_order_are_the_same_columns() -> None:
    """The report counts rows that have other ones."""
    report = ReadingReport()
    read_samples(
        [
            {"query": "a", "response": "b"},
            {"response": "b", "query": "c"},
            {"query": "d", "response": "b", "team": "x"},
        ],
        report=report,
    )

    assert 1 == report.n_other_columns


def test_a_sample_that_is_given_twice_is_refused() -> None:
    """Its id was made of its texts by somebody else. A row that is repeated gets a number."""
    ((sample,), _) = read_samples([{"query": "Why?", "response": "So."}])

    with pytest.raises(DataError, match=r"row 2 has the id '.*' of row 1\. Ids must be unique"):
        read_samples([sample, sample])
    repeated, _ = read_samples([{"query": "Why?", "response": "So."}] * 3)
    assert [sample.id, f"{sample.id}-2", f"{sample.id}-3"] == [each.id for each in repeated]


def test_a_packed_run_is_known_by_the_suffix_before(tmp_path: Path) -> None:
    """Runs without a tag have five columns."""
    path = tmp_path / "bm25.run.gz"
    path.write_bytes(gzip.compress(b"q1 Q0 d1 1 0.5\nq1 Q0 d2 2 0.25\n"))
    ((sample,), _) = read_samples(path)

    assert ("q1", ["d1", "d2"]) == (sample.id, [passage.id for passage in sample.contexts or ()])


def test_a_text_in_utf_16_that_is_cut_is_an_error(tmp_path: Path) -> None:
    """Half a character is left."""
    path = tmp_path / "rows.csv"
    path.write_bytes("query,response\nWhy?,So.\n".encode("utf-16") + b"\x41")

    with pytest.raises(DataError, match="its text is not utf-16: truncated data"):
        read_samples(path)


@pytest.mark.parametrize("iteration", ["Q0", "q0"])
def test_a_run_is_known_by_its_second_column(tmp_path: Path, iteration: str) -> None:
    """Whatever the name of its file is."""
    path = tmp_path / "bm25.out"
    path.write_text(f"q1 {iteration} d1 1 0.5 bm25\n")
    ((sample,), _) = read_samples(path)

    assert ("q1", ["d1"]) == (sample.id, [passage.id for passage in sample.contexts or ()])


def test_a_message_counts_the_columns_that_it_does_not_name() -> None:
    """A table may have hundreds of columns."""
    with pytest.raises(DataError, match="does not have a field with a known name") as caught:
        read_samples([{f"unknown_{n:02}": n for n in range(20)}])
    found = re.search(r"it has ((?:'unknown_\d\d'(?:, )?)+) and (\d+) more", str(caught.value))

    assert found is not None
    assert 20 == found[1].count("unknown") + int(found[2])


def test_the_numbers_of_rows_of_sheets_are_named(tmp_path: Path) -> None:
    """Without their headers."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for n, title in ((2, "first"), (3, "second")):
        sheet = book.create_sheet(title)
        for row in [["question", "answer"], *[["Why?", "So."]] * n]:
            sheet.append(row)
    book.save(tmp_path / "t.xlsx")

    with pytest.raises(DataError, match=r"first \(2\), second \(3\)"):
        read_samples(tmp_path / "t.xlsx")
