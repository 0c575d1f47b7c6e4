"""Vercel AI SDK: spans with `ai.operationId`, in addition to `gen_ai.*` for what the model reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragstone.reading._fields import fill_tool, tokens_in
from ragstone.reading._values import fill_identity, json_in, messages_in, passages_in, text_or_none, values_in
from ragstone.reading.otlp._convention import Convention, exploded, step_of
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import Step, StepKind

_OPERATION: Final = "ai.operationId"
_KINDS: Final[Mapping[str, StepKind]] = {
    "ai.toolCall": "tool",
    "ai.rerank": "transform",
    "ai.embed": "embedding",
    "ai.embedMany": "embedding",
}
_METADATA: Final = "ai.telemetry.metadata"
_IDENTITY: Final = {"sessionId": "session_id", "userId": "user_id"}


def _matches(span: OtelSpan) -> bool:
    return _OPERATION in span.attributes


def _read(span: OtelSpan) -> Step:
    attributes = span.attributes
    operation = str(attributes[_OPERATION])
    # `ai.generateText.doGenerate` is one call of the model in `ai.generateText`, which is the loop around all of them.
    kind = _KINDS.get(operation) or ("model" if ".do" in operation and "embed" not in operation else "chain")
    step = step_of(span, kind=kind)
    if kind == "tool":
        step.name = text_or_none(attributes.get("ai.toolCall.name")) or step.name
        fill_tool(step, attributes.get("ai.toolCall.args"), attributes.get("ai.toolCall.result"))
    elif kind == "transform":
        step.passages = passages_in(json_in(attributes.get("ai.ranking")))
    elif kind == "model":
        _fill_model(step, span)
    elif kind == "chain":
        step.name = text_or_none(attributes.get("ai.telemetry.functionId")) or step.name
        step.inputs = values_in(json_in(attributes.get("ai.prompt")))
        step.outputs = values_in({"output": _text(attributes)}) if _text(attributes) is not None else ()
    said = {_IDENTITY.get(key, key): value for key, value in exploded(attributes, _METADATA).items()}
    fill_identity(step, said)
    return step


def _fill_model(step: Step, span: OtelSpan) -> None:
    attributes = span.attributes
    messages = json_in(attributes.get("ai.prompt.messages"))
    step.prompt = messages_in(messages) or None if isinstance(messages, list) else None
    step.calls_tool = bool(attributes.get("ai.response.toolCalls")) and not _text(attributes)
    step.reply = None if step.calls_tool else _text(attributes)
    step.model = text_or_none(attributes.get("ai.response.model"), attributes.get("ai.model.id"))
    step.input_tokens, step.output_tokens = tokens_in(exploded(attributes, "ai.usage"))
    step.first_token_at = next((event.at for event in span.events if event.name == "ai.stream.firstChunk"), None)


def _text(attributes: Mapping[str, Any]) -> str | None:
    found = (attributes.get(f"ai.response.{name}") for name in ("text", "object"))
    return next((text for text in found if isinstance(text, str)), None)


VERCEL_AI: Final = Convention(
    name="vercel_ai",
    title="Vercel AI SDK",
    markers=(_OPERATION, "ai.telemetry.functionId"),
    claims=_matches,
    read=_read,
)
