"""The normal distribution and Student's, for single numbers.

`scipy.special` has them too, but its import takes more time than everything else that `ragstone status` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

_MANY: Final = 400.0
"""From this number of degrees of freedom on, the expansion of a quantile is exact to eleven digits."""
_LARGE: Final = 50.0
"""From this argument on, the series of a ratio of gamma functions is exact to rounding."""
_STEPS: Final = 300
"""Maximum number of steps of an iteration. None of them needs a third of it."""
_EPSILON: Final = 1e-15
_TINY: Final = 1e-300


def normal_cdf(x: float) -> float:
    """Compute the probability that a standard normal variable is at most `x`."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


def normal_quantile(p: float) -> float:
    """Compute the quantile of the standard normal distribution. Infinite for `p` of 0 and 1.

    Raise ValueError if `p` is not in [0, 1].
    """
    # Wichura 1988, exact to 16 digits. Its module imports `decimal` and `fractions`.
    from statistics import NormalDist

    if p in (0, 1):
        return math.copysign(math.inf, p - 0.5)
    if not 0 < p < 1:
        raise ValueError(f"p must be in [0, 1], got {p}")
    return NormalDist().inv_cdf(p)


def student_quantile(freedom: float, p: float) -> float:
    """Compute a quantile of Student's distribution, for `p` in [0, 1] (infinite at the ends) and any `freedom` above 0.

    Raise ValueError if an argument is outside its range. Source: Abramowitz and Stegun 1964, 26.7.5 (expansion) and
    26.7.1 (distribution function).
    """
    if not freedom > 0:
        raise ValueError(f"freedom must be positive, got {freedom}")
    tail, sign = (p, -1) if p < 0.5 else (1 - p, 1)
    z = -normal_quantile(tail)
    if tail in (0, 0.5) or math.isinf(freedom):
        return sign * z
    t = _expand(freedom, z)
    if freedom >= _MANY:
        return sign * t
    # Newton's method for the logarithms of tail and quantile, which are nearly proportional far from the center.
    for _ in range(_STEPS):
        found = _student_tail(freedom, t)
        step = math.log(found / tail) / (t * _student_density(freedom, t) / found)
        t *= math.exp(min(max(step, -1.0), 1.0))
        if abs(step) < 1e-14:
            break
    return sign * t


def _expand(freedom: float, z: float) -> float:
    """Approximate a quantile above the median from the normal one."""
    z2 = z * z
    terms = (
        (z2 + 1) / 4,
        ((5 * z2 + 16) * z2 + 3) / 96,
        (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384,
        ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160,
    )
    return z * max(1 + sum(term / freedom**k for k, term in enumerate(terms, start=1)), 1.0)


def _student_density(freedom: float, t: float) -> float:
    log = _log_ratio(freedom / 2) - 0.5 * math.log(freedom * math.pi)
    return math.exp(log - (freedom + 1) / 2 * math.log1p(t * t / freedom))


def _log_ratio(x: float) -> float:
    """Compute the logarithm of gamma(x + 1/2) / gamma(x). For large `x`, the difference of both logarithms is not exact."""
    if x < _LARGE:
        return math.lgamma(x + 0.5) - math.lgamma(x)
    return 0.5 * math.log(x) - 1 / (8 * x) + 1 / (192 * x**3) - 1 / (640 * x**5)


def _student_tail(freedom: float, t: float) -> float:
    """Compute the probability of values above `t`, which is not negative: half of an incomplete beta function."""
    a, x, y = freedom / 2, freedom / (freedom + t * t), t * t / (freedom + t * t)
    if y == 0:
        return 0.5
    log = _log_ratio(a) - math.lgamma(0.5) + a * -math.log1p(t * t / freedom) + 0.5 * math.log(y)
    if x > (a + 1) / (a + 2.5):
        return 0.5 - math.exp(log) * _beta_fraction(0.5, a, y)
    return 0.5 * math.exp(log) * _beta_fraction(a, 0.5, x) / a


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Compute the continued fraction of the incomplete beta function, with Lentz's algorithm.

    Source: Abramowitz and Stegun 1964, 26.5.8.
    """
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _STEPS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _not_zero(1 + numerator * d)
            c = _not_zero(1 + numerator / c)
            value *= c * d
        if abs(c * d - 1) < _EPSILON:
            break
    return value


def _not_zero(x: float) -> float:
    return x if abs(x) > _TINY else _TINY


def find_root(f: Callable[[float], float], low: float, high: float, *, tolerance: float) -> float:
    """Find where a continuous function becomes 0, with an error of at most `tolerance`.

    Raise ValueError if the signs of `f` at `low` and `high` do not differ. Source: Chandrupatla 1997, "A new hybrid
    quadratic/bisection algorithm for finding the zero of a nonlinear function".
    """
    # `b` is the latest place, `a` the one on the other side of the root, and `c` the one before.
    a, b, fa, fb = low, high, f(low), f(high)
    if fa * fb > 0:
        raise ValueError(f"no change of sign between {low} and {high}")
    c, fc, share = a, fa, 0.5
    for _ in range(_STEPS):
        x = a + share * (b - a)
        fx = f(x)
        if (fx > 0) == (fa > 0):
            c, fc = a, fa
        else:
            c, fc, b, fb = b, fb, a, fa
        a, fa = x, fx
        best, f_best = (a, fa) if abs(fa) < abs(fb) else (b, fb)
        limit = tolerance / abs(b - a) if a != b else 1.0
        if f_best == 0 or limit > 0.5:
            return best
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        if phi * phi < xi and (1 - phi) * (1 - phi) < 1 - xi:
            share = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        else:
            share = 0.5
        share = min(max(share, limit), 1 - limit)
    return best
