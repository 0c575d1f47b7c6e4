"""Rows of files: JSON lines and documents, tables of text, Parquet, Arrow, Excel."""

from __future__ import annotations

import csv
import json
import re
import shlex
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import islice, repeat, zip_longest
from typing import TYPE_CHECKING, Any, Final

from ragstone._util.lazy import needs_extra
from ragstone._util.row_limits import MAX_ROW_BYTES, CsvLines, bounded_lines, refuse_repeated
from ragstone.errors import DataError
from ragstone.reading._columns import guess_field
from ragstone.reading._files import encoding_error, is_workbook, refuse_other
from ragstone.reading._json import LARGE, has_line_values, large_items, line_values, load_document
from ragstone.reading._layouts import looks_like_row
from ragstone.reading._row_lists import RUN, Facts, Table, choose_list, table_of, whole_table
from ragstone.reading._row_values import new_file

if TYPE_CHECKING:
    from ragstone.reading._source import InputFile

MAX_COLUMNS: Final = 10_000
_JSON: Final = re.compile(rb'\s*+(?:\{\s*+["}]|\[\s*+["\[{\]0-9tfn-])')
_SEPARATOR_LINE: Final = re.compile(r"sep=(.)\s*", re.IGNORECASE)
_LINE_END: Final = re.compile(r"\r\n|[\r\n]")
_TEXT_SUFFIXES: Final = (".csv", ".tsv", ".tab", ".txt")
_LINE_SUFFIXES: Final = (".jsonl", ".ndjson")
_ARROW: Final = b"ARROW1"
_ARROW_STREAM: Final = b"\xff\xff\xff\xff"
_SHEET_BYTES: Final = 2**30
"""Maximum size of the texts, and of one sheet, of a workbook, decompressed."""
_TEXTS_BYTES: Final = 256 * 2**20
_SHEET_ROWS: Final = 2**20
"""Rows that a sheet of Excel can have."""
_SHEET_COLUMNS: Final = 1000
_TITLE_ROWS: Final = 10
"""Rows that a title and comments above a header can have."""
_PERCENT: Final = re.compile(rb'numFmtId="(?:9|10)"|formatCode="[^"]*%')
_FORMULA: Final = re.compile(rb"</f>\s{0,9}(?:<v ?/>|<v></v>)?\s{0,9}</c>")
"""A formula without a stored value."""
_MERGED: Final = re.compile(rb'<mergeCell ref="(([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7}))"')
"""Merged cells: all, and the column and the row of the first and the last one."""
_WORDS_OF_NAME: Final = 3
_HEADER_ROWS: Final = 100
"""Rows in which the header of a sheet is searched."""


def open_table(source: InputFile, wanted: str | None = None) -> Table:
    """Return the rows of a file. Its format is detected by its first bytes, then by its suffix.

    Raise DataError if the format is unknown, the file does not contain rows, or several lists could contain them. Raise
    MissingExtraError if a format needs a missing package.
    """
    from ragstone._util.parquet_rows import arrow_rows, parquet_rows
    from ragstone.reading._trec import RUN_SUFFIXES, is_run, run_rows

    head = source.head()
    names = [suffix.lower() for suffix in source.path.suffixes]
    suffix = next((s for s in reversed(names) if s not in (".gz", ".zst")), "")
    if head.startswith(b"PAR1") or (not head and suffix == ".parquet"):
        return whole_table("Parquet", (row for _, row in parquet_rows(source.path, extra="parquet")), wanted)
    if head.startswith((_ARROW, _ARROW_STREAM)):
        return whole_table("Arrow", (row for _, row in arrow_rows(source.path)), wanted)
    if head.startswith(b"PK\x03\x04"):
        with source.open() as file:
            if is_workbook(file):
                return _workbook(source, wanted)
    refuse_other(head, source.name)
    if suffix in RUN_SUFFIXES or is_run(head):
        return whole_table(RUN, run_rows(source.path), wanted)
    if suffix in _LINE_SUFFIXES or (_JSON.match(head) and not (suffix in _TEXT_SUFFIXES and not _is_object(head))):
        is_lines = has_line_values(source)
        if is_lines or (is_lines is None and suffix in _LINE_SUFFIXES):
            lines = line_values(source, is_row=True)
            rows = (DataError(f"line {n.number}: {row}") if isinstance(row, DataError) else row for n, row in lines)
            return whole_table("JSON lines", rows, wanted)
        return _document(source, head, wanted)
    if suffix == ".json":
        return _document(source, head, wanted)
    return _text_table(source, head, suffix, wanted)


