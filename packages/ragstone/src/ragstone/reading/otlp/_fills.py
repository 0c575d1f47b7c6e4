"""What the conventions with many attributes say about a step: OpenInference, Haystack, OpenTelemetry's GenAI, Traceloop."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ragstone.reading._fields import exploded, fill_tool, indexed, mapping, set_reply, tokens_in
from ragstone.reading._json import inner_json
from ragstone.reading._values import (
    json_in,
    messages_in,
    number_in,
    passages_in,
    query_in,
    reply_message,
    text_or_none,
    values_in,
)
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import Message, PassageDraft, Step, Value, content_text

KIND: Final = "openinference.span.kind"
_SHOWN_NODE: Final = re.compile(
    r"<NodeWithScore\(node=\w{1,40}\(id_=(?P<id>[^\s(),]{1,500})\), score=(?P<score>[-+.\w]{1,40})\)>"
)
_PART_NAMES: Final = re.compile(
    r"PromptBuilder\.run|PromptTemplate|TextSplitter\.|OutputParser|ChatAdapter\.|\._prepare_chat_with_tools"
)
"""Prompt builders, splitters and parsers of Haystack, LangChain, LlamaIndex and DSPy, which are spans of kind CHAIN or
LLM."""


def fill_openinference(step: Step, span: OtelSpan) -> None:
    """Set what a step was given and what it returned."""
    attributes = span.attributes
    if step.kind in ("chain", "model") and _PART_NAMES.search(span.name):
        step.kind = "part"
    elif step.kind == "model":
        _fill_model_messages(step, span)
    elif step.kind in ("retrieval", "transform"):
        step.query = text_or_none(attributes.get("reranker.query")) or query_in(value_of(attributes, "input"))
        is_search = step.kind == "retrieval"
        step.passages = _retrieved(attributes) if is_search else _documents(attributes, "reranker.output_documents")
        given = _documents(attributes, "reranker.input_documents")
        step.input_texts = None if given is None else [passage.text for passage in given]
    elif step.kind != "embedding":
        _fill_chain_values(step, attributes)


def _fill_chain_values(step: Step, attributes: Mapping[str, Any]) -> None:
    given, got = value_of(attributes, "input"), value_of(attributes, "output")
    # The state of a workflow of LlamaIndex holds its configuration; its steps hold the question.
    is_state = isinstance(given, Mapping) and "init_state" in given
    step.inputs, step.outputs = () if is_state else values_in(given), values_in(got)
    if step.kind == "tool":
        step.name = text_or_none(attributes.get("tool.name")) or step.name
        fill_tool(step, given, got)
    # LlamaIndex's postprocessors are chains with nodes in and nodes out, which show only ids and scores.
    if isinstance(given, Mapping) and "nodes" in given and isinstance(got, list):
        nodes = [_SHOWN_NODE.match(item) if isinstance(item, str) else None for item in got]
        if all(nodes):
            step.kind, step.outputs = "transform", ()
            step.passages = tuple(
                PassageDraft(text="", id=node["id"], score=number_in(node["score"])) for node in nodes if node
            )


def value_of(attributes: Mapping[str, Any], side: str) -> Any:
    """Return the input or output of a step: a JSON value only if the span says that it is JSON."""
    value = attributes.get(f"{side}.value")
    return json_in(value) if attributes.get(f"{side}.mime_type") == "application/json" else value


def _fill_model_messages(step: Step, span: OtelSpan) -> None:
    attributes = span.attributes
    prompt = [_message_in(item) for item in indexed(attributes, "llm.input_messages")]
    texts = [str(item.get("prompt.text", "")) for item in indexed(attributes, "llm.prompts")]
    step.prompt = (
        prompt or [Message("user", text) for text in texts] or messages_in(value_of(attributes, "input")) or None
    )
    replies = [_message_in(item) for item in indexed(attributes, "llm.output_messages")]
    set_reply(step, replies[-1] if replies else reply_message(value_of(attributes, "output")))
    step.first_token_at = next((e.at for e in span.events if e.name.startswith("First Token")), None)


def _message_in(item: Mapping[str, Any]) -> Message:
    """Return a message that was written as attributes `message.role`, `message.content`, `message.tool_calls.0…`."""
    content = item.get("message.content")
    if not isinstance(content, str):
        blocks = (block.get("message_content.text") for block in indexed(item, "message.contents"))
        content = "".join(text for text in blocks if isinstance(text, str))
    read = messages_in({"role": item.get("message.role"), "content": content})
    calls = any(name.startswith("message.tool_calls.") for name in item)
    return (read[0] if read else Message("other", content))._replace(
        calls_tool=calls or item.get("message.role") == "tool-call", tool=text_or_none(item.get("message.name"))
    )


def _retrieved(attributes: Mapping[str, Any]) -> tuple[PassageDraft, ...] | None:
    documents = _documents(attributes, "retrieval.documents")
    output = value_of(attributes, "output")
    said = passages_in(output) if isinstance(output, Mapping | list) else None
    if documents is None:
        return said
    if said is None or [passage.text for passage in said] != [passage.text for passage in documents]:
        return documents
    # LangChain's instrumentation writes ids into the output only.
    return tuple(
        replace(
            document,
            id=document.id if document.id is not None else same.id,
            score=document.score if document.score is not None else same.score,
            metadata=document.metadata or same.metadata,
        )
        for document, same in zip(documents, said, strict=True)
    )


def _documents(attributes: Mapping[str, Any], prefix: str) -> tuple[PassageDraft, ...] | None:
    """Return the documents of a list in attributes; None if the list is missing."""
    listed = indexed(attributes, prefix)
    if not listed:
        return None
    rows = [
        {
            "text": text_or_none(item.get("document.content")) or "",
            "id": item.get("document.id"),
            "score": number_in(item.get("document.score")),
            "metadata": item.get("document.metadata") or exploded(item, "document.metadata"),
        }
        for item in listed
    ]
    return passages_in(rows)


_MESSAGE: Final = re.compile(r"ChatMessage\(_role=<ChatRole\.[A-Z]{1,20}: '(?P<role>[a-z]{1,20})'>")
_LITERAL: Final = r"(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_TEXT: Final = re.compile(rf"TextContent\(text={_LITERAL}", re.DOTALL)
_RESULT: Final = re.compile(rf"ToolCallResult\(result={_LITERAL}", re.DOTALL)
_TOOL: Final = re.compile(r"tool_name='(?P<name>[^']{1,200})'")


def shows_messages(span: OtelSpan) -> bool:
    """Return whether the inputs or outputs of a span show messages of Haystack."""
    shown = (str(span.attributes.get(f"{side}.value", "")) for side in ("input", "output"))
    return _MESSAGE.search("".join(shown)) is not None


def fill_haystack(step: Step, span: OtelSpan) -> None:
    """Set the messages that a span shows."""
    given, got = (value_of(span.attributes, side) for side in ("input", "output"))
    prompt, replies = _shown_messages(given, "messages"), _shown_messages(got, "replies", "messages")
    if step.kind == "model":
        # The attributes of a message with the result of a tool have no text.
        step.prompt = prompt or step.prompt
        set_reply(step, replies[-1] if replies else None)
    elif step.kind in ("chain", "agent"):
        step.inputs = (Value(("messages",), messages=prompt),) if prompt else step.inputs
        step.outputs = (Value(("messages",), messages=replies),) if replies else step.outputs


def _shown_messages(value: Any, *names: str) -> tuple[Message, ...]:
    """Return the messages in the list of one of these names, in the object or one level below."""
    if not isinstance(value, Mapping):
        return ()
    holders = (value, *(item for item in value.values() if isinstance(item, Mapping)))
    for listed in (holder.get(name) for holder in holders for name in names):
        shown = [item for item in listed if isinstance(item, str)] if isinstance(listed, list) else []
        found = [message for message in map(_shown_message, shown) if message is not None]
        if found and len(found) == len(shown):
            return tuple(found)
    return ()


def _shown_message(shown: str) -> Message | None:
    matched = _MESSAGE.match(shown)
    if matched is None:
        return None
    result = _RESULT.search(shown)
    tool = _TOOL.search(shown)
    if result is not None:
        return Message("tool", _literal_text(result), tool=tool["name"] if tool else None)
    text = "".join(_literal_text(found) for found in _TEXT.finditer(shown))
    return Message(Message.role_of(matched["role"]), text, calls_tool="ToolCall(" in shown)


def _literal_text(literal: re.Match[str]) -> str:
    try:
        text = ast.literal_eval(literal["text"])
    except (ValueError, SyntaxError):
        return literal["text"][1:-1]
    return text if isinstance(text, str) else ""


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
        set_reply(step, reply)
        return
    step.inputs = (Value(("messages",), messages=prompt),) if prompt else ()
    step.outputs = (Value(("messages",), messages=(reply,)),) if reply is not None else ()


def _stated(span: OtelSpan, *names: str) -> Sequence[Message]:
    """Return the messages of the first of these attributes that has some, of a span and then of its events."""
    sources = (span.attributes, *(event.attributes for event in span.events))
    values = (source.get(name) for source in sources for name in names)
    found = (messages_in(inner_json(value)) for value in values if isinstance(value, str | list))
    return next(filter(None, found), ())


def _prompt(span: OtelSpan) -> Iterator[Message]:
    """Yield the messages that were sent: of the instructions, then of an attribute, of numbered ones, or of events."""
    instructions = content_text(json_in(span.attributes.get("gen_ai.system_instructions")))
    if instructions:
        yield Message("system", instructions)
    found = _stated(span, "gen_ai.input.messages", "gen_ai.prompt") or [
        message
        for item in indexed(span.attributes, "gen_ai.prompt")
        for message in messages_in({"role": item.get("role", "user"), "content": _content(item), **_call_of(item)})
    ]
    yield from found
    for event in () if found else span.events:
        role = event.name.removeprefix("gen_ai.").removesuffix(".message")
        if event.name == f"gen_ai.{role}.message":
            yield from messages_in({"role": role, "content": _content(event.attributes)})


def _call_of(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [{}]} if any(name.startswith("tool_calls.") for name in item) else {}


def _reply(span: OtelSpan) -> Message | None:
    if stated := _stated(span, "gen_ai.output.messages", "gen_ai.completion"):
        return stated[-1]._replace(role="assistant")
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


def fill_traceloop(step: Step, span: OtelSpan) -> None:
    """Set what a span's inputs and outputs say beyond OpenTelemetry's convention."""
    attributes = span.attributes
    given = json_in(attributes.get("traceloop.entity.input"))
    got = json_in(attributes.get("traceloop.entity.output"))
    nodes = _nodes(given, got)
    if step.kind in ("other", "chain", "agent"):
        span_kind = attributes.get("traceloop.span.kind")
        if nodes is not None:
            # Only their outputs show what LlamaIndex's steps are: nodes in and nodes out is a reranker.
            step.kind = "transform" if "nodes" in mapping(given) else "retrieval"
        elif _is_model(attributes, got):
            step.kind = "model"
        elif step.kind == "other":
            step.kind = span_kind if span_kind in ("agent", "tool") else "chain"
    if step.kind in ("retrieval", "transform"):
        step.passages = nodes if nodes is not None else passages_in(got) if isinstance(got, Mapping) else step.passages
        step.query = step.query or query_in(given)
    elif step.kind == "model":
        _fill_entity_model(step, given, got)
    else:
        # Next to the inputs are the tags, the metadata and the arguments of the run, such as its name.
        step.inputs = values_in(mapping(given).get("inputs", given)) or step.inputs
        step.outputs = values_in(mapping(got).get("outputs", got)) or step.outputs
        if step.kind == "tool":
            fill_tool(step, given, mapping(got).get("output", got))
    if step.model in (None, "unknown"):
        step.model = text_or_none(attributes.get("traceloop.association.properties.ls_model_name"))


def _nodes(given: Any, output: Any) -> tuple[PassageDraft, ...] | None:
    """Return LlamaIndex's nodes with their scores, each of which is a text of JSON; None if it is something else."""
    if not isinstance(output, list):
        return None
    if not output:
        # An empty list for a query is a retriever that found nothing.
        return () if any("query_str" in mapping(value) for value in mapping(given).values()) else None
    items = [json_in(item) for item in output]
    return passages_in(items) if all(isinstance(item, Mapping) and "node" in item for item in items) else None


def _is_model(attributes: Mapping[str, Any], output: Any) -> bool:
    if "gen_ai.output.messages" in attributes:
        return True
    return isinstance(output, Mapping) and "additional_kwargs" in output and ("text" in output or "message" in output)


def _fill_entity_model(step: Step, given: Any, got: Any) -> None:
    """Set what a model's step of LlamaIndex has in its input and output only."""
    step.prompt = step.prompt or messages_in(given) or None
    if not isinstance(got, Mapping):
        return
    if step.reply is None and not step.calls_tool:
        set_reply(step, reply_message(got))
    raw = mapping(got.get("raw"))
    for usage in (got.get("additional_kwargs"), raw.get("usage")):
        if step.input_tokens is None and step.output_tokens is None:
            step.input_tokens, step.output_tokens = tokens_in(usage)
    step.model = step.model or text_or_none(raw.get("model"))
