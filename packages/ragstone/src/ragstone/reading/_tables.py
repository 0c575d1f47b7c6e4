"""Containers of rows: JSON lines and documents, tables of text, Parquet, Arrow, Excel and data frames."""

from __future__ import annotations

import csv
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING, Any, Final

from ragstone._util.csv_rows import csv_rows, detect_separator
from ragstone._util.plural import count
from ragstone._util.row_limits import MAX_ROW_BYTES, BoundedStream, CsvLines, bounded_lines
from ragstone.errors import DataError, MissingExtraError
from ragstone.reading._columns import FIELD_ALIASES
from ragstone.reading._files import encoding_error, is_workbook, refuse_other
from ragstone.reading._json import LARGE, has_line_values, import_ijson, large_items, line_values, load_document
from ragstone.reading._layouts import looks_like_row

if TYPE_CHECKING:
    from ragstone.reading._source import InputFile

_MAX_COLUMNS: Final = 10_000
_FRAME_ROWS: Final = 1000
"""Rows of a data frame that are converted at once."""
_MAX_DEPTH: Final = 4
"""Depth of nested objects down to which a list of rows is found."""
_JSON: Final = re.compile(rb'\s*+(?:\{\s*+["}]|\[\s*+["\[{\]0-9tfn-])')
_SEPARATOR_LINE: Final = re.compile(r"sep=(.)\s*", re.IGNORECASE)
_LINE_END: Final = re.compile(r"[\r\n]")
_TEXT_SUFFIXES: Final = (".csv", ".tsv", ".tab", ".txt")
_LINE_SUFFIXES: Final = (".jsonl", ".ndjson")
RUN: Final = "TREC run"
_ARROW: Final = b"ARROW1"
_ARROW_STREAM: Final = b"\xff\xff\xff\xff"
_SHEET_BYTES: Final = 2**30
"""Maximum size of the texts, and of one sheet, of a workbook, decompressed."""
_TEXTS_BYTES: Final = 256 * 2**20
_SHEET_ROWS: Final = 2**20
"""Rows that a sheet of Excel can have."""
_SHEET_COLUMNS: Final = 1000
_HEADER_ROWS: Final = 100
"""Rows in which the header of a sheet is searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is read of a file, and how."""

    rows: str | None = None
    """Dotted path of the list in a JSON document, or the name of a sheet."""
    limit: int | None = None
    """Number of rows that are read. None reads all."""
    separator: str | None = None
    """Separator of passages within a cell."""
    encoding: str | None = None
    """Encoding of the text. None detects UTF-8 and UTF-16."""


@dataclass(slots=True, kw_only=True)
class Table:
    """The rows of a container."""

    format: str
    """Such as "JSON lines" or "table with ;"."""
    rows: Iterator[Any]
    """The rows. A row that cannot be read is a `DataError`."""
    chosen: str = ""
    """Path of the list, or name of the sheet, that was chosen among several."""
    others: tuple[str, ...] = field(default=())
    """The lists or sheets that are not read, with their lengths."""
    has_text_cells: bool = False
    """Whether all values are cells of a table of text."""


def open_table(source: InputFile, wanted: str | None = None) -> Table:
    """Return the rows of a file. Its format is detected by its first bytes, then by its suffix.

    Args:
        source: The file.
        wanted: Dotted path of the list, or name of the sheet, that contains the rows.

    Raises:
        DataError: If the format is unknown, the file does not contain rows, or several lists could contain them.
        MissingExtraError: If a format needs a missing package.
    """
    from ragstone._util.parquet_rows import arrow_rows, parquet_rows
    from ragstone.reading._trec.samples import RUN_SUFFIXES, is_run, run_rows

    head = source.head()
    names = [suffix.lower() for suffix in source.path.suffixes]
    suffix = next((s for s in reversed(names) if s not in (".gz", ".zst")), "")
    if head.startswith(b"PAR1") or (not head and suffix == ".parquet"):
        return _whole("Parquet", (row for _, row in parquet_rows(source.path, extra="ragstone[parquet]")), wanted)
    if head.startswith((_ARROW, _ARROW_STREAM)):
        return _whole("Arrow", (row for _, row in arrow_rows(source.path)), wanted)
    if head.startswith(b"PK\x03\x04"):
        with source.open() as file:
            if is_workbook(file):
                return _workbook(source, wanted)
    refuse_other(head, source.name)
    if suffix in RUN_SUFFIXES or is_run(head):
        return _whole(RUN, run_rows(source.path), wanted)
    if suffix in _LINE_SUFFIXES or (_JSON.match(head) and not (suffix in _TEXT_SUFFIXES and not _is_object(head))):
        is_lines = has_line_values(source)
        if is_lines or (is_lines is None and suffix in _LINE_SUFFIXES):
            lines = line_values(source)
            rows = (DataError(f"line {n.number}: {row}") if isinstance(row, DataError) else row for n, row in lines)
            return _whole("JSON lines", rows, wanted)
        return _document(source, wanted)
    if suffix == ".json":
        return _document(source, wanted)
    return _text_table(source, head, suffix, wanted)


def _whole(name: str, rows: Iterator[Any], wanted: str | None, *, has_text_cells: bool = False) -> Table:
    if wanted:
        raise DataError(f"--rows {wanted} chooses a list of a JSON document or a sheet, and this is {name}. Omit it")
    return Table(format=name, rows=rows, has_text_cells=has_text_cells)


# --- JSON


def _is_object(head: bytes) -> bool:
    """Return whether the first line, or all of a short file, is JSON: a cell of a table may begin like it."""
    try:
        json.loads(head.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return False
    return True


def _document(source: InputFile, wanted: str | None) -> Table:
    value = load_document(source)
    return _large_document(source, wanted) if value is LARGE else table_of(value, source.name, wanted)


def table_of(value: object, name: str, wanted: str | None = None) -> Table:
    """Return the rows of a JSON document: a list, a list in an object, columns, or rows by id.

    Raises:
        DataError: If it does not contain rows, or several lists could contain them.
    """
    if isinstance(value, list) and not wanted:
        return Table(format="JSON list", rows=iter(value))
    if not isinstance(value, Mapping):
        raise DataError(f"{name!r} must contain a list of rows, got {type(value).__name__}")
    if not wanted and (rows := _columns(value)) is not None:
        return rows
    lists: dict[str, list[Any]] = {}
    _collect_lists(value, (), lists)
    if not wanted and _is_one_row(value, lists):
        return Table(format="JSON row", rows=iter((value,)))
    facts = {path: _Facts(len(items), _keys(items)) for path, items in lists.items()}
    path = _choose(facts, wanted, name)
    if path == "predictions" and facts[path].keys.isdisjoint(FIELD_ALIASES["query"]):
        raise DataError(
            f"{name!r} has predictions of LlamaIndex without their questions, which are in another file, in its list examples, "
            "in the same order. Add the query of each example to its prediction, and evaluate the result"
        )
    return Table(
        format="JSON object", rows=iter(lists[path]), chosen=path, others=tuple(_described(facts, without=path))
    )


def _is_one_row(value: Mapping[Any, Any], lists: Iterable[str]) -> bool:
    """Return whether an object has a question, and no list that is not a field."""
    has_query = any(isinstance(value.get(name), str) for name in FIELD_ALIASES["query"])
    known = {name for names in FIELD_ALIASES.values() for name in names}
    return (has_query or "role" in _keys(value.get("messages") or ())) and known.issuperset(lists)


def _columns(value: Mapping[Any, Any]) -> Table | None:
    """Return the rows of an object that is not made of rows: columns, columns and data, or rows by id."""
    names, data = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(data, list) and all(isinstance(row, list) for row in data):
        return Table(
            format="JSON table",
            rows=(
                dict(zip(names, row, strict=True)) if len(row) == len(names) else _uneven(row, names) for row in data
            ),
        )
    columns = list(value.values())
    if len(columns) > 1 and looks_like_row(value.keys()):
        if all(isinstance(column, list) for column in columns) and len({len(column) for column in columns}) == 1:
            return Table(
                format="JSON columns", rows=(dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True))
            )
        if all(isinstance(c, Mapping) and c.keys() == columns[0].keys() for c in columns):
            return Table(format="JSON columns", rows=({n: value[n][key] for n in value} for key in columns[0]))
    if columns and all(isinstance(row, Mapping) for row in columns) and all(looks_like_row(row) for row in columns):
        return Table(format="JSON rows by id", rows=({"id": str(key)} | dict(row) for key, row in value.items()))
    return None


