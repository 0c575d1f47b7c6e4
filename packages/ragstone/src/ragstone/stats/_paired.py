"""Paired comparison of two systems on the same samples: tests, intervals and effect sizes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from ragstone._util.distributions import normal_cdf, normal_quantile, student_cdf, student_quantile
from ragstone.stats._bootstrap import resampled_means
from ragstone.stats._cluster import cluster_codes
from ragstone.stats._tukey import Alternative, randomized_tukey

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest:
    """Result of a test of two systems on the same samples."""

    difference: float
    """Mean of first - second."""
    p_value: float | None
    """p-value, never 0. None if all bootstrap resamples are equal."""
    mc_error: float | None
    """Monte Carlo standard error of the p-value. It is 0 if all resamples were enumerated."""
    low: float | None
    """Lower limit of the confidence interval of the difference. None if it is unbounded: for the alternative "less", and
    if too few resamples exist to reject any hypothesis at this confidence level."""
    high: float | None
    """Upper limit. None in the same cases, with "greater" instead of "less"."""
    confidence_level: float
    alternative: Alternative
    method: str
    """ "sign_flip" or "paired_bootstrap"."""
    n: int
    """Pairs with both scores."""
    n_missing: int
    """Pairs with a missing score, which are omitted."""
    n_resamples: int
    exact: bool
    """True if all existing resamples were enumerated."""


def sign_flip_test(
    first: Sequence[float] | NDArray[np.float64],
    second: Sequence[float] | NDArray[np.float64],
    *,
    alternative: Alternative = "two-sided",
    n_resamples: int = 10_000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> PairedTest:
    """Test by paired randomization whether two systems, scored on the same samples, differ.

    If the systems do not differ, the two scores of each sample are exchangeable, and an exchange flips the sign of their
    difference. The p-value is the share of random sign flips whose mean difference is at least that of the data, with the
    data counted as one flip. This is `randomized_tukey` for two systems.

    Args:
        first: Scores. NaN is a missing score.
        second: Scores of the same samples in the same order.
        alternative: "greater" for the hypothesis that the first system is better.
        n_resamples: Number of sign flips drawn. If at most this number of distinct flips exists, all are enumerated.
        confidence_level: Confidence level of the interval, which excludes 0 exactly if p <= 1 - `confidence_level`.
        seed: Seed of the random numbers.

    Raises:
        ValueError: If the lengths differ, no sample has both scores, a score is infinite, or an option is out of range.

    Source:
        Fisher 1935, section 21. Smucker, Allan and Carterette 2007.

    Examples:
        >>> sign_flip_test([0.9, 0.8, 0.7, 0.9, 0.8], [0.4, 0.3, 0.3, 0.6, 0.5]).p_value
        0.0625
    """
    x, n_missing = _pairs(first, second)
    result = randomized_tukey(
        x,
        pairs=[(0, 1)],
        alternative=alternative,
        n_resamples=n_resamples,
        confidence_level=confidence_level,
        seed=seed,
    )
    (pair,) = result.pairs
    return PairedTest(
        difference=float((x[:, 0] - x[:, 1]).mean()),
        p_value=pair.p_value,
        mc_error=pair.mc_error,
        low=pair.low,
        high=pair.high,
        confidence_level=confidence_level,
        alternative=alternative,
        method="sign_flip",
        n=len(x),
        n_missing=n_missing,
        n_resamples=result.n_resamples,
        exact=result.exact,
    )


def paired_bootstrap(
    first: Sequence[float] | NDArray[np.float64],
    second: Sequence[float] | NDArray[np.float64],
    *,
    clusters: Sequence[Hashable] | None = None,
    weights: Sequence[float] | NDArray[np.float64] | None = None,
    alternative: Alternative = "two-sided",
    n_resamples: int = 10_000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> PairedTest:
    """Compare two systems by resampling samples, with both scores of a sample together.

    The interval is the expanded percentile interval of the mean difference: resamples of n units vary less than samples by the
    factor (n - 1) / n, and a normal distribution has shorter tails than Student's t. So its limits are farther out among the
    resamples, as if the resampled mean were corrected for both. n is the effective number of samples or clusters (Kish). The
    p-value corresponds to this interval. If all differences are equal, or there is only one, p-value and interval are None.
    `sign_flip_test` controls its error rate for any number of samples. This test does from about 30 effective samples or clusters on.

    Args:
        first: Scores. NaN is a missing score.
        second: Scores of the same samples in the same order.
        clusters: Label of the cluster of each sample, such as its session. Whole clusters are resampled. Each None is a
            cluster of its own. None: the samples are independent.
        weights: Positive weight of each sample, such as 1 / sampling probability. None: all equal.
        alternative: "greater" for the hypothesis that the first system is better.
        n_resamples: Number of resamples.
        confidence_level: Confidence level of the interval.
        seed: Seed of the random numbers.

    Raises:
        ValueError: As for `sign_flip_test`, or if a sample lacks a cluster or a positive weight.

    Source:
        Efron and Tibshirani 1993, chapters 13 and 15. Hesterberg 2015, "What teachers should know about the bootstrap"
        (expanded percentile interval).

    Examples:
        >>> result = paired_bootstrap([0.9, 0.8, 0.7, 0.9, 0.8], [0.4, 0.3, 0.3, 0.6, 0.5])
        >>> result.low < result.difference < result.high
        True
    """
    import numpy as np

    x, n_missing = _pairs(first, second)
    if n_resamples < 1 or not 0 < confidence_level < 1:
        raise ValueError(
            f"n_resamples must be at least 1 and confidence_level in (0, 1), got n_resamples={n_resamples}, "
            f"confidence_level={confidence_level}"
        )
    if alternative not in get_args(Alternative):
        raise ValueError(f'alternative must be "two-sided", "greater" or "less", got {alternative!r}')
    difference, of_units = _unit_differences(first, second, clusters, weights)
    drawn = np.sort(resampled_means(difference, n_resamples, np.random.default_rng(seed), weights=of_units))
    # Sums of the same numbers in a different order differ by rounding errors, also around 0.
    same = 1e-9 * float(np.abs(difference).mean())
    not_above = (int(np.searchsorted(drawn, same, side="right")) + 1) / (n_resamples + 1)
    not_below = (int(drawn.size - np.searchsorted(drawn, -same)) + 1) / (n_resamples + 1)
    sides = 2 if alternative == "two-sided" else 1
    share = {"greater": not_above, "less": not_below, "two-sided": min(not_above, not_below)}[alternative]
    n_units = difference.size if of_units is None else float(of_units.sum() ** 2 / (of_units @ of_units))
    spread = bool(drawn[-1] - drawn[0] > same)
    # Without a spread there is nothing to correct, maybe only one unit.
    p = min(1.0, sides * _student_share(share, n_units)) if spread else 1.0
    tail = expanded_tail((1 - confidence_level) / sides, n_units) if spread else 0.5
    low, high = (float(end) for end in np.quantile(drawn, (tail, 1 - tail)))
    return PairedTest(
        difference=float(np.average(difference, weights=of_units)),
        p_value=p if spread else None,
        mc_error=math.sqrt(p * (1 - p) / n_resamples) if spread else None,
        low=low if spread and alternative != "less" else None,
        high=high if spread and alternative != "greater" else None,
        confidence_level=confidence_level,
        alternative=alternative,
        method="paired_bootstrap",
        n=len(x),
        n_missing=n_missing,
        n_resamples=n_resamples,
        exact=False,
    )


def expanded_tail(tail: float, n: float) -> float:
    """Return the share of resampled means beyond a limit that a share `tail` of means of `n` > 1 units should exceed.

    Source:
        Hesterberg 2015, "What teachers should know about the bootstrap".
    """
    return normal_cdf(student_quantile(n - 1, tail) * math.sqrt(n / (n - 1)))


def _student_share(share: float, n: float) -> float:
    """Invert `expanded_tail`."""
    return student_cdf(n - 1, normal_quantile(share) * math.sqrt((n - 1) / n))


def _unit_differences(
    first: Sequence[float] | NDArray[np.float64],
    second: Sequence[float] | NDArray[np.float64],
    clusters: Sequence[Hashable] | None,
    weights: Sequence[float] | NDArray[np.float64] | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return the mean difference and the weight of each cluster, over the samples with both scores. No weights: all equal."""
    import numpy as np

    difference = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    both = ~np.isnan(difference)
    n = difference.size
    if clusters is not None and len(clusters) != n:
        raise ValueError(f"each of {n} samples needs a cluster, got {len(clusters)} clusters")
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    if w.shape != (n,) or not (np.isfinite(w) & (w > 0)).all():
        raise ValueError(f"each of {n} samples needs a finite weight above 0, got {w.tolist()[:5]}")
    if clusters is None:
        return difference[both], None if weights is None else w[both]
    codes = cluster_codes([clusters[row] for row in np.flatnonzero(both).tolist()])
    of_units: NDArray[np.float64] = np.bincount(codes, weights=w[both]).astype(float)
    return np.bincount(codes, weights=w[both] * difference[both]) / of_units, of_units


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedEffect:
    """Effect size of the difference of two systems, independent of the metric's unit."""

    difference: float
    """Mean of first - second."""
    sd: float | None
    """Standard deviation of the differences (n - 1), or None for a single pair."""
    d_z: float | None
    """Cohen's d_z: the mean difference divided by the standard deviation of the differences. None if that is 0."""
    g_z: float | None
    """d_z times Hedges' correction for small n (d_z is 9% too large at n = 10). Also None for n < 3."""
    superiority: float
    """Probability of superiority: share of samples on which the first system is better, with ties counted half."""
    n_better: int
    n_equal: int
    n_worse: int
    n: int
    n_missing: int


