"""Intervals for a weighted sum of quantities with their own intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedTerm:
    """One quantity of a weighted sum, with its interval."""

    weight: float
    value: float
    low: float
    high: float
    certain: bool
    """True if [low, high] are certain bounds, False if they are a confidence interval."""


def weighted_sum_interval(terms: Iterable[WeightedTerm]) -> tuple[float, float, float]:
    """Return value, low and high of the sum of `weight * value`.

    Certain bounds are added. Confidence intervals of independent estimates are combined by the method of variance
    estimates recovery (MOVER): the squares of the one-sided distances are added. The interval of the sum then
    approximately keeps the confidence level, even for asymmetric intervals. The sum of both parts is conservative.
    Quantities that share one estimate are not independent. Pass them as one term with the sum of their weights.

    Source:
        Zou and Donner 2008, "Construction of confidence limits about effect measures: a general approach".

    Examples:
        >>> terms = [WeightedTerm(weight=1, value=0.5, low=0.2, high=0.8, certain=False) for _ in range(4)]
        >>> weighted_sum_interval(terms)
        (2.0, 1.4, 2.6)
    """
    values, below, above = [], [], []
    squares_below, squares_above = [], []
    for term in terms:
        if not all(map(math.isfinite, (term.weight, term.value, term.low, term.high))):
            raise ValueError(
                f"the numbers of a term must be finite, got weight={term.weight}, value={term.value}, "
                f"low={term.low}, high={term.high}"
            )
        if not term.low <= term.value <= term.high:
            raise ValueError(
                f"the value of a term must be in its interval, got {term.low} <= {term.value} <= {term.high}"
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
    return value, low, value + math.fsum(above) + math.sqrt(math.fsum(squares_above))
