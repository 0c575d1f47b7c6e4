"""Human labels, read from rows or from a store."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragstone._util.plural import count
from ragstone.errors import DataError
from ragstone.metrics import full_name
from ragstone.reading import FIELD_ALIASES, RejectedRow, SampleSource, build_rows_error, iter_rows
from ragstone.store import open_store

_LARGEST: Final = 1e100
"""Maximum absolute label: squares and sums of larger values overflow."""
_IDS: Final = (*FIELD_ALIASES["id"], "trace_id")
_GENERIC: Final = ("label", "rating", "human", "grade", "score", "value")
_RATERS: Final = ("rater", "annotator", "labeller", "labeler")
_WORDS: Final = {
    "yes": 1.0, "true": 1.0, "pass": 1.0, "correct": 1.0, "good": 1.0, "relevant": 1.0,
    "no": 0.0, "false": 0.0, "fail": 0.0, "incorrect": 0.0, "wrong": 0.0, "bad": 0.0, "irrelevant": 0.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The label of one sample from one person."""

    sample_id: str
    value: float
    metric: str | None
    """The labeled metric, or None for a label of the whole sample, which is compared with all metrics."""
    system: str | None
    rater: str


def read_labels(source: SampleSource, *, metrics: Sequence[str], column: str | None = None) -> list[Label]:
    """Read labels: one row for each sample (and rater), or for each sample, metric and rater.

    A row has an `id`, and either columns named like metrics, or `metric` and `label`, or only `label`. `system` and `rater`
    are optional. Labels are numbers, or words such as yes and no. Empty labels are skipped.

    Args:
        source: JSONL, JSON, CSV or Parquet, rows or a data frame.
        metrics: Names of metrics that may be columns.
        column: Name of the label column, if it is not detected.

    Raises:
        DataError: If a row lacks an id or a label column, a label is neither a number nor a known word, or no row has a
            label.
    """
    labels: list[Label] = []
    bad: list[RejectedRow] = []
    n_rows = 0
    for position, row in enumerate(iter_rows(source), start=1):
        n_rows += 1
        try:
            labels += _labels(row, position, metrics, column)
        except DataError as error:
            bad.append(RejectedRow(position=position, reason=str(error)))
    if bad:
        raise build_rows_error(
            bad, n_rows - len(bad), "Fix these labels. They cannot be skipped, because they are not missing at random"
        )
    if not labels:
        raise DataError(
            f"the data does not contain labels ({count(n_rows, 'row')}, and empty or NaN labels are skipped). Label at least one row"
        )
    return labels


def read_stored_labels(system: str, store: str | os.PathLike[str]) -> tuple[list[Label], dict[str, float]]:
    """Read the labels of a store, and the probabilities with which its labeled requests were drawn.

    Args:
        system: Name of the system whose requests the store contains.
        store: Path of a store, or URL of a database.

    Returns:
        The labels, from 0 (wrong) to 1 (correct), and the probability of each drawn request by its id.

    Raises:
        StoreError: If the store cannot be read.
    """
    with open_store(store, mode="read") as opened:
        labels = [
            Label(sample_id=each.trace_id, value=each.value, metric=None, system=system, rater=each.author)
            for each in opened.labels.read()
            if each.value is not None
        ]
        drawn = opened.labels.drawn() if labels else ()
    return labels, {each.trace_id: each.probability for each in drawn if each.position is not None}


def _labels(row: object, position: int, metrics: Sequence[str], column: str | None) -> Iterable[Label]:
    if isinstance(row, DataError):
        raise row
    if not isinstance(row, Mapping):
        raise DataError(f"row {position} must be an object with an id and a label, got {type(row).__name__}")
    id_ = next((row[name] for name in _IDS if row.get(name) not in (None, "")), None)
    if id_ is None:
        raise DataError(f"row {position} does not have an id ({', '.join(_IDS)}) of a sample")
    rater = next((str(row[name]) for name in _RATERS if row.get(name) not in (None, "")), "")
    system = row.get("system")
    cells = _cells(row, position, metrics, column)
    return [
        Label(
            sample_id=str(id_),
            value=value,
            metric=metric if metric is None or metric in metrics else full_name(metric),
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
            raise DataError(f"row {position} does not have a column {column!r}. Columns: {', '.join(map(str, row))}.")
        return [(row.get("metric") or None, row[column])]
    named = [(metric, row[metric]) for metric in metrics if metric in row]
    if named and "metric" not in row:
        return [*named]
    generic = next((name for name in _GENERIC if name in row), None)
    if generic is None:
        raise DataError(
            f"row {position} does not have a label: neither a column named like a metric ({', '.join(metrics)}) nor one of "
            f"{', '.join(_GENERIC)}. Set research.label_column=NAME."
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
                f"row {position}: a label must be a number or one of {', '.join(_WORDS)}, got {cell!r}"
            ) from None
    if math.isnan(number):
        # NaN is an empty cell of a data frame.
        return None
    if abs(number) > _LARGEST:
        raise DataError(f"row {position}: a label must be finite and within {_LARGEST:g}, got {cell!r}")
    return number
