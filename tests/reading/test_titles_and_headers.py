"""Tables as people write them: titles, comments, second headers, merged cells, percents, several systems and encodings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import DataError
from ragstone.reading import ReadingReport, read_samples
from ragstone.schema import Sample

ROWS = [
    ("Why is the sky blue?", "Because of scattering.", "Air scatters blue light."),
    ("Who wrote Faust?", "Goethe wrote it.", "Faust is a play by Goethe."),
    ("When did Rome fall?", "In the year 476.", "Rome fell in 476."),
]
HEADER = ("question", "answer", "contexts")
BODY = "".join(f"{','.join(row)}\n" for row in ROWS)


def read(data: Any, **options: Any) -> tuple[list[Sample], str]:
    """Return the samples and the report, in one line."""
    report = ReadingReport()
    samples, _ = read_samples(data, report=report, **options)
    return samples, " ".join(str(report).split())


def write(path: Path, text: str) -> Path:
    """Write a table of text."""
    path.write_text(text, encoding="utf-8")
    return path


def write_workbook(path: Path, table: list[Any], merged: tuple[str, ...] = (), formats: Any = ()) -> Path:
    """Write a workbook with one sheet."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in table:
        book.active.append(row)
    for cells in merged:
        book.active.merge_cells(cells)
    for cell, shown in dict(formats).items():
        book.active[cell].number_format = shown
    book.save(path)
    return path


TITLES = [
    (["Evaluation of the bot"], "'Evaluation of the bot'"),
    (["Evaluation of the bot", "", "by Bob"], "'Evaluation of the bot', 'by Bob'"),
    (["# exported 2026-03-01", "# by Bob, for the board"], "'# exported 2026-03-01', '# by Bob"),
]


@pytest.mark.parametrize("header", [",".join(HEADER), "Frage,answer,contexts"])
@pytest.mark.parametrize(("above", "says"), TITLES)
@pytest.mark.parametrize("commas", ["", ",,"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_rows_above_the_header_of_a_table(
    tmp_path: Path, above: list[str], says: str, commas: str, header: str, end: str
):
    """Titles and comments are not the header, for each end of a line. The report shows them."""
    lines = "".join(f"{line}{commas}\n" for line in above)
    fields = {"query": "Frage"} if "Frage" in header else {}
    samples, report = read(write(tmp_path / "t.csv", f"{lines}{header}\n{BODY}".replace("\n", end)), fields=fields)
    assert [row[0] for row in ROWS] == [sample.query for sample in samples]
    assert f"rows above the header, not read: {says}" in report


@pytest.mark.parametrize("merged", [(), ("A1:C1",)])
def test_rows_above_the_header_of_a_sheet(tmp_path: Path, merged: tuple[str, ...]):
    """As in a table. A title over several columns is not a merged cell of several rows."""
    path = write_workbook(tmp_path / "t.xlsx", [["Evaluation of the bot"], HEADER, *ROWS], merged)
    samples, report = read(path)
    assert [row[0] for row in ROWS] == [sample.query for sample in samples]
    assert "rows above the header, not read: 'Evaluation of the bot'" in report
    assert "Merged" not in report


@pytest.mark.parametrize("header", ["question", "#,question,answer", "Frage,Antwort", "note,question"])
def test_the_first_row_is_the_header_without_a_title(tmp_path: Path, header: str):
    """A name of a field, a sign for a number, and two unknown names are a header."""
    width = header.count(",") + 1
    rows = "".join(",".join(["What is a question"] * width) + "\n" for _ in range(2))
    report = ReadingReport()
    path = write(tmp_path / "t.csv", f"{header}\n{rows}")
    samples, _ = read_samples(path, report=report, fields={"query": header.rpartition(",")[2]})
    assert 2 == len(samples)
    assert "above the header" not in str(report)


TWO = ["Why is it?", "It is red.", "It is a blue one.", "It is so."]


def test_groups_of_names_above_the_names_of_a_sheet(tmp_path: Path):
    """The names of the columns are below merged cells with the names of groups."""
    header = [["Input", "Retrieval", None, "Output"], ["question", "context 1", "context 2", "answer"]]
    (sample,), report = read(write_workbook(tmp_path / "t.xlsx", [*header, TWO], ("B1:C1",)))
    assert (TWO[0], TWO[3]) == (sample.query, sample.response)
    assert TWO[1:3] == [passage.text for passage in sample.contexts or ()]
    assert "Merged cells" not in report


@pytest.mark.parametrize(
    ("header", "merged"),
    [
        ([["question", "Contexts", None, "Answers"], ["question", "first", "second", "response"]], ("B1:C1",)),
        ([["question", "contexts", None, "answer"]], ("B1:C1",)),
        ([["Title"], ["question", "contexts", None, "answer"]], ("A1:D1", "B2:C2")),
    ],
)
def test_a_header_with_merged_cells_is_refused(tmp_path: Path, header: list[Any], merged: tuple[str, ...]):
    """A column without a name would be lost. The message names the cells, and what to write."""
    with pytest.raises(
        DataError, match=r"merged cells in its header \(B\d:C\d: '[Cc]ontexts'\).* contexts_1 and contexts_2"
    ):
        read(write_workbook(tmp_path / "t.xlsx", [*header, TWO], merged))


def test_groups_of_names_above_a_header(tmp_path: Path):
    """Pandas writes the levels of a header as rows, and the last one has the names."""
    path = tmp_path / "t.csv"
    path.write_text("Input,Retrieval,Retrieval,Output\nquestion,context_1,context_2,answer\n" + ",".join(TWO) + "\n")
    (sample,), report = read(path)
    assert (TWO[0], TWO[1:3]) == (sample.query, [passage.text for passage in sample.contexts or ()])
    assert "rows above the header, not read: 'Input,Retrieval,Retrieval,Output'" in report


def test_the_command_for_merged_rows(tmp_path: Path):
    """It repeats the values of the merged columns alone, and the next message joins the passages."""
    rows = [
        ["Q1?", "p one.", "A1", "x"],
        [None, "p two.", None, None],
        ["Q2?", "p three.", "A2", None],
        [None, "p 4.", None, None],
    ]
    path = write_workbook(
        tmp_path / "t.xlsx", [["question", "contexts", "answer", "note"], *rows], ("A2:A3", "C2:C3", "A4:A5", "C4:C5")
    )
    report = ReadingReport()
    read_samples(path, report=report)
    command = str(report).partition("Repeat it: ")[2].partition("\n")[0].replace("python -c", f"{sys.executable} -c")
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)  # noqa: S602 - as a user types it
    lines = (tmp_path / "NEW.csv").read_text().splitlines()
    assert ["question,contexts,answer,note", "Q1?,p one.,A1,x", "Q1?,p two.,A1,"] == lines[:3]
    with pytest.raises(DataError, match="each row has one passage"):
        read_samples(tmp_path / "NEW.csv")


def test_merged_cells_are_in_the_report(tmp_path: Path):
    """Excel stores the value of merged rows once, so that the other rows do not have it."""
    path = write_workbook(tmp_path / "t.xlsx", [HEADER, ROWS[0], [None, None, "b"], ROWS[1]], ("A2:A3", "B2:B3"))
    report = read(path)[1]
    assert "only the first row has the value. Repeat it" in report
    assert "2 empty cells read as missing: query 1, response 1" in report


def test_percents_of_a_sheet_are_read_as_excel_shows_them(tmp_path: Path):
    """The cell that shows 15% contains 0.15, which is another answer."""
    table = [["question", "answer", "reference"], ["q", 0.15, 0.155], ["r", 0.15, "x"]]
    path = write_workbook(tmp_path / "t.xlsx", table, (), {"B2": "0%", "C2": "0.0%"})
    samples, _ = read(path)
    assert [("15%", ("15.5%",)), ("0.15", ("x",))] == [(sample.response, sample.reference) for sample in samples]


@pytest.mark.parametrize("second", ["Frage,Antwort,Kontext", "Pregunta,Respuesta,Contexto"])
def test_a_second_header_in_another_language(tmp_path: Path, second: str):
    """It is not a sample, and the report shows it."""
    samples, report = read(write(tmp_path / "t.csv", f"{','.join(HEADER)}\n{second}\n{BODY}"))
    assert 3 == len(samples)
    assert f"a second header, left out: {second.replace(',', ', ')}" in report


def test_a_first_row_with_names_of_fields_is_a_sample(tmp_path: Path):
    """Only one cell is a name, or the names are within longer texts."""
    rows = "question,A reply that is longer than any header,x\n"
    assert 4 == len(read(write(tmp_path / "t.csv", f"{','.join(HEADER)}\n{rows}{BODY}"))[0])


def test_a_transposed_table_has_a_remedy_that_works(tmp_path: Path):
    """The command of the message writes the table that is read."""
    columns = zip(HEADER, *ROWS, strict=True)
    path = write(tmp_path / "t.csv", "".join(f"{','.join(cells)}\n" for cells in columns))
    with pytest.raises(DataError, match="a field in each row") as error:
        read(path)
    command = str(error.value).partition('python -c "')[2].rstrip('"')
    new = tmp_path / "new.csv"
    subprocess.run([sys.executable, "-c", command.replace("FILE", str(path)).replace("NEW", str(new))], check=True)
    assert [row[0] for row in ROWS] == [sample.query for sample in read(new)[0]]


@pytest.mark.parametrize("column", ["system", "Model", "pipeline", "run"])
@pytest.mark.parametrize("has_ids", [False, True])
def test_answers_of_several_systems_are_in_the_report(tmp_path: Path, column: str, has_ids: bool):
    """Each question once for each system, also if each row has its own id."""
    rows = [
        {"question": row[0], "answer": row[1], column: system} | ({"id": f"{system}{n}"} if has_ids else {})
        for n, row in enumerate(ROWS)
        for system in ("A", "B")
    ]
    report = read(rows)[1]
    assert f"{column}: 2 values (A, B) with the same questions, scored together as one system" in report
    others = [row | {"question": f"{row['question']} {n}"} for n, row in enumerate(rows)]
    assert "scored together" not in read(others)[1]
    with pytest.raises(DataError, match="6 rows have 3 different samples"):
        read([row | {column: "A"} for row in rows])


def test_two_encodings_have_no_option(tmp_path: Path):
    """An encoding that reads all bytes would read the UTF-8 lines wrongly. The message names a line of each."""
    path = tmp_path / "t.csv"
    path.write_bytes("question,answer\nOù?,là\n".encode() + "Où?,là\nÀ qui?,à moi\n".encode("cp1252"))
    with pytest.raises(DataError, match=r"two encodings: line 2 is UTF-8, and line 3 is not .*as 1 more") as error:
        read(path)
    assert "--encoding cp1252" not in str(error.value)
    path.write_bytes("question,answer\nOù?,là\n".encode("cp1252"))
    with pytest.raises(DataError, match=r"line 2 of .*--encoding cp1252"):
        read(path)


@pytest.mark.parametrize(
    ("joined", "option"),
    [
        ("One. ### Two.", "contexts=###"),
        ("One.<br>Two.", "contexts=<br>"),
        ("One. [SEP] Two.", "contexts=[SEP]"),
        ("One.; Two.", "contexts=;"),
        ("One.;Two.", "contexts=;"),
        ("One|Two", "contexts=|"),
    ],
)
def test_signs_between_passages_are_named(tmp_path: Path, joined: str, option: str):
    """The option of the report separates them."""
    path = write(tmp_path / "t.csv", f'question,contexts\nq,"{joined}"\n')
    assert f"--separator '{option}'" in read(path)[1]
    (sample,), _ = read(path, separator=option)
    assert ["One", "Two"] == [passage.text.rstrip(".") for passage in sample.contexts or ()]


def test_a_semicolon_within_a_sentence_is_not_named(tmp_path: Path):
    """Prose has them."""
    assert "--separator" not in read(write(tmp_path / "t.csv", 'question,contexts\nq,"It rains; we stay."\n'))[1]


@pytest.mark.parametrize("header", ["input,actual_output,retrieval_context", "input,actual_output,context"])
def test_cells_that_may_be_of_deepeval_are_not_separated(tmp_path: Path, header: str):
    """Only a table with all columns of deepeval is one. In another one the report names the sign."""
    samples, report = read(write(tmp_path / "t.csv", f"{header}\nq,a,Use x|y; then stop\n"))
    assert ["Use x|y; then stop"] == [passage.text for passage in samples[0].contexts or ()]
    assert "--separator 'contexts=|'" in report


def test_alternatives_of_nested_references():
    """RGB has a list of alternatives for each part. Elsewhere the author must say what the lists mean."""
    row = {"id": 1, "query": "q", "answer": [["a", "b"], ["c"]], "positive": [], "negative": []}
    assert ("a; c", "b; c") == read([row])[0][0].reference
    with pytest.raises(DataError, match=r"got list \['a', 'b'\]. Write alternatives as one list of texts"):
        read([{"query": "q", "reference": [["a", "b"], ["c"]]}])


def test_typographic_quotes_are_named(tmp_path: Path):
    """A word processor writes them. The message names the sign and what to do."""
    path = write(tmp_path / "t.csv", 'question,contexts\nq,"[“one”, “two”]"\n')
    with pytest.raises(DataError, match="replace the quote “ at character 2 with a straight one"):
        read(path)


def test_numbered_columns_of_references_are_one_guess():
    """The report proposes all of them, joined, before the column `answer`."""
    row = {"question": "q", "answer": "a", "ref1": "one", "ref2": "two", "ref3": "three"}
    report = read([row])[1]
    assert "perhaps ref1+ref2+ref3: --field reference=ref1+ref2+ref3 (or answer)" in report
    (sample,), _ = read([row], fields={"reference": "ref1+ref2+ref3"})
    assert ("one", "two", "three") == sample.reference


def test_merged_cells_of_a_wide_sheet_are_named(tmp_path: Path):
    """Columns after Z have two letters."""
    header = ["question", "answer", *(f"column {n}" for n in range(3, 60))]
    rows = [[f"Why {n}?", f"So {n}.", *("x" for _ in header[2:])] for n in range(3)]
    _, report = read(write_workbook(tmp_path / "t.xlsx", [header, *rows], ("AA2:AA4", "BB2:BB4")))
    assert "c = ['column 27', 'column 54']" in report


def test_a_merged_title_is_no_column(tmp_path: Path):
    """A title over two rows has no values that would have to be repeated."""
    table = [["Evaluation", None], [None, None], ["question", "answer"], ["Why?", "So."], ["How?", "Thus."]]
    samples, report = read(write_workbook(tmp_path / "t.xlsx", table, ("A1:B2",)))
    assert ["Why?", "How?"] == [sample.query for sample in samples]
    assert "Merged cells" not in report
