"""Comparison of systems on metrics, paired or not: simultaneous intervals, effect sizes and sample size estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from ragstone._util.distributions import normal_quantile, student_quantile
from ragstone.experiments._table import FAILED, MetricScores, ScoreTable
from ragstone.settings import Analysis
from ragstone.stats import (
    DiscriminativePower,
    Estimate,
    FamilyResult,
    PairResult,
    cluster_codes,
    discriminative_power,
    independent_differences,
    paired_effect,
    simultaneous_differences,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POWER: Final = 0.8
"""Power at which a difference counts as detectable."""

POINT: Final = 0.01
"""One point, as a share of a metric's range: the default minimum effect."""

_FEW_FOR_EFFECT: Final = 10
"""Smallest number of samples or clusters for the interval of an effect size, whose error is estimated from fourth
moments."""

_WIDE: Final = 1e9
"""Substitute range for unbounded metrics."""

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
    effect_interval: tuple[float, float] | None = None
    """Simultaneous confidence interval of `effect_size`, with as many standard errors on each side as that of
    `difference`. None without that interval, or for fewer than 10 units."""

    def negated(self) -> PairDifference:
        """Return the pair with the opposite difference."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        return replace(
            self,
            difference=None if self.difference is None else -self.difference,
            low=low,
            high=high,
            effect_size=None if self.effect_size is None else -self.effect_size,
            bounds=None if self.bounds is None else (-self.bounds[1], -self.bounds[0]),
        )

    def turned(self) -> PairDifference:
        """Return the difference of the other system from this one."""
        own = self.negated()
        return replace(own, system=own.other, other=own.system, n_higher=own.n_lower, n_lower=own.n_higher)


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
    exploratory: bool = False
    """Whether the differences on this metric are not controlled together with the others, because another metric is
    primary, or because the scores follow from those of other metrics."""
    follows_from: tuple[str, ...] = ()
    """Compared metrics from which the scores follow."""

    @property
    def in_points(self) -> bool:
        """Whether differences are printed in points (hundredths of a range from 0 to 1)."""
        return (self.low, self.high) == (0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The pairs that are compared, and how."""

    pairs: tuple[tuple[int, int], ...]
    """Column indices of system and other: all pairs (later minus earlier), or all systems with the baseline."""
    complete: bool
    """Whether these are all possible pairs."""
    paired: bool
    """Whether the systems have the same samples."""
    analysis: Analysis


def compare_metrics(metrics: Sequence[MetricScores], table: ScoreTable, family: Family) -> tuple[MetricComparison, ...]:
    """Compare systems on some metrics of a table. The confidence level holds for all pairs of these metrics simultaneously.

    Unpaired, a sample of several systems counts as several independent samples.
    """
    analysis, level = family.analysis, family.analysis.confidence_level
    if family.paired:
        results = permute_pairs([metric.values for metric in metrics], table, family.pairs, analysis)
    else:
        results = _permute_unpaired(metrics, table, family)
    compared = []
    for metric, tested in zip(metrics, results, strict=True):
        effect = analysis.min_effect
        if effect is None and math.isfinite(metric.high - metric.low):
            effect = POINT * (metric.high - metric.low)
        pairs = tuple(_pair(metric, table, pair, family, min_effect=effect) for pair in tested.pairs)
        compared.append(
            MetricComparison(
                metric=metric.name,
                higher_is_better=metric.higher_is_better,
                low=metric.low,
                high=metric.high,
                systems=tuple(
                    SystemMean(system=system, estimate=table.mean(metric, level, column), **metric.counts(column))
                    for column, system in enumerate(table.systems)
                ),
                pairs=pairs,
                confidence_level=level,
                discriminative_power=discriminative_power([pair.p_value for pair in pairs], confidence_level=level)
                if family.complete
                else None,
                min_effect=effect,
                n_permutations=tested.n_resamples,
                exact=tested.exact,
            )
        )
    return tuple(compared)


def permute_pairs(
    values: Sequence[NDArray[np.float64]],
    table: ScoreTable,
    pairs: Sequence[tuple[int, int]],
    analysis: Analysis,
    alternative: Literal["two-sided", "greater", "less"] = "two-sided",
) -> tuple[FamilyResult, ...]:
    """Test pairs of columns of values, which have the rows of a table, by random signs of their differences."""
    return simultaneous_differences(
        values,
        pairs=pairs,
        clusters=table.clusters_of(),
        weights=table.weights,
        alternative=alternative,
        n_resamples=analysis.n_permutations,
        confidence_level=analysis.confidence_level,
        seed=analysis.seed or 0,
    )


