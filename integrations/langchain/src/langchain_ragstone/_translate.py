"""LangChain's shapes in, Ragstone's words out: the only file that knows both vocabularies.

Everything is copied out as plain strings and numbers, so that nothing of the application stays alive with a trace.
The key lists are conventions, not contracts; `RagstoneCallbackHandler` takes extractors for applications with others.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, TypeGuard

from langchain_core.documents import Document
from langchain_core.load.serializable import Serializable
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel

from ragstone.capture import make_draft
from ragstone.requests import PassageDraft, TraceDraft

__all__ = [
    "LlmReply",
    "answer_from",
    "contexts_from",
    "contexts_in_event",
    "describe_error",
    "document_texts",
    "documents_in_tool_output",
    "fill_identity",
    "is_failure",
    "is_interrupt",
    "passages_from",
    "question_from",
    "reply_from",
    "requested_model_from",
    "stated_contexts",
    "text_in_stream_event",
    "text_of",
    "tool_query_from",
]

_QUESTION_KEYS = ("question", "query", "input", "user_input", "messages")
_ANSWER_KEYS = ("answer", "output", "result", "response", "output_text", "messages", "structured_response")
_CONTEXT_KEYS = ("context", "contexts", "source_documents", "documents")
_ID_KEYS = ("id", "doc_id", "document_id", "chunk_id")
_SCORE_KEYS = ("relevance_score", "score")  # a re-ranker's score is younger than the index's
_FRAMEWORK_PREFIXES = ("ls_", "lc_", "langgraph_", "checkpoint_", "__")
_HUMAN, _AI = ("human", "user"), ("ai", "assistant")


def text_of(content: object) -> str | None:
    """The text a reader would see: of a string, a message, or a list of content blocks; None if there is none.

    Only text blocks count: reasoning, tool calls and images are no part of an answer.
    """
    if isinstance(content, str):
        return content
    if isinstance(content, BaseMessage):
        return text_of(content.content)
    if isinstance(content, list):
        parts = [_block_text(block) for block in content]
        texts = [part for part in parts if part is not None]
        return "".join(texts) if texts else None
    return None


def _block_text(block: object) -> str | None:
    if isinstance(block, str):
        return block
    if isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str):
        return str(block["text"])
    return None


def text_in_stream_event(event: Mapping[str, Any]) -> str | None:
    """The text that an event of a stream of version 3 adds; None if it adds none."""
    delta = event.get("delta")
    return delta.get("text") if isinstance(delta, Mapping) else None


def question_from(inputs: object) -> str | None:
    """The user's question in a run's inputs: a text, the last human message, or either of them under a known key."""
    return _look_up(inputs, _QUESTION_KEYS, _last_human) or None


def answer_from(outputs: object) -> str | None:
    """The answer in a run's outputs: a text, the last AI message that calls no tool, or either under a known key.

    An empty text is an answer; None means that there is no text. An object of the application's own that has no known key
    is an answer as JSON.
    """
    found = _look_up(outputs, _ANSWER_KEYS, _last_ai)
    if found is not None:
        return found
    fields = _fields(outputs) or {}
    known = [fields[key] for key in _ANSWER_KEYS if key in fields]
    if not known and _is_own_model(outputs):
        return outputs.model_dump_json()
    return next((answer_from(value) for value in known if _is_own_model(value)), None)


_FromMessages = Callable[[Sequence[object]], str | None]


def _look_up(value: object, keys: Sequence[str], from_messages: _FromMessages) -> str | None:
    fields = _fields(value)
    candidates = [value] if fields is None else [fields[key] for key in keys if key in fields]
    texts = [text for item in candidates if (text := _text_or_message(item, from_messages)) is not None]
    return next((text for text in texts if text), texts[0] if texts else None)


def _fields(value: object) -> Mapping[str, Any] | None:
    """What has keys: a mapping, or an object of the application's own, such as a graph's state; None for all else."""
    if isinstance(value, Mapping):
        return value
    if _is_own_model(value):
        return {name: getattr(value, name, None) for name in type(value).model_fields}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    return None


def _is_own_model(value: object) -> TypeGuard[BaseModel]:
    return isinstance(value, BaseModel) and not isinstance(value, Serializable)


def _text_or_message(value: object, from_messages: _FromMessages) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, PromptValue):
        return from_messages(value.to_messages())
    if isinstance(value, BaseMessage):
        return from_messages([value])
    if isinstance(value, (list, tuple)):
        return from_messages(value)
    return None


def _last_human(messages: Sequence[object]) -> str | None:
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return text_of(message)
        if isinstance(message, Mapping) and message.get("role", message.get("type")) in _HUMAN:
            return text_of(message.get("content"))
        if isinstance(message, (list, tuple)) and len(message) == 2 and message[0] in _HUMAN:
            return text_of(message[1])
    return None


def _last_ai(messages: Sequence[object]) -> str | None:
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return None if message.tool_calls else text_of(message)
        if isinstance(message, Mapping) and message.get("role", message.get("type")) in _AI:
            return None if message.get("tool_calls") else text_of(message.get("content"))
        if isinstance(message, (HumanMessage, ToolMessage)):
            return None
    return None


def contexts_from(outputs: object) -> list[PassageDraft] | None:
    """The contexts that a run's outputs name, as documents or texts; None when they name none.

    An empty list found under a known key is an answer too: nothing reached the prompt.
    """
    fields = _fields(outputs)
    if fields is None:
        return None
    for key in _CONTEXT_KEYS:
        value = fields.get(key)
        if isinstance(value, (list, tuple)) and all(isinstance(item, (Document, str)) for item in value):
            return passages_from(value)
    return None


def passages_from(documents: Iterable[Document | str]) -> list[PassageDraft]:
    """Copy documents (or bare texts) into passages, in their order."""
    return [PassageDraft(text=document) if isinstance(document, str) else _passage(document) for document in documents]


def stated_contexts(contexts: Iterable[Document | str | Mapping[str, Any] | PassageDraft]) -> list[PassageDraft]:
    """Copy what an application states as its contexts: documents, texts, mappings with a text, passages.

    Raises:
        ConfigurationError: One of them is nothing of the kind.
    """
    if isinstance(contexts, str | Mapping):
        passages: Any = contexts  # a single one is refused there, in words
    else:
        passages = [_passage(item) if isinstance(item, Document) else item for item in contexts]
    return make_draft(contexts=passages).contexts or []


def contexts_in_event(data: Any) -> Any:
    """The contexts in a custom event's data: under a known key, or the data themselves."""
    return next((data[key] for key in _CONTEXT_KEYS if key in data), data) if isinstance(data, Mapping) else data


