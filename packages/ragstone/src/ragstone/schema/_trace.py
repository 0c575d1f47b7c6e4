"""What was captured for one request: `Trace`, its retrievals and their passages."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, FiniteFloat

from ragstone.schema._base import Model, Record

__all__ = ["Passage", "Retrieval", "Trace", "TraceStatus", "Usage"]

TraceStatus = Literal["ok", "error", "truncated", "interrupted", "abandoned"]


class Usage(Model):
    """Tokens and calls spent; additive."""

    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    calls: int = Field(default=0, ge=0)
    """Requests sent, retries included."""
    cached: int = Field(default=0, ge=0)
    """Requests answered from the reply cache: not sent, and in none of the other numbers."""
    cost_usd: float | None = None
    """Money spent in US dollars, where prices are known."""

    def __add__(self, other: Usage) -> Usage:
        costs = [c for c in (self.cost_usd, other.cost_usd) if c is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            calls=self.calls + other.calls,
            cached=self.cached + other.cached,
            cost_usd=sum(costs) if costs else None,
        )


class Passage(Model):
    """One retrieved chunk of text."""

    text: str
    id: str | None = None
    score: float | None = None
    """The retriever's own score, in the retriever's own unit."""
    rank: int | None = None
    """0-based position in the list the retriever returned."""
    relevance: float | None = None
    """A label: how relevant the passage is to the query (0 = not)."""
    metadata: dict[str, Any] = Field(default_factory=dict)


class Retrieval(Model):
    """One call of a retriever: what was asked and what came back."""

    query: str | None = None
    passages: tuple[Passage, ...] = ()
    name: str | None = None


class Trace(Record):
    """One captured request of a RAG application, redacted before it touched a disk."""

    trace_id: str = Field(min_length=1)
    name: str | None = None
    source: str = "unknown"
    """Which door it came through: "langchain", "llama_index", "record", the name of a trace format."""
    run_id: str | None = None
    parent_run_id: str | None = None
    otel_trace_id: str | None = None
    """32 hex digits of the OpenTelemetry trace that was current, if there was one."""
    otel_span_id: str | None = None
    """16 hex digits."""
    otel_sampled: bool | None = None
    """False where that span is not exported, so that no tracing tool has it; None where that is not known."""
    session_id: str | None = None
    user_id: str | None = None

    query: str | None = None
    retrievals: tuple[Retrieval, ...] = ()
    contexts: tuple[Passage, ...] | None = None
    """What reached the prompt, where that is known to differ from the union of the retrievals (a re-ranker, say)."""
    response: str | None = None
    reference: tuple[str, ...] = ()
    """Correct answers, when the application knows them (a replayed test set); so are the next three."""
    sub_questions: tuple[str, ...] = ()
    """What a complete answer must cover, as questions."""
    qrels: dict[str, FiniteFloat] | None = None
    """Relevance by passage id over the whole collection, as graders gave it (0 = not relevant)."""
    ratings: dict[str, dict[str, FiniteFloat]] | None = None
    """How well a passage answers a sub-question, from 0 to 5: by sub-question, then by passage id."""

    status: TraceStatus = "ok"
    error: str | None = None
    inner_errors: tuple[str, ...] = ()
    """Errors inside the request that the application survived."""

    started_at: float
    """Unix seconds."""
    ended_at: float | None = None
    """Unix seconds."""
    first_token_s: float | None = None
    """Seconds from start to the first streamed token."""
    model: str | None = None
    usage: Usage | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)

    inclusion_probability: float = Field(default=1.0, gt=0, le=1)
    """Probability with which sampling kept this trace: its weight is the inverse."""
    truncated_fields: tuple[str, ...] = ()
    """Fields that were cut to the capture limits."""

    @property
    def prompt_contexts(self) -> tuple[Passage, ...] | None:
        """The passages the answer was made from; None when nothing is known about retrieval."""
        if self.contexts is not None:
            return self.contexts
        if not self.retrievals:
            return None
        return tuple(p for search in self.retrievals for p in search.passages)
