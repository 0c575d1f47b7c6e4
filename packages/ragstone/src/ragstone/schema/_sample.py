"""What a metric sees: `Sample`, and the one projection `Trace → Sample`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ragstone.schema._base import Record
from ragstone.schema._trace import Passage, Trace

__all__ = ["Sample", "sample_from_trace"]


class Sample(Record):
    """One question with what was retrieved and answered; every field but the id may be missing."""

    id: str = Field(min_length=1)
    query: str | None = None
    contexts: tuple[Passage, ...] | None = None
    """Passages in prompt order. `()` means that retrieval found nothing, None that nothing is known."""
    response: str | None = None
    reference: tuple[str, ...] = ()
    """Correct answers; any one of them counts."""
    sub_questions: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)

    def has(self, field: str) -> bool:
        """Whether `field` ("query", "contexts", "response", "reference", ...) holds something to work on.

        An empty response counts as present: metrics define what it scores. An empty reference does not.
        """
        value = getattr(self, field, None)
        if field in ("response", "contexts"):
            return value is not None
        return bool(value)


def sample_from_trace(trace: Trace) -> Sample:
    """Project a captured trace onto what metrics see."""
    return Sample(
        id=trace.trace_id,
        query=trace.query,
        contexts=trace.prompt_contexts,
        response=trace.response,
        reference=trace.reference,
        metadata=trace.metadata,
    )
