"""OpenInference: spans with `openinference.span.kind`, as Arize Phoenix and its instrumentations write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ragstone.replay._payloads import (
    answer_in,
    contexts_in,
    count_in,
    fill_identity,
    json_in,
    number_in,
    passages_in,
    question_in,
)
from ragstone.replay._tree import NodeKind, Step
from ragstone.replay.otlp._convention import Convention, exploded, indexed, node_of, tags_in, text_or_none
from ragstone.replay.otlp._span import OtelSpan
from ragstone.schema import Passage

__all__ = ["OPENINFERENCE"]

_KIND: Final = "openinference.span.kind"
_KINDS: Final[dict[str, NodeKind]] = {
    "CHAIN": "chain",
    "RETRIEVER": "retriever",
    "RERANKER": "reranker",
    "LLM": "llm",
    "TOOL": "tool",
    "AGENT": "agent",
    "EMBEDDING": "embedding",
}
_SHOWN_NODE: Final = re.compile(
    r"<NodeWithScore\(node=\w{1,40}\(id_=(?P<id>[^\s(),]{1,500})\), score=(?P<score>[-+.\w]{1,40})\)>"
)
_HUMAN: Final = ("user", "human")


def _matches(span: OtelSpan) -> bool:
    return _KIND in span.attributes


def _read(span: OtelSpan) -> Step:
    attributes = span.attributes
    node = node_of(span, kind=_KINDS.get(str(attributes[_KIND]).upper(), "other"))
    if node.kind == "llm":
        node.query, node.answer = _input_text(attributes), _output_text(attributes)
        node.model = text_or_none(attributes.get("llm.model_name"))
        node.input_tokens = count_in(attributes.get("llm.token_count.prompt"))
        node.output_tokens = count_in(attributes.get("llm.token_count.completion"))
        node.first_token_at = next((e.at for e in span.events if e.name.startswith("First Token")), None)
    elif node.kind == "retriever":
        node.query = question_in(_value(attributes, "input"))
        node.passages = _retrieved(attributes)
    elif node.kind == "reranker":
        node.query = text_or_none(attributes.get("reranker.query")) or question_in(_value(attributes, "input"))
        node.passages = _documents(attributes, "reranker.output_documents")
    elif node.kind != "embedding":
        output = _value(attributes, "output")
        node.query = question_in(_value(attributes, "input"))
        node.answer = answer_in(output)
        node.passages = contexts_in(output)
        _recognise_postprocessor(node, attributes, output)
    node.session_id = text_or_none(attributes.get("session.id"))
    node.user_id = text_or_none(attributes.get("user.id"))
    node.tags = tags_in(attributes.get("tag.tags"))
    fill_identity(node, attributes.get("metadata") or exploded(attributes, "metadata"))
    return node


def _recognise_postprocessor(node: Step, attributes: Mapping[str, Any], output: Any) -> None:
    """LlamaIndex's re-rankers are chains with nodes in and nodes out, of which only ids and scores are shown."""
    given = _value(attributes, "input")
    if not isinstance(given, Mapping) or "nodes" not in given or not isinstance(output, list):
        return
    shown = [_SHOWN_NODE.match(item) for item in output if isinstance(item, str)]
    if len(shown) != len(output):
        return
    nodes = [match for match in shown if match]
    if len(nodes) == len(output):
        node.kind, node.answer = "reranker", None
        node.passages = tuple(
            Passage(text="", id=match["id"], score=number_in(match["score"]), rank=rank)
            for rank, match in enumerate(nodes)
        )


def _value(attributes: Mapping[str, Any], side: str) -> Any:
    """The input or output of a step: a JSON value only where it is said to be one."""
    value = attributes.get(f"{side}.value")
    return json_in(value) if attributes.get(f"{side}.mime_type") == "application/json" else value


def _input_text(attributes: Mapping[str, Any]) -> str | None:
    for message in reversed(indexed(attributes, "llm.input_messages")):
        if message.get("message.role") in _HUMAN and (text := _message_text(message)):
            return text
    return question_in(_value(attributes, "input"))


def _output_text(attributes: Mapping[str, Any]) -> str | None:
    messages = indexed(attributes, "llm.output_messages")
    if messages:
        last = messages[-1]
        calls_tool = any(name.startswith("message.tool_calls.") for name in last)
        return None if calls_tool else _message_text(last)
    return answer_in(_value(attributes, "output"))


def _message_text(message: Mapping[str, Any]) -> str | None:
    content = message.get("message.content")
    if isinstance(content, str):
        return content
    blocks = (block.get("message_content.text") for block in indexed(message, "message.contents"))
    texts = [text for text in blocks if isinstance(text, str)]
    return "".join(texts) if texts else None


def _retrieved(attributes: Mapping[str, Any]) -> tuple[Passage, ...] | None:
    documents = _documents(attributes, "retrieval.documents")
    output = _value(attributes, "output")
    # What Python shows of LlamaIndex's nodes is in a list as well, and is not read as passages.
    said = passages_in(output) if isinstance(output, Mapping | list) else None
    if documents is None:
        return said
    if said is None or [passage.text for passage in said] != [passage.text for passage in documents]:
        return documents
    # LangChain's flavour has the ids in the output alone.
    return tuple(
        document.model_copy(
            update={
                "id": document.id if document.id is not None else same.id,
                "score": document.score if document.score is not None else same.score,
                "metadata": document.metadata or same.metadata,
            }
        )
        for document, same in zip(documents, said, strict=True)
    )


def _documents(attributes: Mapping[str, Any], prefix: str) -> tuple[Passage, ...] | None:
    """The documents of a list in attributes; None where there is no such list."""
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


OPENINFERENCE: Final = Convention(
    name="openinference",
    title="OpenInference",
    markers=("openinference.span.kind",),
    claims=_matches,
    read=_read,
)
