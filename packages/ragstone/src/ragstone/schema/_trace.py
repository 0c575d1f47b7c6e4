"""`Trace`, the record of one request, with its retrievals and their passages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from pydantic import Field, FiniteFloat

from ragstone._util.quantities import count
from ragstone.schema._base import Model, Record
from ragstone.schema._evidence import Evidence

P = TypeVar("P")

TraceStatus = Literal["ok", "error", "truncated", "interrupted", "abandoned"]


class Usage(Model):
    """Number of tokens and calls, and their cost. Instances can be added."""

    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    calls: int = Field(default=0, ge=0)
    """Number of HTTP requests sent, including retries."""
    cached: int = Field(default=0, ge=0)
    """Number of replies from the reply cache. They are not sent, and not included in the other numbers."""
    cost_usd: float | None = None
    """Cost in US dollars of the calls whose cost is known. None if it is unknown of all calls."""
    priced_calls: int = Field(default_factory=lambda known: 0 if known["cost_usd"] is None else known["calls"], ge=0)
    """Number of calls whose cost is in `cost_usd` (default: all of them, or 0 without `cost_usd`)."""
    counted_calls: int = Field(default_factory=lambda known: known["calls"] if known["input_tokens"] else 0, ge=0)
    """Number of calls whose tokens are known (default: all of them, or 0 without input tokens, which each prompt
    has)."""

    def __add__(self, other: Usage) -> Usage:
        # Each scored metric adds the usage of several blocks, most of which made no call.
        if other._is_zero:
            return self
        if self._is_zero:
            return other
        costs = [c for c in (self.cost_usd, other.cost_usd) if c is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            calls=self.calls + other.calls,
            cached=self.cached + other.cached,
            cost_usd=sum(costs) if costs else None,
            priced_calls=self.priced_calls + other.priced_calls,
            counted_calls=self.counted_calls + other.counted_calls,
        )

    @property
    def cost_text(self) -> str:
        """The cost in words. Empty if it is unknown of all calls."""
        if self.cost_usd is None:
            return ""
        cost, unpriced = f"{self.cost_usd:,.{2 if self.cost_usd >= 1 else 4}f} USD", self.calls - self.priced_calls
        return (
            cost if unpriced <= 0 else f"at least {cost} (the cost of {unpriced:,} of {self.calls:,} calls is unknown)"
        )

    @property
    def tokens_text(self) -> str:
        """The input and output tokens in words, with the number of calls whose tokens are unknown."""
        tokens, unknown = f"{self.input_tokens:,} + {self.output_tokens:,} tokens", self.calls - self.counted_calls
        if unknown <= 0:
            return tokens
        known = self.input_tokens or self.output_tokens
        return f"at least {tokens} (those of {count(unknown, 'call')} are unknown)" if known else "tokens unknown"

    def __str__(self) -> str:
        parts = [count(self.calls, "call"), self.tokens_text]
        if self.cached:
            parts.append(f"{self.cached:,} replies from the cache")
        return ", ".join([*parts, *filter(None, [self.cost_text])])

    @property
    def _is_zero(self) -> bool:
        return self.cost_usd is None and not (self.calls or self.cached or self.input_tokens or self.output_tokens)


class Passage(Model):
    """One retrieved chunk of text."""

    text: str
    id: str | None = None
    score: float | None = None
    """The retriever's score, in the retriever's unit."""
    rank: int | None = None
    """0-based position in the retriever's result list."""
    relevance: float | None = None
    """Relevance label of the passage for the query (0 = not relevant)."""
    metadata: dict[str, Any] = Field(default_factory=dict)


class Retrieval(Model):
    """One call of a retriever: its query and the passages that it returned."""

    query: str | None = None
    passages: tuple[Passage, ...] = ()
    name: str | None = None
    stages: tuple[Retrieval, ...] = Field(default=(), max_length=8)
    """The lists of retrievers inside a composite retriever. They are never contexts."""


class Turn(Model):
    """One earlier message of a conversation."""

    role: Literal["user", "assistant"]
    text: str


