"""Intervals for a weighted sum of quantities that each have an interval of their own."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["WeightedTerm", "weighted_sum_interval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedTerm:
    """One quantity of a weighted sum, with what is known about it."""

    weight: float
    value: float
    low: float
    high: float
    certain: bool
    """True where the quantity lies in [low, high] for sure, False where that is a confidence interval."""


def weighted_sum_interval(terms: Iterable[WeightedTerm]) -> tuple[float, float, float]:
    """Return value, low and high of the sum of `weight * value`.

    Certain bounds add up. Confidence intervals of independent estimates are combined by the method of variance
    estimates recovery: the squares of their one-sided distances add up, so that the sum's interval keeps their level
    approximately, also where they are skewed. The two parts are then added, which is conservative. Quantities that
    share one estimate must come as one term, with their weights added: they are not independent.

    Raises:
        ValueError: A term whose value is outside its own interval, or a number that is not finite.

    Source:
        Zou and Donner 2008, "Construction of confidence limits about effect measures: a general approach".

    Example:
        >>> terms = [WeightedTerm(weight=1, value=0.5, low=0.2, high=0.8, certain=False) for _ in range(4)]
        >>> weighted_sum_interval(terms)
        (2.0, 1.4, 2.6)
    """
    values, below, above = [], [], []
    squares_below, squares_above = [], []
    for term in terms:
        if not all(map(math.isfinite, (term.weight, term.value, term.low, term.high))):
            raise ValueError(f"a term needs finite numbers, got {term!r}")
        if not term.low <= term.value <= term.high:
            raise ValueError(
                f"a term's value must lie in its interval, got {term.low!r} <= {term.value!r} <= {term.high!r}"
            )
        values.append(term.weight * term.value)
        down, up = abs(term.weight) * (term.value - term.low), abs(term.weight) * (term.high - term.value)
        if term.weight < 0:
            down, up = up, down
        if term.certain:
            below.append(down)
            above.append(up)
        else:
            squares_below.append(down * down)
            squares_above.append(up * up)
    value = math.fsum(values)
    low = value - math.fsum(below) - math.sqrt(math.fsum(squares_below))
    high = value + math.fsum(above) + math.sqrt(math.fsum(squares_above))
    return value, low, high
