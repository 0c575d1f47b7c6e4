"""What UDCG is compared with: metrics of a ranked list that know relevance and not the reader.

Source: UDCG, appendix A. `gains` are the passages' grades in prompt order (0 = irrelevant), `pool` those of all passages that
are known for the question; a passage that comes twice counts at its first place only, so callers give 0 for later ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["average_precision", "hits", "ndcg", "precision", "reciprocal_rank"]


def ndcg(gains: Sequence[float], pool: Sequence[float]) -> float:
    """Discounted gain by log2(rank + 1), linear in the grade, over that of the best list of the same length from the pool.

    0 where the pool holds nothing relevant: so it is for all contexts of that question, and ranks none above another.

    Example:
        >>> ndcg([0, 1], [1, 0, 0])
        0.6309297535714575
    """
    ideal = _dcg(sorted(pool, reverse=True)[: len(gains)])
    return _dcg(gains) / ideal if ideal else 0.0


def _dcg(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def average_precision(gains: Sequence[float], pool: Sequence[float]) -> float:
    """Mean over all relevant passages of the pool of the precision where each is found; 0 for one that is not.

    Example:
        >>> average_precision([1, 0, 1], [1, 1, 1, 0])
        0.5555555555555556
    """
    relevant = sum(gain > 0 for gain in pool)
    found, total = 0, 0.0
    for rank, gain in enumerate(gains, start=1):
        if gain > 0:
            found += 1
            total += found / rank
    return total / relevant if relevant else 0.0


def reciprocal_rank(gains: Sequence[float]) -> float:
    """One over the rank of the first relevant passage; 0 without one.

    Example:
        >>> reciprocal_rank([0, 0, 1])
        0.3333333333333333
    """
    return next((1 / rank for rank, gain in enumerate(gains, start=1) if gain > 0), 0.0)


def precision(gains: Sequence[float]) -> float:
    """Share of the places that hold a relevant passage.

    Example:
        >>> precision([1, 0, 0, 1])
        0.5
    """
    return sum(gain > 0 for gain in gains) / len(gains)


def hits(gains: Sequence[float]) -> float:
    """1 where any passage is relevant, else 0.

    Example:
        >>> hits([0, 1])
        1.0
    """
    return float(any(gain > 0 for gain in gains))
