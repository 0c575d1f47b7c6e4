"""Confidence intervals for the mean of scores, which are usually bounded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from ragstone._util.distributions import normal_quantile, student_quantile
from ragstone.stats._gaffke import gaffke_limit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SMALL_N: Final = 30
_COCHRAN: Final = 50
"""Student's t requires n >= 30 and n >= 50 times the squared skewness (Cochran's rule with twice his factor)."""
_SMALL_N_ONE_SIDED: Final = 200
_COCHRAN_ONE_SIDED: Final = 400
"""The same for one limit, where the errors due to skewness do not cancel: they are below 0.6% at the level 95%."""
TAIL: Final = 0.05
"""Error probability of the interval that one more value may move. It is fixed: if the method depended on the level, the
interval of a higher level could be the shorter one."""
_ROUNDING: Final = 1e-9
"""Tolerance for a mean that exceeds the range by rounding."""

Side = Literal["two-sided", "lower", "upper"]
"""Kind of an interval: with both limits, or with only a lower or only an upper limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean with its confidence interval."""

    value: float
    low: float
    high: float
    confidence_level: float
    method: str
    """Method of the interval: "wilson", "gaffke", "student_t", ..., or "range" if the data do not restrict the range of
    possible values."""
    n: int

    def __post_init__(self) -> None:
        for name in ("value", "low", "high"):
            # A number of numpy would be shown as one.
            object.__setattr__(self, name, float(getattr(self, name)))


def estimate_around(
    value: float,
    low: float,
    high: float,
    confidence_level: float,
    *,
    method: str,
    n: int,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Estimate:
    """Make an estimate whose interval is cut at the bounds and contains the value."""
    low, high = min(value, max(bounds[0], low)), max(value, min(bounds[1], high))
    return Estimate(value=value, low=low, high=high, confidence_level=confidence_level, method=method, n=n)


def check_level(confidence_level: float, side: str = "two-sided") -> None:
    """Raise ValueError if a confidence level or the side of an interval is invalid."""
    if not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level must be in (0, 1), got {confidence_level}")
    if side not in get_args(Side):
        raise ValueError(f'side must be "two-sided", "lower" or "upper", got {side!r}')


class Bounds(NamedTuple):
    """Lower and upper limit of an unknown number without an estimate: worst-case bounds, or a confidence sequence."""

    low: float
    high: float


def mean_interval(
    values: Sequence[float] | NDArray[np.float64],
    *,
    low: float = 0.0,
    high: float = 1.0,
    confidence_level: float = 0.95,
    side: Side = "two-sided",
) -> Estimate:
    """Estimate the mean of scores in [low, high] with a confidence interval.

    The data determine the method, which is part of the result:

    - Wilson's interval ("wilson") if every value is a bound of the range (a proportion),
    - Student's t, cut to the range ("student_t"), for at least 30 values with a skewness g such that n >= 50 g**2, if
      one more value at the far end of the range moves the mean by less than a quarter of the 95% interval's width,
    - otherwise (few, equal or skewed values) Gaffke's limits with the mid-p rule ("gaffke").

    A one-sided interval decides a gate, so its error must not exceed the level for any n: it has Gaffke's limit without
    the mid-p rule (for a proportion this is the limit of Clopper and Pearson), or Student's t if n >= 200, n >= 400
    g**2 and the last condition holds. The order of the values does not matter.

    Without two finite bounds, no method guarantees coverage, because the sample may not contain a rare, very large
    value. The interval is then Student's t, cut at an existing bound. For one value or equal values it is the whole
    range (method "range"), possibly with infinite limits.

    Args:
        values: At least one finite number in [low, high].
        low: Smallest possible value, or -infinity.
        high: Largest possible value, or infinity.
        confidence_level: Nominal coverage, in (0, 1).
        side: "two-sided", "lower" (the interval ends at `high`) or "upper" (the interval begins at `low`).

    Raises:
        ValueError: If `values` is empty, a value is not finite or out of range, `low >= high`, or an option is invalid.

    Source:
        Wilson 1927. Clopper and Pearson 1934. Cochran 1977, section 2.15. Gaffke 2005. Learned-Miller and Thomas 2019.

    Examples:
        >>> mean_interval([1.0, 1.0, 0.0, 1.0]).method
        'wilson'
        >>> round(mean_interval([1.0, 0.8, 0.9, 1.0], side="lower").low, 2)
        0.43
    """
    x = _checked(values, low, high, confidence_level, side)
    tail = (1 - confidence_level) / (2 if side == "two-sided" else 1)
    if math.isinf(high - low):
        half, method = _student_t(x, tail), "range" if x[0] == x[-1] else "student_t"
        a, b = float(x.mean()) - half, float(x.mean()) + half
    else:
        a, b, method = _bounded((x - low) / (high - low), confidence_level, tail, two_sided=side == "two-sided")
        a, b = low + (high - low) * a, low + (high - low) * b
    mean = float(x.mean())
    return Estimate(
        value=mean,
        low=low if side == "upper" else min(mean, max(low, a)),
        high=high if side == "lower" else max(mean, min(high, b)),
        confidence_level=confidence_level,
        method=method,
        n=int(x.size),
    )


def _checked(
    values: Sequence[float] | NDArray[np.float64], low: float, high: float, confidence_level: float, side: str
) -> NDArray[np.float64]:
    """Return the sorted values if all arguments are valid."""
    import numpy as np

    if not low < high:
        raise ValueError(f"low must be below high, got low={low} and high={high}")
    check_level(confidence_level, side)
    x = np.sort(np.asarray(values, dtype=float))
    if x.size == 0:
        raise ValueError("values is empty. A mean needs at least one value")
    if not np.isfinite(x).all() or x[0] < low or x[-1] > high:
        bad = next(float(v) for v in values if not (math.isfinite(v) and low <= v <= high))
        raise ValueError(f"every value must be in [{low}, {high}], got {bad}")
    return x


def _bounded(
    unit: NDArray[np.float64], confidence_level: float, tail: float, *, two_sided: bool
) -> tuple[float, float, str]:
    """Compute both limits of the mean of sorted values in [0, 1], and the name of the method."""
    import numpy as np

    n, mean = unit.size, float(unit.mean())
    is_proportion = bool(np.isin(unit, (0.0, 1.0)).all())
    if is_proportion and two_sided:
        found = wilson_interval(int(unit.sum()), n, confidence_level=confidence_level)
        return found.low, found.high, found.method
    least, factor = (_SMALL_N, _COCHRAN) if two_sided else (_SMALL_N_ONE_SIDED, _COCHRAN_ONE_SIDED)
    is_spread = not is_proportion and unit[0] < unit[-1] and n >= max(least, factor * _skewness(unit) ** 2)
    # The sample may not contain a rare, distant value. If one would matter, Student's t is too short.
    if is_spread and max(mean, 1 - mean) / n <= _student_t(unit, TAIL / 2 if two_sided else TAIL) / 2:
        half = _student_t(unit, tail)
        return mean - half, mean + half, "student_t"
    return gaffke_limit(unit, tail, mid_p=two_sided), gaffke_limit(unit, 1 - tail, mid_p=two_sided), "gaffke"


def wilson_interval(successes: int, n: int, *, confidence_level: float = 0.95) -> Estimate:
    """Estimate a proportion with Wilson's score interval, in [0, 1].

    Its coverage is the level on average over proportions, and varies with the proportion and `n`: a 95% interval covers
    93.3% for n = 100 and a proportion of 0.85. The interval of Clopper and Pearson never covers less than the level,
    and is up to 23% wider for n = 5 and up to 11% for n = 30. Decisions use that one: `mean_interval` with `side`.

    Raises:
        ValueError: If `n` is not positive, `successes` is not in [0, n], or `confidence_level` is not in (0, 1).

    Source:
        Wilson 1927. Brown, Cai and DasGupta 2001 (coverage).

    Examples:
        >>> estimate = wilson_interval(17, 20)
        >>> estimate.value, round(estimate.low, 2), round(estimate.high, 2)
        (0.85, 0.64, 0.95)
    """
    if n <= 0 or not 0 <= successes <= n:
        raise ValueError(f"a proportion needs 0 <= successes <= n and n > 0, got successes={successes}, n={n}")
    check_level(confidence_level)
    z = normal_quantile((1 + confidence_level) / 2)
    p = successes / n
    center = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # For 0 and n successes, replace rounding errors by the exact limits 0 and 1.
    a = 0.0 if successes == 0 else (center - half) / scale
    b = 1.0 if successes == n else (center + half) / scale
    return Estimate(value=p, low=a, high=b, confidence_level=confidence_level, method="wilson", n=n)


def failure_bounds(mean: float | None, n: int, n_failed: int, *, low: float, high: float) -> Bounds:
    """Compute bounds of the mean over all `n + n_failed` values if each failed value may be anything in [low, high].

    `mean` is that of the `n` known values, or None if `n` is 0. With an infinite end, a single failure makes that bound
    infinite.

    Source:
        Manski 1989 (worst-case bounds under missing data).
    """
    if n < 0 or n_failed < 0 or n + n_failed == 0:
        raise ValueError(f"bounds need at least one value or failure, got n={n} and n_failed={n_failed}")
    if not low < high:
        raise ValueError(f"low must be below high, got low={low} and high={high}")
    if n == 0:
        return Bounds(float(low), float(high))
    if mean is None or not low - _ROUNDING <= mean <= high + _ROUNDING:
        raise ValueError(f"the mean of {n} values in [{low}, {high}] must be in this range, got {mean}")
    if not n_failed:
        # 0 times an infinite bound is NaN.
        return Bounds(float(mean), float(mean))
    total = n + n_failed
    return Bounds(float((mean * n + low * n_failed) / total), float((mean * n + high * n_failed) / total))


def _student_t(x: NDArray[np.float64], tail: float) -> float:
    """Compute the distance of Student's limits from the mean, which is infinite for equal values."""
    if x[0] == x[-1]:
        return math.inf
    return student_quantile(x.size - 1, 1 - tail) * float(x.std(ddof=1)) / math.sqrt(x.size)


def _skewness(x: NDArray[np.float64]) -> float:
    """Compute the moment skewness of values that are not all equal."""
    import numpy as np

    centered = x - x.mean()
    # Skewness does not depend on the scale. Scaling prevents underflow of cubes of small numbers.
    centered /= np.abs(centered).max()
    return float((centered**3).mean() / (centered**2).mean() ** 1.5)
