"""All pairs of systems on one metric: differences that hold together, their sizes, and what more samples would show."""

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
"""With what probability a difference counts as detectable."""

POINT: Final = 0.01
"""One point, as a share of a metric's range: the difference that a comparison should be able to see."""

_SAME: Final = 1e-12
"""1 - 0.95 is 0.05 and a bit more: what equals the limit counts as within."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemMean:
    """One system on one metric."""

    system: str
    estimate: Estimate | None
    """Over all samples that were scored; None when none was."""
    n_scored: int
    n_failed: int
    n_not_applicable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairDifference:
    """How two systems differ on one metric, over the samples that both have scored."""

    system: str
    other: str
    n: int
    """Samples with a score of both; where nothing pairs them, scored samples of both together."""
    difference: float | None
    """Mean of `system` - `other`, in the metric's own units; None without a common score."""
    low: float | None
    """Lower end of the interval: all differences of the metric lie in theirs together, with the comparison's level. None
    where so few samples differ that nothing can be claimed."""
    high: float | None
    p_value: float | None
    """Adjusted for all pairs, and for all metrics if the comparison is across metrics. None where nothing was testable."""
    better: str | None
    """The system that is claimed to be better; None where no difference can be claimed."""
    effect_size: float | None
    """The mean difference in standard deviations of the differences (Hedges' g for pairs), in the sign of `difference`."""
    n_higher: int
    """Samples on which `system` has the higher score; 0 with the next two where nothing pairs samples."""
    n_equal: int
    n_lower: int
    n_failed: int
    """Samples of both systems on which one of them, or both, failed; they are in none of the numbers above."""
    bounds: tuple[float, float] | None
    """Between what the difference would lie, whatever those had scored; infinite for a metric without bounds."""
    detectable: float | None
    """The smallest difference that as many samples show with probability 0.8; None where nothing can be claimed."""
    n_more: int | None
    """How many more samples would show `MetricComparison.detect` with probability 0.8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """All systems on one metric."""

    metric: str
    higher_is_better: bool
    low: float
    high: float
    """The metric's range; infinite where it has no bound."""
    systems: tuple[SystemMean, ...]
    pairs: tuple[PairDifference, ...]
    confidence_level: float
    """Of the intervals of the metric's differences, together."""
    discriminative_power: DiscriminativePower | None
    """Share of the pairs of systems that the metric tells apart; None unless all pairs were compared."""
    min_effect: float | None
    """The difference that matters, for `n_more`; None for a metric without bounds if none was named."""
    n_permutations: int
    """Permutations behind the p-values."""
    exact: bool
    """Whether these were all that exist."""

    @property
    def in_points(self) -> bool:
        """Whether differences are told in points, hundredths of a range from 0 to 1."""
        return (self.low, self.high) == (0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Which pairs are compared, and how surely."""

    pairs: tuple[tuple[int, int], ...]
    """System and other, by their columns."""
    complete: bool
    """Whether these are all pairs."""
    confidence_level: float
    n_permutations: int
    seed: int

    @classmethod
    def of(
        cls, n_systems: int, *, baseline: int | None, confidence_level: float, n_permutations: int, seed: int
    ) -> Family:
        """All pairs, the later against the earlier; with a baseline each other system against that."""
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
    """Compare systems on one metric; `family.confidence_level` holds for all its pairs together."""
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
    """Whether no pair could be tested."""
    return all(pair.p_value is None for pair in metric.pairs)


def adjust_across_metrics(
    metrics: Sequence[MetricComparison], *, confidence_level: float
) -> tuple[MetricComparison, ...]:
    """Adjust p-values for all metrics as well, so that the chance of any false claim is at most 1 - `confidence_level`.

    Holm's procedure, with a whole metric in the place of a hypothesis: p-values within a metric hold for all its pairs, so
    they are multiplied by the number of metrics; only where every pair of a metric is claimed is its share of the error
    passed on to the others. (Before the first false claim no metric with a true hypothesis is wholly claimed, so that
    claim faces a factor that is at least the number of such metrics. Passing on the share of a metric of which one pair
    is claimed would not be safe.) For two systems this is Holm's correction itself.

    Intervals know no steps, and may hold 0 where a later step claims a difference. What is known of it then is its sign,
    so that the interval ends at 0.

    Source:
        Holm 1979; Strassburger and Bretz 2008 for intervals that agree with the steps.
    """
    largest = [max((1.0 if pair.p_value is None else pair.p_value) for pair in metric.pairs) for metric in metrics]
    order = sorted(range(len(metrics)), key=lambda i: largest[i])
    adjusted: dict[int, list[float | None]] = {}
    # What must be claimed in full before a step's factor applies.
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
                _ending_at_0(
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


def _ending_at_0(pair: PairDifference) -> PairDifference:
    """The pair, with an interval on that side of 0 alone where it is claimed to be."""
    if pair.better is None or pair.low is None or pair.high is None:
        return pair
    above = (pair.difference or 0.0) > 0
    return replace(pair, low=max(pair.low, 0.0)) if above else replace(pair, high=min(pair.high, 0.0))


def worst_case(metric: AlignedMetric, first: int, second: int) -> tuple[int, tuple[float, float] | None]:
    """Bound a difference over what two systems have both scored or failed on, whatever the failed ones had scored.

    Returns:
        On how many samples one or both failed, and the bounds; None where they have no such sample in common.
    """
    n_failed, lowest, highest = possible_differences(metric, first, second)
    return n_failed, (float(lowest.mean()), float(highest.mean())) if lowest.size else None


def possible_differences(
    metric: AlignedMetric, first: int, second: int
) -> tuple[int, NDArray[np.float64], NDArray[np.float64]]:
    """Between what and what each sample's difference lies that two systems have both scored or failed on.

    Returns:
        On how many samples one or both failed, and the lowest and the highest differences; both are the same where
        none failed.

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
    found: TukeyPair,
    *,
    confidence_level: float,
    min_effect: float | None,
) -> PairDifference:
    first, second = metric.values[:, found.first], metric.values[:, found.second]
    n_failed, bounds = worst_case(metric, found.first, found.second)
    effect = paired_effect(first, second) if found.n else None
    half = None if found.low is None or found.high is None else (found.high - found.low) / 2
    detectable, n_more = _find_detectable_difference(first, second, half, min_effect)
    width = metric.high - metric.low
    low, high = (None, None) if half is None else (found.low, found.high)
    if low is not None and high is not None and math.isfinite(width):
        # No difference is larger than the range.
        low, high = max(low, -width), min(high, width)
    pair = PairDifference(
        system=systems[found.first],
        other=systems[found.second],
        n=found.n,
        difference=found.difference,
        low=low,
        high=high,
        p_value=found.p_value,
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
    """Who is claimed to be better, by an adjusted p-value; None where nobody is."""
    if p is None or not pair.difference or p > (1 - confidence_level) * (1 + _SAME):
        return None
    return pair.system if (pair.difference > 0) == higher else pair.other


def _find_detectable_difference(
    first: NDArray[np.float64], second: NDArray[np.float64], half: float | None, min_effect: float | None
) -> tuple[float | None, int | None]:
    """What difference so many samples show, and how many more would show the one that matters.

    A mean difference is claimed where it is beyond the half-width of its interval, which shrinks with the root of the
    number of samples, as its standard error does.
    """
    from scipy.special import ndtri

    difference = first - second
    difference = difference[(first == first) & (second == second)]  # noqa: PLR0124 - NaN is not itself
    n = difference.size
    if half is None or n < 2:
        return None, None
    reach = half + float(ndtri(POWER)) * float(difference.std(ddof=1)) / math.sqrt(n)
    if min_effect is None:
        return reach, None
    return reach, max(0, math.ceil(n * (reach / min_effect) ** 2 * (1 - _SAME)) - n)


def power_of(pairs: Sequence[PairDifference], confidence_level: float) -> DiscriminativePower:
    """Share of the pairs that a metric tells apart."""
    return _power_of_values([pair.p_value for pair in pairs], confidence_level)


def _power_of_values(p_values: Sequence[float | None], confidence_level: float) -> DiscriminativePower:
    return discriminative_power(p_values, alpha=1 - confidence_level)