def _permute_unpaired(metrics: Sequence[MetricScores], table: ScoreTable, family: Family) -> tuple[FamilyResult, ...]:
    import numpy as np

    # Rows by system and sample, so that a sample of two systems counts as two.
    n_systems, n_rows = len(table.systems), len(table.sample_ids)
    values = np.concatenate([np.stack([m.values[:, i] for m in metrics], axis=1) for i in range(n_systems)])
    kept = np.flatnonzero(~np.isnan(values).all(axis=1))
    rows = kept % n_rows
    return independent_differences(
        values[kept],
        kept // n_rows,
        np.concatenate([table.inclusion_of(i) for i in range(n_systems)])[kept],
        n_groups=n_systems,
        clusters=table.clusters_of(rows),
        pairs=family.pairs,
        ends=[_finite_range(metric) for metric in metrics],
        n_resamples=family.analysis.n_permutations,
        confidence_level=family.analysis.confidence_level,
        seed=family.analysis.seed or 0,
    )


def _finite_range(metric: MetricScores) -> tuple[float, float]:
    import numpy as np

    scored = metric.values[~np.isnan(metric.values)]
    largest = max(1.0, float(abs(scored).max())) if scored.size else 1.0
    low = metric.low if math.isfinite(metric.low) else -_WIDE * largest
    high = metric.high if math.isfinite(metric.high) else _WIDE * largest
    return low, high


