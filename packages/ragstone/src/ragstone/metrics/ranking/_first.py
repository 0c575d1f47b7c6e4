"""Reciprocal rank: how far down the first relevant passage is.

Source: E. Voorhees, "The TREC-8 Question Answering Track Report" (1999), section 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragstone.metrics.ranking._grades import THRESHOLD, check_k, first_places, relevant_ids

__all__ = ["reciprocal_rank"]


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
