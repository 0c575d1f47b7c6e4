"""Paired comparison of two systems on the same samples: tests, intervals and effect sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    """p-value, never 0."""
    mc_error: float | None
    """Monte Carlo standard error of the p-value. It is 0 if all resamples were enumerated."""
    low: float | None
    """Lower limit of the confidence interval of the difference. None if it is unbounded: for the alternative "less", and
    if too few resamples exist to reject any hypothesis at this confidence level."""
    high: float | None
    """Upper limit. None in the same cases, with "greater" instead of "less"."""
    confidence_level: float
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
        n=len(x),
        n_missing=n_missing,
        n_resamples=result.n_resamples,
        exact=result.exact,
    )


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
