"""OpenTelemetry's own convention for generative AI: `gen_ai.*`, today's names and those of earlier versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragstone.replay._payloads import count_in, json_in, last_of, passages_in, text_in
from ragstone.replay._tree import NodeKind, Step
from ragstone.replay.otlp._convention import Convention, indexed, node_of, text_or_none
from ragstone.replay.otlp._span import OtelSpan

__all__ = ["GENAI", "genai_node"]

_OPERATIONS: Final[dict[str, NodeKind]] = {
    "retrieval": "retriever",
    "vector_db_retrieve": "retriever",
    "rerank": "reranker",
    "chat": "llm",
    "completion": "llm",
    "text_completion": "llm",
    "generate_content": "llm",
    "embeddings": "embedding",
    "execute_tool": "tool",
    "invoke_agent": "agent",
    "create_agent": "other",
    "invoke_workflow": "chain",
    "execute_task": "chain",
}
_USER_EVENT: Final = "gen_ai.user.message"
_CHOICE_EVENT: Final = "gen_ai.choice"


def _matches(span: OtelSpan) -> bool:
    return "gen_ai.operation.name" in span.attributes or any(
        name.startswith(("gen_ai.", "llm.request.type")) for name in span.attributes
    )


def genai_node(span: OtelSpan) -> Step:
    """The step that a span with `gen_ai.*` attributes is."""
    attributes = span.attributes
    kind = _OPERATIONS.get(str(attributes.get("gen_ai.operation.name")))
    if kind is None:
        asks_model = any(
            name.startswith(("gen_ai.usage.", "gen_ai.prompt.", "gen_ai.input.messages", "gen_ai.request.model"))
            for name in attributes
        )
        kind = "llm" if asks_model else "other"
    node = node_of(span, kind=kind)
    if kind in ("retriever", "reranker"):
        node.query = text_or_none(attributes.get("gen_ai.retrieval.query.text"))
        node.passages = passages_in(json_in(attributes.get("gen_ai.retrieval.documents")))
    elif kind in ("llm", "agent", "chain"):
        node.query, node.answer = _input_text(span), _output_text(span)
    if kind in ("llm", "agent"):
        node.model = text_or_none(
            attributes.get("gen_ai.response.model"),
            attributes.get("gen_ai.request.model"),
        )
        node.input_tokens = _count(attributes, "input_tokens", "prompt_tokens")
        node.output_tokens = _count(attributes, "output_tokens", "completion_tokens")
    node.session_id = text_or_none(attributes.get("gen_ai.conversation.id"), attributes.get("session.id"))
    node.user_id = text_or_none(attributes.get("user.id"), attributes.get("enduser.id"))
    node.run_id = text_or_none(attributes.get("gen_ai.response.id"))
    return node


def _count(attributes: Mapping[str, Any], *names: str) -> int | None:
    counts = (count_in(attributes.get(f"gen_ai.usage.{name}")) for name in names)
    return next((count for count in counts if count is not None), None)


def _input_text(span: OtelSpan) -> str | None:
    """The last message of a person, in an attribute, in numbered attributes, or in events."""
    for source in (span.attributes, *(event.attributes for event in span.events)):
        messages = json_in(source.get("gen_ai.input.messages"))
        if isinstance(messages, list) and (text := last_of(messages, by="user")):
            return text
        prompt = json_in(source.get("gen_ai.prompt"))
        if isinstance(prompt, list) and (text := last_of(prompt, by="user")):
            return text
    texts = [
        text for item in indexed(span.attributes, "gen_ai.prompt") if item.get("role", "user") == "user"
        and (text := _content(item))
    ]  # fmt: skip
    texts += [text for event in span.events if event.name == _USER_EVENT and (text := _content(event.attributes))]
    return texts[-1] if texts else None


def _output_text(span: OtelSpan) -> str | None:
    for source in (span.attributes, *(event.attributes for event in span.events)):
        for name in ("gen_ai.output.messages", "gen_ai.completion"):
            messages = json_in(source.get(name))
            if isinstance(messages, list) and (text := last_of(messages, by="assistant")) is not None:
                return text
    for item in indexed(span.attributes, "gen_ai.completion"):
        if not any(name.startswith("tool_calls.") for name in item) and (text := _content(item)) is not None:
            return text
    for event in span.events:
        if event.name == _CHOICE_EVENT:
            message = json_in(event.attributes.get("message"))
            text = _content(message) if isinstance(message, Mapping) else None
            if text is not None and not (isinstance(message, Mapping) and message.get("tool_calls")):
                return text
    return None


def _content(message: Mapping[str, Any]) -> str | None:
    content = message.get("content", message.get("gen_ai.event.content"))
    if isinstance(content, str) and content.startswith("["):
        # Blocks of text, as the convention's authors' own instrumentations write them.
        blocks = text_in(json_in(content))
        return content if blocks is None else blocks
    return text_in(content)


GENAI: Final = Convention(
    name="genai",
    title="OpenTelemetry GenAI",
    markers=("gen_ai.operation.name", "gen_ai.retrieval.", "gen_ai.usage.", "gen_ai.prompt."),
    claims=_matches,
    read=genai_node,
)
