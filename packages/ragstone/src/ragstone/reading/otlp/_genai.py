"""OpenTelemetry's convention for generative AI: `gen_ai.*`, names of today and of earlier versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ragstone.reading._fields import mapping
from ragstone.reading._json import inner_json
from ragstone.reading._step_names import indexed
from ragstone.reading._values import json_in, messages_in
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import Message, Step, Value, content_text

_MODEL_ATTRIBUTES: Final = (
    "gen_ai.usage.", "gen_ai.prompt", "gen_ai.input.messages", "gen_ai.request.model", "gen_ai.completion",
)  # fmt: skip


def fill_genai(step: Step, span: OtelSpan) -> None:
    """Set the messages of a model, an agent or a chain. A span of an unknown operation with a prompt or tokens is a model."""
    is_known = step.kind != "other" or span.attributes.get("gen_ai.operation.name") == "create_agent"
    if not is_known and any(name.startswith(_MODEL_ATTRIBUTES) for name in span.attributes):
        step.kind = "model"
    if step.kind not in ("model", "agent", "chain"):
        return
    prompt, reply = tuple(_prompt(span)), _reply(span)
    if step.kind == "model":
        step.prompt = prompt or None
        if reply is not None:
            step.calls_tool = reply.calls_tool
            step.reply = None if reply.calls_tool and not reply.text else reply.text
        return
    step.inputs = (Value(("messages",), messages=prompt),) if prompt else ()
    step.outputs = (Value(("messages",), messages=(reply,)),) if reply is not None else ()


def _sources(span: OtelSpan) -> Iterator[Mapping[str, Any]]:
    """Yield where messages may be: the attributes of a span, then those of its events."""
    yield span.attributes
    yield from (event.attributes for event in span.events)


def _prompt(span: OtelSpan) -> Iterator[Message]:
    """Yield the messages that were sent: of the instructions, then of an attribute, of numbered ones, or of events."""
    instructions = content_text(json_in(span.attributes.get("gen_ai.system_instructions")))
    if instructions:
        yield Message("system", instructions)
    for source in _sources(span):
        for name in ("gen_ai.input.messages", "gen_ai.prompt"):
            if isinstance(source.get(name), str | list) and (found := messages_in(inner_json(source[name]))):
                yield from found
                return
    numbered = [
        message
        for item in indexed(span.attributes, "gen_ai.prompt")
        for message in messages_in({"role": item.get("role", "user"), "content": _content(item), **_call_of(item)})
    ]
    if numbered:
        yield from numbered
        return
    for event in span.events:
        role = event.name.removeprefix("gen_ai.").removesuffix(".message")
        if event.name == f"gen_ai.{role}.message":
            yield from messages_in({"role": role, "content": _content(event.attributes)})


def _call_of(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [{}]} if any(name.startswith("tool_calls.") for name in item) else {}


def _reply(span: OtelSpan) -> Message | None:
    for source in _sources(span):
        for name in ("gen_ai.output.messages", "gen_ai.completion"):
            if isinstance(source.get(name), str | list) and (found := messages_in(inner_json(source[name]))):
                return found[-1]._replace(role="assistant")
    numbered = indexed(span.attributes, "gen_ai.completion")
    for item in numbered:
        if not _call_of(item) and (text := _content(item)) is not None:
            return Message("assistant", text)
    choices = (event.attributes.get("message") for event in span.events if event.name == "gen_ai.choice")
    for message in map(mapping, map(json_in, choices)):
        text, calls = _content(message), bool(message.get("tool_calls"))
        if text is not None or calls:
            return Message("assistant", text or "", calls_tool=calls)
    return Message("assistant", "", calls_tool=True) if numbered else None


def _content(message: Mapping[str, Any]) -> str | None:
    content = message.get("content", message.get("gen_ai.event.content"))
    if isinstance(content, str) and content.startswith("["):
        # Blocks of text, as some instrumentations write them.
        blocks = content_text(json_in(content))
        return content if blocks is None else blocks
    return content_text(content)
