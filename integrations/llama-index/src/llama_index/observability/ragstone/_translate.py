"""LlamaIndex's shapes in, Ragstone's words out: with `_replies` the only file that knows both vocabularies.

Everything is copied out as plain strings and numbers, so that nothing of the application stays alive with a trace, and
nothing is printed or iterated: `str()` of a streaming response would read the application's stream.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any
from weakref import WeakKeyDictionary

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.base_selector import BaseSelector
from llama_index.core.base.embeddings.base_sparse import BaseSparseEmbedding
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.base.response.schema import AsyncStreamingResponse, PydanticResponse, Response, StreamingResponse
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.chat_engine.types import AgentChatResponse, BaseChatEngine, StreamingAgentChatResponse
from llama_index.core.indices.query.query_transform.base import BaseQueryTransform
from llama_index.core.instrumentation.dispatcher import active_instrument_tags  # type: ignore[attr-defined]  # re-exported
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.question_gen.types import BaseQuestionGenerator
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, TransformComponent
from llama_index.core.tools.types import BaseTool, ToolOutput
from llama_index.core.types import BaseOutputParser, BasePydanticProgram
from llama_index.core.workflow import InputRequiredEvent, StopEvent, Workflow

from llama_index.observability.ragstone._stream import StreamListener, tap_async, wrap_stream
from llama_index.observability.ragstone._tree import Kind
from ragstone.requests import PassageDraft, TraceDraft

__all__ = [
    "answer_from",
    "describe_error",
    "fill_identity",
    "found_by_tool",
    "install_tap",
    "is_cancellation",
    "is_chat_stream",
    "is_pause",
    "is_token_stream",
    "kind_of",
    "node_texts",
    "passages_from",
    "question_from",
    "sources_from",
    "tags_here",
    "text_of",
    "unwrapped",
    "waits_for_event",
    "writer_text",
]

_QUESTION_KEYS = (
    "str_or_query_bundle",
    "message",
    "query",
    "question",
    "user_msg",
    "query_str",
    "input",
    "start_event",
)
_ANSWER_KEYS = ("answer", "response", "result", "output")
_SCORED_BY_NAME = ("reference", "user_id", "session_id", "tags")
_FRAMEWORK_PREFIX = "llamaindex."

_CALLS = {"call", "acall", "__call__"}
_METHODS: tuple[tuple[type, dict[str, Kind], Kind], ...] = (
    (BaseQueryEngine, {"query": Kind.QUERY, "aquery": Kind.QUERY}, Kind.DETAIL),
    (BaseChatEngine, dict.fromkeys(("chat", "achat", "stream_chat", "astream_chat"), Kind.CHAT), Kind.DETAIL),
    (BaseRetriever, {"retrieve": Kind.RETRIEVE, "aretrieve": Kind.RETRIEVE}, Kind.DETAIL),
    (BaseSynthesizer, {"synthesize": Kind.SYNTHESIZE, "asynthesize": Kind.SYNTHESIZE}, Kind.DETAIL),
    (
        BaseNodePostprocessor,
        {"_postprocess_nodes": Kind.POSTPROCESS, "_apostprocess_nodes": Kind.POSTPROCESS},
        Kind.DETAIL,
    ),
    (BaseTool, dict.fromkeys(_CALLS, Kind.TOOL), Kind.STEP),
    (
        StreamingAgentChatResponse,
        {"write_response_to_history": Kind.WRITER, "awrite_response_to_history": Kind.WRITER},
        Kind.DETAIL,
    ),
    (Workflow, {"run": Kind.WORKFLOW}, Kind.STEP),
    (BaseLLM, {}, Kind.LLM),
    (TransformComponent, {}, Kind.DETAIL),  # splitters, extractors and embeddings
    (BaseSparseEmbedding, {}, Kind.DETAIL),
    (BaseOutputParser, {}, Kind.DETAIL),
    (BasePydanticProgram, {}, Kind.DETAIL),
    (BaseSelector, {}, Kind.DETAIL),
    (BaseQuestionGenerator, {}, Kind.DETAIL),
    (BaseQueryTransform, {}, Kind.DETAIL),
)
_rows: WeakKeyDictionary[type, tuple[dict[str, Kind], Kind]] = WeakKeyDictionary()
_OTHER: tuple[dict[str, Kind], Kind] = ({}, Kind.STEP)


def kind_of(key: str, instance: object) -> Kind:
    """What a span is, by its id ("Class.method-uuid") and the object whose method it is."""
    if instance is None:
        return Kind.STEP
    kind = type(instance)
    row = _rows.get(kind)
    if row is None:
        row = next(((methods, rest) for base, methods, rest in _METHODS if issubclass(kind, base)), _OTHER)
        _rows[kind] = row
    methods, rest = row
    return methods.get(key[key.find(".") + 1 : -37], rest) if methods else rest


def tags_here() -> Mapping[str, Any]:
    """What `instrument_tags` says around the caller."""
    return active_instrument_tags.get()


def text_of(value: object) -> str | None:
    """The text in a question or an answer, whichever of LlamaIndex's types it has; None if there is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, QueryBundle):
        return value.query_str
    if isinstance(value, ChatMessage):
        return value.content
    return None


