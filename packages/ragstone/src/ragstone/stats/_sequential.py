"""Intervals that stay valid when looking at the data decides when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["beta_mixture_interval"]


def beta_mixture_interval(
    successes: int, n: int, *, confidence_level: float = 0.95, a: float = 0.5, b: float = 0.5
) -> tuple[float, float]:
    """Anytime-valid interval for a proportion, in [0, 1]: the set that the beta-mixture martingale has not refuted.

    The probability that the interval misses the proportion at *any* n is at most 1 - level, so one may draw until the
    interval is narrow enough. The price is width: for 10 of 20 it is [0.19, 0.81], where Wilson's, which is right for
    an n fixed in advance only, is [0.30, 0.70].

    Args:
        successes: How many of the draws were successes.
        n: How many draws there were; with 0 the interval is [0, 1].
        confidence_level: Probability that the interval never misses.
        a: First parameter of the mixing beta distribution; 1/2 and 1/2 are sharp near 0 and 1.
        b: Second parameter.

    Raises:
        ValueError: `successes` is not in [0, n], `confidence_level` not in (0, 1), or a parameter not above 0.

    Source:
        Robbins 1970 (mixture martingales); Ville 1939 (the inequality).

    Example:
        >>> low, high = beta_mixture_interval(10, 20)
        >>> round(low, 2), round(high, 2)
        (0.19, 0.81)
    """
    if not 0 <= successes <= n:
        raise ValueError(f"a proportion needs 0 <= successes <= n, got successes={successes!r}, n={n!r}")
    if not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level must lie in (0, 1), got {confidence_level!r}")
    if a <= 0 or b <= 0:
        raise ValueError(f"the parameters of a beta distribution are above 0, got a={a!r}, b={b!r}")
    if n == 0:
        return 0.0, 1.0
    failures = n - successes
    # p is refuted when the mixture's likelihood exceeds p's by the factor 1 / alpha.
    evidence = _log_beta(a + successes, b + failures) - _log_beta(a, b) - math.log(1 / (1 - confidence_level))

    def refuted(p: float) -> bool:
        log_likelihood = 0.0
        if successes:
            log_likelihood += successes * math.log(p) if p > 0 else -math.inf
        if failures:
            log_likelihood += failures * math.log1p(-p) if p < 1 else -math.inf
        return log_likelihood <= evidence

    mode = successes / n
    low = 0.0 if successes == 0 else _edge(refuted, mode, 0.0)
    high = 1.0 if failures == 0 else _edge(refuted, mode, 1.0)
    return low, high


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _edge(refuted: Callable[[float], bool], inside: float, outside: float) -> float:
    """Where refutation begins between two points, to the last bit, on the far side."""
    while True:
        middle = (inside + outside) / 2
        if middle in (inside, outside):
            return outside
        if refuted(middle):
            outside = middle
        else:
            inside = middle