def _passage(document: Document) -> PassageDraft:
    metadata = _scalars(document.metadata)
    identity = document.id
    if identity is None:
        identity = next((metadata[key] for key in _ID_KEYS if metadata.get(key) is not None), None)
    return PassageDraft(
        text=document.page_content,
        id=None if identity is None else str(identity),
        score=next((score for key in _SCORE_KEYS if (score := _finite(metadata.get(key))) is not None), None),
        metadata=metadata,
    )


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def _scalars(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of what JSON can hold on one line; NumPy's numbers become Python's, NaN is left out."""
    copied: dict[str, Any] = {}
    for key, value in metadata.items():
        if value is None or isinstance(value, (str, int)):
            copied[str(key)] = value
        elif isinstance(value, Integral):
            copied[str(key)] = int(value)  # the id of a data frame's row is 7, not 7.0
        elif isinstance(value, Real) and math.isfinite(value):
            copied[str(key)] = float(value)
    return copied


def document_texts(value: object) -> frozenset[str] | None:
    """The texts of the documents in a step's inputs: a list of them, or one under any key; None if there are none."""
    if isinstance(value, list):
        return _texts(value)
    if isinstance(value, dict):
        for item in value.values():
            if isinstance(item, list) and (texts := _texts(item)) is not None:
                return texts
    return None


def _texts(values: list[Any]) -> frozenset[str] | None:
    # The first item decides: looking through a list of ten thousand rows is not ours to do on the request path.
    if values and isinstance(values[0], Document):
        return frozenset(value.page_content for value in values if isinstance(value, Document))
    return None


def documents_in_tool_output(output: object) -> list[PassageDraft] | None:
    """The documents a tool returned, itself or as the artifact of its message; None when there are none to be seen."""
    found = output.artifact if isinstance(output, ToolMessage) else output
    if isinstance(found, (list, tuple)) and found and all(isinstance(item, Document) for item in found):
        return passages_from(found)
    return None


def tool_query_from(inputs: object, input_text: str) -> str:
    """What a tool was asked: its query-like argument, its only text argument, else the arguments as they were given."""
    question = question_from(inputs)
    if question is None and isinstance(inputs, Mapping) and len(inputs) == 1:
        question = text_of(next(iter(inputs.values())))
    return question or input_text


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LlmReply:
    """What one call of a model contributes to a trace."""

    text: str | None
    """None when the reply is a call of a tool, or has no text."""
    model: str | None
    input_tokens: int | None
    output_tokens: int | None

    def add_to(self, draft: TraceDraft) -> None:
        """Name the model, and add the tokens to those of earlier calls."""
        draft.model = self.model or draft.model
        draft.input_tokens = _sum(draft.input_tokens, self.input_tokens)
        draft.output_tokens = _sum(draft.output_tokens, self.output_tokens)


def _sum(total: int | None, more: int | None) -> int | None:
    return total if more is None else (total or 0) + more


def requested_model_from(metadata: Mapping[str, Any] | None) -> str | None:
    """The model that a call asked for, as its metadata name it."""
    return None if metadata is None else _first_text(metadata.get("ls_model_name"))


def reply_from(result: LLMResult) -> LlmReply:
    """Read the first generation of a model's result."""
    generation = result.generations[0][0] if result.generations and result.generations[0] else None
    message = generation.message if isinstance(generation, ChatGeneration) else None
    output = result.llm_output or {}
    usage: Mapping[str, Any] = getattr(message, "usage_metadata", None) or output.get("token_usage") or {}
    about: Mapping[str, Any] = message.response_metadata if message is not None else {}
    if message is not None:
        text = None if getattr(message, "tool_calls", None) else text_of(message)
    else:
        text = generation.text if generation is not None else None
    return LlmReply(
        text=text,
        model=_first_text(about.get("model_name"), about.get("model"), output.get("model_name")),
        input_tokens=_count(usage.get("input_tokens", usage.get("prompt_tokens"))),
        output_tokens=_count(usage.get("output_tokens", usage.get("completion_tokens"))),
    )


def _first_text(*values: object) -> str | None:
    return next((value for value in values if isinstance(value, str) and value), None)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def fill_identity(draft: TraceDraft, metadata: Mapping[str, Any], tags: Sequence[str]) -> None:
    """Sort a root run's tags and metadata into a draft: known keys into fields, the application's own beside them."""
    rest = {key: value for key, value in metadata.items() if not str(key).startswith(_FRAMEWORK_PREFIXES)}
    draft.user_id = _identity(rest.pop("user_id", None))
    thread_id = _identity(rest.pop("thread_id", None))
    draft.session_id = _identity(rest.pop("session_id", None)) or thread_id
    reference = rest.pop("reference", None)
    if isinstance(reference, str):
        draft.reference = [reference]
    elif isinstance(reference, (list, tuple)):
        draft.reference = [text for text in reference if isinstance(text, str)]
    draft.metadata = _scalars(rest)
    draft.tags = [str(tag) for tag in tags]


def _identity(value: object) -> str | None:
    return None if value is None else str(value)


def describe_error(error: BaseException) -> str:
    """An error as "Type: message", whatever its own `__str__` does."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the application's exception may be as broken as what raised it
        message = ""
    return f"{name}: {message}" if message else name


def is_interrupt(error: BaseException) -> bool:
    """Whether a graph pauses here to ask a person."""
    return _is_called(error, "GraphInterrupt")


def is_failure(error: BaseException) -> bool:
    """Whether an "error" is one: readers that stop reading a stream and graphs that jump are none."""
    return not isinstance(error, GeneratorExit) and not _is_called(error, "GraphBubbleUp")


def _is_called(error: BaseException, name: str) -> bool:
    # By name, so that LangGraph (half a second) is imported by those who use it.
    return any(kind.__name__ == name for kind in type(error).__mro__)
