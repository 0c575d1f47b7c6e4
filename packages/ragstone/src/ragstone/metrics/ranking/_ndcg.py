"""Normalized discounted cumulative gain (nDCG): graded relevance with a discount for lower ranks.

DCG@k is the sum over the top k ranks of gain(grade) / log2(rank + 1). nDCG@k is DCG@k divided by the DCG@k of the best
order of all judged passages.

| `gain` | gain(grade) | used in |
|---|---|---|
| `exp` | 2**grade - 1 | Burges et al. 2005; ranx `ndcg_burges` |
| `linear` | grade | Jarvelin and Kekalainen 2002; trec_eval, ir_measures, ranx `ndcg`, scikit-learn; UDCG, appendix A |

The ideal order contains all judged passages. An ideal order of only the retrieved passages would ignore missing ones.

Source: K. Jarvelin, J. Kekalainen, "Cumulated Gain-Based Evaluation of IR Techniques", ACM TOIS 20(4), 2002;
C. Burges et al., "Learning to Rank using Gradient Descent", ICML 2005, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, get_args

from ragstone.metrics.ranking._grades import Gain, check_k, check_qrels, first_ranks

MAX_GRADE: Final = 1000.0
"""2**grade overflows above about 1023. Far below that, the passages with the highest grade already dominate."""


def ndcg(
    ranking: Sequence[str], qrels: Mapping[str, float], *, k: int | None = None, gain: Gain = "exp"
) -> float | None:
    """Compute the discounted gain of the top `k` ranks, divided by that of the best possible order.

    Args:
        ranking: Passage ids, best first. A repeated id counts only at its first rank.
        qrels: Passage id to grade, for the whole collection. Grades may be fractions. Negative grades and missing
            grades have gain 0.
        k: Number of ranks that count, in the ranking and in the ideal order. None: all.
        gain: "exp" (2**grade - 1) or "linear" (the grade). They are identical for the grades 0 and 1.

    Returns:
        The value in [0, 1] (higher is better), or None if no passage has a grade above 0.

    Raises:
        ValueError: If `k` is below 1, `gain` is unknown, `qrels` is not a mapping, or a grade is not finite or above
            1000 with `gain="exp"`.

    Examples:
        >>> grades = {"a": 3, "c": 2, "d": 1, "e": 3}
        >>> round(ndcg(["a", "b", "c", "d", "e"], grades, k=5), 3)
        0.872
        >>> round(ndcg(["a", "b", "c", "d", "e"], grades, k=5, gain="linear"), 3)
        0.884
    """
    check_k(k)
    if gain not in get_args(Gain):
        raise ValueError(f"gain must be 'exp' (2**grade - 1) or 'linear' (the grade), got {gain!r}")
    check_qrels(qrels)
    gains = {passage: value for passage, grade in qrels.items() if (value := _gain(grade, gain)) > 0}
    if not gains:
        return None
    ranks = first_ranks(ranking, k)
    dcg = _dcg((rank, gains[passage]) for passage, rank in ranks.items() if passage in gains)
    return dcg / _dcg(enumerate(sorted(gains.values(), reverse=True)[:k], start=1))


def _gain(grade: float, gain: Gain) -> float:
    if gain == "linear":
        return float(grade)
    if grade > MAX_GRADE:
        raise ValueError(f"2**grade is too large for grades above {MAX_GRADE:g}, got {grade}. Use gain='linear'")
    return float(2.0**grade - 1)


def _dcg(gains: Iterable[tuple[int, float]]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in gains)
