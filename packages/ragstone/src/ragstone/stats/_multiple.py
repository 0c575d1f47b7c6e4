"""Multiple hypotheses: Holm's correction, and the discriminative power of a metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ragstone.stats._mean import check_level

_ROUNDING: Final = 1e-12
"""Tolerance for rounding: 1 - 0.95 is slightly more than 0.05."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HolmResult:
    """A family of hypotheses after Holm's correction, in the original order."""

    adjusted: tuple[float, ...]
    """Adjusted p-values. A hypothesis is rejected if its adjusted p-value is at most 1 - `confidence_level`."""
    rejected: tuple[bool, ...]
    confidence_level: float
    """Lower bound of the probability that no true hypothesis is rejected."""
    n_untestable: int
    """Number of hypotheses without a p-value. They count as p = 1 and stay in the family."""


def holm(p_values: Sequence[float | None], *, confidence_level: float = 0.95) -> HolmResult:
    """Correct p-values for multiple tests.

    The probability of any false rejection is at most 1 - `confidence_level`, for any dependence of the tests. None and
    NaN mean that a hypothesis could not be tested. Such a hypothesis counts as p = 1 and stays in the family, because
    without it the other hypotheses would be easier to reject.

    Args:
        p_values: One p-value per hypothesis, in [0, 1], or None.
        confidence_level: 1 minus the probability of a false rejection, in (0, 1).

    Raises:
        ValueError: If a p-value is outside [0, 1], or `confidence_level` is outside (0, 1).

    Source:
        Holm 1979.

    Examples:
        >>> holm([0.01, None, 0.02]).adjusted
        (0.03, 1.0, 0.04)
    """
    check_level(confidence_level)
    known = [_p_value(p) for p in p_values]
    order = sorted(range(len(known)), key=lambda i: known[i])
    adjusted = [1.0] * len(known)
    largest = 0.0
    for rank, i in enumerate(order):
        # A hypothesis is rejected only if all hypotheses with smaller p-values are rejected.
        largest = max(largest, min(1.0, known[i] * (len(known) - rank)))
        adjusted[i] = largest
    return HolmResult(
        adjusted=tuple(adjusted),
        # The tolerance includes p-values equal to the limit, because 1 - 0.95 is not exactly 0.05.
        rejected=tuple(p <= (1 - confidence_level) * (1 + 1e-12) for p in adjusted),
        confidence_level=confidence_level,
        n_untestable=sum(p is None or math.isnan(p) for p in p_values),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscriminativePower:
    """Share of the pairs of systems with a significant difference by a metric."""

    value: float | None
    """Share of the pairs with p < 1 - confidence level. The denominator includes untestable pairs. None if all are."""
    n_significant: int
    n_pairs: int
    n_untestable: int
    confidence_level: float
    asl: tuple[float, ...]
    """Curve of achieved significance levels: all p-values in ascending order, with 1 for untestable pairs. A lower
    curve means a metric that discriminates better."""


def discriminative_power(p_values: Sequence[float | None], *, confidence_level: float = 0.95) -> DiscriminativePower:
    """Compute the share of the pairs of systems with a significant difference: p below 1 - `confidence_level`.

    The p-values are corrected for multiple tests (`simultaneous_differences`), or None for a pair that could not be tested.

    Source:
        Sakai 2006, "Evaluating evaluation metrics based on the bootstrap". CCRS, section 4.1.3.

    Examples:
        >>> discriminative_power([0.001, 0.2, 0.04]).n_significant
        2
    """
    check_level(confidence_level)
    if not p_values:
        raise ValueError("discriminative power needs at least one pair of systems")
    asl = tuple(sorted(_p_value(p) for p in p_values))
    n_significant = sum(p < (1 - confidence_level) * (1 - _ROUNDING) for p in asl)
    n_untestable = sum(p is None or math.isnan(p) for p in p_values)
    return DiscriminativePower(
        value=None if n_untestable == len(asl) else n_significant / len(asl),
        n_significant=n_significant,
        n_pairs=len(asl),
        n_untestable=n_untestable,
        confidence_level=confidence_level,
        asl=asl,
    )


def _p_value(p: float | None) -> float:
    if p is None or math.isnan(p):
        return 1.0
    if not 0 <= p <= 1:
        raise ValueError(f"a p-value must be in [0, 1], got {p}")
    return float(p)
