"""How much two texts have in common: precision, recall and F1, against the reference that fits best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

__all__ = ["Parts", "TextOverlap", "best_overlap", "common_parts"]

Parts = Sequence[Hashable]
"""What is compared: words, or runs of n words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOverlap:
    """What a text shares with its best reference."""

    precision: float
    """Share of the text that is in the reference."""
    recall: float
    """Share of the reference that is in the text."""
    f1: float
    """Harmonic mean of both; 0 where nothing is shared."""
    reference: int
    """Which reference fits best, from 0; the first of several."""


def common_parts(a: Parts, b: Parts) -> int:
    """How many parts both have, each counted as often as both have it."""
    return (Counter(a) & Counter(b)).total()


def best_overlap(
    parts: Parts, references: Sequence[Parts], common: Callable[[Parts, Parts], int] = common_parts
) -> TextOverlap | None:
    """The overlap with the reference of the highest F1; None where no reference has a part.

    Args:
        parts: Of the text; there may be none.
        references: Parts of each reference. One that has none is passed over: recall would be 0 / 0.
        common: How many parts two texts share.
    """
    best: TextOverlap | None = None
    for position, reference in enumerate(references):
        if not reference:
            continue
        shared = common(parts, reference)
        f1 = 2 * shared / (len(parts) + len(reference))
        if best is None or f1 > best.f1:
            precision = shared / len(parts) if parts else 0.0
            best = TextOverlap(precision=precision, recall=shared / len(reference), f1=f1, reference=position)
    return best
