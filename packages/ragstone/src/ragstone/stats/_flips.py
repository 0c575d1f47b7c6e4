"""How often a judge that is asked again says something else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ragstone.stats._mean import Estimate, mean_interval

__all__ = ["FlipRate", "flip_rate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipRate:
    """How unsteady repeated scores of the same items are."""

    pairs: Estimate
    """Share of pairs of repeats that differ by more than the threshold, averaged over items."""
    items: Estimate
    """Share of items of which any two repeats do; it grows with the number of repeats."""
    spread: float
    """Standard deviation of one reply about its item's mean, pooled over items."""
    threshold: float
    n: int
    """Items with at least two repeats."""
    n_left_out: int
    """Items with fewer."""
    n_replies: int


def flip_rate(
    repeats: Sequence[Sequence[float | None]], *, threshold: float = 0.0, confidence_level: float = 0.95
) -> FlipRate | None:
    """Measure how often repeated scores of one item differ by more than `threshold`; None without any item repeated.

    Items are what varies: both intervals are over items, so that ten repeats of one item are not ten items.

    Args:
        repeats: Items by repeats; None or NaN where a repeat has no score. Rows may have different lengths.
        threshold: Differences up to it are no flip; rounding errors never are.
        confidence_level: Nominal coverage, in (0, 1).

    Raises:
        ValueError: A negative threshold.

    Example:
        >>> found = flip_rate([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
        >>> round(found.pairs.value, 3), found.items.value
        (0.333, 0.5)
    """
    if not threshold >= 0:
        raise ValueError(f"a threshold is a distance, at least 0, got {threshold!r}")
    edge = threshold + 1e-9
    shares, squares, freedom = [], [], 0
    for row in repeats:
        known = sorted(v for v in row if v is not None and not math.isnan(v))
        m = len(known)
        if m < 2:
            continue
        apart = sum(known[j] - known[i] > edge for i in range(m) for j in range(i + 1, m))
        shares.append(apart / (m * (m - 1) / 2))
        mean = math.fsum(known) / m
        squares.append(math.fsum((v - mean) ** 2 for v in known))
        freedom += m - 1
    if not shares:
        return None
    return FlipRate(
        pairs=mean_interval(shares, confidence_level=confidence_level),
        items=mean_interval([float(share > 0) for share in shares], confidence_level=confidence_level),
        spread=math.sqrt(math.fsum(squares) / freedom),
        threshold=threshold,
        n=len(shares),
        n_left_out=len(repeats) - len(shares),
        n_replies=freedom + len(shares),
    )
