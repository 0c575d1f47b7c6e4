"""Samples whose scores differ between two systems."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragstone.errors import ConfigurationError
from ragstone.experiments._compare.text import format_difference
from ragstone.experiments._outcomes import OutcomeSource, open_source
from ragstone.experiments._table import MetricScores, ScoreTable
from ragstone.schema import Sample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SAME: Final = 1e-9
"""Smallest change that is not a rounding error."""
_TEXT_CHARS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSample:
    """A sample on which two systems have different scores."""

    sample_id: str
    metric: str
    baseline: str
    system: str
    before: float
    """Score of `baseline`, in the metric's own units."""
    after: float
    """Score of `system`."""
    is_better: bool
    """Whether `after` is the better score."""

    @property
    def change(self) -> float:
        """`after` - `before`, in the metric's own units."""
        return self.after - self.before


def find_changed(
    table: ScoreTable,
    metric: str,
    *,
    system: str | None = None,
    baseline: str | None = None,
    min_change: float = 0.0,
    n: int | None = None,
) -> tuple[ChangedSample, ...]:
    """Return the samples whose scores differ between two systems, the largest change first, losses before gains.

    A sample without a score of both systems is not included.

    Args:
        table: The scores of a paired comparison.
        metric: Name of the metric.
        system: The later system. Default: the only one other than the baseline.
        baseline: The earlier system. Default: the first system, or the other one if this is `system`.
        min_change: Smallest absolute change, in the metric's own units. 0: every change.
        n: Maximum number of samples. None: all.

    Raises:
        ConfigurationError: If a system or the metric is unknown, `system` is missing although
            there are several, `min_change` is negative or not finite, or `n` is below 1.
    """
    import numpy as np

    _check(table, metric, min_change, n)
    first, second = _pair_of(table, system, baseline)
    aligned = table.metrics[metric]
    change = aligned.values[:, second] - aligned.values[:, first]
    rows = _rows(change, min_change)
    is_loss = (change[rows] < 0) == aligned.higher_is_better
    ids = np.asarray([*table.sample_ids], dtype=object)[rows]
    # The id decides between equal changes, so that the order does not depend on the order of the rows.
    order = sorted(range(rows.size), key=lambda i: (-abs(round(float(change[rows[i]]), 9)), not is_loss[i], ids[i]))
    return tuple(
        ChangedSample(
            sample_id=ids[i],
            metric=metric,
            baseline=table.systems[first],
            system=table.systems[second],
            before=float(aligned.values[rows[i], first]),
            after=float(aligned.values[rows[i], second]),
            is_better=not is_loss[i],
        )
        for i in order[:n]
    )


def _rows(change: NDArray[np.float64], min_change: float) -> NDArray[np.intp]:
    """Return the rows with a change of at least `min_change`, up to rounding."""
    import numpy as np

    with np.errstate(invalid="ignore"):
        return np.flatnonzero(np.abs(change) >= max(min_change - _SAME, _SAME))


def _check(table: ScoreTable, metric: str, min_change: float, n: int | None) -> None:
    if metric not in table.metrics:
        raise ConfigurationError(f"unknown metric {metric!r}. Compared: {', '.join(table.metrics)}.")
    if not (math.isfinite(min_change) and min_change >= 0):
        raise ConfigurationError(
            f"min_change must be a finite number of at least 0, in the metric's own units, got {min_change!r}"
        )
    if n is not None and n < 1:
        raise ConfigurationError(f"n must be at least 1, got {n!r}")


def _pair_of(table: ScoreTable, system: str | None, baseline: str | None) -> tuple[int, int]:
    """Return the columns of baseline and system."""
    known = list(table.systems)
    listed = ", ".join(map(repr, known))
    for name in (system, baseline):
        if name is not None and name not in known:
            raise ConfigurationError(f"unknown system {name!r}. Systems: {listed}.")
    if baseline is None:
        baseline = next(name for name in known if name != system)
    others = [name for name in known if name != baseline]
    if system is None and len(others) > 1:
        raise ConfigurationError(f"there are {len(known)} systems ({listed}). Name one of them: system={others[-1]!r}")
    system = system or others[0]
    if system == baseline:
        raise ConfigurationError(f"system and baseline are both {system!r}. Name two of {listed}.")
    return known.index(baseline), known.index(system)


def changed_lines(
    table: ScoreTable, changed: Sequence[ChangedSample], shown: int, texts: Mapping[str, Mapping[str, Sample]]
) -> list[str]:
    """Format the changed samples of one metric and pair: their number, and the first ones with question and answers.

    Args:
        table: The aligned scores.
        changed: All changed samples, at least one.
        shown: Number of samples to show.
        texts: Texts by system and sample id, as far as they are known.
    """
    import numpy as np

    first = changed[0]
    metric = table.metrics[first.metric]
    columns = [table.systems.index(name) for name in (first.baseline, first.system)]
    n = int((~np.isnan(metric.values[:, columns])).all(axis=1).sum())
    n_better = sum(each.is_better for each in changed)
    largest = ""
    if len(changed) > shown:
        largest = f". The {shown} largest changes:" if shown > 1 else ". The largest change:"
    counts = f"{len(changed) - n_better:,} worse and {n_better:,} better"
    head = f"{len(changed):,} of {n:,} samples changed from {first.baseline} to {first.system}, {counts}"
    lines = [f"{metric.name}: {head}{largest}"]
    for each in changed[:shown]:
        lines.append(f"  {each.sample_id}: {each.before:.3g} -> {each.after:.3g} ({_size(each, metric)})")
        lines += _texts(each, texts)
    return lines


def _size(each: ChangedSample, metric: MetricScores) -> str:
    size = format_difference(abs(each.change), points=(metric.low, metric.high) == (0.0, 1.0))
    return f"{size} {'better' if each.is_better else 'worse'}"


def _texts(each: ChangedSample, texts: Mapping[str, Mapping[str, Sample]]) -> list[str]:
    """Format the question and both answers, as far as they are known."""
    found = [texts.get(name, {}).get(each.sample_id) for name in (each.baseline, each.system)]
    query = next((sample.query for sample in found if sample is not None and sample.query), None)
    lines = [] if query is None else [f"    question: {_shorten(query)}"]
    return lines + [
        f"    {name}: {_shorten(sample.response) or '(blank)'}"
        for name, sample in zip((each.baseline, each.system), found, strict=True)
        if sample is not None and sample.response is not None
    ]


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_CHARS else f"{line[: _TEXT_CHARS - 1]}…"


def read_texts(
    sources: Mapping[str, OutcomeSource],
    ids: Sequence[str],
    data: Mapping[str, Iterable[Sample]],
    other_ids: Mapping[tuple[str, str], str],
) -> dict[str, dict[str, Sample]]:
    """Return the texts of samples by system and id, as far as the sources contain them.

    Args:
        sources: Sources by system.
        ids: Ids of the samples.
        data: The samples of a file of outcomes, which does not contain texts, by system.
        other_ids: See `align`.
    """
    texts: dict[str, dict[str, Sample]] = {}
    for name, source in sources.items():
        own = {id_: other_ids.get((name, id_), id_) for id_ in ids}
        records = open_source(source, samples=data.get(name, ())).records(own.values())
        texts[name] = {id_: found for id_, one in own.items() if (found := records[one].sample) is not None}
    return texts
