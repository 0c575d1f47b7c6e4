"""The base class of semantic metrics: comparison by a local model, and scores of empty responses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ragstone.judges import Judge, bounded_number
from ragstone.metrics._local import LocalModelMetric
from ragstone.schema import NotApplicable, Sample, Score

T = TypeVar("T")


class SemanticMetric(LocalModelMetric[T]):
    """Base class of metrics that compare the response with references by a local model. The best reference counts.

    A blank response does not have a meaningful embedding. It scores 0 (unrelated), as in the text metrics. Blank
    references are skipped.
    """

    group = "semantic"
    needs = ("response", "reference")
    low = -1.0

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable:  # noqa: ARG002  the judge is not called
        response = sample.response or ""
        if not response.strip():
            return self.make_score(sample, 0.0, method="empty_response", details={"model": self.model})
        places = [place for place, text in enumerate(sample.reference, 1) if text.strip()]
        references = [sample.reference[place - 1] for place in places]
        compared = await self._local.run(lambda model: self._compared(model, response, references))
        if compared is None:
            return self.make_not_applicable(
                sample, "the model's tokenizer returns no tokens for the response or for every reference"
            )
        value, best, details = compared
        value = bounded_number(value, -1, 1, what=f"the similarity by {self.model}")
        details = {"model": self.model, **details, "reference": places[best]}
        return self.make_score(sample, value, method="exact", details=details)

    @abstractmethod
    def _compared(
        self, model: T, response: str, references: Sequence[str]
    ) -> tuple[float, int, Mapping[str, Any]] | None:
        """Compute the value, the index of the best reference and details, or return None without tokens to compare."""
