"""Confidence intervals for the mean of scores, which are usually bounded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Estimate", "failure_bounds", "mean_interval", "wilson_interval"]

_SMALL_N = 30
_COCHRAN = 25
"""Student's t requires n >= 30 and n >= 25 times the squared skewness (Cochran's rule). On scores concentrated at a bound,
its coverage is 80% instead of 95% at n = 10, and below 90% at n = 100."""

_ROUNDING = 1e-9
"""Tolerance for a mean that exceeds the range by rounding."""

_BETTING_MAX_N = 2000
_PERMUTATIONS = 16
_FEWER_PERMUTATIONS = 4
"""Number of permutations for 200 or more values: orders then differ little, and the time increases with n."""
_GRID = 1001


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean with its confidence interval."""

    value: float
    low: float
    high: float
    confidence_level: float
    method: str
    """Method of the interval: "wilson", "betting", "student_t", ..., or "range" if the data do not restrict the range of
    possible values."""
    n: int


def mean_interval(
    values: Sequence[float] | NDArray[np.float64],
    *,
    low: float = 0.0,
    high: float = 1.0,
    confidence_level: float = 0.95,
) -> Estimate:
    """Estimate the mean of scores in [low, high] with a two-sided confidence interval.

    The data determine the method, which is part of the result:

    - Wilson's interval if every value is a bound of the range (a proportion),
    - Student's t, cut to the range, for at least 30 values with a skewness g such that n >= 25 g**2,
    - otherwise (few, equal or very skewed values) the hedged betting interval, which is valid for any n,
    - the empirical-Bernstein interval instead of the betting interval for more than 2,000 values.

    The order of the values does not matter.

    Without two finite bounds, no method guarantees coverage, because the sample may not contain a rare, very large value.
    The interval is then Student's t, cut at an existing bound. For one value or equal values it is the whole range
    (method "range"), possibly with infinite limits.

    Args:
        values: At least one finite number in [low, high].
        low: Smallest possible value, or -infinity.
        high: Largest possible value, or infinity.
        confidence_level: Nominal coverage, in (0, 1).

    Raises:
        ValueError: If `values` is empty, a value is not finite or out of range, or `low >= high`.

    Source:
        Wilson 1927. Cochran 1977, section 2.15. Waudby-Smith and Ramdas 2023, section 4.2 (hedged capital, fixed n).
        Maurer and Pontil 2009, theorem 4.

    Example:
        >>> mean_interval([1.0, 1.0, 0.0, 1.0]).method
        'wilson'
    """
    import numpy as np

    if not low < high:
        raise ValueError(f"low must be below high, got low={low} and high={high}")
    if not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level must be in (0, 1), got {confidence_level}")
    x = np.sort(np.asarray(values, dtype=float))
    if x.size == 0:
        raise ValueError("values is empty. A mean needs at least one value")
    if not np.isfinite(x).all() or x[0] < low or x[-1] > high:
        bad = next(float(v) for v in values if not (math.isfinite(v) and low <= v <= high))
        raise ValueError(f"every value must be in [{low}, {high}], got {bad}")

    n = int(x.size)
    mean = float(x.mean())
    constant = bool(x[0] == x[-1])
    if math.isinf(high - low):
        half = math.inf if constant else _student_t(x, confidence_level=confidence_level)
        return Estimate(
            value=mean,
            low=min(mean, max(low, mean - half)),
            high=max(mean, min(high, mean + half)),
            confidence_level=confidence_level,
            method="range" if constant else "student_t",
            n=n,
        )
    unit = (x - low) / (high - low)
    if bool(np.isin(unit, (0.0, 1.0)).all()):
        a, b, method = *wilson_interval(int(unit.sum()), n, confidence_level=confidence_level), "wilson"
    elif not constant and n >= max(_SMALL_N, _COCHRAN * _skewness(unit) ** 2):
        half = _student_t(unit, confidence_level=confidence_level)
        a, b, method = float(unit.mean()) - half, float(unit.mean()) + half, "student_t"
    elif n <= _BETTING_MAX_N:
        a, b, method = *_betting(unit, confidence_level=confidence_level), "betting"
    else:
        log = math.log(4 / (1 - confidence_level))
        half = math.sqrt(2 * float(unit.var(ddof=1)) * log / n) + 7 * log / (3 * (n - 1))
        a, b, method = float(unit.mean()) - half, float(unit.mean()) + half, "empirical_bernstein"
    width = high - low
    return Estimate(
        value=mean,
        low=min(mean, low + width * max(a, 0.0)),
        high=max(mean, low + width * min(b, 1.0)),
        confidence_level=confidence_level,
        method=method,
        n=n,
    )


