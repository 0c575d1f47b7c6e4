"""What frameworks record as the inputs and outputs of a step: the question, the answer and the passages in them.

The values are JSON, of whatever shape the framework's own serialiser gave them: bare texts, messages, LangChain's
documents and constructors, LlamaIndex's nodes and queries. The key lists are conventions, not contracts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.replay._json import parse_json
from ragstone.replay._tree import Step
from ragstone.schema import Passage

__all__ = [
    "answer_in",
    "contexts_in",
    "count_in",
    "fill_identity",
    "json_in",
    "last_of",
    "number_in",
    "passages_in",
    "question_in",
    "request_metadata",
    "text_in",
]

_QUESTION_KEYS: Final = (
    "question", "query", "input", "user_input", "query_str", "str_or_query_bundle", "query_bundle", "inputs", "prompt",
    "message", "messages", "kwargs", "args",
)  # fmt: skip
_ANSWER_KEYS: Final = (
    "answer", "output", "result", "response", "output_text", "outputs", "text", "content", "message", "messages",
    "generations", "choices",
)  # fmt: skip
_CONTEXT_KEYS: Final = ("context", "contexts", "retrieved_contexts", "source_documents", "documents", "source_nodes")
_LIST_KEYS: Final = (
    "documents", "nodes", "source_nodes", "results", "matches", "output", "outputs", "passages", "chunks", "data",
)  # fmt: skip
_TEXT_KEYS: Final = ("page_content", "text", "content", "document", "chunk", "snippet", "body", "passage")
_ID_KEYS: Final = ("id", "id_", "node_id", "doc_id", "document_id", "chunk_id", "_id")
_METADATA_ID_KEYS: Final = ("id", "doc_id", "document_id", "chunk_id")
_SCORE_KEYS: Final = ("relevance_score", "score")
"""A re-ranker's score is younger than the index's."""
_HUMAN: Final = frozenset({"human", "user", "HumanMessage", "HumanMessageChunk"})
_AI: Final = frozenset({"ai", "assistant", "AIMessage", "AIMessageChunk", "model"})
_FRAMEWORK: Final = ("ls_", "lc_", "langgraph_", "checkpoint_", "__", "LANGSMITH_", "LANGCHAIN_")
_SESSION_KEYS: Final = ("session_id", "thread_id", "conversation_id")
_MAX_DEPTH: Final = 8
_MAX_INT: Final = 2**53
"""Readers of JSON disagree about larger whole numbers."""


def json_in(text: object) -> Any:
    """The JSON value a text holds; None if it is none. What is no text is a value already."""
    if not isinstance(text, str | bytes):
        return text
    try:
        return parse_json(text)
    except DataError:
        return None


def number_in(value: object) -> float | None:
    """A finite number, also one that is written as text; None for anything else."""
    if isinstance(value, str) and len(value) < 64:
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def count_in(value: object) -> int | None:
    """A number of tokens; None where it is none that can be."""
    number = number_in(value)
    return int(number) if number is not None and 0 <= number < _MAX_INT else None


def fill_identity(node: Step, metadata: object) -> None:
    """Sort the metadata of a request into its step: who asked, in which session, and the rest. What it has stays."""
    rest = request_metadata(metadata)
    for key in _SESSION_KEYS:
        session_id = _label(rest.pop(key, None))
        node.session_id = node.session_id or session_id
    user_id = _label(rest.pop("user_id", None))
    node.user_id = node.user_id or user_id
    reference = rest.pop("reference", None)
    if isinstance(reference, str | list) and not node.reference:
        texts = [reference] if isinstance(reference, str) else reference
        node.reference = tuple(text for text in texts if isinstance(text, str))
    node.metadata = node.metadata | rest


def _label(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) and value != "" else None


def request_metadata(metadata: object) -> dict[str, Any]:
    """What the application itself said about a request, without what its framework and its tracer added."""
    value = json_in(metadata)
    if not isinstance(value, Mapping):
        return {}
    return {str(key): item for key, item in value.items() if not str(key).startswith(_FRAMEWORK)}


def question_in(value: Any) -> str | None:
    """The user's question in the inputs of a step: a text, the last message of a person, or either under a known key."""
    return _look_up(value, _QUESTION_KEYS, _last_human, 0) or None


def answer_in(value: Any) -> str | None:
    """The answer in the outputs of a step: a text, the last message of a model that calls no tool, or either under a
    known key. An empty text is an answer; None means that there is no text.
    """  # noqa: D205 - one sentence does not fit one line
    return _look_up(value, _ANSWER_KEYS, _last_ai, 0)


_Messages = Callable[[Sequence[Any]], tuple[bool, str | None]]


def _look_up(value: Any, keys: Sequence[str], from_messages: _Messages, depth: int) -> str | None:
    if isinstance(value, str):
        return value
    if depth >= _MAX_DEPTH:
        return None
    if isinstance(value, list):
        are_messages, text = from_messages(value)
        if are_messages or not value:
            return text
        # The arguments of a call, or batches of generations: the first one counts.
        return _look_up(value[0], keys, from_messages, depth + 1)
    if not isinstance(value, Mapping):
        return None
    if _role(value) is not None:
        return from_messages([value])[1]
    value = _unwrapped(value)
    found: str | None = None
    for key in keys:
        if key in value:
            text = _look_up(value[key], keys, from_messages, depth + 1)
            if text:
                return text
            found = text if found is None else found
    return found