def _is_object(head: bytes) -> bool:
    """Return whether the first line, or all of a short file, is JSON: a cell of a table may begin like it."""
    try:
        json.loads(head.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return False
    return True


def _document(source: InputFile, head: bytes, wanted: str | None) -> Table:
    if (value := load_document(source, is_row=True)) is not LARGE:
        return table_of(value, source.name, wanted)
    # The lists of a document that is too large to be parsed as a whole are not known before they are read.
    if head.lstrip()[:1] == b"[" and not wanted:
        return Table(format="JSON list", rows=large_items(source, "item"))
    if wanted:
        return Table(format="JSON object", rows=large_items(source, f"{wanted}.item"), chosen=wanted)
    raise DataError(
        f"{source.name!r} is one JSON object of more than {MAX_ROW_BYTES} bytes. Name its list of rows by the keys around it, "
        f"such as --rows results, or write a row on each line: "
        f"jq -c '.results[]' {shlex.quote(source.name)} > {new_file(source.name)}"
    )


def _text_table(source: InputFile, head: bytes, suffix: str, wanted: str | None) -> Table:
    text = head[: 2**16].decode("utf-8", "replace")
    stated = _SEPARATOR_LINE.match(text)
    lines = _LINE_END.split(text[stated.end() :] if stated else text, maxsplit=_TITLE_ROWS + 1)[: _TITLE_ROWS + 1]

    def cells(line: str) -> list[str]:
        return next(csv.reader([line], delimiter=stated[1] if stated else detect_separator(line)), [])

    place = _header_place(map(cells, lines))
    header = cells(lines[place])
    separator = stated[1] if stated else detect_separator(lines[place])
    _refuse_transposed(header, [row[0] for line in lines[place + 1 :] if (row := cells(line))], source.name)
    if suffix not in _TEXT_SUFFIXES[:3] and not looks_like_row(header) and not (stated or len(header) > 1 or not head):
        raise DataError(
            f"{source.name!r} begins with {text[:40]!r}, which is not a known format. Give JSON lines, JSON, a table "
            "(CSV, tabs), Parquet, Arrow or Excel with the fields query, contexts and response, or a TREC run"
        )
    shown = {"\t": "tabs", ",": "commas"}.get(separator, repr(separator))
    rows = _text_rows(source, separator, n_skipped=place + bool(stated))
    table = whole_table(f"table, separated by {shown}", rows, wanted, has_text_cells=True)
    table.note, table.separator = _title_note(lines[:place]), separator
    return table


def _header_place(rows: Iterable[Sequence[Any]]) -> int:
    """Return the number of rows before the header: titles, comments and groups of names, if names of fields follow."""
    table = [[text for cell in row if cell is not None and (text := str(cell).strip())] for row in rows]
    for n, cells in enumerate(table):
        if looks_like_row(cells) or (
            n and len(cells) > 1 and any(guess_field(cell) for cell in cells if len(cell.split()) < 3)
        ):
            below = table[n + 1] if n + 1 < len(table) else []
            are_names = all(len(cell.split()) <= _WORDS_OF_NAME for cell in below)
            return n + (are_names and sum(map(_is_field, below)) > sum(map(_is_field, cells)))
        if n == _TITLE_ROWS or (len(cells) > 1 and not cells[0].startswith("#")):
            break
    return 0


def _title_note(rows: Iterable[object]) -> str:
    titles = [text for row in rows if (text := str(row).strip(" ,;\t"))]
    return f"rows above the header, not read: {', '.join(repr(text[:40]) for text in titles[:3])}" if titles else ""


def _refuse_transposed(header: Sequence[str], first_cells: Sequence[str], name: str) -> None:
    fields = {guess_field(cell, is_nested=True) for cell in first_cells} - {None}
    others = [guess_field(cell, is_nested=True) for cell in header[1:] if len(cell.split()) < 3]
    if len(header) > 2 and looks_like_row(header[:1]) and not any(others) and 1 < len(fields) == len(first_cells):
        raise DataError(
            f"{name!r} has a field in each row, and not in each column. Transpose it: python -c "
            f"\"import pandas; pandas.read_csv('FILE', header=None).T.to_csv('NEW', header=False, index=False)\""
        )


def _text_rows(source: InputFile, separator: str, *, n_skipped: int) -> Iterator[Any]:
    # One cell may contain all passages of a sample. The default limit of the csv module is 128 KiB.
    csv.field_size_limit(MAX_ROW_BYTES)
    name = source.name
    try:
        with source.open() as file:
            lines = CsvLines(file, name)
            for _ in range(n_skipped):
                next(lines, "")
            reader = csv.reader(lines, delimiter=separator)
            header = next(reader, [])
            width = len(header)
            refuse_repeated(header, repr(name))
            if width > MAX_COLUMNS:
                raise DataError(f"{name!r} has {width:,} columns, more than {MAX_COLUMNS:,}")
            for cells in filter(None, reader):
                lines.next_row()
                n = len(cells)
                if lines.has_ended:  # a closed row needs no further line
                    problem = "a quote without an end"
                elif n != width and any(cells if n < width else cells[width:]):  # Excel writes rows of commas
                    # Otherwise a part of a response would be scored as the whole response.
                    problem = f"{'fewer' if n < width else 'more'} cells than the header{_quotes_of(cells)}"
                else:
                    yield dict(zip(header, cells, strict=False))
                    continue
                yield DataError(f"the row that ends in line {reader.line_num + n_skipped} has {problem}")
    except UnicodeDecodeError as error:
        with source.open() as file:
            raise encoding_error(bounded_lines(file), name) from error
    except csv.Error as error:
        raise DataError(f"{name!r} is not a valid CSV file: {error}") from error


def _quotes_of(cells: Sequence[str]) -> str:
    """Return how cells are quoted that the standard of CSV does not know, and the way out."""
    is_escaped = any('\\"' in cell or cell.endswith("\\") for cell in cells)
    if not is_escaped and not any(cell.lstrip().startswith("'") for cell in cells):
        return ""
    option = "escapechar=chr(92)" if is_escaped else "quotechar=chr(39)"
    shown = r"quotes within cells as \"" if is_escaped else "cells in single quotes"
    return (
        f'. It has {shown}. Write it again: python -c "import pandas, sys; pandas.read_csv(sys.argv[1], {option})'
        f".to_csv('NEW.csv', index=False)\" FILE"
    )


def detect_separator(header: str) -> str:
    """Return the separator of a header line outside quotes: a tab, or the most frequent of comma, semicolon and bar."""
    plain = "".join(header.split('"')[::2])
    return "\t" if "\t" in plain else max(",;|", key=plain.count)


@contextmanager
def _excel_errors(name: str) -> Iterator[None]:
    """Turn the errors of a damaged workbook, of which openpyxl raises many, into one."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{name!r} cannot be read as Excel: {error}") from error


def _workbook(source: InputFile, wanted: str | None) -> Table:
    with needs_extra("excel", "openpyxl", "Reading Excel"):
        import openpyxl
    with ExitStack() as stack, _excel_errors(source.name):
        tall, wide, has_percents, has_formulas = _check_parts(source)
        book = openpyxl.load_workbook(source.path, read_only=True, data_only=True)
        stack.callback(book.close)
        sizes = {sheet.title: sheet.max_row or 1 for sheet in book.worksheets}
        tops = {
            sheet.title: [*islice(_filled(sheet, _SHEET_COLUMNS + 1, _HEADER_ROWS), _TITLE_ROWS + 1)]
            for sheet in book.worksheets
        }
        headers = {title: _header_of(rows, _header_place(rows)) for title, rows in tops.items()}
        facts = {
            title: Facts(max(sizes[title] - 1, 0), {*header} - {""}) for title, header in headers.items() if any(header)
        }
        if not facts:
            return whole_table("Excel", iter(()), wanted)
        title = choose_list(facts, wanted, source.name)
        header, place = headers[title], _header_place(tops[title])
        if len(header) > _SHEET_COLUMNS:
            raise DataError(f"{source.name!r} has more than {_SHEET_COLUMNS:,} columns. Save it as CSV")
        for row, left, cells in wide:
            if row == place + 1 and left < len(header) and "" in header[left:][:2]:
                raise DataError(
                    f"{source.name!r} has merged cells in its header ({cells}: {header[left]!r}), so that columns do "
                    "not have a name. Unmerge them, and name each column in one row, such as contexts_1 and contexts_2"
                )
        refuse_repeated(header, repr(source.name))
        stack.pop_all()
    notes = [_title_note(row[0] for row in tops[title][:place] if row)]
    if columns := [header[n] for n in tall if n < len(header)]:
        command = (
            f'python -c "import pandas, sys; t = pandas.read_excel(sys.argv[1], header={place}); c = {columns}; t[c] = '
            f"t[c].ffill(); t.to_csv('NEW.csv', index=False)\" {shlex.quote(source.name)}"
        )
        cells = next(iter(tall.values()))
        notes.append(f"Merged cells ({cells}, ...): only the first row has the value. Repeat it: {command}")
    if has_formulas:
        notes.append("Formulas without a stored value, read as missing: save the file in Excel or LibreOffice")
    return Table(
        format="Excel",
        rows=_sheet_rows(book, title, source.name, place, header, has_percents=has_percents),
        chosen=title,
        others=tuple(name for name in facts if name != title),
        has_text_cells=True,
        note=". ".join(filter(None, notes)),
    )


def _check_parts(source: InputFile) -> tuple[dict[int, str], list[tuple[int, int, str]], bool, bool]:
    """Return the merged cells of a workbook, whether a format of numbers shows percents, and whether a formula does not have a value.

    They are, by column, the first cells that are merged over several rows below the first one, and the row, the first
    column and the cells of those that are merged within one of the first rows. Raise DataError if a part is too large.
    A part cannot have more bytes than the archive states.
    """
    tall, wide, has_percents, has_formulas = dict[int, str](), list[tuple[int, int, str]](), False, False
    with source.open() as file, zipfile.ZipFile(file) as archive:
        for part in archive.infolist():
            limit = _SHEET_BYTES if "/worksheets/" in part.filename else _TEXTS_BYTES
            if part.file_size > limit:
                raise DataError(f"{source.name!r} has a part of more than {limit // 2**20} MiB. Save it as CSV")
            if part.filename == "xl/styles.xml":
                has_percents = _PERCENT.search(archive.read(part)) is not None
            elif "/worksheets/sheet" in part.filename and not tall and not wide:
                with archive.open(part) as sheet:
                    rest = b""
                    while chunk := sheet.read(2**20):
                        has_formulas |= _FORMULA.search(rest + chunk) is not None
                        for cells, *ends in _MERGED.findall(rest + chunk):
                            left, top, bottom = _column(ends[0]), int(ends[1]), int(ends[3])
                            if top > 1 and bottom > top:
                                tall.setdefault(left, cells.decode())
                            elif top == bottom <= _TITLE_ROWS:
                                wide.append((top, left, cells.decode()))
                        rest = chunk[-100:]
    return tall, wide, has_percents, has_formulas


def _column(letters: bytes) -> int:
    """Return the position of a column of a sheet: 0 for A, 26 for AA."""
    return int(sum((letter - 64) * 26**n for n, letter in enumerate(reversed(letters)))) - 1


def _header_of(rows: Sequence[Sequence[Any]], place: int) -> list[str]:
    names = ["" if cell is None else str(cell).strip() for cell in rows[place]] if rows else []
    while names and not names[-1]:
        names.pop()
    return names


def _is_field(name: str) -> bool:
    return guess_field(name, is_nested=True) is not None


def _filled(sheet: Any, width: int, n_rows: int, *, has_percents: bool = False) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a sheet from its header to its last row with a value. Empty rows in between are empty tuples."""
    sheet.reset_dimensions()  # the file states them, and may be wrong
    n_empty, has_begun = 0, False
    for cells in sheet.iter_rows(max_row=n_rows, max_col=width, values_only=not has_percents):
        row = tuple(map(_shown, cells)) if has_percents else cells
        if any(cell not in (None, "") for cell in row):
            yield from repeat((), n_empty if has_begun else 0)  # not those at the end of a sheet
            yield row
            n_empty, has_begun = 0, True
        else:
            n_empty += 1


def _shown(cell: Any) -> Any:
    """Return the value of a cell, and a share as the percents that Excel shows: 0.15 as 15%."""
    if isinstance(cell.value, int | float) and "%" in (shown := cell.number_format or ""):
        return f"{cell.value:.{len(shown.partition('.')[2].partition('%')[0])}%}"
    return cell.value


def _sheet_rows(
    book: Any, title: str, name: str, place: int, header: list[str], *, has_percents: bool
) -> Iterator[Any]:
    with closing(book), _excel_errors(name):
        filled = _filled(book[title], len(header) + 1, _SHEET_ROWS, has_percents=has_percents)
        for number, row in enumerate(islice(filled, place + 1, None), start=place + 2):
            if len(row) > len(header) and row[-1] not in (None, ""):
                yield DataError(f"row {number} has more cells than the header")
            else:
                yield {column: _cell(cell) for column, cell in zip_longest(header, row[: len(header)]) if column}


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return value if isinstance(value, str | int | float) else str(value)
