"""How many samples a comparison needs, and what a number of samples can show."""

from __future__ import annotations

import math

__all__ = ["detectable_difference", "paired_power", "proportion_sample_size", "sample_size"]

_LARGEST = 10**12
"""Samples; who needs more needs another question."""

_NODES, _EDGE = 1001, 8.5
"""Points of the numerical integral, and how many standard deviations it reaches: good to eight digits."""


def paired_power(difference: float, sd: float, n: int, *, level: float = 0.95, two_sided: bool = True) -> float:
    """Probability that a paired t-test of `n` samples finds a mean difference this large.

    Randomisation tests have nearly the same power. For one of k comparisons under Holm's correction `level` is at worst
    1 - 0.05 / k.

    Args:
        difference: True mean difference; one-sided, in the claimed direction.
        sd: Standard deviation of the differences, above 0 (`paired_effect` tells it from a pilot).
        n: Samples scored with both systems, at least 2.
        level: One less the significance level, in (0, 1).
        two_sided: Whether the test looks both ways.

    Raises:
        ValueError: An argument out of range.

    Source:
        Cohen 1988, chapter 2.

    Example:
        >>> round(paired_power(0.05, 0.2, 128), 3)
        0.802
    """
    _check(sd=sd, level=level)
    if n < 2 or not math.isfinite(difference):
        raise ValueError(f"power needs n >= 2 and a finite difference, got n={n!r} and difference={difference!r}")
    from scipy.special import stdtrit

    df, shift = n - 1, difference / sd * math.sqrt(n)
    limit = float(stdtrit(df, (1 + level) / 2 if two_sided else level))

    power = _beyond(limit, df, shift)
    # By symmetry the lower tail around `shift` is the upper one around -shift.
    return min(1.0, power + _beyond(limit, df, -shift)) if two_sided else power


def _beyond(limit: float, df: int, centre: float) -> float:
    """Probability that a noncentral t variable exceeds the limit.

    For a given value of the sample's standard deviation it is a normal probability, which is averaged here over all such
    values; the series in libraries gives NaN for many arguments.
    """
    import numpy as np
    from scipy.special import gammainccinv, gammaincinv, ndtr

    z = np.linspace(-_EDGE, _EDGE, _NODES)
    # The chi-squared variable as a smooth function of a normal one; each tail from its own side, for precision.
    halves = np.where(z < 0, gammaincinv(df / 2, ndtr(z)), gammainccinv(df / 2, ndtr(-z)))
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    # The plain sum is the trapezoidal rule, which has no better for what vanishes smoothly at both ends.
    return float((density * ndtr(centre - limit * np.sqrt(2 * halves / df))).sum() * (z[1] - z[0]))


def detectable_difference(
    n: int, sd: float, *, power: float = 0.8, level: float = 0.95, two_sided: bool = True
) -> float:
    """The smallest mean difference that a paired t-test of `n` samples finds with probability `power`.

    Args:
        n: Samples scored with both systems, at least 2.
        sd: Standard deviation of the differences, above 0.
        power: Above 1 - `level`, below 1.
        level: One less the significance level, in (0, 1).
        two_sided: Whether the test looks both ways.

    Raises:
        ValueError: An argument out of range.

    Example:
        >>> round(detectable_difference(128, 0.2), 3)
        0.05
    """
    from scipy.optimize import brentq

    _check_power(power, level)

    def missing(d: float) -> float:
        return paired_power(d * sd, sd, n, level=level, two_sided=two_sided) - power

    top = 1.0
    while missing(top) < 0:
        top *= 2
    return sd * float(brentq(missing, 0.0, top, xtol=1e-12))


def sample_size(
    difference: float, sd: float, *, power: float = 0.8, level: float = 0.95, two_sided: bool = True
) -> int:
    """The smallest number of samples with which a paired t-test finds `difference` with probability `power`.

    Args:
        difference: Mean difference that matters, not 0; its sign does not.
        sd: Standard deviation of the differences, above 0.
        power: Above 1 - `level`, below 1.
        level: One less the significance level, in (0, 1).
        two_sided: Whether the test looks both ways.

    Raises:
        ValueError: An argument out of range, or a difference so small that more than 10¹² samples would be needed.

    Example:
        >>> sample_size(0.05, 0.2)
        128
    """
    _check(sd=sd, level=level)
    _check_power(power, level)
    if not math.isfinite(difference) or difference == 0:
        raise ValueError(f"a difference to be found is finite and not 0, got {difference!r}")

    def enough(n: int) -> bool:
        return paired_power(abs(difference), sd, n, level=level, two_sided=two_sided) >= power

    high = 2
    while not enough(high):
        high *= 2
        if high > _LARGEST:
            raise ValueError(
                f"more than {_LARGEST:,} samples would be needed to find {difference!r} where the differences vary by {sd!r}"
            )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def proportion_sample_size(p: float, half_width: float, *, level: float = 0.95) -> int:
    """The smallest number of samples for which Wilson's interval of a proportion `p` is at most so wide.

    Args:
        p: Proportion that is expected, in [0, 1]; 0.5 needs most.
        half_width: Half the width wanted, in (0, 0.5).
        level: Nominal coverage, in (0, 1).

    Raises:
        ValueError: An argument out of range.

    Source:
        Wilson 1927.

    Example:
        >>> proportion_sample_size(0.5, 0.05)
        381
    """
    from scipy.special import ndtri

    if not 0 <= p <= 1 or not 0 < half_width < 0.5 or not 0 < level < 1:
        raise ValueError(
            "needs p in [0, 1], half_width in (0, 0.5) and level in (0, 1), got "
            f"p={p!r}, half_width={half_width!r}, level={level!r}"
        )
    z2 = float(ndtri((1 + level) / 2)) ** 2
    # The half-width h solves h² (n + z²)² = z² p (1-p) n + z⁴ / 4: a quadratic equation in n.
    h2 = half_width * half_width
    a, b, c = h2, z2 * (2 * h2 - p * (1 - p)), z2 * z2 * (h2 - 0.25)
    n = (-b + math.sqrt(b * b - 4 * a * c)) / (2 * a)
    return max(1, math.ceil(n - 1e-9))


def _check(*, sd: float, level: float) -> None:
    if not (math.isfinite(sd) and sd > 0):
        raise ValueError(f"the standard deviation of the differences must be finite and above 0, got {sd!r}")
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1), got {level!r}")


def _check_power(power: float, level: float) -> None:
    if not 0 < level < 1 or not 1 - level < power < 1:
        raise ValueError(f"power must lie between the significance level and 1, got power={power!r} at level={level!r}")
