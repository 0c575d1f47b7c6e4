"""Comparison of all pairs of systems on one metric: simultaneous intervals, effect sizes and sample size estimates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from ragstone._util.distributions import normal_quantile, student_quantile
from ragstone.experiments._compare.align import FAILED, NOT_APPLICABLE, SCORED, AlignedMetric, AlignedScores
from ragstone.experiments._compare.bootstrap import bootstrap_pairs
from ragstone.stats import (
    DiscriminativePower,
    Estimate,
    TukeyPair,
    cluster_codes,
    discriminative_power,
    estimate_mean,
    paired_effect,
    simultaneous_tukey,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Test = Literal["permutation", "bootstrap"]
"""Test of the differences on the same samples."""

POWER: Final = 0.8
"""Power at which a difference counts as detectable."""

POINT: Final = 0.01
"""One point, as a share of a metric's range: the default minimum effect."""

_FEW_UNITS: Final = 10
"""Smallest number of samples or clusters for the interval of an effect size, whose error is estimated from fourth moments."""

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
    """Confidence interval of `effect_size` alone, not simultaneous. None without an effect size, or for fewer than 10 units."""


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
    """Number of permutations for the p-values, or of bootstrap resamples."""
    exact: bool
    """Whether all possible permutations were used."""
    test: Test = "permutation"
    exploratory: bool = False
    """Whether another metric is primary, so that the differences on this one are not controlled together with it."""

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
    test: Test

    @classmethod
    def of(
        cls,
        n_systems: int,
        *,
        baseline: int | None,
        confidence_level: float,
        n_permutations: int,
        seed: int,
        test: Test,
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
            test=test,
        )


def compare_metrics(
    metrics: Sequence[AlignedMetric],
    scores: AlignedScores,
    family: Family,
    *,
    min_effect: float | None = None,
    exploratory: bool = False,
) -> tuple[MetricComparison, ...]:
    """Compare systems on metrics. `family.confidence_level` holds for all pairs of all these metrics simultaneously.

    Args:
        metrics: Some of the metrics of `scores`.
        scores: All aligned scores.
        family: Pairs and settings.
        min_effect: Smallest difference of interest. Default: 1% of the metric's range.
        exploratory: Whether the metrics are exploratory, because another one is primary.
    """
    n_used, exact = [family.n_permutations] * len(metrics), [False] * len(metrics)
    if family.test == "bootstrap":
        by_metric = bootstrap_pairs(
            metrics,
            scores,
            family.pairs,
            confidence_level=family.confidence_level,
            n_resamples=family.n_permutations,
            seed=family.seed,
        )
    else:
        results = simultaneous_tukey(
            [metric.values for metric in metrics],
            pairs=family.pairs,
            clusters=scores.clusters,
            weights=1 / scores.inclusion_probabilities,
            n_resamples=family.n_permutations,
            confidence_level=family.confidence_level,
            seed=family.seed,
        )
        by_metric = [result.pairs for result in results]
        n_used, exact = [result.n_resamples for result in results], [result.exact for result in results]
    compared = []
    for metric, tested, n_permutations, is_exact in zip(metrics, by_metric, n_used, exact, strict=True):
        effect = default_effect(metric, min_effect)
        pairs = tuple(
            _pair(metric, scores, pair, confidence_level=family.confidence_level, min_effect=effect) for pair in tested
        )
        compared.append(
            MetricComparison(
                metric=metric.name,
                higher_is_better=metric.higher_is_better,
                low=metric.low,
                high=metric.high,
                systems=tuple(
                    system_mean(metric, i, scores, confidence_level=family.confidence_level)
                    for i in range(len(scores.systems))
                ),
                pairs=pairs,
                confidence_level=family.confidence_level,
                discriminative_power=power_of(pairs, family.confidence_level) if family.complete else None,
                min_effect=effect,
                n_permutations=n_permutations,
                exact=is_exact,
                test=family.test,
                exploratory=exploratory,
            )
        )
    return tuple(compared)


