"""What all ranking metrics share: the grade at each place, and from which grade on a passage is relevant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

__all__ = ["THRESHOLD", "Gain", "check_k", "first_places", "relevant_ids"]

Gain = Literal["exp", "linear"]
"""What a grade is worth to nDCG: 2**grade - 1, or the grade."""

THRESHOLD: Final = 0.5
"""Relevant is a grade from here on: it fits 0/1, TREC's grades (relevant from 1 on) and probabilities, as for UDCG."""


def first_places(ranking: Sequence[str], k: int | None) -> dict[str, int]:
    """The rank (from 1) of each passage among the first `k`; of one that comes again, the first.

    A repetition keeps its place, for it took one in the prompt, and is worth nothing there.
    """
    places: dict[str, int] = {}
    for rank, passage in enumerate(ranking[:k], start=1):
        places.setdefault(passage, rank)
    return places


def relevant_ids(qrels: Mapping[str, float], threshold: float) -> set[str]:
    """The passages whose grade makes them relevant."""
    return {passage for passage, grade in qrels.items() if grade >= threshold}


def check_k(k: int | None) -> None:
    """Refuse a cut-off that cuts everything off.

    Raises:
        ValueError: `k` is below 1.
    """
    if k is not None and k < 1:
        raise ValueError(f"k is how many places count, at least 1 (or None for all), got {k!r}")
