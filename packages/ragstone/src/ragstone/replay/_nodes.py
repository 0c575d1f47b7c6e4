"""What every format of traces is brought to before it becomes a `Trace`: a step of a recorded request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ragstone.schema import Passage

__all__ = ["Node", "NodeKind"]

NodeKind = Literal["chain", "retriever", "reranker", "llm", "tool", "agent", "embedding", "other"]


@dataclass(slots=True, kw_only=True)
class Node:
    """One step (span, run, observation) of a recorded request, in the words of no tool in particular.

    A convention fills in what its format says and leaves the rest as it is: what a format cannot give is None, never
    a guess.
    """

    id: str
    parent_id: str | None = None
    trace_id: str
    kind: NodeKind = "other"
    name: str | None = None
    started_at: float | None = None
    """Unix seconds."""
    ended_at: float | None = None
    first_token_at: float | None = None
    """When the first piece of a streamed answer came, in Unix seconds."""
    error: str | None = None

    query: str | None = None
    """What was asked of it: the user's question of a chain, the search query of a retriever or re-ranker."""
    passages: tuple[Passage, ...] | None = None
    """What a retriever or re-ranker gave back, or what a chain says it used; None where the step does not say."""
    answer: str | None = None
    """The text it gave back, where that is one."""
    reference: tuple[str, ...] = ()

    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    session_id: str | None = None
    user_id: str | None = None
    run_id: str | None = None
    """The id that the tool itself uses for the request, where that is not `trace_id`."""
    is_otel: bool = False
    """Whether `trace_id` and `id` are OpenTelemetry ids, in hex digits."""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    """What else the request carries; unknown attributes are kept."""
