"""Rows of objects in memory: JSON documents, columns, data frames and lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from ragstone._util.quantities import count
from ragstone.errors import DataError
from ragstone.reading._columns import FIELD_ALIASES, guess_field, name_key
from ragstone.reading._layouts import looks_like_row
from ragstone.reading._messages import are_messages

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

        refuse_repeated(data.columns, "the data frame")
        # A part at a time, because the rows of a frame need many times its memory.
        parts = (data.iloc[start : start + _FRAME_ROWS] for start in range(0, len(data), _FRAME_ROWS))
        return chain.from_iterable(part.to_dict(orient="records") for part in parts)
    return None


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
