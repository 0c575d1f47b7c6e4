"""A proportion from draws that stopped early, without bias and with an interval for the looks that were planned."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from ragstone.stats._mean import Estimate
from ragstone.stats._sequential import find_edge

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
    if not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level must be in (0, 1), got {confidence_level}")
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

    return find_edge(rejected, *((1.0, 0.0) if rising else (0.0, 1.0)))
