"""Langfuse's SDK: spans with `langfuse.observation.*`, as it sends them to its server."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from ragstone.reading._fields import fill_inputs_and_outputs
from ragstone.reading._values import count_in, fill_identity, json_in
from ragstone.reading.otlp._convention import Convention, exploded, step_of, tags_in, text_or_none
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import Step, StepKind

_OBSERVATION: Final = "langfuse.observation"
_KINDS: Final[Mapping[str, StepKind]] = {
    "retriever": "retrieval",
    "generation": "model",
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
    step = step_of(span, kind=_KINDS.get(str(attributes.get(f"{_OBSERVATION}.type", "span")).lower(), "other"))
    given, got = (_value(attributes.get(f"{_OBSERVATION}.{side}")) for side in ("input", "output"))
    if span.parent_id is None or attributes.get("langfuse.internal.is_app_root"):
        # What the application states about the whole request wins over its outermost step.
        given = _value(attributes.get("langfuse.trace.input", given))
        got = _value(attributes.get("langfuse.trace.output", got))
    fill_inputs_and_outputs(step, given, got)
    if step.kind == "model":
        usage = json_in(attributes.get(f"{_OBSERVATION}.usage_details"))
        if isinstance(usage, dict):
            step.input_tokens = count_in(usage.get("input", usage.get("prompt_tokens")))
            step.output_tokens = count_in(usage.get("output", usage.get("completion_tokens")))
        step.model = text_or_none(attributes.get(f"{_OBSERVATION}.model.name"))
        step.first_token_at = _time(attributes.get(f"{_OBSERVATION}.completion_start_time"))
    if step.error is None and attributes.get(f"{_OBSERVATION}.level") == "ERROR":
        step.error = text_or_none(attributes.get(f"{_OBSERVATION}.status_message")) or "error"
    step.session_id = text_or_none(attributes.get("session.id"), attributes.get("langfuse.session.id"))
    step.user_id = text_or_none(attributes.get("user.id"), attributes.get("langfuse.user.id"))
    step.release = text_or_none(attributes.get("langfuse.release"), attributes.get("langfuse.version")) or step.release
    step.environment = text_or_none(attributes.get("langfuse.environment")) or step.environment
    step.tags = tags_in(attributes.get("langfuse.trace.tags"))
    metadata = exploded(attributes, "langfuse.trace.metadata") | exploded(attributes, f"{_OBSERVATION}.metadata")
    fill_identity(step, {key: _value(value) for key, value in metadata.items() if key not in _OWN_METADATA})
    return step


def _value(text: Any) -> Any:
    """Return a value that Langfuse wrote: a text as it is, anything else as JSON, without saying which."""
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
