"""What a metric sees: `Sample`, and the one projection `Trace → Sample`."""

from __future__ import annotations

from typing import Any

from pydantic import Field, FiniteFloat

from ragstone.schema._base import Record
from ragstone.schema._trace import Passage, Trace

__all__ = ["Sample", "sample_from_trace", "trace_from_sample"]


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
    """What a complete answer must cover, as questions."""
    qrels: dict[str, FiniteFloat] | None = None
    """Relevance by passage id over the whole collection, as graders gave it (0 = not relevant); None where nobody did."""
    ratings: dict[str, dict[str, FiniteFloat]] | None = None
    """How well a passage answers a sub-question, from 0 to 5: by sub-question, then by passage id."""
    metadata: dict[str, Any] = Field(default_factory=dict)


def sample_from_trace(trace: Trace) -> Sample:
    """Project a captured trace onto what metrics see."""
    return Sample(
        id=trace.trace_id,
        query=trace.query,
        contexts=trace.prompt_contexts,
        response=trace.response,
        reference=trace.reference,
        sub_questions=trace.sub_questions,
        qrels=trace.qrels,
        ratings=trace.ratings,
        metadata=trace.metadata,
    )


def trace_from_sample(sample: Sample, *, source: str, started_at: float) -> Trace:
    """Make a trace of a row of a data set, so that it can be stored and scored like a captured request.

    Args:
        sample: The row.
        source: Name of the format it came in.
        started_at: Unix seconds; data sets do not say, so a time that stays the same for the same file.
    """
    return Trace(
        trace_id=sample.id,
        source=source,
        query=sample.query,
        contexts=sample.contexts,
        response=sample.response,
        reference=sample.reference,
        sub_questions=sample.sub_questions,
        qrels=sample.qrels,
        ratings=sample.ratings,
        metadata=sample.metadata,
        started_at=started_at,
    )
