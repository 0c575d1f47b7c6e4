"""The base of the text metrics: overlap with the reference that fits best, and the scores of empty texts."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ragstone.judges import Judge
from ragstone.metrics._base import MetricBase
from ragstone.schema import NotApplicable, Sample, Score

__all__ = ["Parts", "TextMetric", "TextOverlap", "best_overlap", "common_parts", "overlap_details"]

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


class TextMetric(MetricBase):
    """Compares the response with references by a plain function.

    An empty response (or white space) shares nothing with any reference and scores 0. Blank references are passed over.
    """

    group = "text"
    needs = ("response", "reference")

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable:  # noqa: ARG002  nobody is asked
        response = sample.response or ""
        compared = self._compared(response, sample.reference)
        if compared is None:
            return self.make_not_applicable(sample, f"no reference has {self._unit()} to compare with")
        value, details = compared
        empty = not response.strip()
        return self.make_score(sample, value, method="empty_response" if empty else "exact", details=details)

    @abstractmethod
    def _compared(self, response: str, references: Sequence[str]) -> tuple[float, Mapping[str, Any]] | None:
        """The value and its details; None where no reference has anything to compare with."""

    def _unit(self) -> str:
        """What a reference must have at least one of."""
        return "a word"


def overlap_details(overlap: TextOverlap) -> dict[str, Any]:
    """What is kept of an overlap: P, R, F1 and the place of the best reference, from 1 as people count."""
    return asdict(overlap) | {"reference": overlap.reference + 1}
