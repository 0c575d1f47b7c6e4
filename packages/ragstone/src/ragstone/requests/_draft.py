"""What an integration hands over: plain values only, nothing of the application is kept alive."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from ragstone.schema import Evidence, TraceStatus, Turn


@dataclass(slots=True, kw_only=True)
class PassageDraft:
    """One retrieved chunk, as found. Becomes `ragstone.schema.Passage`."""

    text: str
    id: str | None = None
    score: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class RetrievalDraft:
    """One retriever call, as found. Becomes `ragstone.schema.Retrieval`."""

    query: str | None = None
    passages: list[PassageDraft] = field(default_factory=list)
    name: str | None = None
    stages: list[RetrievalDraft] = field(default_factory=list)
    """The lists of retrievers inside this one, at most 8. They never are contexts."""


@dataclass(slots=True, kw_only=True)
class TraceDraft:
    """One finished request, as found: not yet sampled, redacted or validated. Becomes `ragstone.schema.Trace`.

    Field names and meanings are those of `Trace`. Building one costs microseconds. Everything that is slow
    (redaction, truncation, validation, serialization) happens later on the writer's thread.
    """

    trace_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    name: str | None = None
    source: str = "record"
    run_id: str | None = None
    parent_run_id: str | None = None
    otel_trace_id: str | None = None
    otel_span_id: str | None = None
    otel_sampled: bool | None = None
    session_id: str | None = None
    user_id: str | None = None
    app: str | None = None
    release: str | None = None
    environment: str | None = None
    query: str | None = None
    standalone_query: str | None = None
    history: list[Turn] = field(default_factory=list)
    retrievals: list[RetrievalDraft] = field(default_factory=list)
    contexts: list[PassageDraft] | None = None
    response: str | None = None
    reference: list[str] = field(default_factory=list)
    status: TraceStatus = "ok"
    error: str | None = None
    inner_errors: list[str] = field(default_factory=list)
    started_at: float = field(default_factory=time.time)
    ended_at: float | None = None
    first_token_s: float | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    tags: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    evidence: Evidence | None = None
