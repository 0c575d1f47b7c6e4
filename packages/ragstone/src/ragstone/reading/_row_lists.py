"""Rows of objects in memory: JSON documents, columns, data frames and lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from ragstone._util.quantities import count, text_of
from ragstone.errors import DataError
from ragstone.reading._columns import FIELD_ALIASES, guess_field, name_key
from ragstone.reading._layouts import Layout, find_layout, looks_like_row, rows_of
from ragstone.reading._messages import are_messages
from ragstone.reading._report import ReadingReport
from ragstone.reading._row_values import is_missing
from ragstone.schema import Trace, get_skip_reason

_FRAME_ROWS: Final = 1000
"""Rows of a data frame that are converted at once."""
_MAX_DEPTH: Final = 4
"""Depth of nested objects down to which a list of rows is found."""
RUN: Final = "TREC run"
_QUERIES: Final = frozenset(map(name_key, FIELD_ALIASES["query"]))
KNOWN_NAMES: Final = frozenset(name_key(name) for names in FIELD_ALIASES.values() for name in names)


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
    with_app: bool = False
    """Whether an application answers the queries again."""
    field: Mapping[str, str] | None = None
    """Columns that the user named, by field."""


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
    separator: str = ""
    """Separator of the cells of a text."""
    note: str = ""
    """What is not read of a sheet or a table."""


def whole_table(name: str, rows: Iterator[Any], wanted: str | None, *, has_text_cells: bool = False) -> Table:
    if wanted:
        raise DataError(f"--rows {wanted} chooses a list of a JSON document or a sheet, and this is {name}. Omit it")
    return Table(format=name, rows=rows, has_text_cells=has_text_cells)


def table_of(value: object, name: str, wanted: str | None = None) -> Table:
    """Return the rows of a JSON document: a list, a list in an object, columns, or rows by id.

    Raise DataError if it does not contain rows, or several lists could contain them.
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
    facts = {path: Facts(len(items), _keys(items)) for path, items in lists.items()}
    path = choose_list(facts, wanted, name)
    if path == "predictions" and _QUERIES.isdisjoint(map(name_key, facts[path].keys)):
        raise DataError(
            f"{name!r} has predictions of LlamaIndex without their questions, which are in another file, in its list "
            "examples, in the same order. Add the query of each example to its prediction, and evaluate the result"
        )
    return Table(
        format="JSON object", rows=iter(lists[path]), chosen=path, others=tuple(describe_lists(facts, without=path))
    )


def _is_one_row(value: Mapping[Any, Any], lists: Iterable[str]) -> bool:
    """Return whether an object has a question, and no list that is not a field."""
    asked = [inner for name, inner in value.items() if name_key(name) in _QUERIES or name == "messages"]
    has_query = any(isinstance(inner, str | Mapping) or are_messages(inner) for inner in asked)
    return has_query and all(name_key(path.rpartition(".")[2]) in KNOWN_NAMES for path in lists)


