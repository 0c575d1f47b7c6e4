"""`TraceOutline`, the fields of a trace that are counted over all requests: it leaves out the texts of passages."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat
from typing_extensions import TypedDict

from ragstone.schema._base import SCHEMA_VERSION, RecordVersion
from ragstone.schema._trace import Usage, passages_in_prompt


class PassageOutline(TypedDict, total=False):
    """The id and the label of a passage."""

    id: str | None
    relevance: float | None


class _RetrievalOutline(TypedDict, total=False):
    passages: tuple[PassageOutline, ...]


class _EvidenceOutline(TypedDict, total=False):
    contexts: str


class TraceOutline(BaseModel):
    """The fields of a trace that are counted over all requests, as in `Trace`. Reading them takes half the time."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    schema_version: RecordVersion = SCHEMA_VERSION
    trace_id: str = Field(min_length=1)
    name: str | None = None
    source: str = "unknown"
    session_id: str | None = None
    user_id: str | None = None
    app: str | None = None
    release: str | None = None
    environment: str | None = None
    query: str | None = None
    retrievals: tuple[_RetrievalOutline, ...] = ()
    contexts: tuple[PassageOutline, ...] | None = None
    response: str | None = None
    reference: tuple[str, ...] = ()
    qrels: dict[str, FiniteFloat] | None = None
    status: str = "ok"
    started_at: float
    ended_at: float | None = None
    model: str | None = None
    usage: Usage | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    evidence: _EvidenceOutline | None = None

    @property
    def prompt_contexts(self) -> tuple[PassageOutline, ...] | None:
        """The passages in the prompt, or None if they are not known."""
        rule = None if self.evidence is None else self.evidence.get("contexts", "unknown")
        return passages_in_prompt(self.contexts, [retrieval.get("passages", ()) for retrieval in self.retrievals], rule)
