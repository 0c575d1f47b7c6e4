"""Spring AI: spans with `spring.ai.kind`, in addition to OpenTelemetry's conventions for models and vector databases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ragstone.reading._fields import fill_tool
from ragstone.reading._values import json_in, passages_in, text_or_none
from ragstone.reading.otlp._convention import Convention
from ragstone.reading.otlp._genai import is_genai, read_genai
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import Step, StepKind, Value

_KIND: Final = "spring.ai.kind"
_KINDS: Final[Mapping[str, StepKind]] = {
    "chat_client": "chain",
    "advisor": "chain",
    "vector_store": "retrieval",
    "tool_call": "tool",
}
_TOOL: Final = "spring.ai.tool"


def _matches(span: OtelSpan) -> bool:
    return _KIND in span.attributes


def _read(span: OtelSpan) -> Step:
    attributes = span.attributes
    step = read_genai(span)
    if _KIND not in attributes:
        return step
    step.kind = _KINDS.get(str(attributes[_KIND]), "other")
    if step.kind == "retrieval":
        if attributes.get("db.operation.name") != "query":
            step.kind = "infrastructure"
            return step
        step.query = text_or_none(attributes.get("db.vector.query.content"))
        step.passages = passages_in(json_in(attributes.get("db.vector.query.response.documents")))
    elif step.kind == "tool":
        step.name = text_or_none(attributes.get(f"{_TOOL}.definition.name")) or step.name
        fill_tool(step, attributes.get(f"{_TOOL}.call.arguments"), attributes.get(f"{_TOOL}.call.result"))
    elif step.kind == "chain":
        text = text_or_none(attributes.get("spring.ai.chat.client.user.text"))
        step.inputs = (Value(("query",), text=text),) if text else step.inputs
    step.session_id = text_or_none(attributes.get("spring.ai.chat.client.conversation.id")) or step.session_id
    return step


SPRING_AI: Final = Convention(
    name="spring_ai", title="Spring AI", markers=(_KIND,), claims=_matches, read=_read, covers=is_genai
)
