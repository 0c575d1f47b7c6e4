"""alpha-nDCG: a passage is worth what it adds to those above it.

A place gains, for each sub-question its passage covers, (1 - alpha)**c, where c passages above it cover the same one;
gains are discounted by log2(rank + 1) and divided by the same sum of an ideal order of the pool.

- **Ideal.** The best order is too dear to find (it is NP-hard), so it is built greedily: at each place the passage with
  the largest gain. The greedy order can be worse than another, and the value then above 1, but never above
  e / (e - 1) = 1.582: at each depth the greedy set gains at least 1 - 1/e of the best (the sum is submodular).
- **Ties** in the ideal go to the larger id, as in `ndeval`, so that values are those of that tool. They can change the
  third decimal.
- **Pool.** All passages that cover any sub-question, retrieved or not.

Source: C. Clarke et al., "Novelty and Diversity in Information Retrieval Evaluation", SIGIR 2008, section 4; CRUX, section 3.3,
equations 4 and 5, for sub-questions and ratings in place of nuggets.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ragstone.metrics.ranking._grades import check_k, first_places

__all__ = ["ALPHA", "ALPHA_NDCG_MAX", "alpha_ndcg"]

ALPHA: Final = 0.5
ALPHA_NDCG_MAX: Final = math.e / (math.e - 1)
"""No list is better than this, measured by the greedy ideal (Nemhauser, Wolsey and Fisher 1978, theorem 4.1)."""


def alpha_ndcg(
    ranking: Sequence[str], covered: Mapping[str, Collection[str]], *, k: int | None = None, alpha: float = ALPHA
) -> float | None:
    """Novelty-aware discounted gain over that of the greedy ideal, in [0, 1.582], mostly at most 1; higher is better.

    Args:
        ranking: Passage ids, best first. One that comes again adds nothing.
        covered: Sub-question to the ids of all passages that answer it, retrieved or not.
        k: How many places count, in the list and in the ideal; None: all.
        alpha: How much of a sub-question's gain one passage uses up: 0 knows no redundancy, 1 pays each sub-question once.

    Returns:
        None where no passage covers any sub-question.

    Raises:
        ValueError: `k` is below 1, or `alpha` outside [0, 1].

    Example:
        >>> round(alpha_ndcg(["a", "b", "c"], {"when?": ["a", "b"], "where?": ["c"]}, k=3), 3)
        0.965
    """
    check_k(k)
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha!r}")
    topics: dict[str, list[str]] = {}
    for topic, passages in covered.items():
        for passage in dict.fromkeys(passages):
            topics.setdefault(passage, []).append(topic)
    if not topics:
        return None
    seen: dict[str, int] = {}
    found = math.fsum(
        _taken(topics[passage], seen, alpha) / math.log2(rank + 1)
        for passage, rank in first_places(ranking, k).items()
        if passage in topics
    )
    return found / _ideal(topics, len(topics) if k is None else k, alpha)


def _ideal(topics: Mapping[str, Sequence[str]], k: int, alpha: float) -> float:
    left = dict(topics)
    seen: dict[str, int] = {}
    gains: list[float] = []
    while left and len(gains) < k:
        best = max(left, key=lambda passage: (_gain(left[passage], seen, alpha), passage))
        gains.append(_taken(left.pop(best), seen, alpha))
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def _gain(topics: Sequence[str], seen: Mapping[str, int], alpha: float) -> float:
    # fsum: equal gains stay equal whatever the order of the sub-questions.
    return math.fsum((1 - alpha) ** seen.get(topic, 0) for topic in topics)


def _taken(topics: Sequence[str], seen: dict[str, int], alpha: float) -> float:
    gain = _gain(topics, seen, alpha)
    for topic in topics:
        seen[topic] = seen.get(topic, 0) + 1
    return gain
