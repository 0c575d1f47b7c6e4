"""Ranking metrics for which a passage is either relevant or not.

Without regard to order, with h relevant passages among the first k places, and R relevant passages in all:

| function | value |
|---|---|
| `precision` | h / k |
| `recall` | h / R |
| `f1` | 2h / (k + R), the harmonic mean of both |
| `hit_rate` | 1 if h > 0, else 0 |

k stays the denominator if fewer than k passages were retrieved: an empty place is not relevant.

With regard to order:

| function | value |
|---|---|
| `reciprocal_rank` | 1 / the rank of the first relevant passage |
| `average_precision` | the precision at the rank of each relevant passage, summed, over R |

`average_precision` is a step sum, and only near the area under the precision-recall curve. All are undefined (None) if
no passage is relevant.

Sources:
    C. Manning, P. Raghavan, H. Schuetze, "Introduction to Information Retrieval", section 8.3 and 8.4.
    E. Voorhees, "The TREC-8 Question Answering Track Report" (1999), section 3: reciprocal rank.
    C. Buckley, E. Voorhees, "Retrieval System Evaluation", in TREC: Experiment and Evaluation in Information Retrieval
    (2005), section 3.2: average precision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ragstone.metrics.ranking._grades import THRESHOLD, check_k, first_places, relevant_ids

__all__ = ["average_precision", "f1", "hit_rate", "precision", "recall", "reciprocal_rank"]


def precision(
    ranking: Sequence[str], qrels: Mapping[str, float], *, k: int | None = None, threshold: float = THRESHOLD
) -> float | None:
    """Share of the first `k` places that hold a relevant passage, in [0, 1]; higher is better.

    Args:
        ranking: Passage ids, best first. One that comes again counts at its first place only.
        qrels: Passage id to grade, over the whole collection; what is not in it is not relevant.
        k: How many places count, also where the list is shorter; None: as many as the list has.
        threshold: Relevant is a grade from here on.

    Returns:
        None where nothing is relevant, or where there are no places.

    Raises:
        ValueError: `k` is below 1.

    Example:
        >>> precision(["a", "x", "b", "y", "c"], {"a": 1, "b": 1, "c": 1}, k=5)
        0.6
    """
    hits, relevant = _counts(ranking, qrels, k, threshold)
    places = len(ranking) if k is None else k
    return hits / places if relevant and places else None


def recall(
    ranking: Sequence[str], qrels: Mapping[str, float], *, k: int | None = None, threshold: float = THRESHOLD
) -> float | None:
    """Share of all relevant passages that are among the first `k`, in [0, 1]; higher is better.

    Arguments, `None` and errors as for `precision`.

    Example:
        >>> recall(["a", "x", "b"], {"a": 1, "b": 1, "c": 1, "d": 1}, k=5)
        0.5
    """
    hits, relevant = _counts(ranking, qrels, k, threshold)
    return hits / relevant if relevant else None


def f1(
    ranking: Sequence[str], qrels: Mapping[str, float], *, k: int | None = None, threshold: float = THRESHOLD
) -> float | None:
    """Harmonic mean of precision and recall, in [0, 1]; higher is better; 0 where no relevant passage was found.

    Arguments, `None` and errors as for `precision`.

    Example:
        >>> f1(["a", "x"], {"a": 1, "b": 1}, k=2)
        0.5
    """
    hits, relevant = _counts(ranking, qrels, k, threshold)
    places = len(ranking) if k is None else k
    return 2 * hits / (places + relevant) if relevant else None


def hit_rate(
    ranking: Sequence[str], qrels: Mapping[str, float], *, k: int | None = None, threshold: float = THRESHOLD
) -> float | None:
    """1 where any of the first `k` passages is relevant, else 0 (also called success); higher is better.

    Arguments, `None` and errors as for `precision`.

    Example:
        >>> hit_rate(["x", "a"], {"a": 1}, k=2)
        1.0
    """
    hits, relevant = _counts(ranking, qrels, k, threshold)
    return float(hits > 0) if relevant else None


def average_precision(
    ranking: Sequence[str], qrels: Mapping[str, float], *, k: int | None = None, threshold: float = THRESHOLD
) -> float | None:
    """Sum of the precision at the rank of each relevant passage found, over the number of all relevant; in [0, 1].

    A relevant passage that was not found adds 0, also where it could not be among the first `k`: with more than `k`
    relevant passages the value stays below 1. Higher is better; the mean over queries is the MAP.

    Args:
        ranking: Passage ids, best first.
        qrels: Passage id to grade, over the whole collection.
        k: Look at the first `k` places only; None: at all.
        threshold: Relevant is a grade from here on.

    Returns:
        None where nothing is relevant.

    Raises:
        ValueError: `k` is below 1.

    Example:
        >>> average_precision(["a", "x", "x2", "b"], {"a": 1, "b": 1, "c": 1})
        0.5
    """
    check_k(k)
    relevant = relevant_ids(qrels, threshold)
    if not relevant:
        return None
    places = first_places(ranking, k)
    ranks = sorted(places[passage] for passage in relevant & places.keys())
    return math.fsum(found / rank for found, rank in enumerate(ranks, start=1)) / len(relevant)


def reciprocal_rank(
    ranking: Sequence[str], qrels: Mapping[str, float], *, k: int | None = None, threshold: float = THRESHOLD
) -> float | None:
    """One over the rank of the first relevant passage, in [0, 1]; 0 where none was found; higher is better.

    Its mean over queries is the MRR.

    Args:
        ranking: Passage ids, best first.
        qrels: Passage id to grade, over the whole collection.
        k: Look at the first `k` places only (MRR@10); None: at all.
        threshold: Relevant is a grade from here on.

    Returns:
        None where nothing is relevant.

    Raises:
        ValueError: `k` is below 1.

    Example:
        >>> reciprocal_rank(["x", "y", "a"], {"a": 1})
        0.3333333333333333
    """
    check_k(k)
    relevant = relevant_ids(qrels, threshold)
    if not relevant:
        return None
    places = first_places(ranking, k)
    return 1 / min(found) if (found := [places[passage] for passage in relevant & places.keys()]) else 0.0


def _counts(ranking: Sequence[str], qrels: Mapping[str, float], k: int | None, threshold: float) -> tuple[int, int]:
    check_k(k)
    relevant = relevant_ids(qrels, threshold)
    return len(relevant & first_places(ranking, k).keys()), len(relevant)