def passages_in_prompt(
    contexts: tuple[P, ...] | None, retrieved: Sequence[tuple[P, ...]], rule: str | None
) -> tuple[P, ...] | None:
    """Return the passages in the prompt of a trace, or None if they are not known. `rule` is `evidence.contexts`."""
    if contexts is not None:
        return contexts
    if not retrieved or rule == "unknown":
        return None
    return tuple(passage for passages in retrieved for passage in passages)


class Trace(Record):
    """One captured request of a RAG application. Text is redacted before it is stored."""

    trace_id: str = Field(min_length=1)
    name: str | None = None
    source: str = "unknown"
    """Origin of the trace: "langchain", "llama_index", "request" (a block), "record" or the name of a trace format."""
    run_id: str | None = None
    parent_run_id: str | None = None
    otel_trace_id: str | None = None
    """Id of the current OpenTelemetry trace (32 hexadecimal digits), or None."""
    otel_span_id: str | None = None
    """Id of the current OpenTelemetry span (16 hexadecimal digits), or None."""
    otel_sampled: bool | None = None
    """False if the span is not exported, so that tracing tools do not have it. None if that is unknown."""
    session_id: str | None = None
    user_id: str | None = None
    app: str | None = None
    """Name of the application (OpenTelemetry's `service.name`)."""
    release: str | None = None
    """Version of the application (`service.version`)."""
    environment: str | None = None
    """Where the application runs, such as "production" (`deployment.environment.name`)."""

    query: str | None = None
    standalone_query: str | None = None
    """The query of a retrieval that a model of the application wrote: the question without references to earlier
    turns."""
    history: tuple[Turn, ...] = ()
    """Messages of the conversation before the query, oldest first. Of a captured request at most 20, without tools."""
    retrievals: tuple[Retrieval, ...] = ()
    contexts: tuple[Passage, ...] | None = None
    """Passages in the prompt, if known to differ from all retrieved passages (for example after a reranker)."""
    response: str | None = None
    reference: tuple[str, ...] = ()
    """Correct answers, if the application knows them (a replayed test set). Also applies to the next three fields."""
    sub_questions: tuple[str, ...] = ()
    """Sub-questions that a complete answer must address."""
    qrels: dict[str, FiniteFloat] | None = None
    """Relevance grades by passage id over the whole collection (0 = not relevant)."""
    ratings: dict[str, dict[str, FiniteFloat]] | None = None
    """How well a passage answers a sub-question, from 0 to 5. The keys are the sub-question, then the passage id."""

    status: TraceStatus = "ok"
    error: str | None = None
    inner_errors: tuple[str, ...] = ()
    """Errors inside the request that the application handled."""

    started_at: float
    """Unix seconds."""
    ended_at: float | None = None
    """Unix seconds."""
    first_token_s: float | None = None
    """Seconds from start to the first streamed token."""
    model: str | None = None
    response_id: str | None = None
    """Id that the provider gave to the model's response with the answer (OpenTelemetry's `gen_ai.response.id`)."""
    usage: Usage | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)

    inclusion_probability: float = Field(default=1.0, gt=0, le=1)
    """Sampling probability of this trace. Its weight is the inverse."""
    truncated_fields: tuple[str, ...] = ()
    """Fields that were shortened to the capture limits."""
    evidence: Evidence | None = None
    """How query, contexts and response were found. None for rows of datasets."""

    @property
    def prompt_contexts(self) -> tuple[Passage, ...] | None:
        """The passages in the prompt, or None if they are not known."""
        rule = None if self.evidence is None else self.evidence.contexts
        return passages_in_prompt(self.contexts, [retrieval.passages for retrieval in self.retrievals], rule)


def get_skip_reason(trace: Trace) -> str | None:
    """Return why a trace is not scored, or None if it is."""
    if trace.status != "ok":
        return f"the request ended as {trace.status!r}" + (f": {trace.error}" if trace.error else "")
    if trace.inner_errors:
        return f"something failed inside the request: {trace.inner_errors[0]}"
    if trace.response is None and trace.query is None:
        return "neither a query nor a response was captured"
    return None
