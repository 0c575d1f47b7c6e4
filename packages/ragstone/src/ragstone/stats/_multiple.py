"""Many hypotheses at once: Holm's correction, and how often a metric tells systems apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["DiscriminativePower", "HolmResult", "discriminative_power", "holm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HolmResult:
    """A family of hypotheses after Holm's correction, in the order they were given."""

    adjusted: tuple[float, ...]
    """Adjusted p-values: a hypothesis is rejected where its own is at most 1 - level."""
    rejected: tuple[bool, ...]
    confidence_level: float
    """The probability that no true hypothesis is rejected is at least this."""
    n_untestable: int
    """How many had no p-value; they count as 1 and stay in the family."""


def holm(p_values: Sequence[float | None], *, confidence_level: float = 0.95) -> HolmResult:
    """Correct p-values for their number, so that the chance of any false rejection is at most 1 - `confidence_level`.

    Valid under any dependence of the tests. None and NaN mean that a hypothesis could not be tested: that is no
    evidence, so it counts as p = 1, and it stays in the family, since leaving it out would make the others easier to
    reject.

    Args:
        p_values: One a hypothesis, in [0, 1], or None.
        confidence_level: One less the chance of a false rejection, in (0, 1).

    Raises:
        ValueError: A p-value outside [0, 1], or `confidence_level` outside (0, 1).

    Source:
        Holm 1979.

    Example:
        >>> holm([0.01, None, 0.02]).adjusted
        (0.03, 1.0, 0.04)
    """
    _check_level(confidence_level)
    known = [_p_value(p) for p in p_values]
    order = sorted(range(len(known)), key=lambda i: known[i])
    adjusted = [1.0] * len(known)
    largest = 0.0
    for rank, i in enumerate(order):
        # A hypothesis is rejected only if all with smaller p-values are.
        largest = max(largest, min(1.0, known[i] * (len(known) - rank)))
        adjusted[i] = largest
    return HolmResult(
        adjusted=tuple(adjusted),
        # 1 - 0.95 is 0.05 and a bit more: what equals the limit counts as within.
        rejected=tuple(p <= (1 - confidence_level) * (1 + 1e-12) for p in adjusted),
        confidence_level=confidence_level,
        n_untestable=sum(p is None or math.isnan(p) for p in p_values),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscriminativePower:
    """How many pairs of systems a metric tells apart."""

    value: float
    """Share of the pairs with p < alpha, untestable ones in the denominator."""
    n_significant: int
    n_pairs: int
    n_untestable: int
    alpha: float
    asl: tuple[float, ...]
    """The curve of achieved significance levels: all p-values in ascending order, untestable ones as 1. The lower it
    runs, the better the metric discriminates."""


def discriminative_power(p_values: Sequence[float | None], *, alpha: float = 0.05) -> DiscriminativePower:
    """Share of the pairs of systems between which a metric finds a significant difference.

    Args:
        p_values: One a pair of systems, corrected for their number (`randomised_tukey`); None where a pair could not be
            tested.
        alpha: Significance level, in (0, 1); p must be below it.

    Raises:
        ValueError: No pairs, a p-value outside [0, 1], or `alpha` outside (0, 1).

    Source:
        Sakai 2006, "Evaluating evaluation metrics based on the bootstrap"; CCRS, section 4.1.3.

    Example:
        >>> discriminative_power([0.001, 0.2, 0.04]).n_significant
        2
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie in (0, 1), got {alpha!r}")
    if not p_values:
        raise ValueError("discriminative power needs at least one pair of systems")
    asl = tuple(sorted(_p_value(p) for p in p_values))
    n_significant = sum(p < alpha for p in asl)
    return DiscriminativePower(
        value=n_significant / len(asl),
        n_significant=n_significant,
        n_pairs=len(asl),
        n_untestable=sum(p is None or math.isnan(p) for p in p_values),
        alpha=alpha,
        asl=asl,
    )


def _p_value(p: float | None) -> float:
    if p is None or math.isnan(p):
        return 1.0
    if not 0 <= p <= 1:
        raise ValueError(f"a p-value lies in [0, 1], got {p!r}")
    return float(p)


def _check_level(confidence_level: float) -> None:
    if not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level must lie in (0, 1), got {confidence_level!r}")
