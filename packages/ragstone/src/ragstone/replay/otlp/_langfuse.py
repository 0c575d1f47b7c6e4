"""Langfuse's SDK: spans with `langfuse.observation.*`, as it sends them to its server."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from ragstone.replay._payloads import (
    answer_in,
    contexts_in,
    count_in,
    fill_identity,
    json_in,
    passages_in,
    question_in,
)
from ragstone.replay._tree import NodeKind, Step
from ragstone.replay.otlp._convention import Convention, exploded, node_of, tags_in, text_or_none
from ragstone.replay.otlp._span import OtelSpan

__all__ = ["LANGFUSE"]

_OBSERVATION: Final = "langfuse.observation"
_KINDS: Final[dict[str, NodeKind]] = {
    "retriever": "retriever",
    "generation": "llm",
    "agent": "agent",
    "chain": "chain",
    "span": "chain",
    "tool": "tool",
    "embedding": "embedding",
}
_OWN_METADATA: Final = frozenset({"tags", "is_langchain_root", "resourceAttributes", "scope"})


def _matches(span: OtelSpan) -> bool:
    return any(name.startswith("langfuse.") for name in span.attributes)


def _read(span: OtelSpan) -> Step:
    attributes = span.attributes
    node = node_of(span, kind=_KINDS.get(str(attributes.get(f"{_OBSERVATION}.type", "span")).lower(), "other"))
    given, got = (_value(attributes.get(f"{_OBSERVATION}.{side}")) for side in ("input", "output"))
    if span.parent_id is None or attributes.get("langfuse.internal.is_app_root"):
        # What the application states about the whole request is more than what its outermost step says.
        given = _value(attributes.get("langfuse.trace.input", given))
        got = _value(attributes.get("langfuse.trace.output", got))
    if node.kind != "embedding":
        node.query = question_in(given)
    if node.kind == "retriever":
        node.passages = passages_in(got)
    elif node.kind != "embedding":
        node.answer = answer_in(got)
        node.passages = contexts_in(got)
    if node.kind == "llm":
        node.passages = None
        usage = json_in(attributes.get(f"{_OBSERVATION}.usage_details"))
        if isinstance(usage, dict):
            node.input_tokens = count_in(usage.get("input", usage.get("prompt_tokens")))
            node.output_tokens = count_in(usage.get("output", usage.get("completion_tokens")))
        node.model = text_or_none(attributes.get(f"{_OBSERVATION}.model.name"))
        node.first_token_at = _time(attributes.get(f"{_OBSERVATION}.completion_start_time"))
    if node.error is None and attributes.get(f"{_OBSERVATION}.level") == "ERROR":
        node.error = text_or_none(attributes.get(f"{_OBSERVATION}.status_message")) or "error"
    node.session_id = text_or_none(attributes.get("session.id"), attributes.get("langfuse.session.id"))
    node.user_id = text_or_none(attributes.get("user.id"), attributes.get("langfuse.user.id"))
    node.tags = tags_in(attributes.get("langfuse.trace.tags"))
    metadata = exploded(attributes, "langfuse.trace.metadata") | exploded(attributes, f"{_OBSERVATION}.metadata")
    fill_identity(node, {key: _value(value) for key, value in metadata.items() if key not in _OWN_METADATA})
    return node


def _value(text: Any) -> Any:
    """Langfuse writes texts as they are and everything else as JSON, and does not say which it was."""
    if not isinstance(text, str) or text[:1] not in ("{", "[", '"'):
        return text
    value = json_in(text)
    return text if value is None else value


def _time(value: Any) -> float | None:
    value = _value(value)
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


LANGFUSE: Final = Convention(
    name="langfuse",
    title="Langfuse's SDK",
    markers=("langfuse.observation.", "langfuse.trace."),
    claims=_matches,
    read=_read,
)
