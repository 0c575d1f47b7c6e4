"""Proportions from draws that stop early: at looks that were planned, or at any time (anytime-valid intervals)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from ragstone.stats._mean import Bounds, Estimate, check_level

Paths = Mapping[tuple[int, int], tuple[int, int]]
"""Stopping points (successes, draws) to the number of sequences of draws that stop there: all of them, and those that
begin with a success."""


def stopping_paths(looks: Sequence[int], continues: Callable[[int, int], bool]) -> Paths:
    """Count the sequences of draws that lead to each point at which drawing stops.

    Drawing always stops after the last of `looks`. After another one it `continues` by the numbers of successes and of
    draws.
    """
    if not looks or looks[0] < 1 or any(a >= b for a, b in itertools.pairwise(looks)):
        raise ValueError(f"looks must be numbers of draws in ascending order, from 1, got {list(looks)}")
    # After the first draw: one sequence without a success, and one that begins with a success.
    n, alive = 1, {0: (1, 0), 1: (1, 1)}
    paths: dict[tuple[int, int], tuple[int, int]] = {}
    for look in looks:
        for _ in range(look - n):
            drawn: dict[int, tuple[int, int]] = {}
            for successes, (every, begun) in alive.items():
                for total in (successes, successes + 1):
                    before = drawn.get(total, (0, 0))
                    drawn[total] = before[0] + every, before[1] + begun
            alive = drawn
        n = look
        stopped = {s for s in alive if look == looks[-1] or not continues(s, n)}
        paths |= {(s, n): alive.pop(s) for s in sorted(stopped)}
    return paths


def stopped_proportion(successes: int, n: int, paths: Paths, *, confidence_level: float = 0.95) -> Estimate:
    """Estimate a proportion from draws that stopped at one of several points.

    The share of successes is biased, because clear cases stop early: it is on average 0.035 instead of 0.05 if drawing
    stops after 10 equal draws and otherwise after 20. The estimate here is unbiased: the share of sequences to this
    point that begin with a success. Its interval is exact: the probability of a stopping point whose estimate is at
    least (at most) this one is half of the error probability at the lower (upper) limit. `paths` are those of
    `stopping_paths` for all planned looks.

    Source:
        Girshick, Mosteller and Savage 1946, "Unbiased estimates for certain binomial sampling problems with
        applications". Interval: Jennison and Turnbull 1983, "Confidence intervals for a binomial parameter following a
        multistage test".

    Examples:
        >>> paths = stopping_paths([10, 20], lambda successes, n: 0 < successes < n)
        >>> stopped_proportion(1, 20, paths).value
        0.1
    """
    if (successes, n) not in paths:
        raise ValueError(f"drawing does not stop after {successes} successes in {n} draws")
    check_level(confidence_level)
    values = {point: begun / every for point, (every, begun) in paths.items()}
    value = values[successes, n]
    tail = math.log((1 - confidence_level) / 2)
    above = [point for point, other in values.items() if other >= value]
    below = [point for point, other in values.items() if other <= value]
    return Estimate(
        value=value,
        low=0.0 if len(above) == len(paths) else _edge(paths, above, tail, rising=True),
        high=1.0 if len(below) == len(paths) else _edge(paths, below, tail, rising=False),
        confidence_level=confidence_level,
        method="stopped",
        n=n,
    )


def _edge(paths: Paths, points: Sequence[tuple[int, int]], tail: float, *, rising: bool) -> float:
    """Return the proportion at which the logarithm of the probability of these points is `tail`."""
    logs = [(math.log(paths[point][0]), *point) for point in points]

    def rejected(p: float) -> bool:
        terms = [ways + s * math.log(p) + (n - s) * math.log1p(-p) for ways, s, n in logs]
        largest = max(terms)
        return largest + math.log(math.fsum(math.exp(term - largest) for term in terms)) < tail

    return _find_edge(rejected, *((1.0, 0.0) if rising else (0.0, 1.0)))


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
    check_level(confidence_level)
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
    low = 0.0 if successes == 0 else _find_edge(rejected, mode, 0.0)
    return Bounds(low, 1.0 if failures == 0 else _find_edge(rejected, mode, 1.0))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _find_edge(rejected: Callable[[float], bool], inside: float, outside: float) -> float:
    """Find the first rejected point between two points by bisection, to machine precision."""
    while True:
        middle = (inside + outside) / 2
        if middle in (inside, outside):
            return outside
        if rejected(middle):
            outside = middle
        else:
            inside = middle
