"""OpenInference: spans with `openinference.span.kind`, as Arize Phoenix and its instrumentations write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ragstone.reading._fields import fill_tool
from ragstone.reading._step_names import exploded, indexed
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
from ragstone.requests import Message, PassageDraft, Step

KIND: Final = "openinference.span.kind"
_SHOWN_NODE: Final = re.compile(
    r"<NodeWithScore\(node=\w{1,40}\(id_=(?P<id>[^\s(),]{1,500})\), score=(?P<score>[-+.\w]{1,40})\)>"
)
_PART_NAMES: Final = re.compile(
    r"PromptBuilder\.run|PromptTemplate|TextSplitter\.|OutputParser|ChatAdapter\.|\._prepare_chat_with_tools"
)
"""Prompt builders, splitters and parsers of Haystack, LangChain, LlamaIndex and DSPy, which are spans of kind CHAIN or LLM."""


def fill_openinference(step: Step, span: OtelSpan) -> None:
    """Set what a step was given and what it returned."""
    attributes = span.attributes
    if step.kind in ("chain", "model") and _PART_NAMES.search(span.name):
        step.kind = "part"
    elif step.kind == "model":
        _fill_model(step, span)
    elif step.kind in ("retrieval", "transform"):
        step.query = text_or_none(attributes.get("reranker.query")) or query_in(value_of(attributes, "input"))
        is_search = step.kind == "retrieval"
        step.passages = _retrieved(attributes) if is_search else _documents(attributes, "reranker.output_documents")
        given = _documents(attributes, "reranker.input_documents")
        step.input_texts = None if given is None else [passage.text for passage in given]
    elif step.kind != "embedding":
        _fill_chain(step, attributes)


def _fill_chain(step: Step, attributes: Mapping[str, Any]) -> None:
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


def _fill_model(step: Step, span: OtelSpan) -> None:
    attributes = span.attributes
    prompt = [_message(item) for item in indexed(attributes, "llm.input_messages")]
    texts = [str(item.get("prompt.text", "")) for item in indexed(attributes, "llm.prompts")]
    step.prompt = (
        prompt or [Message("user", text) for text in texts] or messages_in(value_of(attributes, "input")) or None
    )
    replies = [_message(item) for item in indexed(attributes, "llm.output_messages")]
    reply = replies[-1] if replies else reply_message(value_of(attributes, "output"))
    if reply is not None:
        step.calls_tool = reply.calls_tool
        step.reply = None if reply.calls_tool and not reply.text else reply.text
    step.first_token_at = next((e.at for e in span.events if e.name.startswith("First Token")), None)


def _message(item: Mapping[str, Any]) -> Message:
    """Return a message that was written as attributes `message.role`, `message.content`, `message.tool_calls.0…`."""
    content = item.get("message.content")
    if not isinstance(content, str):
        blocks = (block.get("message_content.text") for block in indexed(item, "message.contents"))
        content = "".join(text for text in blocks if isinstance(text, str))
    read = messages_in({"role": item.get("message.role"), "content": content})
    calls = any(name.startswith("message.tool_calls.") for name in item)
    message = read[0] if read else Message("other", content)
    return message._replace(
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
