"""What a report shows of a comparison: differences from a baseline, means of all systems, changed samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragstone.errors import ConfigurationError
from ragstone.experiments._cards import card_of
from ragstone.experiments._compare.pairs import MetricComparison, PairDifference
from ragstone.experiments._compare.text import describe_doubt, format_p_value, size
from ragstone.experiments._table import ScoreTable
from ragstone.experiments._views.changes import Compared
from ragstone.experiments._views.source import Source
from ragstone.judges import BASELINE_NOTE
from ragstone.views import Difference, SystemEstimate

_STAGES = ("answer", "support", "passages")
_SAME: Final = 1e-9
"""Smallest change that is not a rounding error."""


def view_comparison(comparison: Any, system: str, baseline: str, before: Source) -> Compared:
    """Return what a report of `system` shows of a `Comparison` with the baseline, whose outcomes are in `before`."""
    metrics, table, paired = comparison.metrics, comparison.scores, comparison.paired
    systems = (system, *(s for s in table.systems if s not in (system, baseline)), baseline)
    differences = tuple(
        describe_difference(metric, pair)
        for name in systems[:-1]
        for metric in metrics
        for pair in metric.pairs
        if {pair.system, pair.other} == {name, baseline}
        for pair in [pair if pair.system == name else pair.turned()]
    )
    key = comparison.primary or _key_metric(metrics)
    means = {
        metric.metric: {
            mean.system: SystemEstimate(system=mean.system, estimate=mean.estimate) for mean in metric.systems
        }
        for metric in metrics
    }
    column = table.metrics[key]
    numbers = column.values[:, [table.systems.index(name) for name in (baseline, system)]].tolist()
    values = ((_number(first), _number(second)) for first, second in numbers)
    return Compared(
        system=system,
        baseline=baseline,
        systems=systems,
        paired=paired,
        differences=differences,
        means={metric: tuple(by[name] for name in systems) for metric, by in means.items()},
        metric=key,
        n_common=comparison.n_common if paired else 0,
        values=dict(zip(table.sample_ids, values, strict=True)) if paired else {},
        higher_is_better=column.higher_is_better,
        changed=_changed(table, key, system, baseline) if paired else {},
        notes=tuple(note for note in comparison.notes if note != BASELINE_NOTE),
        method=comparison.method,
        before=before,
    )


def _changed(table: ScoreTable, metric: str, system: str, baseline: str) -> dict[str, bool]:
    """Return whether a score is better, for samples whose score changed by at least half of the metric's range."""
    width = table.metrics[metric].high - table.metrics[metric].low
    found = find_changed(
        table, metric, system=system, baseline=baseline, min_change=width / 2 if math.isfinite(width) else 0.0
    )
    return {each.sample_id: each.is_better for each in found}


def _key_metric(metrics: Sequence[MetricComparison]) -> str:
    """Return the first metric that rates the answer against the reference, or the first one of the next stages.

    Metrics that some system does not have scores of come last.
    """

    def place(metric: MetricComparison) -> tuple[bool, int]:
        card = card_of(metric.metric)
        is_absent = any(mean.estimate is None for mean in metric.systems)
        return is_absent, len(_STAGES) if card is None else _STAGES.index(card.stage)

    return min(metrics, key=place).metric


def describe_difference(metric: MetricComparison, pair: PairDifference) -> Difference:
    """Return the difference of a pair, for views."""
    card = card_of(metric.metric)
    return Difference(
        system=pair.system,
        other=pair.other,
        metric=metric.metric,
        title=card.title if card is not None else metric.metric,
        lower_is_better=not metric.higher_is_better,
        width=metric.high - metric.low,
        difference=pair.difference,
        low=pair.low,
        high=pair.high,
        size="no common score" if pair.difference is None else size(metric, pair, sign=True),
        p_value=pair.p_value,
        p="untestable" if pair.p_value is None else f"p {format_p_value(pair.p_value)}",
        better=pair.better,
        n=pair.n,
        n_up=pair.n_higher,
        n_down=pair.n_lower,
        doubt=describe_doubt(metric, pair).strip(),
        is_exploratory=metric.exploratory,
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


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
    """Return the samples whose scores differ between two systems of a paired comparison. See `Comparison.changed`."""
    import numpy as np

    _check(table, metric, min_change, n)
    first, second = _pair_of(table, system, baseline)
    aligned = table.metrics[metric]
    change = aligned.values[:, second] - aligned.values[:, first]
    rows = np.flatnonzero(np.abs(change) >= max(min_change - _SAME, _SAME))
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
    for name in (system, baseline):
        if name is not None:
            table.column_of(name)
    listed = ", ".join(map(repr, table.systems))
    baseline = baseline or next(name for name in table.systems if name != system)
    others = [name for name in table.systems if name != baseline]
    if system is None and len(others) > 1:
        raise ConfigurationError(
            f"there are {len(table.systems)} systems ({listed}). Name one of them: system={others[-1]!r}"
        )
    system = system or others[0]
    if system == baseline:
        raise ConfigurationError(f"system and baseline are both {system!r}. Name two of {listed}.")
    return table.column_of(baseline), table.column_of(system)
