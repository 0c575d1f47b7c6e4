"""Builders of records: all fields have defaults, so a test sets only the relevant ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragstone.schema import Passage, Retrieval, Sample, Trace, TraceStatus

_QUERY = "How tall is the lighthouse of Northport?"
_CONTEXTS = (
    "The lighthouse of Northport was built in 1884 and is 31 metres tall.",  # codespell:ignore
    "Ferries leave Northport at seven and at noon.",
)
_RESPONSE = "The lighthouse of Northport is 31 metres tall."  # codespell:ignore


def make_sample(
    id: str = "sample-1",  # noqa: A002  the name of the field
    *,
    query: str | None = _QUERY,
    contexts: Sequence[str | Passage] | None = _CONTEXTS,
    response: str | None = _RESPONSE,
    reference: str | Sequence[str] = "31 metres",  # codespell:ignore
    sub_questions: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
) -> Sample:
    """Make a `Sample`. Contexts may be strings.

    Examples:
        ```python
        make_sample(response="", reference=())
        ```
    """
    return Sample(
        id=id,
        query=query,
        contexts=None if contexts is None else _passages(contexts),
        response=response,
        reference=_texts(reference),
        sub_questions=tuple(sub_questions),
        metadata=dict(metadata or {}),
    )


def make_trace(
    trace_id: str = "trace-1",
    *,
    query: str | None = _QUERY,
    contexts: Sequence[str | Passage] | None = _CONTEXTS,
    response: str | None = _RESPONSE,
    reference: str | Sequence[str] = (),
    status: TraceStatus = "ok",
    started_at: float = 1_700_000_000.0,
    **fields: Any,
) -> Trace:
    """Make a `Trace` with one retrieval that returned `contexts` (None: no retrieval). Set other fields by name.

    Examples:
        ```python
        make_trace("t-7", status="error", error="ValueError: no model", response=None)
        ```
    """
    retrievals = () if contexts is None else (Retrieval(query=query, passages=_passages(contexts)),)
    defaults: dict[str, Any] = {"retrievals": retrievals, "source": "test", "ended_at": started_at + 1.0}
    return Trace(
        trace_id=trace_id,
        query=query,
        response=response,
        reference=_texts(reference),
        status=status,
        started_at=started_at,
        **(defaults | fields),
    )


def _passages(contexts: Sequence[str | Passage]) -> tuple[Passage, ...]:
    return tuple(
        context if isinstance(context, Passage) else Passage(text=context, rank=rank)
        for rank, context in enumerate(contexts)
    )


def _texts(texts: str | Sequence[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)
