"""Pydantic AI: OpenTelemetry's convention, with the run of an agent in attributes of its own."""

from __future__ import annotations

from typing import Final

from ragstone.reading._values import json_in, messages_in
from ragstone.reading.otlp._convention import Convention
from ragstone.reading.otlp._genai import is_genai, read_genai
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import Message, Step, Value

_MESSAGES: Final = ("pydantic_ai.all_messages", "all_messages_events")
_RESULT: Final = "final_result"


def _is_run(span: OtelSpan) -> bool:
    return any(name in span.attributes for name in _MESSAGES)


def _read(span: OtelSpan) -> Step:
    step = read_genai(span)
    if not _is_run(span):
        return step
    step.kind = "agent"
    messages: tuple[Message, ...] = ()
    for name in _MESSAGES:
        messages = messages or messages_in(json_in(span.attributes.get(name)))
    step.inputs = (Value(("messages",), messages=messages),) if messages else ()
    result = span.attributes.get(_RESULT)
    step.outputs = (Value(("output",), text=result),) if isinstance(result, str) else ()
    return step


PYDANTIC_AI: Final = Convention(
    name="pydantic_ai", title="Pydantic AI", markers=_MESSAGES, claims=_is_run, read=_read, covers=is_genai
)