def _unwrapped(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments of an object that LangChain wrote as the call that makes it, or a message's own data."""
    if value.get("lc") == 1 and isinstance(value.get("kwargs"), Mapping):
        return dict(value["kwargs"])
    if set(value) == {"type", "data"} and isinstance(value["data"], Mapping):
        return dict(value["data"])
    return value


def _role(value: object) -> str | None:
    """Who speaks in a message; None if it is no message."""
    if isinstance(value, list) and len(value) == 2 and all(isinstance(item, str) for item in value):
        return value[0] if value[0] in _HUMAN | _AI | {"system", "tool"} else None
    if not isinstance(value, Mapping):
        return None
    if value.get("lc") == 1:
        path = value.get("id")
        name = path[-1] if isinstance(path, list) and path else None
        return name if isinstance(name, str) and name.endswith(("Message", "MessageChunk")) else None
    role = value.get("role", value.get("type"))
    if isinstance(role, str) and ("content" in value or "parts" in value or "data" in value):
        return role if role != "Document" else None
    return None


def _message_text(message: Any) -> str | None:
    if isinstance(message, list):
        return str(message[1])
    message = _unwrapped(message)
    return text_in(message.get("content", message.get("parts")))


def text_in(content: Any) -> str | None:
    """The text a reader would see in the content of a message: reasoning, calls of tools and images are none of it."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    parts: list[str] = []
    for block in content:
        if isinstance(block, str):
            parts.append(block)
        elif isinstance(block, Mapping) and block.get("type", "text") == "text":
            text = block.get("text", block.get("content"))
            if isinstance(text, str):
                parts.append(text)
    return "".join(parts) if parts else None


def last_of(messages: Sequence[Any], *, by: str) -> str | None:
    """The text of the last message by "user" or "assistant"."""
    return (_last_human if by == "user" else _last_ai)(messages)[1]


def _last_human(messages: Sequence[Any]) -> tuple[bool, str | None]:
    are_messages = False
    for message in reversed(messages):
        role = _role(message)
        are_messages |= role is not None
        if role in _HUMAN:
            return True, _message_text(message)
    return are_messages, None


def _last_ai(messages: Sequence[Any]) -> tuple[bool, str | None]:
    are_messages = False
    for message in reversed(messages):
        role = _role(message)
        are_messages |= role is not None
        if role in _HUMAN:
            break
        if role in _AI:
            return True, None if _calls_tool(message) else _message_text(message)
    return are_messages, None


def _calls_tool(message: Any) -> bool:
    if not isinstance(message, Mapping):
        return False
    message = _unwrapped(message)
    parts = message.get("parts")
    return bool(message.get("tool_calls")) or (
        isinstance(parts, list) and any(isinstance(part, Mapping) and part.get("type") == "tool_call" for part in parts)
    )


def contexts_in(value: Any) -> tuple[Passage, ...] | None:
    """The passages that the outputs of a request name as what it used; None when they name none."""
    if not isinstance(value, Mapping):
        return None
    for key in _CONTEXT_KEYS:
        if isinstance(value.get(key), list):
            passages = passages_in(value[key])
            if passages is not None:
                return passages
    return None


def passages_in(value: Any, *, depth: int = 0) -> tuple[Passage, ...] | None:
    """The passages in the outputs of a retriever: documents, nodes or texts, in their order, or such a list in an object.

    Returns:
        None when it is nothing of the kind; an empty list is a retrieval that found nothing.
    """
    if depth >= 3:
        return None
    if isinstance(value, Mapping):
        lists = (value[key] for key in _LIST_KEYS if isinstance(value.get(key), list | Mapping))
        return next((found for item in lists if (found := passages_in(item, depth=depth + 1)) is not None), None)
    if not isinstance(value, list):
        return None
    passages = tuple(passage for rank, item in enumerate(value) if (passage := _passage(item, rank)) is not None)
    return passages if len(passages) == len(value) else None


def _passage(item: Any, rank: int) -> Passage | None:
    if isinstance(item, str):
        inner = json_in(item) if item.startswith("{") else None
        if isinstance(inner, Mapping):
            return _passage(inner, rank)
        # What Python shows of an object is no passage.
        return None if item.startswith("<") and item.endswith(">") else Passage(text=item, rank=rank)
    if isinstance(item, list) and len(item) == 2 and isinstance(item[0], Mapping):
        # A document beside its score, as vector stores return them.
        passage = _passage(item[0], rank)
        score = number_in(item[1])
        return passage if passage is None or score is None else passage.model_copy(update={"score": score})
    if not isinstance(item, Mapping):
        return None
    item = _unwrapped(item)
    node = json_in(item.get("node"))
    body = _unwrapped(node) if isinstance(node, Mapping) else item
    text = next((body[key] for key in _TEXT_KEYS if isinstance(body.get(key), str)), None)
    resource = body.get("text_resource")
    if text is None and isinstance(resource, Mapping) and isinstance(resource.get("text"), str):
        text = resource["text"]
    metadata = json_in(body.get("metadata"))
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    ids = [body[key] for key in _ID_KEYS if isinstance(body.get(key), str | int)]
    ids += [metadata[key] for key in _METADATA_ID_KEYS if isinstance(metadata.get(key), str | int)]
    scores = [number_in(source.get(key)) for source in (item, body, metadata) for key in _SCORE_KEYS]
    if text is None and not ids:
        return None
    return Passage(
        text=text or "",
        id=str(ids[0]) if ids else None,
        score=next((score for score in scores if score is not None), None),
        rank=rank,
        metadata=metadata,
    )
