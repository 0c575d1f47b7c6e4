"""Normalised discounted cumulative gain: graded relevance, and early places count more.

DCG@k is the sum over the first k places of gain(grade) / log2(rank + 1), and nDCG@k that over the DCG@k of the best
order of all judged passages.

| `gain` | gain(grade) | so in |
|---|---|---|
| `exp` | 2**grade - 1 | Burges et al. 2005; ranx `ndcg_burges` |
| `linear` | grade | Jarvelin and Kekalainen 2002; trec_eval, ir_measures, ranx `ndcg`, scikit-learn; UDCG, appendix A |

The ideal is made from all judged passages. One from the retrieved list alone forgives what was missed.

Source: K. Jarvelin, J. Kekalainen, "Cumulated Gain-Based Evaluation of IR Techniques", ACM TOIS 20(4), 2002;
C. Burges et al., "Learning to Rank using Gradient Descent", ICML 2005, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, get_args

from ragstone.metrics.ranking._grades import Gain, check_k, first_places

__all__ = ["MAX_GRADE", "check_gain", "ndcg"]

MAX_GRADE: Final = 1000.0
"""2**grade is a number up to about 1023; and long before that the passages of the highest grade decide alone."""


def ndcg(
    ranking: Sequence[str], qrels: Mapping[str, float], *, k: int | None = None, gain: Gain = "exp"
) -> float | None:
    """Discounted gain of the first `k` places over that of the best possible order, in [0, 1]; higher is better.

    Args:
        ranking: Passage ids, best first. One that comes again counts at its first place only.
        qrels: Passage id to grade, over the whole collection. Grades may be fractions; one below 0 is worth 0, and so
            is a passage without one.
        k: How many places count, in the list and in the ideal; None: all.
        gain: "exp" (2**grade - 1) or "linear" (the grade). With grades 0 and 1 they are the same.

    Returns:
        None where no passage has a grade above 0.

    Raises:
        ValueError: `k` is below 1, `gain` is neither, or a grade is above 1000 with `gain="exp"`.

    Example:
        >>> grades = {"a": 3, "c": 2, "d": 1, "e": 3}
        >>> round(ndcg(["a", "b", "c", "d", "e"], grades, k=5), 3)
        0.872
        >>> round(ndcg(["a", "b", "c", "d", "e"], grades, k=5, gain="linear"), 3)
        0.884
    """
    check_k(k)
    check_gain(gain)
    gains = {passage: worth for passage, grade in qrels.items() if (worth := _gain(grade, gain)) > 0}
    if not gains:
        return None
    places = first_places(ranking, k)
    found = _dcg((rank, gains[passage]) for passage, rank in places.items() if passage in gains)
    return found / _dcg(enumerate(sorted(gains.values(), reverse=True)[:k], start=1))


def check_gain(gain: str) -> None:
    """Refuse a name that is no gain.

    Raises:
        ValueError: It is not.
    """
    if gain not in get_args(Gain):
        raise ValueError(f"gain must be 'exp' (2**grade - 1) or 'linear' (the grade), got {gain!r}")


def _gain(grade: float, gain: Gain) -> float:
    if gain == "linear":
        return float(grade)
    if grade > MAX_GRADE:
        raise ValueError(
            f"2**grade is no number for grades above {MAX_GRADE:g}, got {grade!r}; such grades need gain='linear'"
        )
    return float(2.0**grade - 1)


def _dcg(places: Iterable[tuple[int, float]]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in places)
