"""One table for several readers and data sets, from those of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ragstone_lab._udcg.columns import tested_rows
from ragstone_lab._udcg.experiment.tables import Column, ResultTable, corrected_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CELL: Final = (Column("reader", "reader", "text"), Column("data", "data", "text"))
_ALL: Final = "all"


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


def merge_tables(runs: Sequence[ReaderRun], *, seed: int) -> tuple[ResultTable, ...]:
    """Merge the tables of all runs by their part. Holm's correction is over all rows of a merged table.

    The table of correlations also has rows of the means over all runs: each question counts once, with the mean of its
    readers.
    """
    groups: dict[tuple[str, int], list[tuple[ReaderRun, ResultTable]]] = {}
    for run in runs:
        for at, table in enumerate(run.tables):
            place = sum(other.part == table.part for other in run.tables[:at])
            groups.setdefault((table.part, place), []).append((run, table))
    return tuple(_merged(group, seed) for group in groups.values())


def _merged(group: Sequence[tuple[ReaderRun, ResultTable]], seed: int) -> ResultTable:
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
    if correlations := [(run, table.facts["by_question"]) for run, table in group if "by_question" in table.facts]:
        rows += [(_ALL, _ALL, *(cells.get(name) for name in columns)) for cells in _means(correlations, seed)]
        notes.append("all: each question once, with the mean over its readers.")
    (_, first), *_ = group
    return corrected_table(
        part=first.part, title=first.title, source=first.source, columns=(*_CELL, *columns.values()), rows=rows, notes=tuple(notes)
    )  # fmt: skip


def _means(
    correlations: Sequence[tuple[ReaderRun, Mapping[str, Mapping[str, float]]]], seed: int
) -> Iterator[dict[str, Any]]:
    """Yield the row of each metric that all runs have: its mean over the questions of all data sets."""
    import numpy as np

    names = [name for name in correlations[0][1] if all(name in found for _, found in correlations)]
    by_question: dict[tuple[str, str], list[list[float]]] = {}
    for run, found in correlations:
        for question in found[names[0]]:
            by_question.setdefault((run.data, question), []).append([found[name][question] for name in names])
    table: NDArray[np.float64] = np.array(
        [[_mean([row[at] for row in rows]) for at in range(len(names))] for rows in by_question.values()]
    )
    for row in tested_rows(names, table, table[:, [0]] - table, names[:1], seed):
        yield dict(zip(("metric", "n", "spearman", "difference", "p_value"), row, strict=True))


def _mean(values: Sequence[float]) -> float:
    """Return the mean of the known values, or NaN without one."""
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan
