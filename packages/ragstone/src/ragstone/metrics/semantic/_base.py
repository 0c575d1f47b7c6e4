"""What metrics with a model of their own have in common: its name, its loading, and what an empty response scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ragstone.judges import Judge
from ragstone.metrics._local import LocalModelMetric
from ragstone.schema import NotApplicable, Sample, Score

__all__ = ["SemanticMetric"]

T = TypeVar("T")


class SemanticMetric(LocalModelMetric[T]):
    """Compares the response with references by a model in this process; the best reference counts.

    An empty response (or white space) has no direction, so that its cosines are undefined; it scores 0, unrelated, as it
    shares nothing in the text metrics. Blank references are passed over.
    """

    group = "semantic"
    needs = ("response", "reference")
    low = -1.0

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable:  # noqa: ARG002  nobody is asked
        response = sample.response or ""
        if not response.strip():
            return self.make_score(sample, 0.0, method="empty_response", details={"model": self.model})
        places = [place for place, text in enumerate(sample.reference, 1) if text.strip()]
        references = [sample.reference[place - 1] for place in places]
        compared = await self._local.run(lambda model: self._compared(model, response, references))
        if compared is None:
            return self.make_not_applicable(
                sample, "the model's tokeniser leaves nothing of the response or the references"
            )
        value, best, details = compared
        # A cosine may exceed 1 by a rounding error.
        value = min(1.0, max(-1.0, value))
        details = {"model": self.model, **details, "reference": places[best]}
        return self.make_score(sample, value, method="exact", details=details)

    @abstractmethod
    def _compared(
        self, model: T, response: str, references: Sequence[str]
    ) -> tuple[float, int, Mapping[str, Any]] | None:
        """The value, the place of the best reference from 0, and details; None where there is nothing to compare."""
