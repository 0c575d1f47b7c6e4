"""Tables of results: cells with intervals, as text and as plain values, also of several readers and data sets."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ragstone.extension import text_table
from ragstone.stats import Estimate, mean_interval
from ragstone_lab._report import plain_fields, to_plain
from ragstone_lab._udcg.correlate import adjusted

Cell = Estimate | float | int | str | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    """Key in JSON."""
    title: str
    kind: Literal["text", "count", "percent", "number", "p_value"] = "number"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTable:
    """One table of the experiment."""

    part: str
    title: str
    source: str
    """Table or figure of the paper."""
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    """Cells by column. Estimates of shares are in [0, 1]."""
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further values for JSON."""
    uncorrected: tuple[float | None, ...] = ()
    """P-values of the rows without Holm's correction. None is not a test, and NaN is one that could not be made."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        names = [column.name for column in self.columns]
        rows = [to_plain(dict(zip(names, row, strict=True))) for row in self.rows]
        return plain_fields(self, "columns", "facts") | {"rows": rows, **self.facts}

    def __str__(self) -> str:
        head = [column.title for column in self.columns]
        body = [[*map(_shown, row, self.columns)] for row in self.rows]
        align = "".join("l" if column.kind == "text" else "r" for column in self.columns)
        table = [text_table([head, *body], align=align)] if head else []
        return "\n".join([f"{self.title} ({self.source})", "", *table, *wrap_lines(self.notes)])


def corrected_table(*, columns: tuple[Column, ...], rows: Iterable[tuple[Cell, ...]], **fields: Any) -> ResultTable:
    """Return a table with Holm's correction over all its rows, which have uncorrected p-values."""
    rows = tuple(rows)
    place = next((at for at, column in enumerate(columns) if column.kind == "p_value"), None)
    if place is None:
        return ResultTable(columns=columns, rows=rows, **fields)
    tests: list[Any] = [row[place] for row in rows]
    corrected = zip(rows, adjusted(tests), strict=True)
    return ResultTable(
        columns=columns,
        rows=tuple((*row[:place], p_value, *row[place + 1 :]) for row, p_value in corrected),
        uncorrected=tuple(tests),
        **fields,
    )


def wrap_lines(lines: Sequence[str]) -> list[str]:
    """Break lines between words at the width of the terminal, or at 80 characters without one."""
    width = shutil.get_terminal_size(fallback=(80, 24)).columns
    return [part for line in lines for part in textwrap.wrap(line, width, break_long_words=False)]


def _shown(cell: Cell, column: Column) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    if column.kind == "count" or (isinstance(cell, int) and column.kind == "text"):
        return str(cell)
    scale, digits = (100, 1) if column.kind == "percent" else (1, 3)
    if isinstance(cell, Estimate):
        value, low, high = (_number(scale * number, digits) for number in (cell.value, cell.low, cell.high))
        return f"{value} [{low}, {high}]"
    return _number(scale * cell, digits)


def _number(value: float, digits: int) -> str:
    # Adding 0 turns a negative zero into zero.
    return f"{round(value, digits) + 0.0:.{digits}f}"


def share_of(marks: Sequence[bool]) -> Estimate | None:
    """Estimate a share with its interval, or return None without values."""
    return mean_interval([float(mark) for mark in marks]) if marks else None


_CELL: Final = (Column("reader", "reader", "text"), Column("data", "data", "text"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderRun:
    """The experiment of one reader on one data set."""

    reader: str
    data: str
    tables: tuple[ResultTable, ...]
    n_questions: int
    grades: Mapping[str, Mapping[str, int]]
    """Number of different answers by who graded them, and by grade."""
    notes: tuple[str, ...]


def merge_tables(runs: Sequence[ReaderRun]) -> tuple[ResultTable, ...]:
    """Merge the tables of all runs by their part. Holm's correction is over all rows of a merged table."""
    groups: dict[tuple[str, int], list[tuple[ReaderRun, ResultTable]]] = {}
    for run in runs:
        for at, table in enumerate(run.tables):
            place = sum(other.part == table.part for other in run.tables[:at])
            groups.setdefault((table.part, place), []).append((run, table))
    return tuple(_merged(group) for group in groups.values())


def _merged(group: Sequence[tuple[ReaderRun, ResultTable]]) -> ResultTable:
    columns = {column.name: column for _, table in group for column in table.columns}
    rows, notes = [], ["p (Holm): corrected over all rows of this table."] if group[0][1].uncorrected else []
    for run, table in group:
        if "refused" in table.facts:
            notes.append(f"{run.reader}, {run.data}: not computed: {table.facts['refused']}.")
        raw = table.uncorrected or [None] * len(table.rows)
        for row, p_value in zip(table.rows, raw, strict=True):
            cells = dict(zip((column.name for column in table.columns), row, strict=True))
            cells |= {name: p_value for name, column in columns.items() if column.kind == "p_value"}
            rows.append((run.reader, run.data, *(cells.get(name) for name in columns)))
    common = {name: getattr(group[0][1], name) for name in ("part", "title", "source")}
    return corrected_table(columns=(*_CELL, *columns.values()), rows=rows, notes=tuple(notes), **common)
