"""Shared functions of ranking metrics: ranks of passages, the relevance threshold and checks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

Run: TypeAlias = Mapping[str, Mapping[str, float] | Sequence[str]]
"""Query id to its retrieved passages: passage id to score, or passage ids, best first."""
Qrels: TypeAlias = Mapping[str, Mapping[str, float]]
"""Query id to passage id to grade."""
Gain = Literal["exp", "linear"]
"""Gain of a grade in nDCG: 2**grade - 1 ("exp") or the grade itself ("linear")."""

THRESHOLD: Final = 0.5
"""Smallest grade that means relevant. It suits binary labels, TREC grades (relevant from 1) and probabilities."""


def first_ranks(ranking: Sequence[str], k: int | None) -> dict[str, int]:
    """Return the first rank (from 1) of each passage in the top `k`.

    A repeated passage still occupies its rank, as in the prompt, but does not add gain there.
    """
    ranks: dict[str, int] = {}
    for rank, passage in enumerate(ranking[:k], start=1):
        ranks.setdefault(passage, rank)
    return ranks


def relevant_ids(qrels: Mapping[str, float], threshold: float) -> set[str]:
    """Return the ids of passages with at least the threshold grade."""
    check_qrels(qrels)
    return {passage for passage, grade in qrels.items() if grade >= threshold}


def check_qrels(qrels: Mapping[str, float]) -> None:
    """Raise ValueError if grades are not finite numbers by passage id."""
    if not isinstance(qrels, Mapping):
        raise ValueError(f'qrels must map passage ids to grades, as in {{"a": 1}}, got {qrels!r}')  # noqa: TRY004  all invalid arguments raise ValueError
    for passage, grade in qrels.items():
        if not math.isfinite(grade):
            raise ValueError(f"a grade must be a finite number, got {grade} for passage {passage!r}")


def check_k(k: int | None) -> None:
    """Check a cutoff. Raise ValueError if `k` is below 1."""
    if k is not None and k < 1:
        raise ValueError(f"k must be at least 1 (or None for all ranks), got {k}")
