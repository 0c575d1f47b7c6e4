"""Labels that people gave, from a file or rows: who said what of which sample."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragstone.data import Rejection, SampleSource, iterate_rows, unreadable
from ragstone.errors import DataError
from ragstone.schema import FIELD_ALIASES

__all__ = ["Label", "read_labels"]

_LARGEST: Final = 1e100
"""Larger labels are refused: their squares and sums overflow."""
_IDS: Final = (*FIELD_ALIASES["id"], "trace_id")
_GENERIC: Final = ("label", "rating", "human", "grade", "score", "value")
_RATERS: Final = ("rater", "annotator", "labeller", "labeler")
_WORDS: Final = {
    "yes": 1.0, "true": 1.0, "pass": 1.0, "correct": 1.0, "good": 1.0, "relevant": 1.0,
    "no": 0.0, "false": 0.0, "fail": 0.0, "incorrect": 0.0, "wrong": 0.0, "bad": 0.0, "irrelevant": 0.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What one person said of one sample."""

    sample_id: str
    value: float
    metric: str | None
    """What it is a label of; None for a verdict about the sample as a whole, which all metrics are held against."""
    system: str | None
    rater: str


def read_labels(source: SampleSource, *, metrics: Sequence[str], column: str | None = None) -> list[Label]:
    """Read labels: one row for each sample (and rater), or for each sample, metric and rater.

    A row has an `id`, and either columns named like metrics, or a `metric` and a `label`, or a `label` alone. `system` and
    `rater` may stand beside them. Labels are numbers, or words such as yes and no. Empty ones are skipped.

    Args:
        source: JSONL, JSON, CSV or Parquet, rows or a data frame.
        metrics: Names of metrics that may be columns.
        column: The column of the label, where it has another name.

    Raises:
        DataError: Rows without an id or a label, labels that are no number and no known word, or no label at all.
    """
    found: list[Label] = []
    bad: list[Rejection] = []
    n_rows = 0
    for position, row in enumerate(iterate_rows(source), start=1):
        n_rows += 1
        try:
            found += _labels(row, position, metrics, column)
        except DataError as error:
            bad.append(Rejection(position=position, reason=str(error)))
    if bad:
        raise unreadable(bad, n_rows - len(bad), "Labels that cannot be read would not be missing at random; mend them")
    if not found:
        raise DataError(f"there are no labels: {n_rows} rows, none with one")
    return found


def _labels(row: object, position: int, metrics: Sequence[str], column: str | None) -> Iterable[Label]:
    if isinstance(row, DataError):
        raise row
    if not isinstance(row, Mapping):
        raise DataError(f"row {position} must be an object with an id and a label, got {type(row).__name__}")
    id_ = next((row[name] for name in _IDS if row.get(name) not in (None, "")), None)
    if id_ is None:
        raise DataError(f"row {position} has no id ({', '.join(_IDS)}): a label belongs to a sample")
    rater = next((str(row[name]) for name in _RATERS if row.get(name) not in (None, "")), "")
    system = row.get("system")
    cells = _cells(row, position, metrics, column)
    return [
        Label(
            sample_id=str(id_),
            value=value,
            metric=metric,
            system=None if system in (None, "") else str(system),
            rater=rater,
        )
        for metric, cell in cells
        if (value := _number(cell, position)) is not None
    ]


def _cells(
    row: Mapping[str, Any], position: int, metrics: Sequence[str], column: str | None
) -> list[tuple[str | None, Any]]:
    if column is not None:
        if column not in row:
            raise DataError(f"row {position} has no column {column!r}; it has {', '.join(map(str, row))}")
        return [(row.get("metric") or None, row[column])]
    named = [(metric, row[metric]) for metric in metrics if metric in row]
    if named and "metric" not in row:
        return [*named]
    generic = next((name for name in _GENERIC if name in row), None)
    if generic is None:
        raise DataError(
            f"row {position} has no label: neither a column named like a metric ({', '.join(metrics)}) nor one of "
            f"{', '.join(_GENERIC)}; name its column (--label-column NAME)"
        )
    return [(row.get("metric") or None, row[generic])]


def _number(cell: Any, position: int) -> float | None:
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return None
    if isinstance(cell, str) and cell.strip().casefold() in _WORDS:
        return _WORDS[cell.strip().casefold()]
    try:
        number = float(cell)
    except (TypeError, ValueError):
        number = math.nan
        if not isinstance(cell, float):
            raise DataError(
                f"row {position}: a label is a number or one of {', '.join(_WORDS)}, got {cell!r}"
            ) from None
    if math.isnan(number):
        # An empty cell of a data frame.
        return None
    if abs(number) > _LARGEST:
        raise DataError(f"row {position}: a label must be finite and within {_LARGEST:g}, got {cell!r}")
    return number