def _columns(value: Mapping[Any, Any]) -> Table | None:
    """Return the rows of an object that is not made of rows: columns, columns and data, or rows by id."""
    names, data = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(data, list) and all(isinstance(row, list) for row in data):
        return Table(
            format="JSON table",
            rows=(
                dict(zip(names, row, strict=True))
                if len(row) == len(names)
                else DataError(f"a row has {len(row)} values, and the table has {len(names)} columns")
                for row in data
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
    if _are_rows_by_id(value):
        return Table(format="JSON rows by id", rows=({"id": str(key)} | dict(row) for key, row in value.items()))
    return None


@dataclass(slots=True)
class Facts:
    """What a list in a document contains."""

    n: int = 0
    keys: set[str] = field(default_factory=set)
    """Keys of its first item, if that is an object."""


def _keys(items: Sequence[Any]) -> set[str]:
    return {str(key) for key in items[0]} if items and isinstance(items[0], Mapping) else set()


def _collect_lists(value: Mapping[Any, Any], path: tuple[str, ...], lists: dict[str, list[Any]]) -> None:
    for key, inner in value.items():
        here = (*path, str(key))
        if isinstance(inner, list):
            lists[".".join(here)] = inner
        elif isinstance(inner, Mapping) and _are_rows_by_id(inner):
            lists[".".join(here)] = [{"id": str(name)} | dict(row) for name, row in inner.items()]
        elif isinstance(inner, Mapping) and len(here) < _MAX_DEPTH:
            _collect_lists(inner, here, lists)


def _are_rows_by_id(value: Mapping[Any, Any]) -> bool:
    """Return whether all values of an object are objects with a question, or a list of questions."""
    return len(value) > 1 and all(isinstance(row, Mapping) and _has_question(row) for row in value.values())


def _has_question(row: Mapping[Any, Any]) -> bool:
    return any(
        guess_field(str(key), is_nested=True) == "query"
        or (isinstance(inner, list) and not _QUERIES.isdisjoint(map(name_key, _keys(inner))))
        for key, inner in row.items()
    )


def choose_list(lists: Mapping[str, Facts], wanted: str | None, name: str) -> str:
    """Return the path of the list that contains the rows."""
    if wanted:
        if wanted in lists:
            return wanted
        shown = ", ".join(describe_lists(lists)) or "none"
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
        f"{name!r} has {len(lists)} lists: {', '.join(describe_lists(lists))}. Name the one that contains the rows: {remedies}"
    )


def describe_lists(lists: Mapping[str, Facts], without: str | None = None) -> list[str]:
    shown = [f"{path} ({facts.n:,})" for path, facts in lists.items() if path != without]
    return shown if len(shown) <= 20 else [*shown[:20], f"and {len(shown) - 20} more"]


def _frame_rows(data: Any) -> Iterator[Any] | None:
    """Return the rows of a data frame or a table of pandas, Polars, Arrow or Hugging Face, or None for other objects."""
    if hasattr(data, "collect") and hasattr(data, "collect_schema"):  # Polars' lazy frame
        data = data.collect()
    if hasattr(data, "iter_rows") and hasattr(data, "columns"):
        return chain(data.iter_rows(named=True))
    if hasattr(data, "to_batches") and hasattr(data, "schema"):
        from ragstone._util.row_limits import refuse_repeated

        refuse_repeated(data.schema.names, "the table")
        batches = data.to_batches(max_chunksize=_FRAME_ROWS) if hasattr(data, "column_names") else data.to_batches()
        return chain.from_iterable(batch.to_pylist() for batch in batches)
    if hasattr(data, "to_dict") and hasattr(data, "iloc"):
        from ragstone._util.row_limits import refuse_repeated

        # A named level of the index is a column, as in the Parquet file that pandas writes.
        data = data.reset_index(level=[name for name in data.index.names if name not in (None, *data.columns)])
        refuse_repeated(map(_name, data.columns), "the data frame")
        # A part at a time, because the rows of a frame need many times its memory.
        parts = (data.iloc[start : start + _FRAME_ROWS] for start in range(0, len(data), _FRAME_ROWS))
        return chain.from_iterable(part.to_dict(orient="records") for part in parts)
    return None


def _name(column: object) -> str:
    """Return the name of a column as text. A frame of pandas has names of any type, and tuples for several headers."""
    return ".".join(text_of(part) for part in column if part != "") if isinstance(column, tuple) else text_of(column)


def object_rows(data: Iterable[Any], wanted: str | None) -> Table:
    """Return the rows of an object in memory: a frame, columns, a document, or an iterable of rows.

    Raise DataError if it is a dataset with several splits, or a document without one list of rows.
    """
    if (rows := _frame_rows(data)) is not None:
        return whole_table(type(data).__name__, rows, wanted)
    if isinstance(data, Mapping):
        if data and all(hasattr(split, "column_names") for split in data.values()):
            splits = ", ".join(f"{name} ({len(split):,})" for name, split in data.items())
            raise DataError(f"the data has several splits: {splits}. Give one of them: data[{next(iter(data))!r}]")
        return table_of(data, "the data", wanted)
    return whole_table("rows", iter(data), wanted)


def describe_table(table: Table, report: ReadingReport) -> None:
    """Report the format of a table, the list that is read, and what is not read."""
    report.format, report.where, report.separator = table.format, table.chosen, table.separator
    report.has_text_cells = table.has_text_cells
    if table.note:
        report.note(table.note)
    if table.others:
        report.note(f"lists that are not read: {', '.join(table.others)}")


def is_left_out(trace: Trace, choice: Choice, report: ReadingReport) -> bool:
    """Return whether a request is not scored, and count it. An application answers its query again."""
    if choice.with_app or (reason := get_skip_reason(trace)) is None:
        return False
    report.note(f"left out, because such requests are not scored: {reason.partition(':')[0]}")
    return True


_TOTALS: Final = (
    "mean", "average", "avg", "total", "sum", "median", "std", "min", "max", "count", "mittelwert", "durchschnitt",
    "gesamt", "anzahl", "gemiddelde", "totaal", "summe", "moyenne", "somme", "promedio", "media", "suma", "overall", "ø",
    "accuracy", "precision", "recall", "f1", "pass rate", "hit rate", "success rate", "error rate", "win rate",
    "genauigkeit", "trefferquote", "exactitude", "precisi\u00f3n", "exactitud", "somma", "média", "soma", "średnia", "среднее", "итого", "平均", "平均値", "平均值", "合計", "合计", "総計", "总计", "小計", "小计",
)  # fmt: skip
"""First texts of rows that summarize a table."""
_TOTAL: Final = re.compile(rf"(?:{'|'.join(_TOTALS)})(?=[\s(:]|\Z)")
_SHARE: Final = re.compile(r"[-+]?\d[\d.,]*+(?:e[-+]?\d++)?+ ?(?:%|[/\u00b1] ?[\d.]++)?")
_TYPE: Final = re.compile(
    r"(?:string|str|text|(?:var)?char(?:\(\d++\))?|int(?:eger)?\d*+|bigint|float\d*+|double|number|numeric|decimal|bool(?:ean)?"
    r"|object|json|array|list(?:\[\w++\])?|date(?:time)?|timestamp|category)",
    re.IGNORECASE,
)
_TOTAL_CHARS: Final = 40  # longest first value of a row that is a header or a total


def laid_out(rows: Iterable[Any], fields: Mapping[str, str], report: ReadingReport) -> Iterator[tuple[int, Any]]:
    """Yield the rows with their 1-based positions, those of a known layout under our field names."""
    layout: Layout | None = None
    answers: set[str] = set()
    is_first = True
    for position, row in enumerate(rows, start=1):
        report.n_rows += 1
        if type(row) is not dict and not isinstance(row, Mapping):
            yield position, row
            continue
        if not all(isinstance(name, str) for name in row):
            row = {_name(name): value for name, value in row.items()}  # noqa: PLW2901
        for name, value in row.items():  # noqa: B007 - the first value and its column
            if not _is_blank(value):
                break
        else:
            report.note("rows without a value, left out")
            continue
        is_short = type(value) is str and len(value) <= _TOTAL_CHARS
        if is_short and report.has_text_cells and (problem := _other_row(row, name, value, position)):
            if isinstance(problem, str):
                report.note(problem)
            else:
                yield position, problem
            continue
        if is_first and (layout := find_layout(row)) is not None:
            report.note(layout.describe(row))
        is_first = False
        if layout is None or not layout.keys <= row.keys():
            yield position, row
            continue
        parts = rows_of(row, layout, fields)
        report.n_rows += len(parts) - 1
        for each in parts:
            if layout.answers:  # several people compare the same answers
                if (key := repr((each.get("id"), each.get("response")))) in answers:
                    report.note("answers of earlier rows, read once")
                    continue
                answers.add(key)
            yield position, each


def _is_blank(value: Any) -> bool:
    return not value.strip() if type(value) is str else is_missing(value)


def _other_row(row: Mapping[str, Any], name: str, value: str, position: int) -> str | DataError | None:
    """Return a note or an error about a row that is a header or a total, otherwise None. `name` has the first value.

    Raise DataError if it is the header of other columns, so that the rows after it would be read wrongly.
    """
    word = value.strip().casefold()
    if _TOTAL.match(word) is not None and not word.endswith("?"):
        others = [str(other).strip() for column, other in row.items() if column != name and not _is_blank(other)]
        if others and all(map(_SHARE.fullmatch, others)):
            return DataError(f"row {position} is a total ({value.strip()[:40]!r} and numbers), not a sample")
        if not others and len(row) > 1 and word[-1].isdigit():
            return f"a total below the table, left out: {value.strip()!r}"
    if not value[:1].isalnum() and not any(map(str.isalnum, "".join(map(str, row.values())))):
        return "rows without a letter or a digit, left out"
    if name_key(word) in KNOWN_NAMES or word == name.strip().casefold():
        names = [str(cell).strip() for cell in row.values()]
        if [*map(name_key, names)] == [*map(name_key, row)]:
            return "rows that repeat the header, left out"
        if len(names) > 1 and all(cell in row or name_key(cell) in KNOWN_NAMES for cell in names):
            shown = "the columns in another order" if set(names) == set(row) else "other columns"
            raise DataError(f"row {position} is a header with {shown}. Split the file at this row, and read both parts")
    if position == 1 and all(_TYPE.fullmatch(str(cell).strip()) for cell in row.values() if not _is_blank(cell)):
        return "a row of types below the header, left out"
    if position == 1 and all(len(str(cell)) > 2 and len(str(cell).split()) == 1 for cell in row.values()):
        fields = [[guess_field(name, is_nested=True) for name in (column, str(cell))] for column, cell in row.items()]
        if (
            all(cell == column for column, cell in fields if column)
            and len({column for column, _ in fields} - {None}) > 1
        ):
            return f"a second header, left out: {', '.join(map(str, row.values()))}"
    return None
