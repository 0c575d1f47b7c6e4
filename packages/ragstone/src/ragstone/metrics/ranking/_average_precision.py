"""Average precision: the precision where each relevant passage is found, over all that are relevant.

Source: C. Buckley, E. Voorhees, "Retrieval System Evaluation", in TREC: Experiment and Evaluation in Information
Retrieval (2005), section 3.2. It is a step sum, and only near the area under the precision-recall curve.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ragstone.metrics.ranking._grades import THRESHOLD, check_k, first_places, relevant_ids

__all__ = ["average_precision"]


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