def question_from(arguments: Mapping[str, Any]) -> str | None:
    """The user's question among the arguments of a request's outermost call."""
    for key in _QUESTION_KEYS:
        value = arguments.get(key)
        if value is None:
            continue
        if (text := text_of(value)) is None and key == "start_event":
            text = _from_start_event(value)
        if text:
            return text
    texts = [text for value in arguments.values() if (text := text_of(value))]
    return texts[0] if len(texts) == 1 else None


def _from_start_event(event: Any) -> str | None:
    for key in _QUESTION_KEYS[:-1]:
        if text := text_of(_field(event, key)):
            return text
    history = _field(event, "chat_history")
    for message in reversed(history if isinstance(history, list) else []):
        if isinstance(message, ChatMessage) and message.role == "user":
            return message.content
    fields = event.to_dict() if hasattr(event, "to_dict") else {}
    texts = [value for value in fields.values() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else None


def _field(value: Any, name: str) -> Any:
    return getattr(value, name, None)


def unwrapped(result: object) -> object:
    """What a workflow returned, inside its last event."""
    return result.result if isinstance(result, StopEvent) else result


def waits_for_event(result: object) -> bool:
    """Whether a workflow's step that returned this is followed by nothing, unless an event comes from outside."""
    return result is None or isinstance(result, InputRequiredEvent)


def is_pause(error: BaseException) -> bool:
    """Whether a tool or step is left to wait for an event, to be run again when it comes."""
    return type(error).__name__ == "WaitingForEvent"  # private to LlamaIndex's workflows


def is_cancellation(error: BaseException | None) -> bool:
    """Whether a run is taken down from outside."""
    return isinstance(error, asyncio.CancelledError)


def answer_from(result: object) -> str | None:
    """The answer in what a request returned; an empty text is one, None means that there is no text."""
    if isinstance(result, (Response, AgentChatResponse)):
        return result.response
    if isinstance(result, PydanticResponse):
        return _json(result.response)
    if isinstance(result, ChatResponse):
        return result.message.content
    if isinstance(result, CompletionResponse):
        return result.text
    if isinstance(result, (StreamingResponse, AsyncStreamingResponse, StreamingAgentChatResponse)):
        return None
    if isinstance(result, Mapping):
        return next((text for key in _ANSWER_KEYS if (text := answer_from(result.get(key))) is not None), None)
    if (text := text_of(result)) is not None:
        return text
    if isinstance(result, BaseModel):
        known = [_field(result, key) for key in _ANSWER_KEYS if key in type(result).model_fields]
        if known and all(value is None for value in known):
            return None  # it has a place for an answer, and none is there
        named = next((text for key in _ANSWER_KEYS if (text := text_of(_field(result, key))) is not None), None)
        return _json(result) if named is None else named
    return None


def _json(value: object) -> str | None:
    return value.model_dump_json() if isinstance(value, BaseModel) else None


def is_token_stream(result: object) -> bool:
    """Whether the answer comes later, token by token, as the application asks for it."""
    if isinstance(result, StreamingAgentChatResponse):
        return not result.is_writing_to_memory  # some engines of older versions, and of others
    return isinstance(result, (StreamingResponse, AsyncStreamingResponse)) and result.response_gen is not None


def is_chat_stream(result: object) -> bool:
    """Whether the answer comes later, read by the chat engine itself."""
    return isinstance(result, StreamingAgentChatResponse) and result.is_writing_to_memory


def install_tap(result: Any, listener: StreamListener) -> bool:
    """Put our tap before a stream; False where there is nothing to tap."""
    # By the response: what other observers put before a stream may look like either kind.
    if isinstance(result, StreamingAgentChatResponse):
        place = "chat_stream" if result.achat_stream is None else "achat_stream"
    else:
        place = "response_gen"
    tokens = getattr(result, place)
    item_text: Callable[[Any], str | None] = answer_from
    if place == "achat_stream" or isinstance(result, AsyncStreamingResponse):
        if hasattr(tokens, "__anext__"):
            setattr(result, place, tap_async(tokens, listener, item_text))
            return True
    elif hasattr(tokens, "__next__"):
        setattr(result, place, wrap_stream(tokens, listener, item_text))
        return True
    return False


def writer_text(response: object) -> str | None:
    """What a streamed chat turn has become, if it says so: older versions leave that to whoever reads it."""
    return response.response or None if isinstance(response, StreamingAgentChatResponse) else None


def sources_from(result: object, known: dict[str, PassageDraft]) -> list[PassageDraft] | None:
    """The passages that a result names as its sources; None when it names none."""
    nodes = result.get("source_nodes") if isinstance(result, Mapping) else _field(result, "source_nodes")
    return passages_from(nodes, known) if nodes and isinstance(nodes, (list, tuple)) else None


def passages_from(nodes: Iterable[object], known: dict[str, PassageDraft] | None = None) -> list[PassageDraft]:
    """Copy nodes (or bare texts) into passages, in their order; one that is `known` unchanged is taken again."""
    return [passage for node in nodes if (passage := _passage(node, {} if known is None else known)) is not None]


def _passage(item: object, known: dict[str, PassageDraft]) -> PassageDraft | None:
    if isinstance(item, str):
        return PassageDraft(text=item)
    node, score = (item.node, _finite(item.score)) if isinstance(item, NodeWithScore) else (item, None)
    if not isinstance(node, BaseNode):
        return None
    text, key = node.get_content(), node.node_id
    passage = known.get(key)
    if passage is None or passage.text != text or passage.score != score:
        passage = PassageDraft(text=text, id=key, score=score, metadata=_scalars(node.metadata))
        known[key] = passage
    return passage


def found_by_tool(output: object, known: dict[str, PassageDraft]) -> list[PassageDraft] | None:
    """The nodes a tool returned, by themselves or as the sources of a response; None when there are none to be seen."""
    raw = output.raw_output if isinstance(output, ToolOutput) else output
    if isinstance(raw, (list, tuple)):
        return passages_from(raw, known) if raw and all(isinstance(item, NodeWithScore) for item in raw) else None
    return sources_from(raw, known)


def node_texts(nodes: object) -> frozenset[str]:
    """The texts of nodes, as they are now: re-rankers may change them in place."""
    if not isinstance(nodes, (list, tuple)):
        return frozenset()
    return frozenset(item.node.get_content() for item in nodes if isinstance(item, NodeWithScore))


def _finite(value: object) -> float | None:
    if type(value) is float:  # nearly always, and asking for `Real` is slow
        return value if math.isfinite(value) else None
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
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


def fill_identity(draft: TraceDraft, tags: Mapping[str, Any]) -> None:
    """Sort `instrument_tags` into a draft: known keys into fields, the application's own beside them."""
    draft.user_id = _identity(tags.get("user_id"))
    draft.session_id = _identity(tags.get("session_id"))
    draft.reference = _texts(tags.get("reference"))
    draft.tags = _texts(tags.get("tags"))
    draft.metadata = _scalars(
        {
            key: value
            for key, value in tags.items()
            if key not in _SCORED_BY_NAME and not str(key).startswith(_FRAMEWORK_PREFIX)
        }
    )


def _identity(value: object) -> str | None:
    return None if value is None else str(value)


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, Sequence) else []


def describe_error(error: BaseException) -> str:
    """An error as "Type: message", whatever its own `__str__` does."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the application's exception may be as broken as what raised it
        message = ""
    return f"{name}: {message}" if message else name
