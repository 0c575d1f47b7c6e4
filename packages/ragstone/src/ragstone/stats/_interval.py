"""Intervals by a method of the caller's choice; `mean_interval` chooses for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragstone.stats._mean import Estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["jeffreys_interval", "normal_interval", "t_interval"]


def normal_interval(
    values: Sequence[float] | NDArray[np.float64],
    *,
    low: float = -math.inf,
    high: float = math.inf,
    level: float = 0.95,
) -> Estimate:
    """Estimate a mean with the normal interval, mean plus and minus z standard errors.

    What textbooks and papers print. It is short of its level for few values and for skewed ones; `mean_interval` is not.

    Args:
        values: At least one finite number.
        low: Smallest possible value, at which the interval is cut.
        high: Largest possible value.
        level: Nominal coverage, in (0, 1).

    Returns:
        An estimate of method "normal", or "range" from `low` to `high` where one value or equal values show no spread.

    Raises:
        ValueError: No values, a value that is not finite or out of range, or `level` outside (0, 1).

    Example:
        >>> found = normal_interval([0.4, 0.6, 0.8, 0.6])
        >>> round(found.low, 3), round(found.high, 3)
        (0.44, 0.76)
    """
    from scipy.special import ndtri

    x = _checked(values, low, high, level)
    return _around_mean(x, float(ndtri((1 + level) / 2)), "normal", low, high, level)


def t_interval(
    values: Sequence[float] | NDArray[np.float64],
    *,
    low: float = -math.inf,
    high: float = math.inf,
    level: float = 0.95,
) -> Estimate:
    """Estimate a mean with Student's interval: exact for normal values, good for many that are not too skewed.

    Args:
        values: At least one finite number.
        low: Smallest possible value, at which the interval is cut.
        high: Largest possible value.
        level: Nominal coverage, in (0, 1).

    Returns:
        An estimate of method "student_t", or "range" as for `normal_interval`.

    Raises:
        ValueError: As `normal_interval`.

    Source:
        Student 1908.

    Example:
        >>> found = t_interval([0.4, 0.6, 0.8, 0.6])
        >>> round(found.low, 3), round(found.high, 3)
        (0.34, 0.86)
    """
    from scipy.special import stdtrit

    x = _checked(values, low, high, level)
    return _around_mean(x, float(stdtrit(max(x.size - 1, 1), (1 + level) / 2)), "student_t", low, high, level)


def jeffreys_interval(successes: int, n: int, *, level: float = 0.95) -> Estimate:
    """Estimate a proportion with Jeffreys' interval: quantiles of the posterior under a Beta(1/2, 1/2) prior.

    Its ends are 0 for no successes and 1 for nothing but successes; the quantiles alone would exclude the proportion
    that was seen.

    Args:
        successes: How many of the `n` trials succeeded.
        n: At least 1.
        level: Nominal coverage, in (0, 1).

    Raises:
        ValueError: `n` is not positive, `successes` is not in [0, n], or `level` not in (0, 1).

    Source:
        Brown, Cai and DasGupta 2001, "Interval estimation for a binomial proportion", section 4.

    Example:
        >>> found = jeffreys_interval(0, 10)
        >>> found.low, round(found.high, 3)
        (0.0, 0.217)
    """
    from scipy.special import betaincinv

    _check_level(level)
    if n <= 0 or not 0 <= successes <= n:
        raise ValueError(f"a proportion needs 0 <= successes <= n and n > 0, got successes={successes!r}, n={n!r}")
    a, b = successes + 0.5, n - successes + 0.5
    return Estimate(
        value=successes / n,
        low=0.0 if successes == 0 else float(betaincinv(a, b, (1 - level) / 2)),
        high=1.0 if successes == n else float(betaincinv(a, b, (1 + level) / 2)),
        level=level,
        method="jeffreys",
        n=n,
    )


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1), got {level!r}")


def _checked(
    values: Sequence[float] | NDArray[np.float64], low: float, high: float, level: float
) -> NDArray[np.float64]:
    import numpy as np

    _check_level(level)
    x = np.asarray(values, dtype=float)
    if x.ndim != 1 or x.size == 0:
        raise ValueError(f"a mean needs a row of at least one value, got an array of shape {x.shape}")
    outside = ~(np.isfinite(x) & (x >= low) & (x <= high))
    if outside.any():
        raise ValueError(f"every value must be finite and lie in [{low!r}, {high!r}], got {float(x[outside][0])!r}")
    return x


def _around_mean(
    x: NDArray[np.float64], quantile: float, method: str, low: float, high: float, level: float
) -> Estimate:
    """Mean plus and minus so many standard errors; with no spread to tell from, the range."""
    spread = bool(x.min() < x.max())
    mean = float(x.mean())
    half = quantile * float(x.std(ddof=1)) / math.sqrt(x.size) if spread else math.inf
    return Estimate(
        value=mean,
        low=min(mean, max(low, mean - half)),
        high=max(mean, min(high, mean + half)),
        level=level,
        method=method if spread else "range",
        n=x.size,
    )