def _uneven(row: Sequence[Any], names: Sequence[Any]) -> DataError:
    return DataError(f"a row has {len(row)} values, and the table has {len(names)} columns")


@dataclass(slots=True)
class _Facts:
    """What a list in a document contains."""

    n: int = 0
    keys: set[str] = field(default_factory=set)
    """Keys of its first item, if that is an object."""
    start: int = 0
    """Bytes of the document that were read when it began."""


def _keys(items: Sequence[Any]) -> set[str]:
    return {str(key) for key in items[0]} if items and isinstance(items[0], Mapping) else set()


def _collect_lists(value: Mapping[Any, Any], path: tuple[str, ...], lists: dict[str, list[Any]]) -> None:
    for key, inner in value.items():
        here = (*path, str(key))
        if isinstance(inner, list):
            lists[".".join(here)] = inner
        elif isinstance(inner, Mapping) and len(here) < _MAX_DEPTH:
            _collect_lists(inner, here, lists)


def _choose(lists: Mapping[str, _Facts], wanted: str | None, name: str) -> str:
    """Return the path of the list that contains the rows."""
    if wanted:
        if wanted in lists:
            return wanted
        shown = ", ".join(_described(lists)) or "none"
        raise DataError(f"{name!r} does not have a list at {wanted!r} (--rows). Its lists are {shown}")
    if len(lists) == 1:
        return next(iter(lists))
    plausible = [path for path, facts in lists.items() if looks_like_row(facts.keys)]
    if len(plausible) == 1:
        return plausible[0]
    objects = plausible or [path for path, facts in lists.items() if facts.keys]
    if not objects:
        raise DataError(
            f"{name!r} must contain a list of rows, or an object with one. It has {count(len(lists), 'list')}"
        )
    remedies = ", or ".join(f"--rows {path}" for path in objects[:5])
    raise DataError(
        f"{name!r} has {len(lists)} lists: {', '.join(_described(lists))}. Name the one that contains the rows: {remedies}"
    )


def _described(lists: Mapping[str, _Facts], without: str | None = None) -> list[str]:
    shown = [f"{path} ({facts.n:,})" for path, facts in lists.items() if path != without]
    return shown if len(shown) <= 20 else [*shown[:20], f"and {len(shown) - 20} more"]


def _large_document(source: InputFile, wanted: str | None) -> Table:
    """Return the rows of a document that is too large to be parsed as a whole."""
    ijson = import_ijson()
    try:
        with source.open() as file:
            # The events of the first pass are not kept, so that only texts must be bounded.
            stream = BoundedStream(file, source.name, float("inf"))
            lists = _find_lists(source.name, ijson.basic_parse(stream), stream)
    except (ijson.JSONError, ValueError, RecursionError) as error:
        raise DataError(f"{source.name!r} is not valid JSON: {error}") from error
    if lists is None:
        return Table(format="JSON list", rows=large_items(source, "item"))
    path = _choose(lists, wanted, source.name)
    rows, others = large_items(source, f"{path}.item", lists[path].start), tuple(_described(lists, without=path))
    return Table(format="JSON object", rows=rows, chosen=path, others=others)


def _find_lists(name: str, events: Iterator[tuple[str, Any]], stream: BoundedStream) -> dict[str, _Facts] | None:
    """Return the lists of a document by their paths, or None if it is a list itself."""
    start, _ = next(events, ("", None))
    if start == "start_array":
        return None
    if start != "start_map":
        raise DataError(f"{name!r} must contain a list of rows")
    lists: dict[str, _Facts] = {}
    path, facts, depth = [""], _Facts(), 0
    for event, value in events:
        if depth:
            if depth == 1 and event != "end_array":
                facts.n += 1
            elif depth == 2 and event == "map_key" and facts.n == 1:
                facts.keys.add(value)
            depth += event.startswith("start_") - event.startswith("end_")
        elif event == "map_key":
            path[-1] = value
        elif event == "start_map":
            path.append("")
        elif event == "end_map":
            path.pop()
        elif event == "start_array":
            facts, depth = _Facts(start=stream.n_read), 1
            if len(path) <= _MAX_DEPTH:
                lists[".".join(path)] = facts
    return lists


