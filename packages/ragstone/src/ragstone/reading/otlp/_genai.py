"""OpenTelemetry's convention for generative AI: `gen_ai.*`, names of today and of earlier versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ragstone.reading._fields import fill_tool, tokens_in
from ragstone.reading._json import inner_json
from ragstone.reading._values import json_in, messages_in, passages_in, text_or_none
from ragstone.reading.otlp._convention import Convention, exploded, indexed, step_of
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import Message, Step, StepKind, Value, content_text

_OPERATIONS: Final[Mapping[str, StepKind]] = {
    "retrieval": "retrieval",
    "vector_db_retrieve": "retrieval",
    "rerank": "transform",
    "chat": "model",
    "completion": "model",
    "text_completion": "model",
    "generate_content": "model",
    "embeddings": "embedding",
    "execute_tool": "tool",
    "invoke_agent": "agent",
    "create_agent": "other",
    "invoke_workflow": "chain",
    "execute_task": "chain",
    "framework": "chain",
}
_MODEL_ATTRIBUTES: Final = (
    "gen_ai.usage.", "gen_ai.prompt", "gen_ai.input.messages", "gen_ai.request.model", "gen_ai.completion",
)  # fmt: skip
_CHOICE_EVENT: Final = "gen_ai.choice"


def is_genai(span: OtelSpan) -> bool:
    """Whether a span follows the convention."""
    return any(name.startswith(("gen_ai.", "llm.request.type")) for name in span.attributes)


def read_genai(span: OtelSpan) -> Step:
    """Return the step of a span with `gen_ai.*` attributes."""
    attributes = span.attributes
    step = step_of(span, kind=_kind(attributes))
    if step.kind in ("retrieval", "transform"):
        step.query = text_or_none(attributes.get("gen_ai.retrieval.query.text"))
        step.passages = passages_in(json_in(attributes.get("gen_ai.retrieval.documents")))
    elif step.kind == "tool":
        step.name = text_or_none(attributes.get("gen_ai.tool.name")) or step.name
        fill_tool(step, attributes.get("gen_ai.tool.call.arguments"), attributes.get("gen_ai.tool.call.result"))
    elif step.kind in ("model", "agent", "chain"):
        _fill_messages(step, span)
    if step.kind in ("model", "agent"):
        step.model = text_or_none(attributes.get("gen_ai.response.model"), attributes.get("gen_ai.request.model"))
        step.input_tokens, step.output_tokens = tokens_in(exploded(attributes, "gen_ai.usage"))
    step.session_id = text_or_none(attributes.get("gen_ai.conversation.id"), attributes.get("session.id"))
    step.user_id = text_or_none(attributes.get("user.id"), attributes.get("enduser.id"))
    step.run_id = text_or_none(attributes.get("gen_ai.response.id"))
    return step


def _kind(attributes: Mapping[str, Any]) -> StepKind:
    kind = _OPERATIONS.get(str(attributes.get("gen_ai.operation.name")))
    if kind is not None:
        return kind
    return "model" if any(name.startswith(_MODEL_ATTRIBUTES) for name in attributes) else "other"


def _fill_messages(step: Step, span: OtelSpan) -> None:
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
    for event in span.events:
        if event.name == _CHOICE_EVENT:
            message = json_in(event.attributes.get("message"))
            text = _content(message) if isinstance(message, Mapping) else None
            calls = isinstance(message, Mapping) and bool(message.get("tool_calls"))
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


GENAI: Final = Convention(
    name="genai",
    title="OpenTelemetry GenAI",
    markers=("gen_ai.operation.name", "gen_ai.retrieval.", "gen_ai.usage.", "gen_ai.prompt."),
    claims=is_genai,
    read=read_genai,
)
