"""alpha-nDCG: discounted gain with a penalty for repeated information.

For each sub-question that a passage covers, its gain is (1 - alpha)**c if c passages ranked above it cover the same
sub-question. Gains are divided by log2(rank + 1). Their sum is divided by the same sum of an ideal order of the pool.

- **Ideal.** Finding the best order is NP-hard. It is therefore built greedily, with the passage of the largest gain at
  each rank. The greedy order can be worse than another order, so the value may exceed 1. It never exceeds
  e / (e - 1) = 1.582, because the sum is submodular: at each depth the greedy set gains at least 1 - 1/e of the best.
- **Ties** in the ideal order are resolved in favor of the larger id, as in `ndeval`, so that values agree with that
  tool. Ties can change the third decimal.
- **Pool.** All passages that cover any sub-question, retrieved or not.

Source: C. Clarke et al., "Novelty and Diversity in Information Retrieval Evaluation", SIGIR 2008, section 4. For
sub-questions and ratings instead of nuggets: CRUX, section 3.3, equations 4 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ragstone.metrics.ranking._grades import check_k, first_ranks

ALPHA: Final = 0.5
ALPHA_NDCG_MAX: Final = math.e / (math.e - 1)
"""Upper bound of the value with a greedy ideal (Nemhauser, Wolsey and Fisher 1978, theorem 4.1)."""


def alpha_ndcg(
    ranking: Sequence[str], covered: Mapping[str, Collection[str]], *, k: int | None = None, alpha: float = ALPHA
) -> float | None:
    """Compute the novelty-aware discounted gain, relative to the greedy ideal order.

    Args:
        ranking: Passage ids, best first. Repeated ids do not add gain.
        covered: For each sub-question, the ids of all passages that answer it, retrieved or not.
        k: Number of ranks that count, in the ranking and in the ideal order. None: all.
        alpha: Share of a sub-question's gain that one passage uses up. With 0, repetition is not penalized. With 1,
            only the first passage of each sub-question has gain.

    Returns:
        The value in [0, 1.582], rarely above 1 (higher is better), or None if no passage covers any sub-question.

    Raises:
        ValueError: If `k` is below 1, `alpha` is outside [0, 1], or `covered` is not a mapping.

    Examples:
        >>> round(alpha_ndcg(["a", "b", "c"], {"when?": ["a", "b"], "where?": ["c"]}, k=3), 3)
        0.965
    """
    check_k(k)
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}")
    if not isinstance(covered, Mapping):
        raise ValueError(f'covered must map sub-questions to passage ids, as in {{"when?": ["a"]}}, got {covered!r}')  # noqa: TRY004  all invalid arguments raise ValueError
    topics: dict[str, list[str]] = {}
    for topic, passages in covered.items():
        for passage in dict.fromkeys(passages):
            topics.setdefault(passage, []).append(topic)
    if not topics:
        return None
    seen: dict[str, int] = {}
    gain = math.fsum(
        _take(topics[passage], seen, alpha) / math.log2(rank + 1)
        for passage, rank in first_ranks(ranking, k).items()
        if passage in topics
    )
    return gain / _ideal(topics, len(topics) if k is None else k, alpha)


def _ideal(topics: Mapping[str, Sequence[str]], k: int, alpha: float) -> float:
    remaining = dict(topics)
    seen: dict[str, int] = {}
    gains: list[float] = []
    while remaining and len(gains) < k:
        best = max(remaining, key=lambda passage: (_gain(remaining[passage], seen, alpha), passage))
        gains.append(_take(remaining.pop(best), seen, alpha))
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def _gain(topics: Sequence[str], seen: Mapping[str, int], alpha: float) -> float:
    # With fsum, equal gains stay equal for any order of the sub-questions.
    return math.fsum((1 - alpha) ** seen.get(topic, 0) for topic in topics)


def _take(topics: Sequence[str], seen: dict[str, int], alpha: float) -> float:
    gain = _gain(topics, seen, alpha)
    for topic in topics:
        seen[topic] = seen.get(topic, 0) + 1
    return gain
