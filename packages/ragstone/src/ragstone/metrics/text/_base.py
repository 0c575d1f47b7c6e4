"""What the text metrics have in common: a response, references of which the best counts, and what empty texts score."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ragstone.judges import Judge
from ragstone.metrics._base import MetricBase
from ragstone.metrics.text._overlap import TextOverlap
from ragstone.schema import NotApplicable, Sample, Score

__all__ = ["TextMetric", "overlap_details"]


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
