"""Unpaired comparison of systems on one metric, such as the requests of two weeks or releases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ragstone._util.distributions import normal_quantile
from ragstone.experiments._compare.align import FAILED, SCORED, AlignedMetric, AlignedScores
from ragstone.experiments._compare.pairs import (
    POWER,
    Family,
    MetricComparison,
    PairDifference,
    decide,
    default_effect,
    effect_interval,
    power_of,
    standard_error,
    system_mean,
)
from ragstone.stats import TukeyPair, simultaneous_independent_tukey

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WIDE: Final = 1e9
"""Substitute range for unbounded metrics."""


def compare_unpaired(
    metrics: Sequence[AlignedMetric],
    scores: AlignedScores,
    family: Family,
    *,
    min_effect: float | None = None,
    exploratory: bool = False,
) -> tuple[MetricComparison, ...]:
    """Compare systems with different samples on metrics. `family.confidence_level` holds for all pairs and metrics.

    Args:
        metrics: Some of the metrics of `scores`. Each sample belongs to one system, or to several as independent samples.
        scores: All aligned scores.
        family: Pairs and settings.
        min_effect: Smallest difference of interest. Default: 1% of the metric's range.
        exploratory: Whether the metrics are exploratory, because another one is primary.
    """
    import numpy as np

    n_systems = len(scores.systems)
    # Rows by system and sample, so that a sample of two systems counts as two.
    states = np.concatenate([np.stack([m.states[:, i] for m in metrics], axis=1) for i in range(n_systems)])
    values = np.concatenate([np.stack([m.values[:, i] for m in metrics], axis=1) for i in range(n_systems)])
    kept = np.flatnonzero((states == SCORED).any(axis=1))
    samples = kept % len(scores.sample_ids)
    results = simultaneous_independent_tukey(
        np.where(states[kept] == SCORED, values[kept], np.nan),
        kept // len(scores.sample_ids),
        scores.inclusion_probabilities[samples],
        n_groups=n_systems,
        clusters=None if scores.clusters is None else [scores.clusters[row] for row in samples],
        pairs=family.pairs,
        ends=[_ends(metric) for metric in metrics],
        n_resamples=family.n_permutations,
        confidence_level=family.confidence_level,
        seed=family.seed,
    )
    compared = []
    for metric, result in zip(metrics, results, strict=True):
        effect = default_effect(metric, min_effect)
        pairs = tuple(
            _pair(metric, scores, tukey, confidence_level=family.confidence_level, min_effect=effect)
            for tukey in result.pairs
        )
        compared.append(
            MetricComparison(
                metric=metric.name,
                higher_is_better=metric.higher_is_better,
                low=metric.low,
                high=metric.high,
                systems=tuple(
                    system_mean(metric, i, scores, confidence_level=family.confidence_level) for i in range(n_systems)
                ),
                pairs=pairs,
                confidence_level=family.confidence_level,
                discriminative_power=power_of(pairs, family.confidence_level) if family.complete else None,
                min_effect=effect,
                n_permutations=result.n_resamples,
                exact=False,
                exploratory=exploratory,
            )
        )
    return tuple(compared)


def _ends(metric: AlignedMetric) -> tuple[float, float]:
    import numpy as np

    scored = metric.values[~np.isnan(metric.values)]
    largest = max(1.0, float(abs(scored).max())) if scored.size else 1.0
    low = metric.low if math.isfinite(metric.low) else -_WIDE * largest
    high = metric.high if math.isfinite(metric.high) else _WIDE * largest
    return low, high


def _pair(
    metric: AlignedMetric, scores: AlignedScores, tukey: TukeyPair, *, confidence_level: float, min_effect: float | None
) -> PairDifference:
    import numpy as np

    groups, errors, clusters = [], [], []
    for column in (tukey.first, tukey.second):
        rows = np.flatnonzero(metric.states[:, column] == SCORED)
        groups.append(metric.values[rows, column])
        labels = None if scores.clusters is None else [scores.clusters[row] for row in rows]
        clusters.append(labels)
        weights = 1 / scores.inclusion_probabilities[rows]
        errors.append(standard_error(groups[-1], weights, labels) if rows.size else 0.0)
    half = None if tukey.low is None or tukey.high is None else (tukey.high - tukey.low) / 2
    detectable = None if half is None else half + normal_quantile(POWER) * math.hypot(*errors)
    n_more = None
    if detectable is not None and min_effect is not None:
        n_more = max(0, math.ceil(tukey.n * (detectable / min_effect) ** 2 * (1 - 1e-12)) - tukey.n)
    width = metric.high - metric.low
    low, high = tukey.low, tukey.high
    if low is not None and high is not None and math.isfinite(width):
        # A difference cannot exceed the range.
        low, high = max(low, -width), min(high, width)
    n_failed, bounds = _worst_case(metric, tukey, scores.inclusion_probabilities)
    effect = _effect(*groups)
    pair = PairDifference(
        system=scores.systems[tukey.first],
        other=scores.systems[tukey.second],
        n=tukey.n if tukey.difference is not None else 0,
        difference=tukey.difference,
        low=low,
        high=high,
        p_value=tukey.p_value,
        better=None,
        effect_size=effect,
        effect_interval=None if effect is None else _interval(effect, groups, clusters, confidence_level),
        n_higher=0,
        n_equal=0,
        n_lower=0,
        n_failed=n_failed,
        bounds=bounds,
        detectable=detectable,
        n_more=n_more,
    )
    return decide(pair, confidence_level=confidence_level, higher=metric.higher_is_better)


def _effect(first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    """Return Hedges' g of two independent groups: the difference in pooled standard deviations, corrected for small n."""
    if min(first.size, second.size) < 2 or not (pooled := _pooled(first, second)):
        return None
    freedom = first.size + second.size - 2
    return (float(first.mean()) - float(second.mean())) / pooled * (1 - 3 / (4 * freedom - 1))


def _pooled(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the pooled standard deviation of two groups."""
    freedom = first.size + second.size - 2
    squares = (first.size - 1) * float(first.var(ddof=1)) + (second.size - 1) * float(second.var(ddof=1))
    return math.sqrt(squares / freedom)


def _interval(
    effect: float,
    groups: Sequence[NDArray[np.float64]],
    clusters: Sequence[Sequence[str | None] | None],
    confidence_level: float,
) -> tuple[float, float] | None:
    """Return the interval of Hedges' g of two independent groups."""
    pooled, total = _pooled(*groups), sum(group.size for group in groups)
    # The difference of means, not the mean of a group, is divided by the deviation.
    difference = float(groups[0].mean()) - float(groups[1].mean())
    influences = []
    for group, sign in zip(groups, (1.0, -1.0), strict=True):
        z = (group - group.mean()) / pooled
        influences.append(sign * z - difference / pooled / 2 * group.size / total * z * z)
    return effect_interval(effect, list(zip(influences, clusters, strict=True)), confidence_level)


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
