"""Bootstrap confidence intervals for any statistic of observations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ragstone.stats._cluster import check_resampling
from ragstone.stats._mean import Estimate, estimate_around

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CELLS = 1 << 20
"""Draws per batch (16 MB)."""


def bootstrap_interval(
    values: Sequence[float] | Sequence[Sequence[float]] | NDArray[np.float64],
    statistic: Callable[[NDArray[np.float64]], float] | None = None,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """Estimate a statistic with a bootstrap confidence interval.

    The interval describes the variation between samples of the same size. It cannot include values that are missing
    from the sample. With few or nearly constant values it is too short. If all resamples give the same number, the
    interval is the whole range. For the mean of bounded scores, `mean_interval` does not have these limits.

    Args:
        values: Observations: numbers, or rows of numbers (for example pairs for a correlation).
        statistic: Function from an array of observations to a number. None: the mean. Resamples for which it returns
            NaN (undefined) are skipped.
        low: Smallest possible value of the statistic. The interval is cut there.
        high: Largest possible value.
        n_resamples: Number of resamples, at least 2,000 for a 95% interval.
        confidence_level: Nominal coverage, in (0, 1).
        seed: Seed of the random numbers. The same seed gives the same interval.

    Returns:
        An estimate. Its `method` is "percentile" or "range". `n` counts observations.

    Raises:
        ValueError: If `values` is empty, an observation is not finite, an option is out of range, or the statistic of
            the observations is undefined.

    Source:
        Efron and Tibshirani 1993, chapter 13.

    Examples:
        >>> estimate = bootstrap_interval([0.2, 0.4, 0.9, 0.5, 0.7, 0.4])
        >>> estimate.method, estimate.low < estimate.value < estimate.high
        ('percentile', True)
    """
    import numpy as np

    x = np.asarray(values, dtype=float)
    if x.ndim not in (1, 2) or len(x) == 0:
        raise ValueError(
            f"values must contain at least one observation, each a number or a row of numbers, got shape {x.shape}"
        )
    if not np.isfinite(x).all():
        raise ValueError(f"every observation must be finite, got {float(x[~np.isfinite(x)][0])!r}. Omit missing values")
    check_resampling(n_resamples, confidence_level)
    apply = statistic or np.mean
    point = float(apply(x))
    if not math.isfinite(point):
        raise ValueError(f"the statistic is undefined for these observations: it returned {point}")
    rng = np.random.default_rng(seed)
    results = np.array([float(apply(x[rng.integers(0, len(x), len(x))])) for _ in range(n_resamples)])
    drawn = np.sort(results[np.isfinite(results)])
    if drawn.size == 0 or drawn[0] == drawn[-1]:
        least, most, method = -math.inf, math.inf, "range"
    else:
        least, most = np.quantile(drawn, ((1 - confidence_level) / 2, (1 + confidence_level) / 2)).tolist()
        method = "percentile"
    return estimate_around(point, least, most, confidence_level, method=method, n=len(x), bounds=(low, high))


def resampled_means(
    x: NDArray[np.float64], n_resamples: int, rng: np.random.Generator, *, weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Compute the means of bootstrap resamples of units with means `x` and positive `weights`."""
    import numpy as np

    size = max(1, _CELLS // x.size)
    drawn = np.empty(n_resamples)
    for start in range(0, n_resamples, size):
        count = min(size, n_resamples - start)
        chosen = rng.integers(0, x.size, (count, x.size))
        if weights is None:
            means = x[chosen].mean(axis=1)
        else:
            means = (weights * x)[chosen].sum(axis=1) / weights[chosen].sum(axis=1)
        drawn[start : start + count] = means
    return drawn