def paired_effect(
    first: Sequence[float] | NDArray[np.float64], second: Sequence[float] | NDArray[np.float64]
) -> PairedEffect:
    """Compute effect sizes of the difference of two systems on the same samples.

    d_z is for paired scores. Cohen's d of two independent groups differs from it: it divides by the standard deviation of
    the scores, and is smaller the more the systems' scores correlate.

    Raises:
        ValueError: If the lengths differ, no sample has both scores, or a score is infinite.

    Source:
        Lakens 2013, formulas 4 and 7. Exact correction: Hedges 1981. Superiority: Grissom and Kim 2012.

    Examples:
        >>> effect = paired_effect([0.9, 0.8, 0.7, 0.5], [0.4, 0.3, 0.3, 0.5])
        >>> round(effect.d_z, 2), effect.superiority
        (1.47, 0.875)
    """
    x, n_missing = _pairs(first, second)
    difference = x[:, 0] - x[:, 1]
    n = difference.size
    varies = bool(difference.min() < difference.max())
    sd = None if n == 1 else float(difference.std(ddof=1)) if varies else 0.0
    d_z = float(difference.mean()) / sd if sd else None
    better, worse = int((difference > 0).sum()), int((difference < 0).sum())
    return PairedEffect(
        difference=float(difference.mean()),
        sd=sd,
        d_z=d_z,
        g_z=None if d_z is None or n < 3 else d_z * _hedges(n - 1),
        superiority=(better + (n - better - worse) / 2) / n,
        n_better=better,
        n_equal=n - better - worse,
        n_worse=worse,
        n=n,
        n_missing=n_missing,
    )


def _hedges(df: int) -> float:
    """Compute Hedges' correction for at least 2 degrees of freedom. With 1, the corrected expectation does not exist."""
    return math.exp(math.lgamma(df / 2) - math.lgamma((df - 1) / 2)) / math.sqrt(df / 2)


def _pairs(
    first: Sequence[float] | NDArray[np.float64], second: Sequence[float] | NDArray[np.float64]
) -> tuple[NDArray[np.float64], int]:
    """Return the pairs with both scores, and the number of pairs with a missing score."""
    import numpy as np

    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"both systems need scores of the same samples, got arrays of shape {a.shape} and {b.shape}")
    if np.isinf(a).any() or np.isinf(b).any():
        raise ValueError("scores must be finite, or NaN if missing, got an infinite score")
    both = ~(np.isnan(a) | np.isnan(b))
    if not both.any():
        raise ValueError(f"none of the {a.size} samples has scores of both systems")
    return np.stack([a[both], b[both]], axis=1), int(a.size - both.sum())
