"""Langfuse's SDK: spans with `langfuse.observation.*`, as it sends them to its server."""

from __future__ import annotations

from typing import Final

from ragstone.reading._fields import fill_inputs_and_outputs, step_kind, tokens_in, unix_time
from ragstone.reading._json import inner_json
from ragstone.reading._values import fill_identity, json_in, tags_in, text_or_none
from ragstone.reading.otlp._convention import Convention, exploded, step_of
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import Step

_OBSERVATION: Final = "langfuse.observation"
_OWN_METADATA: Final = frozenset({"tags", "is_langchain_root", "resourceAttributes", "scope"})


def _matches(span: OtelSpan) -> bool:
    return any(name.startswith("langfuse.") for name in span.attributes)


def _read(span: OtelSpan) -> Step:
    attributes = span.attributes
    step = step_of(span, kind=step_kind(attributes.get(f"{_OBSERVATION}.type", "span")))
    given, got = (inner_json(attributes.get(f"{_OBSERVATION}.{side}")) for side in ("input", "output"))
    if span.parent_id is None or attributes.get("langfuse.internal.is_app_root"):
        # What the application states about the whole request wins over its outermost step.
        given = inner_json(attributes.get("langfuse.trace.input", given))
        got = inner_json(attributes.get("langfuse.trace.output", got))
    fill_inputs_and_outputs(step, given, got)
    if step.kind == "model":
        step.input_tokens, step.output_tokens = tokens_in(json_in(attributes.get(f"{_OBSERVATION}.usage_details")))
        step.model = text_or_none(attributes.get(f"{_OBSERVATION}.model.name"))
        step.first_token_at = unix_time(inner_json(attributes.get(f"{_OBSERVATION}.completion_start_time")))
    if step.error is None and attributes.get(f"{_OBSERVATION}.level") == "ERROR":
        step.error = text_or_none(attributes.get(f"{_OBSERVATION}.status_message")) or "error"
    step.session_id = text_or_none(attributes.get("session.id"), attributes.get("langfuse.session.id"))
    step.user_id = text_or_none(attributes.get("user.id"), attributes.get("langfuse.user.id"))
    step.release = text_or_none(attributes.get("langfuse.release"), attributes.get("langfuse.version")) or step.release
    step.environment = text_or_none(attributes.get("langfuse.environment")) or step.environment
    step.tags = tags_in(attributes.get("langfuse.trace.tags"))
    metadata = exploded(attributes, "langfuse.trace.metadata") | exploded(attributes, f"{_OBSERVATION}.metadata")
    fill_identity(step, {key: inner_json(value) for key, value in metadata.items() if key not in _OWN_METADATA})
    return step


LANGFUSE: Final = Convention(
    name="langfuse",
    title="Langfuse's SDK",
    markers=("langfuse.observation.", "langfuse.trace."),
    claims=_matches,
    read=_read,
)
