"""One table for several readers and data sets, from those of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragstone_lab._udcg.experiment.tables import Column, ResultTable, corrected_table

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
