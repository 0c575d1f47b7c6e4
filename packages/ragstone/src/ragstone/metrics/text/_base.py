"""The base class of text metrics: overlap with the best reference, and scores of empty texts."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ragstone.judges import Judge
from ragstone.metrics._base import MetricBase
from ragstone.schema import NotApplicable, Sample, Score

Parts = Sequence[Hashable]
"""Units of comparison: words or n-grams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOverlap:
    """Overlap of a text with its best reference."""

    precision: float
    """Share of the text's parts that occur in the reference, in [0, 1]."""
    recall: float
    """Share of the reference's parts that occur in the text, in [0, 1]."""
    f1: float
    """Harmonic mean of precision and recall, 0 without shared parts."""
    reference: int
    """Index of the best reference, from 0. The first one if several are equally good."""


def common_parts(a: Parts, b: Parts) -> int:
    """Count the shared parts. A repeated part counts as often as it occurs in both."""
    return (Counter(a) & Counter(b)).total()


def best_overlap(
    parts: Parts, references: Sequence[Parts], common: Callable[[Parts, Parts], int] = common_parts
) -> TextOverlap | None:
    """Compute the overlap with the reference with the highest F1, or None if every reference is empty.

    An empty reference is skipped, because its recall would be 0 / 0.
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


def check_references(references: Sequence[str]) -> None:
    """Raise ValueError if references are one text, whose characters would count as references."""
    if isinstance(references, str):
        raise ValueError(f"references must be a list of texts, got the text {references!r}. Use [{references!r}]")  # noqa: TRY004  all invalid arguments raise ValueError


class TextMetric(MetricBase):
    """Base class of metrics that compare the response with references by a function of the texts.

    A blank response scores 0. Blank references are skipped.
    """

    group = "text"
    needs = ("response", "reference")

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable:  # noqa: ARG002  the judge is not called
        response = sample.response or ""
        compared = self._compared(response, sample.reference)
        if compared is None:
            return self.make_not_applicable(sample, f"no reference contains {self._unit()}")
        value, details = compared
        empty = not response.strip()
        return self.make_score(sample, value, method="empty_response" if empty else "exact", details=details)

    @abstractmethod
    def _compared(self, response: str, references: Sequence[str]) -> tuple[float, Mapping[str, Any]] | None:
        """Compute the value and its details, or return None if no reference can be compared."""

    def _unit(self) -> str:
        """Return the minimum length of a reference, as text."""
        return "a word"


def overlap_details(overlap: TextOverlap) -> dict[str, Any]:
    """Return the details of an overlap: precision, recall, F1 and the position of the best reference, from 1."""
    return asdict(overlap) | {"reference": overlap.reference + 1}