def possible_differences(
    metric: MetricScores, first: int, second: int
) -> tuple[int, NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Bound each sample's difference, over the samples that both systems scored or failed on.

    Return the number of samples on which at least one system failed, the rows, and their lowest and highest
    differences, which are equal without failures.
    """
    import numpy as np

    (low, high), (other_low, other_high) = metric.possible(first), metric.possible(second)
    rows = np.flatnonzero(~np.isnan(low - other_high))
    n_failed = int((metric.states[rows][:, (first, second)] == FAILED).any(axis=1).sum())
    return n_failed, rows, (low - other_high)[rows], (high - other_low)[rows]


def _bound_difference(
    metric: MetricScores, table: ScoreTable, tested: PairResult, *, paired: bool
) -> tuple[int, tuple[float, float] | None]:
    """Return the number of failed samples, and the bounds of the difference of means for any scores of them."""
    import numpy as np

    if paired:
        weights = table.weights
        n_failed, rows, lowest, highest = possible_differences(metric, tested.first, tested.second)
        if not rows.size:
            return n_failed, None
        return n_failed, (_average(lowest, weights[rows]), _average(highest, weights[rows]))
    ends = []
    for column in (tested.first, tested.second):
        low, high = metric.possible(column)
        rows = np.flatnonzero(~np.isnan(low))
        if rows.size:
            weights = 1 / table.inclusion_of(column)[rows]
            ends.append((_average(low[rows], weights), _average(high[rows], weights)))
    n_failed = metric.count(FAILED, tested.first) + metric.count(FAILED, tested.second)
    if len(ends) < 2:
        return n_failed, None
    (low_a, high_a), (low_b, high_b) = ends
    return n_failed, (low_a - high_b, high_a - low_b)


def _average(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    import numpy as np

    return float(np.average(values, weights=weights))


def _pair(
    metric: MetricScores, table: ScoreTable, tested: PairResult, family: Family, *, min_effect: float | None
) -> PairDifference:
    import numpy as np

    level, columns = family.analysis.confidence_level, (tested.first, tested.second)
    if family.paired:
        difference = metric.values[:, tested.first] - metric.values[:, tested.second]
        rows = [np.flatnonzero(~np.isnan(difference))]
        groups = [difference[rows[0]]]
        weights = [table.weights[rows[0]]]
        effect = paired_effect(groups[0])
    else:
        rows = [metric.scored(column) for column in columns]
        groups = [metric.values[own, column] for own, column in zip(rows, columns, strict=True)]
        weights = [1 / table.inclusion_of(column)[own] for own, column in zip(rows, columns, strict=True)]
        effect = _effect(*groups)
    if table.probabilities is not None:
        effect = None  # it is that of samples with equal weights
    clusters = [table.clusters_of(own) for own in rows]
    effect_interval = None
    errors = [
        standard_error(values, w, labels) if w.size else 0.0
        for values, w, labels in zip(groups, weights, clusters, strict=True)
    ]
    low, high, detectable, n_more = tested.low, tested.high, None, None
    if low is not None and high is not None:
        if effect is not None and math.isfinite(high - low):
            influences = _paired_influences(groups[0]) if family.paired else _influences(*groups)
            n_errors = (high - low) / 2 / math.hypot(*errors)
            effect_interval = interval_of_effect(effect, list(zip(influences, clusters, strict=True)), n_errors, level)
        # A mean difference is significant if it exceeds the half-width of its interval, which is proportional to
        # 1 / sqrt(n), like its standard error.
        if tested.n > 1 or not family.paired:
            detectable = (high - low) / 2 + normal_quantile(POWER) * math.hypot(*errors)
        if detectable is not None and min_effect is not None:
            n_more = max(0, math.ceil(tested.n * (detectable / min_effect) ** 2 * (1 - _SAME)) - tested.n)
        if math.isfinite(width := metric.high - metric.low):
            # A difference cannot exceed the range.
            low, high = max(low, -width), min(high, width)
    n_failed, bounds = _bound_difference(metric, table, tested, paired=family.paired)
    pair = PairDifference(
        system=table.systems[tested.first],
        other=table.systems[tested.second],
        n=tested.n if tested.difference is not None else 0,
        difference=tested.difference,
        low=low,
        high=high,
        p_value=tested.p_value,
        better=None,
        effect_size=effect,
        effect_interval=effect_interval,
        n_higher=int((groups[0] > 0).sum()) if family.paired else 0,
        n_equal=int((groups[0] == 0).sum()) if family.paired else 0,
        n_lower=int((groups[0] < 0).sum()) if family.paired else 0,
        n_failed=n_failed,
        bounds=bounds,
        detectable=detectable,
        n_more=n_more,
    )
    return _decide(pair, confidence_level=level, higher=metric.higher_is_better)


def _decide(pair: PairDifference, *, confidence_level: float, higher: bool) -> PairDifference:
    """Set the significantly better system, by the adjusted p-value.

    If a difference is significant but its interval includes 0, the interval is cut at 0: only the sign is known. The
    interval of an effect size does not exclude 0 without a significant difference.
    """
    p, difference, effect = pair.p_value, pair.difference, pair.effect_interval
    if p is None or not difference or p > (1 - confidence_level) * (1 + _SAME):
        return pair if effect is None else replace(pair, effect_interval=(min(effect[0], 0.0), max(effect[1], 0.0)))
    pair = replace(pair, better=pair.system if (difference > 0) == higher else pair.other)
    if difference > 0:
        cut = None if effect is None else (max(effect[0], 0.0), effect[1])
        return replace(pair, low=None if pair.low is None else max(pair.low, 0.0), effect_interval=cut)
    cut = None if effect is None else (effect[0], min(effect[1], 0.0))
    return replace(pair, high=None if pair.high is None else min(pair.high, 0.0), effect_interval=cut)


def standard_error(values: NDArray[np.float64], weights: NDArray[np.float64], clusters: Sequence[int] | None) -> float:
    """Compute the standard error of a weighted mean, over clusters. It is 0 for a single cluster."""
    import numpy as np

    codes = np.arange(values.size) if clusters is None else cluster_codes(clusters)
    total = float(weights.sum())
    center = float((weights * values).sum()) / total
    moved = np.bincount(codes, weights=weights * (values - center)) / total
    k = moved.size
    return math.sqrt(float((moved**2).sum()) * k / (k - 1)) if k > 1 else 0.0


def _paired_influences(difference: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return the influence of each sample on mean / standard deviation."""
    mean, deviation = difference.mean(), difference.std(ddof=1)
    z = (difference - mean) / deviation
    return [z - float(mean / deviation) / 2 * z * z]


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


def _influences(first: NDArray[np.float64], second: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return the influences of the samples of two independent groups on Hedges' g."""
    pooled, total = _pooled(first, second), first.size + second.size
    # The difference of means, not the mean of a group, is divided by the deviation.
    difference = float(first.mean()) - float(second.mean())
    influences = []
    for group, sign in ((first, 1.0), (second, -1.0)):
        z = (group - group.mean()) / pooled
        influences.append(sign * z - difference / pooled / 2 * group.size / total * z * z)
    return influences


def interval_of_effect(
    g: float,
    groups: Sequence[tuple[NDArray[np.float64], Sequence[int] | None]],
    n_errors: float,
    confidence_level: float,
) -> tuple[float, float] | None:
    """Compute the interval of an effect size with the delta method, which does not assume normal scores.

    `groups` are influences of the samples on the effect size `g`, and the clusters of each independent group.
    `n_errors` are standard errors on each side, for many samples. The quantile of Student's t makes it longer for few.
    Return None if a group has fewer than 10 independent units.

    Source:
        Delta method for mean and variance: van der Vaart 1998, section 3.1.
    """
    import numpy as np

    errors, least = [], math.inf
    for values, clusters in groups:
        least = min(least, values.size if clusters is None else len(set(clusters)))
        errors.append(standard_error(values, np.ones(values.size), clusters))
    if least < _FEW_FOR_EFFECT:
        return None
    quantile = (1 + confidence_level) / 2
    few = student_quantile(least - 1, quantile) / normal_quantile(quantile)
    half = n_errors * few * math.hypot(*errors)
    return g - half, g + half
