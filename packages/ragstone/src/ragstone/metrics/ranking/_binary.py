"""Ranking metrics with binary relevance.

All metrics are undefined (None) if no passage is relevant.

Sources:
    C. Manning, P. Raghavan, H. Schuetze, "Introduction to Information Retrieval", section 8.3 and 8.4.
    E. Voorhees, "The TREC-8 Question Answering Track Report" (1999), section 3: reciprocal rank.
    C. Buckley, E. Voorhees, "Retrieval System Evaluation", in TREC: Experiment and Evaluation in Information Retrieval
    (2005), section 3.2: average precision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ragstone.metrics.ranking._grades import THRESHOLD, check_k, first_ranks, relevant_ids


def precision(
    ranking: Sequence[str], qrels: Mapping[str, float], *, k: int | None = None, threshold: float = THRESHOLD
) -> float | None:
    """Compute the share of the top `k` ranks with a relevant passage.

    Args:
        ranking: Passage ids, best first. A repeated id counts only at its first rank.
        qrels: Passage id to grade, for the whole collection. Passages without a grade are not relevant.
        k: Number of ranks that count, even if the ranking is shorter. None: the length of the ranking.
        threshold: Smallest grade that means relevant.

    Returns:
        The value in [0, 1] (higher is better), or None if no passage is relevant, or the ranking is empty and `k` is
        None.

    Raises:
        ValueError: If `k` is below 1, `qrels` is not a mapping, or a grade is not finite.

    Examples:
        >>> precision(["a", "x", "b", "y", "c"], {"a": 1, "b": 1, "c": 1}, k=5)
        0.6
    """
    ranks, relevant = _relevant_ranks(ranking, qrels, k, threshold)
    places = len(ranking) if k is None else k
    return len(ranks) / places if relevant and places else None


def judged_share(
    ranking: Sequence[str],
    qrels: Mapping[str, float],
    *,
    k: int | None = None,
    threshold: float = THRESHOLD,  # noqa: ARG001
) -> float | None:
    """Compute the share of the top `k` ranks with a passage that has a grade, whichever it is.

    Arguments, range and errors are as for `precision`. The result is None if no passage has a grade.

    Examples:
        >>> judged_share(["a", "x", "b", "y"], {"a": 1, "b": 0}, k=4)
        0.5
    """
    return precision(ranking, qrels, k=k, threshold=-math.inf)


def recall(
    ranking: Sequence[str], qrels: Mapping[str, float], *, k: int | None = None, threshold: float = THRESHOLD
) -> float | None:
    """Compute the share of all relevant passages that are in the top `k`.

    Arguments, range and errors are as for `precision`. The result is None if no passage is relevant.

    Examples:
        >>> recall(["a", "x", "b"], {"a": 1, "b": 1, "c": 1, "d": 1}, k=5)
        0.5
    """
    ranks, relevant = _relevant_ranks(ranking, qrels, k, threshold)
    return len(ranks) / relevant if relevant else None


def f1(
    ranking: Sequence[str], qrels: Mapping[str, float], *, k: int | None = None, threshold: float = THRESHOLD
) -> float | None:
    """Compute the harmonic mean of precision and recall. It is 0 if no relevant passage was retrieved.

    Arguments, range and errors are as for `precision`. The result is None if no passage is relevant.

    Examples:
        >>> f1(["a", "x"], {"a": 1, "b": 1}, k=2)
        0.5
    """
    ranks, relevant = _relevant_ranks(ranking, qrels, k, threshold)
    places = len(ranking) if k is None else k
    return 2 * len(ranks) / (places + relevant) if relevant else None


def hit_rate(
    ranking: Sequence[str], qrels: Mapping[str, float], *, k: int | None = None, threshold: float = THRESHOLD
) -> float | None:
    """Return 1 if any passage in the top `k` is relevant, else 0 (also called success).

    Arguments and errors are as for `precision`. The result is None if no passage is relevant.

    Examples:
        >>> hit_rate(["x", "a"], {"a": 1}, k=2)
        1.0
    """
    ranks, relevant = _relevant_ranks(ranking, qrels, k, threshold)
    return float(bool(ranks)) if relevant else None


def average_precision(
    ranking: Sequence[str], qrels: Mapping[str, float], *, k: int | None = None, threshold: float = THRESHOLD
) -> float | None:
    """Compute the sum of the precision at the rank of each relevant passage, divided by the number of relevant passages.

    A relevant passage that was not retrieved adds 0. The value is therefore below 1 if there are more than `k` relevant
    passages. The mean over queries is the MAP.

    Args:
        ranking: Passage ids, best first.
        qrels: Passage id to grade, for the whole collection.
        k: Number of ranks that count. None: all.
        threshold: Smallest grade that means relevant.

    Returns:
        The value in [0, 1] (higher is better), or None if no passage is relevant.

    Raises:
        ValueError: If `k` is below 1, `qrels` is not a mapping, or a grade is not finite.

    Examples:
        >>> average_precision(["a", "x", "x2", "b"], {"a": 1, "b": 1, "c": 1})
        0.5
    """
    ranks, relevant = _relevant_ranks(ranking, qrels, k, threshold)
    return math.fsum(hits / rank for hits, rank in enumerate(ranks, start=1)) / relevant if relevant else None


def reciprocal_rank(
    ranking: Sequence[str], qrels: Mapping[str, float], *, k: int | None = None, threshold: float = THRESHOLD
) -> float | None:
    """Compute 1 / rank of the first relevant passage. It is 0 if no relevant passage was retrieved.

    The mean over queries is the MRR.

    Args:
        ranking: Passage ids, best first.
        qrels: Passage id to grade, for the whole collection.
        k: Number of ranks that count (10 for MRR@10). None: all.
        threshold: Smallest grade that means relevant.

    Returns:
        The value in [0, 1] (higher is better), or None if no passage is relevant.

    Raises:
        ValueError: If `k` is below 1, `qrels` is not a mapping, or a grade is not finite.

    Examples:
        >>> reciprocal_rank(["x", "y", "a"], {"a": 1})
        0.3333333333333333
    """
    ranks, relevant = _relevant_ranks(ranking, qrels, k, threshold)
    if not relevant:
        return None
    return 1 / ranks[0] if ranks else 0.0


def _relevant_ranks(
    ranking: Sequence[str], qrels: Mapping[str, float], k: int | None, threshold: float
) -> tuple[list[int], int]:
    """Return the ranks of the relevant passages in the top `k`, ascending, and the number of all relevant passages."""
    check_k(k)
    relevant = relevant_ids(qrels, threshold)
    first = first_ranks(ranking, k)
    return sorted(first[passage] for passage in relevant & first.keys()), len(relevant)
