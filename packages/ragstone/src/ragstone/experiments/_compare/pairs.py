"""Comparison of all pairs of systems on one metric: simultaneous intervals, effect sizes and sample size estimates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ragstone.experiments._compare.align import FAILED, NOT_APPLICABLE, SCORED, AlignedMetric
from ragstone.stats import (
    DiscriminativePower,
    Estimate,
    TukeyPair,
    discriminative_power,
    mean_interval,
    paired_effect,
    randomized_tukey,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "POINT",
    "POWER",
    "Family",
    "MetricComparison",
    "PairDifference",
    "SystemMean",
    "adjust_across_metrics",
    "compare_metric",
    "find_winner",
    "has_no_test",
    "possible_differences",
    "power_of",
    "worst_case",
]

POWER: Final = 0.8
"""Power at which a difference counts as detectable."""

POINT: Final = 0.01
"""One point, as a share of a metric's range: the default minimum effect."""

_SAME: Final = 1e-12
"""Tolerance for rounding (1 - 0.95 is slightly more than 0.05): a p-value equal to the limit is significant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemMean:
    """The mean of one system on one metric."""

    system: str
    estimate: Estimate | None
    """Mean and interval of all scored samples, or None without scores."""
    n_scored: int
    n_failed: int
    n_not_applicable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairDifference:
    """The difference of two systems on one metric, over the samples that both have scored."""

    system: str
    other: str
    n: int
    """Number of samples with a score of both. Unpaired: number of scored samples of both systems together."""
    difference: float | None
    """Mean of `system` - `other`, in the metric's own units, or None without a common score."""
    low: float | None
    """Lower end of the simultaneous confidence interval, at the comparison's level for all pairs of the metric. None if
    too few samples differ for a test."""
    high: float | None
    p_value: float | None
    """P-value, adjusted for all pairs, and for all metrics if the comparison is across metrics. None if untestable."""
    better: str | None
    """The significantly better system, or None without a significant difference."""
    effect_size: float | None
    """Mean difference in standard deviations of the differences (Hedges' g), with the sign of `difference`."""
    n_higher: int
    """Number of samples on which `system` scores higher. 0, like the next two, if unpaired."""
    n_equal: int
    n_lower: int
    n_failed: int
    """Number of samples of both systems on which at least one failed. The numbers above exclude them."""
    bounds: tuple[float, float] | None
    """Lowest and highest possible difference for any scores of the failed samples. Infinite for an unbounded metric."""
    detectable: float | None
    """Smallest difference that this number of samples detects with power 0.8, or None if untestable."""
    n_more: int | None
    """Number of additional samples that would detect `MetricComparison.min_effect` with power 0.8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """The comparison of all systems on one metric."""

    metric: str
    higher_is_better: bool
    low: float
    high: float
    """The metric's range. Infinite if unbounded."""
    systems: tuple[SystemMean, ...]
    pairs: tuple[PairDifference, ...]
    confidence_level: float
    """Simultaneous confidence level of the metric's intervals."""
    discriminative_power: DiscriminativePower | None
    """Share of the pairs of systems with a significant difference. None unless all pairs were compared."""
    min_effect: float | None
    """Smallest difference of interest, for `n_more`. None for an unbounded metric without an explicit value."""
    n_permutations: int
    """Number of permutations for the p-values."""
    exact: bool
    """Whether all possible permutations were used."""

    @property
    def in_points(self) -> bool:
        """Whether differences are printed in points (hundredths of a range from 0 to 1)."""
        return (self.low, self.high) == (0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The compared pairs and the settings of the test."""

    pairs: tuple[tuple[int, int], ...]
    """Column indices of system and other."""
    complete: bool
    """Whether these are all possible pairs."""
    confidence_level: float
    n_permutations: int
    seed: int

    @classmethod
    def of(
        cls, n_systems: int, *, baseline: int | None, confidence_level: float, n_permutations: int, seed: int
    ) -> Family:
        """Create the family of all pairs (later minus earlier), or of all systems with the baseline."""
        if baseline is None:
            pairs = tuple((j, i) for i, j in itertools.combinations(range(n_systems), 2))
        else:
            pairs = tuple((j, baseline) for j in range(n_systems) if j != baseline)
        return cls(
            pairs=pairs,
            complete=baseline is None,
            confidence_level=confidence_level,
            n_permutations=n_permutations,
            seed=seed,
        )


def compare_metric(
    metric: AlignedMetric, systems: Sequence[str], family: Family, *, min_effect: float | None = None
) -> MetricComparison:
    """Compare systems on one metric. `family.confidence_level` holds for all pairs simultaneously."""
    result = randomized_tukey(
        metric.values,
        pairs=family.pairs,
        n_resamples=family.n_permutations,
        confidence_level=family.confidence_level,
        seed=family.seed,
    )
    if min_effect is None and math.isfinite(metric.high - metric.low):
        min_effect = POINT * (metric.high - metric.low)
    pairs = tuple(
        _pair(metric, systems, pair, confidence_level=family.confidence_level, min_effect=min_effect)
        for pair in result.pairs
    )
    return MetricComparison(
        metric=metric.name,
        higher_is_better=metric.higher_is_better,
        low=metric.low,
        high=metric.high,
        systems=tuple(_mean(metric, i, name) for i, name in enumerate(systems)),
        pairs=pairs,
        confidence_level=family.confidence_level,
        discriminative_power=power_of(pairs, family.confidence_level) if family.complete else None,
        min_effect=min_effect,
        n_permutations=result.n_resamples,
        exact=result.exact,
    )


def has_no_test(metric: MetricComparison) -> bool:
    """Return whether no pair was testable."""
    return all(pair.p_value is None for pair in metric.pairs)


def adjust_across_metrics(
    metrics: Sequence[MetricComparison], *, confidence_level: float
) -> tuple[MetricComparison, ...]:
    """Adjust p-values for all metrics, so that the probability of any false positive is at most 1 - `confidence_level`.

    This is Holm's procedure with whole metrics as hypotheses. P-values within a metric are already adjusted for its pairs, so
    they are multiplied by the number of metrics. The factor decreases only after a metric whose pairs are all significant.
    (Before the first false positive, no metric with a true null hypothesis has only significant pairs, so the factor is at
    least the number of such metrics. Decreasing it after a metric with one significant pair would not be safe.) For two
    systems this is Holm's correction.

    Confidence intervals use an equal split of the error instead. If a difference is significant but its interval includes 0,
    the interval is cut at 0: only the sign is known.

    Source:
        Holm 1979. Strassburger and Bretz 2008 (intervals that agree with the procedure).
    """
    largest = [max((1.0 if pair.p_value is None else pair.p_value) for pair in metric.pairs) for metric in metrics]
    order = sorted(range(len(metrics)), key=lambda i: largest[i])
    adjusted: dict[int, list[float | None]] = {}
    # The largest adjusted p-value of the earlier metrics: it must be significant before a step's factor applies.
    hurdles = [0.0]
    for step, i in enumerate(order):
        hurdles.append(max(hurdles[-1], min(1.0, (len(metrics) - step) * largest[i])))
    for rank, i in enumerate(order):
        adjusted[i] = [
            None
            if pair.p_value is None
            else min(max(hurdles[step], min(1.0, (len(metrics) - step) * pair.p_value)) for step in range(rank + 1))
            for pair in metrics[i].pairs
        ]
    return tuple(
        replace(
            metric,
            pairs=tuple(
                _cut_at_0(
                    replace(
                        pair,
                        p_value=p,
                        better=find_winner(pair, p, confidence_level=confidence_level, higher=metric.higher_is_better),
                    )
                )
                for pair, p in zip(metric.pairs, adjusted[i], strict=True)
            ),
            discriminative_power=metric.discriminative_power and _power_of_values(adjusted[i], confidence_level),
        )
        for i, metric in enumerate(metrics)
    )


def _cut_at_0(pair: PairDifference) -> PairDifference:
    """Cut the interval of a significant difference at 0."""
    if pair.better is None or pair.low is None or pair.high is None:
        return pair
    above = (pair.difference or 0.0) > 0
    return replace(pair, low=max(pair.low, 0.0)) if above else replace(pair, high=min(pair.high, 0.0))


def worst_case(metric: AlignedMetric, first: int, second: int) -> tuple[int, tuple[float, float] | None]:
    """Bound a difference for any scores of failed samples, over the samples that both systems scored or failed on.

    Returns:
        Number of samples on which at least one system failed, and the bounds (None without such samples).
    """
    n_failed, lowest, highest = possible_differences(metric, first, second)
    return n_failed, (float(lowest.mean()), float(highest.mean())) if lowest.size else None


def possible_differences(
    metric: AlignedMetric, first: int, second: int
) -> tuple[int, NDArray[np.float64], NDArray[np.float64]]:
    """Bound each sample's difference, over the samples that both systems scored or failed on.

    Returns:
        Number of samples on which at least one system failed, and the lowest and highest differences by sample, which are
        equal without failures.

    Source:
        Manski 1989 (worst-case bounds under missing data).
    """
    import numpy as np

    columns = (first, second)
    states = metric.states[:, columns]
    rows = np.flatnonzero(np.isin(states, (SCORED, FAILED)).all(axis=1))
    states = states[rows]
    low, high = metric.values[rows][:, columns], metric.values[rows][:, columns]
    failed = states == FAILED
    low[failed], high[failed] = metric.low, metric.high
    for at, side in np.argwhere(failed).tolist() if metric.ends else ():
        if (ends := metric.ends.get((int(rows[at]), columns[side]))) is not None:
            low[at, side], high[at, side] = ends
    return int(failed.any(axis=1).sum()), low[:, 0] - high[:, 1], high[:, 0] - low[:, 1]


def _mean(metric: AlignedMetric, column: int, system: str) -> SystemMean:
    states = metric.states[:, column]
    scored = metric.values[states == SCORED, column]
    return SystemMean(
        system=system,
        estimate=mean_interval(scored.tolist(), low=metric.low, high=metric.high) if scored.size else None,
        n_scored=int(scored.size),
        n_failed=int((states == FAILED).sum()),
        n_not_applicable=int((states == NOT_APPLICABLE).sum()),
    )


def _pair(
    metric: AlignedMetric,
    systems: Sequence[str],
    tukey: TukeyPair,
    *,
    confidence_level: float,
    min_effect: float | None,
) -> PairDifference:
    first, second = metric.values[:, tukey.first], metric.values[:, tukey.second]
    n_failed, bounds = worst_case(metric, tukey.first, tukey.second)
    effect = paired_effect(first, second) if tukey.n else None
    half = None if tukey.low is None or tukey.high is None else (tukey.high - tukey.low) / 2
    detectable, n_more = _find_detectable_difference(first, second, half, min_effect)
    width = metric.high - metric.low
    low, high = (None, None) if half is None else (tukey.low, tukey.high)
    if low is not None and high is not None and math.isfinite(width):
        # A difference cannot exceed the range.
        low, high = max(low, -width), min(high, width)
    pair = PairDifference(
        system=systems[tukey.first],
        other=systems[tukey.second],
        n=tukey.n,
        difference=tukey.difference,
        low=low,
        high=high,
        p_value=tukey.p_value,
        better=None,
        effect_size=effect.g_z if effect else None,
        n_higher=effect.n_better if effect else 0,
        n_equal=effect.n_equal if effect else 0,
        n_lower=effect.n_worse if effect else 0,
        n_failed=n_failed,
        bounds=bounds,
        detectable=detectable,
        n_more=n_more,
    )
    return replace(
        pair, better=find_winner(pair, pair.p_value, confidence_level=confidence_level, higher=metric.higher_is_better)
    )


def find_winner(pair: PairDifference, p: float | None, *, confidence_level: float, higher: bool) -> str | None:
    """Return the significantly better system by an adjusted p-value, or None."""
    if p is None or not pair.difference or p > (1 - confidence_level) * (1 + _SAME):
        return None
    return pair.system if (pair.difference > 0) == higher else pair.other


def _find_detectable_difference(
    first: NDArray[np.float64], second: NDArray[np.float64], half: float | None, min_effect: float | None
) -> tuple[float | None, int | None]:
    """Return the detectable difference, and the number of additional samples that would detect the minimum effect.

    A mean difference is significant if it exceeds the half-width of its interval, which is proportional to
    1 / sqrt(n), like its standard error.
    """
    from scipy.special import ndtri

    difference = first - second
    difference = difference[(first == first) & (second == second)]  # noqa: PLR0124 - NaN is not equal to itself
    n = difference.size
    if half is None or n < 2:
        return None, None
    detectable = half + float(ndtri(POWER)) * float(difference.std(ddof=1)) / math.sqrt(n)
    if min_effect is None:
        return detectable, None
    return detectable, max(0, math.ceil(n * (detectable / min_effect) ** 2 * (1 - _SAME)) - n)


def power_of(pairs: Sequence[PairDifference], confidence_level: float) -> DiscriminativePower:
    """Return the share of pairs with a significant difference."""
    return _power_of_values([pair.p_value for pair in pairs], confidence_level)


def _power_of_values(p_values: Sequence[float | None], confidence_level: float) -> DiscriminativePower:
    return discriminative_power(p_values, alpha=1 - confidence_level)