def default_effect(metric: AlignedMetric, min_effect: float | None) -> float | None:
    """Return the smallest difference of interest: by default 1% of the metric's range."""
    if min_effect is None and math.isfinite(metric.high - metric.low):
        return POINT * (metric.high - metric.low)
    return min_effect


def worst_case(
    metric: AlignedMetric, first: int, second: int, inclusion: NDArray[np.float64]
) -> tuple[int, tuple[float, float] | None]:
    """Bound a difference for any scores of failed samples, over the samples that both systems scored or failed on.

    Returns:
        Number of samples on which at least one system failed, and the bounds (None without such samples).
    """
    import numpy as np

    n_failed, rows, lowest, highest = possible_differences(metric, first, second)
    if not rows.size:
        return n_failed, None
    weights = 1 / inclusion[rows]
    return n_failed, (float(np.average(lowest, weights=weights)), float(np.average(highest, weights=weights)))


def possible_differences(
    metric: AlignedMetric, first: int, second: int
) -> tuple[int, NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Bound each sample's difference, over the samples that both systems scored or failed on.

    Returns:
        Number of samples on which at least one system failed, the rows, and their lowest and highest differences, which are
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
    return int(failed.any(axis=1).sum()), rows, low[:, 0] - high[:, 1], high[:, 0] - low[:, 1]


def system_mean(metric: AlignedMetric, column: int, scores: AlignedScores, *, confidence_level: float) -> SystemMean:
    """Return the mean of one system on one metric, weighted and over clusters if the scores have these."""
    import numpy as np

    states = metric.states[:, column]
    scored = np.flatnonzero(states == SCORED)
    return SystemMean(
        system=scores.systems[column],
        estimate=estimate_mean(
            metric.values[scored, column],
            low=metric.low,
            high=metric.high,
            probabilities=scores.inclusion_probabilities[scored],
            clusters=None if scores.clusters is None else [scores.clusters[row] for row in scored],
            confidence_level=confidence_level,
        ),
        n_scored=int(scored.size),
        n_failed=int((states == FAILED).sum()),
        n_not_applicable=int((states == NOT_APPLICABLE).sum()),
    )


def _pair(
    metric: AlignedMetric, scores: AlignedScores, tukey: TukeyPair, *, confidence_level: float, min_effect: float | None
) -> PairDifference:
    first, second = metric.values[:, tukey.first], metric.values[:, tukey.second]
    n_failed, bounds = worst_case(metric, tukey.first, tukey.second, scores.inclusion_probabilities)
    effect = paired_effect(first, second) if tukey.n else None
    half = None if tukey.low is None or tukey.high is None else (tukey.high - tukey.low) / 2
    detectable, n_more = _find_detectable_difference(first, second, half, min_effect, scores)
    width = metric.high - metric.low
    low, high = (None, None) if half is None else (tukey.low, tukey.high)
    if low is not None and high is not None and math.isfinite(width):
        # A difference cannot exceed the range.
        low, high = max(low, -width), min(high, width)
    pair = PairDifference(
        system=scores.systems[tukey.first],
        other=scores.systems[tukey.second],
        n=tukey.n,
        difference=tukey.difference,
        low=low,
        high=high,
        p_value=tukey.p_value,
        better=None,
        effect_size=effect.g_z if effect else None,
        effect_interval=None
        if effect is None or effect.g_z is None
        else _paired_effect_interval(first - second, effect.g_z, scores, confidence_level),
        n_higher=effect.n_better if effect else 0,
        n_equal=effect.n_equal if effect else 0,
        n_lower=effect.n_worse if effect else 0,
        n_failed=n_failed,
        bounds=bounds,
        detectable=detectable,
        n_more=n_more,
    )
    return decide(pair, confidence_level=confidence_level, higher=metric.higher_is_better)


def decide(pair: PairDifference, *, confidence_level: float, higher: bool) -> PairDifference:
    """Set the significantly better system.

    If a difference is significant but its interval includes 0, the interval is cut at 0: only the sign is known.
    """
    better = _find_winner(pair, pair.p_value, confidence_level=confidence_level, higher=higher)
    if better is None or pair.low is None or pair.high is None:
        return replace(pair, better=better)
    if (pair.difference or 0.0) > 0:
        return replace(pair, better=better, low=max(pair.low, 0.0))
    return replace(pair, better=better, high=min(pair.high, 0.0))


def _find_winner(pair: PairDifference, p: float | None, *, confidence_level: float, higher: bool) -> str | None:
    """Return the significantly better system by an adjusted p-value, or None."""
    if p is None or not pair.difference or p > (1 - confidence_level) * (1 + _SAME):
        return None
    return pair.system if (pair.difference > 0) == higher else pair.other


def _find_detectable_difference(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    half: float | None,
    min_effect: float | None,
    scores: AlignedScores,
) -> tuple[float | None, int | None]:
    """Return the detectable difference, and the number of additional samples that would detect the minimum effect.

    A mean difference is significant if it exceeds the half-width of its interval, which is proportional to
    1 / sqrt(n), like its standard error.
    """
    import numpy as np

    difference = first - second
    rows = np.flatnonzero(~np.isnan(difference))
    n = rows.size
    if half is None or n < 2:
        return None, None
    labels = None if scores.clusters is None else [scores.clusters[row] for row in rows]
    error = standard_error(difference[rows], 1 / scores.inclusion_probabilities[rows], labels)
    detectable = half + normal_quantile(POWER) * error
    if min_effect is None:
        return detectable, None
    return detectable, max(0, math.ceil(n * (detectable / min_effect) ** 2 * (1 - _SAME)) - n)


def standard_error(
    values: NDArray[np.float64], weights: NDArray[np.float64], labels: Sequence[str | None] | None
) -> float:
    """Compute the standard error of a weighted mean, over clusters. It is 0 for a single cluster."""
    import numpy as np

    codes = np.arange(values.size) if labels is None else cluster_codes(labels)
    total = float(weights.sum())
    moved = np.bincount(codes, weights=weights * (values - float((weights * values).sum()) / total)) / total
    k = moved.size
    return math.sqrt(float((moved**2).sum()) * k / (k - 1)) if k > 1 else 0.0


def _paired_effect_interval(
    difference: NDArray[np.float64], g: float, scores: AlignedScores, confidence_level: float
) -> tuple[float, float] | None:
    import numpy as np

    rows = np.flatnonzero(~np.isnan(difference))
    x = difference[rows]
    z = (x - x.mean()) / x.std(ddof=1)
    # The influence of each sample on mean / standard deviation.
    influence = z - float(x.mean() / x.std(ddof=1)) / 2 * z * z
    labels = None if scores.clusters is None else [scores.clusters[row] for row in rows]
    return effect_interval(g, [(influence, labels)], confidence_level)


def effect_interval(
    g: float, groups: Sequence[tuple[NDArray[np.float64], Sequence[str | None] | None]], confidence_level: float
) -> tuple[float, float] | None:
    """Compute the interval of an effect size with the delta method, which does not assume normal scores.

    Args:
        g: The effect size.
        groups: Influences of the samples on the effect size, and labels of clusters of each independent group.
        confidence_level: Nominal coverage.

    Returns:
        Both limits, or None if a group has fewer than 10 independent units.

    Source:
        Delta method for mean and variance: van der Vaart 1998, section 3.1.
    """
    import numpy as np

    errors, least = [], math.inf
    for values, labels in groups:
        units = values.size if labels is None else int(cluster_codes(labels).max()) + 1
        least = min(least, units)
        errors.append(standard_error(values, np.ones(values.size), labels))
    if least < _FEW_UNITS:
        return None
    half = student_quantile(least - 1, (1 + confidence_level) / 2) * math.hypot(*errors)
    return g - half, g + half


def power_of(pairs: Sequence[PairDifference], confidence_level: float) -> DiscriminativePower:
    """Return the share of pairs with a significant difference."""
    return discriminative_power([pair.p_value for pair in pairs], confidence_level=confidence_level)