# --- tables of text


def _text_table(source: InputFile, head: bytes, suffix: str, wanted: str | None) -> Table:
    text = head[: 2**16].decode("utf-8", "replace")
    stated = _SEPARATOR_LINE.match(text)
    first = text[stated.end() :] if stated else text
    first = _LINE_END.split(first, maxsplit=1)[0]
    separator = stated[1] if stated else detect_separator(first, prefers_tab=suffix in (".tsv", ".tab"))
    header = next(csv.reader([first], delimiter=separator), [])
    if suffix not in _TEXT_SUFFIXES[:3] and not looks_like_row(header) and not (stated or len(header) > 1 or not head):
        raise DataError(
            f"{source.name!r} begins with {text[:40]!r}, which is not a known format. Give JSON lines, JSON, a table "
            "(CSV, tabs), Parquet, Arrow or Excel with the fields query, contexts and response, or a TREC run"
        )
    shown = {"\t": "tabs", ",": "commas"}.get(separator, repr(separator))
    rows = _text_rows(source, separator, skips_line=bool(stated))
    return _whole(f"table, separated by {shown}", rows, wanted, has_text_cells=True)


def _text_rows(source: InputFile, separator: str, *, skips_line: bool) -> Iterator[Any]:
    # One cell may contain all passages of a sample. The default limit of the csv module is 128 KiB.
    csv.field_size_limit(MAX_ROW_BYTES)
    name = source.name
    try:
        with source.open() as file:
            lines = CsvLines(file, name)
            if skips_line:
                next(lines, "")
            reader = csv_rows(lines, name, separator=separator)
            for number, row in enumerate(reader, start=1):
                lines.next_row()
                if lines.has_ended:  # a closed row needs no further line
                    yield DataError(
                        f"the row that ends in line {reader.line_num + skips_line} has a quote without an end"
                    )
                    continue
                if not any(row.values()):
                    continue  # Excel writes rows of commas
                unnamed: Any = row.pop(None, ())  # a list of the cells beyond the header
                is_short = None in row.values()
                if any(unnamed) or is_short:
                    # Otherwise a part of a response would be scored as the whole response.
                    what = f"{'fewer' if is_short else 'more'} cells than the header"
                    yield DataError(f"the row that ends in line {reader.line_num + skips_line} has {what}")
                elif len(row) > _MAX_COLUMNS:
                    raise _too_wide(name, len(row), number)
                else:
                    # An empty cell is an empty text: an empty response is scored, not ignored.
                    yield row
    except UnicodeDecodeError as error:
        with source.open() as file:
            raise encoding_error(bounded_lines(file), name) from error
    except csv.Error as error:
        raise DataError(f"{name!r} is not a valid CSV file: {error}") from error


def _too_wide(name: str, n: int, row: int) -> DataError:
    return DataError(f"{name!r} has {n:,} columns in row {row}, more than {_MAX_COLUMNS:,}")


# --- Excel


def _workbook(source: InputFile, wanted: str | None) -> Table:
    try:
        import openpyxl
    except ImportError as error:
        raise MissingExtraError(feature="Reading Excel", package="openpyxl", extra="ragstone[excel]") from error
    try:
        _check_parts(source)
        book = openpyxl.load_workbook(source.path, read_only=True, data_only=True)
        facts = {sheet.title: _sheet_facts(sheet) for sheet in book.worksheets}
    except DataError:
        raise
    except Exception as error:  # openpyxl raises many errors for damaged workbooks
        raise DataError(f"{source.name!r} cannot be read as Excel: {error}") from error
    with ExitStack() as stack:
        stack.callback(book.close)
        facts = {title: sheet for title, sheet in facts.items() if sheet.keys}
        if not facts:
            return _whole("Excel", iter(()), wanted)
        title = _choose(facts, wanted, source.name)
        stack.pop_all()
    others = tuple(name for name in facts if name != title)
    rows = _sheet_rows(book, title, source.name)
    return Table(format="Excel", rows=rows, chosen=title, others=others, has_text_cells=True)


