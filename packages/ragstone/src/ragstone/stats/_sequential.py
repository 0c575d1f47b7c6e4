"""Anytime-valid intervals, which stay valid if the data determine when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable

from ragstone.stats._mean import Bounds


def beta_mixture_interval(successes: int, n: int, *, confidence_level: float = 0.95) -> Bounds:
    """Compute an anytime-valid interval for a proportion, in [0, 1], from the beta-mixture martingale.

    The probability that the interval excludes the proportion at *any* n is at most 1 - `confidence_level`. Sampling may
    therefore continue until the interval is narrow enough. The interval is wider than Wilson's, which is valid only for
    a fixed n: for 10 of 20 it is [0.19, 0.81], and Wilson's is [0.30, 0.70]. For `n` = 0 it is [0, 1]. The
    parameters of the mixing beta distribution are 1/2, which gives narrow intervals near 0 and 1.

    Source:
        Mixture martingales: Robbins 1970. Inequality: Ville 1939.

    Examples:
        >>> low, high = beta_mixture_interval(10, 20)
        >>> round(low, 2), round(high, 2)
        (0.19, 0.81)
    """
    if not 0 <= successes <= n:
        raise ValueError(f"a proportion needs 0 <= successes <= n, got successes={successes}, n={n}")
    if not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level must be in (0, 1), got {confidence_level}")
    if n == 0:
        return Bounds(0.0, 1.0)
    failures = n - successes
    # p is rejected if the mixture's likelihood exceeds that of p by the factor 1 / alpha.
    evidence = _log_beta(0.5 + successes, 0.5 + failures) - _log_beta(0.5, 0.5) - math.log(1 / (1 - confidence_level))

    def rejected(p: float) -> bool:
        log_likelihood = 0.0
        if successes:
            log_likelihood += successes * math.log(p) if p > 0 else -math.inf
        if failures:
            log_likelihood += failures * math.log1p(-p) if p < 1 else -math.inf
        return log_likelihood <= evidence

    mode = successes / n
    low = 0.0 if successes == 0 else find_edge(rejected, mode, 0.0)
    return Bounds(low, 1.0 if failures == 0 else find_edge(rejected, mode, 1.0))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def find_edge(rejected: Callable[[float], bool], inside: float, outside: float) -> float:
    """Find the first rejected point between two points by bisection, to machine precision."""
    while True:
        middle = (inside + outside) / 2
        if middle in (inside, outside):
            return outside
        if rejected(middle):
            outside = middle
        else:
            inside = middle