def wilson_interval(successes: int, n: int, *, confidence_level: float = 0.95) -> tuple[float, float]:
    """Compute Wilson's score interval for a proportion, in [0, 1].

    Raises:
        ValueError: If `n` is not positive, or `successes` is not in [0, n].

    Source:
        Wilson 1927.
    """
    from scipy.special import ndtri

    if n <= 0 or not 0 <= successes <= n:
        raise ValueError(f"a proportion needs 0 <= successes <= n and n > 0, got successes={successes}, n={n}")
    z = float(ndtri((1 + confidence_level) / 2))
    p = successes / n
    center = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # For 0 and n successes, replace rounding errors by the exact limits 0 and 1.
    a = 0.0 if successes == 0 else (center - half) / scale
    b = 1.0 if successes == n else (center + half) / scale
    return a, b


def failure_bounds(mean: float | None, n: int, n_failed: int, *, low: float, high: float) -> tuple[float, float]:
    """Compute bounds of the mean over all `n + n_failed` values if each failed value may be anything in [low, high].

    Args:
        mean: Mean of the `n` known values, or None if `n` is 0.
        n: Number of known values.
        n_failed: Number of failed values.
        low: Smallest possible value, or -infinity. In that case a single failure makes the lower bound infinite.
        high: Largest possible value, or infinity.

    Raises:
        ValueError: If `n + n_failed` is 0, a count is negative, `low` is not below `high`, `mean` is outside [low, high], or
            `mean` is None although `n` is not 0.

    Source:
        Manski 1989 (worst-case bounds under missing data).
    """
    if n < 0 or n_failed < 0 or n + n_failed == 0:
        raise ValueError(f"bounds need at least one value or failure, got n={n} and n_failed={n_failed}")
    if not low < high:
        raise ValueError(f"low must be below high, got low={low} and high={high}")
    if n == 0:
        return float(low), float(high)
    if mean is None or not low - _ROUNDING <= mean <= high + _ROUNDING:
        raise ValueError(f"the mean of {n} values in [{low}, {high}] must be in this range, got {mean}")
    if not n_failed:
        # 0 times an infinite bound is NaN.
        return float(mean), float(mean)
    total = n + n_failed
    return float((mean * n + low * n_failed) / total), float((mean * n + high * n_failed) / total)


def _student_t(x: NDArray[np.float64], *, confidence_level: float) -> float:
    """Compute half the width of Student's interval for the mean of at least two values."""
    from scipy.special import stdtrit

    n = x.size
    return float(stdtrit(n - 1, (1 + confidence_level) / 2)) * float(x.std(ddof=1)) / math.sqrt(n)


def _skewness(x: NDArray[np.float64]) -> float:
    """Compute the moment skewness of values that are not all equal."""
    import numpy as np

    centered = x - x.mean()
    # Skewness does not depend on the scale. Scaling prevents underflow of cubes of small numbers.
    centered /= np.abs(centered).max()
    return float((centered**3).mean() / (centered**2).mean() ** 1.5)


def _betting(unit: NDArray[np.float64], *, confidence_level: float) -> tuple[float, float]:
    """Compute the hedged betting interval for values in [0, 1].

    The capital depends on the order of the values. The mean of the final capitals over several orders is also an e-value.
    Averaging over fixed permutations of the sorted values is therefore valid, and makes the result independent of the
    order of the values.
    """
    import numpy as np

    n = unit.size
    rng = np.random.default_rng(0)
    orders = 1 if unit[0] == unit[-1] else _PERMUTATIONS if n < 200 else _FEWER_PERMUTATIONS
    x = np.stack([rng.permutation(unit) for _ in range(orders)])
    alpha = 1 - confidence_level
    m = np.linspace(0.0, 1.0, _GRID)
    # Predictable plug-in estimates: mean and variance before each value, with one pseudo-value of 1/2.
    t = np.arange(1, n + 1)
    running_mean = (0.5 + np.cumsum(x, axis=1)) / (t + 1)
    squares = np.cumsum((x - running_mean) ** 2, axis=1)
    variance = np.concatenate([np.full((orders, 1), 0.25), ((0.25 + squares) / (t + 1))[:, :-1]], axis=1)
    bet = np.sqrt(2 * math.log(2 / alpha) / (n * variance))
    with np.errstate(divide="ignore"):
        cap_up, cap_down = 0.5 / m, 0.5 / (1 - m)
    log_up = np.zeros((orders, _GRID))
    log_down = np.zeros((orders, _GRID))
    for i in range(n):
        gain = x[:, i : i + 1] - m
        log_up += np.log1p(np.minimum(bet[:, i : i + 1], cap_up) * gain)
        log_down += np.log1p(-np.minimum(bet[:, i : i + 1], cap_down) * gain)
    # An infinite capital is also above the threshold.
    with np.errstate(over="ignore"):
        capital = 0.5 * np.maximum(np.exp(log_up).mean(axis=0), np.exp(log_down).mean(axis=0))
    inside = m[capital < 1 / alpha]
    step = 1 / (_GRID - 1)
    # One grid step outward on each side keeps the interval valid between grid points.
    return float(inside[0]) - step, float(inside[-1]) + step