def _check_parts(source: InputFile) -> None:
    """Raise an error if a part of a workbook is too large. A part cannot have more bytes than the archive states."""
    with source.open() as file, zipfile.ZipFile(file) as archive:
        for part in archive.infolist():
            limit = _SHEET_BYTES if "/worksheets/" in part.filename else _TEXTS_BYTES
            if part.file_size > limit:
                raise DataError(f"{source.name!r} has a part of more than {limit // 2**20} MiB. Save it as CSV")


def _sheet_facts(sheet: Any) -> _Facts:
    header = next(_filled(sheet, _SHEET_COLUMNS + 1, _HEADER_ROWS), ())
    return _Facts(max((sheet.max_row or 1) - 1, 0), {str(cell) for cell in header if cell not in (None, "")})


def _filled(sheet: Any, width: int, n_rows: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a sheet that have a value."""
    sheet.reset_dimensions()  # the file states them, and may be wrong
    for row in sheet.iter_rows(max_row=n_rows, max_col=width, values_only=True):
        if any(cell not in (None, "") for cell in row):
            yield row


def _sheet_rows(book: Any, title: str, name: str) -> Iterator[Any]:
    try:
        sheet = book[title]
        first = next(_filled(sheet, _SHEET_COLUMNS + 1, _HEADER_ROWS))
        header = ["" if cell is None else str(cell).strip() for cell in first]
        while header and not header[-1]:
            header.pop()
        if len(header) > _SHEET_COLUMNS:
            raise DataError(f"{name!r} has more than {_SHEET_COLUMNS:,} columns. Save it as CSV")  # noqa: TRY301
        filled = _filled(sheet, len(header) + 1, _SHEET_ROWS)
        for number, row in enumerate(islice(filled, 1, None), start=2):
            if len(row) > len(header) and row[-1] not in (None, ""):
                yield DataError(f"row {number} has more cells than the header")
            else:
                yield {column: _cell(cell) for column, cell in zip_longest(header, row[: len(header)]) if column}
    except DataError:
        raise
    except Exception as error:  # openpyxl raises many errors for damaged workbooks
        raise DataError(f"{name!r} cannot be read as Excel: {error}") from error
    finally:
        book.close()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return value if isinstance(value, str | int | float) else str(value)


# --- objects


def _frame_rows(data: Any) -> Iterator[Any] | None:
    """Return the rows of a data frame or a table of pandas, Polars, Arrow or Hugging Face, or None for other objects."""
    if hasattr(data, "collect") and hasattr(data, "collect_schema"):  # Polars' lazy frame
        data = data.collect()
    if hasattr(data, "iter_rows") and hasattr(data, "columns"):
        return chain(data.iter_rows(named=True))
    if hasattr(data, "to_batches") and hasattr(data, "schema"):
        batches = data.to_batches(max_chunksize=_FRAME_ROWS) if hasattr(data, "column_names") else data.to_batches()
        return chain.from_iterable(batch.to_pylist() for batch in batches)
    if hasattr(data, "to_dict") and hasattr(data, "iloc"):
        # A part at a time, because the rows of a frame need many times its memory.
        parts = (data.iloc[start : start + _FRAME_ROWS] for start in range(0, len(data), _FRAME_ROWS))
        return chain.from_iterable(part.to_dict(orient="records") for part in parts)
    return None


def object_rows(data: Iterable[Any], wanted: str | None) -> Table:
    """Return the rows of an object in memory: a frame, columns, a document, or an iterable of rows.

    Raises:
        DataError: If it is a dataset with several splits, or a document without one list of rows.
    """
    if (rows := _frame_rows(data)) is not None:
        return _whole(type(data).__name__, rows, wanted)
    if isinstance(data, Mapping):
        if data and all(hasattr(split, "column_names") for split in data.values()):
            splits = ", ".join(f"{name} ({len(split):,})" for name, split in data.items())
            raise DataError(f"the data has several splits: {splits}. Give one of them: data[{next(iter(data))!r}]")
        return table_of(data, "the data", wanted)
    return _whole("rows", iter(data), wanted)
