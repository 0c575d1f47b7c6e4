"""Unpaired comparison of systems on one metric, such as the requests of two weeks or releases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ragstone.experiments._compare.align import FAILED, NOT_APPLICABLE, SCORED, AlignedMetric
from ragstone.experiments._compare.pairs import (
    POINT,
    POWER,
    Family,
    MetricComparison,
    PairDifference,
    SystemMean,
    find_winner,
    power_of,
)
from ragstone.stats import TukeyPair, hajek_mean, independent_tukey, mean_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["compare_unpaired"]

_WIDE: Final = 1e9
"""Substitute range for unbounded metrics."""


def compare_unpaired(
    metric: AlignedMetric,
    systems: Sequence[str],
    family: Family,
    inclusion: NDArray[np.float64],
    *,
    min_effect: float | None = None,
) -> MetricComparison:
    """Compare systems with different samples on one metric. `family.confidence_level` holds for all pairs simultaneously.

    Args:
        metric: Aligned scores. Each sample belongs to one system.
        systems: Names of the systems.
        family: Pairs and settings.
        inclusion: Sampling probability of each sample, by row.
        min_effect: Smallest difference of interest. Default: 1% of the metric's range.
    """
    import numpy as np

    scored = [np.flatnonzero(metric.states[:, i] == SCORED) for i in range(len(systems))]
    groups = [metric.values[rows, i] for i, rows in enumerate(scored)]
    kept = [inclusion[rows] for rows in scored]
    low, high = _ends(metric, groups)
    result = independent_tukey(
        groups,
        kept,
        pairs=family.pairs,
        low=low,
        high=high,
        n_resamples=family.n_permutations,
        confidence_level=family.confidence_level,
        seed=family.seed,
    )
    if min_effect is None and math.isfinite(metric.high - metric.low):
        min_effect = POINT * (metric.high - metric.low)
    pairs = tuple(
        _pair(
            metric,
            systems,
            tukey,
            groups,
            inclusion,
            kept,
            confidence_level=family.confidence_level,
            min_effect=min_effect,
        )
        for tukey in result.pairs
    )
    return MetricComparison(
        metric=metric.name,
        higher_is_better=metric.higher_is_better,
        low=metric.low,
        high=metric.high,
        systems=tuple(_mean(metric, i, name, groups[i], kept[i]) for i, name in enumerate(systems)),
        pairs=pairs,
        confidence_level=family.confidence_level,
        discriminative_power=power_of(pairs, family.confidence_level) if family.complete else None,
        min_effect=min_effect,
        n_permutations=result.n_resamples,
        exact=False,
    )


def _ends(metric: AlignedMetric, groups: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    largest = max((float(abs(group).max()) for group in groups if group.size), default=1.0)
    low = metric.low if math.isfinite(metric.low) else -_WIDE * max(1.0, largest)
    high = metric.high if math.isfinite(metric.high) else _WIDE * max(1.0, largest)
    return low, high


def _mean(
    metric: AlignedMetric, column: int, system: str, values: NDArray[np.float64], kept: NDArray[np.float64]
) -> SystemMean:
    states = metric.states[:, column]
    estimate = None
    if values.size > 1 and kept.min() < kept.max():
        estimate = hajek_mean(values.tolist(), kept.tolist(), low=metric.low, high=metric.high)
    elif values.size:
        estimate = mean_interval(values.tolist(), low=metric.low, high=metric.high)
    return SystemMean(
        system=system,
        estimate=estimate,
        n_scored=int(values.size),
        n_failed=int((states == FAILED).sum()),
        n_not_applicable=int((states == NOT_APPLICABLE).sum()),
    )


def _pair(
    metric: AlignedMetric,
    systems: Sequence[str],
    tukey: TukeyPair,
    groups: Sequence[NDArray[np.float64]],
    inclusion: NDArray[np.float64],
    kept: Sequence[NDArray[np.float64]],
    *,
    confidence_level: float,
    min_effect: float | None,
) -> PairDifference:
    from scipy.special import ndtri

    first, second = groups[tukey.first], groups[tukey.second]
    error = math.sqrt(_variance(first, kept[tukey.first]) + _variance(second, kept[tukey.second]))
    half = None if tukey.low is None or tukey.high is None else (tukey.high - tukey.low) / 2
    detectable = None if half is None else half + float(ndtri(POWER)) * error
    n_more = None
    if detectable is not None and min_effect is not None:
        n_more = max(0, math.ceil(tukey.n * (detectable / min_effect) ** 2 * (1 - 1e-12)) - tukey.n)
    width = metric.high - metric.low
    low, high = tukey.low, tukey.high
    if low is not None and high is not None and math.isfinite(width):
        # A difference cannot exceed the range.
        low, high = max(low, -width), min(high, width)
    n_failed, bounds = _worst_case(metric, tukey, inclusion)
    pair = PairDifference(
        system=systems[tukey.first],
        other=systems[tukey.second],
        n=tukey.n if tukey.difference is not None else 0,
        difference=tukey.difference,
        low=low,
        high=high,
        p_value=tukey.p_value,
        better=None,
        effect_size=_effect(first, second),
        n_higher=0,
        n_equal=0,
        n_lower=0,
        n_failed=n_failed,
        bounds=bounds,
        detectable=detectable,
        n_more=n_more,
    )
    return replace(
        pair, better=find_winner(pair, pair.p_value, confidence_level=confidence_level, higher=metric.higher_is_better)
    )


def _variance(x: NDArray[np.float64], kept: NDArray[np.float64]) -> float:
    if x.size < 2:
        return 0.0
    w = 1 / kept
    mean = float((w * x).sum() / w.sum())
    return float(((w * (x - mean)) ** 2).sum()) / float(w.sum()) ** 2 * x.size / (x.size - 1)


def _effect(first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    """Return Hedges' g of two independent groups: the difference in pooled standard deviations, corrected for small n."""
    freedom = first.size + second.size - 2
    if min(first.size, second.size) < 2:
        return None
    pooled = math.sqrt(
        ((first.size - 1) * float(first.var(ddof=1)) + (second.size - 1) * float(second.var(ddof=1))) / freedom
    )
    if not pooled:
        return None
    return (float(first.mean()) - float(second.mean())) / pooled * (1 - 3 / (4 * freedom - 1))


def _worst_case(
    metric: AlignedMetric, tukey: TukeyPair, inclusion: NDArray[np.float64]
) -> tuple[int, tuple[float, float] | None]:
    """Return the number of failed samples, and the bounds of the difference for any scores of them."""
    import numpy as np

    ends = []
    n_failed = 0
    for column in (tukey.first, tukey.second):
        rows = np.flatnonzero(np.isin(metric.states[:, column], (SCORED, FAILED)))
        failed = metric.states[rows, column] == FAILED
        n_failed += int(failed.sum())
        if not rows.size:
            return n_failed, None
        low, high = metric.values[rows, column].copy(), metric.values[rows, column].copy()
        low[failed], high[failed] = metric.low, metric.high
        for k in np.flatnonzero(failed).tolist() if metric.ends else ():
            if (reported := metric.ends.get((int(rows[k]), column))) is not None:
                low[k], high[k] = reported
        weights = 1 / inclusion[rows]
        ends.append((float(np.average(low, weights=weights)), float(np.average(high, weights=weights))))
    (low_a, high_a), (low_b, high_b) = ends
    return n_failed, (low_a - high_b, high_a - low_b)
