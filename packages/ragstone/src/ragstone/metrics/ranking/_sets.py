"""Metrics of the first k places that know relevant and irrelevant, and no order: precision, recall, F1, hit rate.

With h relevant passages among the first k places, and R relevant passages in all:

| function | value |
|---|---|
| `precision` | h / k |
| `recall` | h / R |
| `f1` | 2h / (k + R), the harmonic mean of both |
| `hit_rate` | 1 if h > 0, else 0 |

k stays the denominator where fewer than k passages were retrieved: an empty place is no relevant one. All four are
undefined (None) where nothing is relevant.

Source: C. Manning, P. Raghavan, H. Schuetze, "Introduction to Information Retrieval", section 8.3 and 8.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragstone.metrics.ranking._grades import THRESHOLD, check_k, first_places, relevant_ids

__all__ = ["f1", "hit_rate", "precision", "recall"]


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


def _counts(ranking: Sequence[str], qrels: Mapping[str, float], k: int | None, threshold: float) -> tuple[int, int]:
    check_k(k)
    relevant = relevant_ids(qrels, threshold)
    return len(relevant & first_places(ranking, k).keys()), len(relevant)
