"""Flip rate: how often repeated judge scores of the same item differ."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ragstone.stats._cluster import codes_of
from ragstone.stats._mean import Estimate
from ragstone.stats._weight import estimate_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipRate:
    """Variation of repeated scores of the same items."""

    pairs: Estimate
    """Share of pairs of repeats that differ by more than the threshold, averaged over items."""
    items: Estimate
    """Share of items with at least one such pair. It increases with the number of repeats."""
    spread: float
    """Standard deviation of one reply around its item's mean, pooled over items."""
    threshold: float
    n: int
    """Items with at least two repeats."""
    n_left_out: int
    """Items with fewer than two repeats, which are not counted."""
    n_replies: int


def flip_rate(
    repeats: Sequence[Sequence[float | None]],
    *,
    threshold: float = 0.0,
    clusters: Sequence[Hashable] | None = None,
    confidence_level: float = 0.95,
) -> FlipRate | None:
    """Measure how often repeated scores of one item differ by more than `threshold`.

    Both confidence intervals treat items as the sampling unit, so ten repeats of one item do not count as ten items, or
    whole clusters of items.

    Args:
        repeats: Items by repeats. None or NaN is a missing score. Rows may have different lengths.
        threshold: Largest difference that does not count as a flip. Rounding errors never count.
        clusters: Label of the cluster of each item, such as its session. Each None is a cluster of its own. None:
            independent items.
        confidence_level: Nominal coverage, in (0, 1).

    Returns:
        The flip rate, or None if no item has at least two scores.

    Raises:
        ValueError: If the threshold is negative, or an item lacks a cluster.

    Examples:
        >>> rate = flip_rate([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
        >>> round(rate.pairs.value, 3), rate.items.value
        (0.333, 0.5)
    """
    if not threshold >= 0:
        raise ValueError(f"threshold must be at least 0, got {threshold}")
    codes = codes_of(len(repeats), clusters).tolist()
    edge = threshold + 1e-9
    shares, squares, freedom = [], [], 0
    own: list[int] = []
    for item, row in enumerate(repeats):
        known = sorted(v for v in row if v is not None and not math.isnan(v))
        m = len(known)
        if m < 2:
            continue
        shares.append(sum(known[j] - known[i] > edge for i in range(m) for j in range(i + 1, m)) / (m * (m - 1) / 2))
        mean = math.fsum(known) / m
        squares.append(math.fsum((v - mean) ** 2 for v in known))
        freedom += m - 1
        own.append(codes[item])
    pairs, items = (
        estimate_mean(values, low=0.0, high=1.0, clusters=own, confidence_level=confidence_level)
        for values in (shares, [float(share > 0) for share in shares])
    )
    if pairs is None or items is None:
        return None
    return FlipRate(
        pairs=pairs,
        items=items,
        spread=math.sqrt(math.fsum(squares) / freedom),
        threshold=threshold,
        n=len(shares),
        n_left_out=len(repeats) - len(shares),
        n_replies=freedom + len(shares),
    )
