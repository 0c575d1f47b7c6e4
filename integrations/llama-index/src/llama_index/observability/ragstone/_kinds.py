"""What a span of LlamaIndex is, by its method and the object whose method it is."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final
from weakref import WeakKeyDictionary

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.base_selector import BaseSelector
from llama_index.core.base.embeddings.base_sparse import BaseSparseEmbedding
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.chat_engine.types import BaseChatEngine, StreamingAgentChatResponse
from llama_index.core.indices.query.query_transform.base import BaseQueryTransform
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.question_gen.types import BaseQuestionGenerator
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import TransformComponent
from llama_index.core.tools.types import BaseTool
from llama_index.core.types import BaseOutputParser, BasePydanticProgram
from llama_index.core.workflow import Workflow

from ragstone.requests import StepKind

__all__ = ["REQUESTS", "Kind", "kind_of"]


class Kind(Enum):
    """What a span is."""

    QUERY = "a call of a query engine"
    CHAT = "a turn of a chat engine"
    WORKFLOW = "a run of a workflow or an agent"
    RETRIEVE = "a retrieval"
    SYNTHESIZE = "an answer made from nodes"
    POSTPROCESS = "a reranker or a filter"
    TOOL = "a call of an agent's tool"
    MODEL = "a call of a language model"
    WRITER = "the reader of a streamed chat turn"
    FUNCTION = "a step of a workflow, or a function of the application"
    DETAIL = "any other span: it is not a step, and its id stands for the step around it"

    __hash__ = object.__hash__  # the default hashes the name, in Python, at every look-up

    @property
    def step_kind(self) -> StepKind:
        """The kind of the step."""
        return _STEP_KINDS.get(self, "other")


_STEP_KINDS: Final[Mapping[Kind, StepKind]] = {
    Kind.QUERY: "chain",
    Kind.CHAT: "chain",
    Kind.WORKFLOW: "agent",
    Kind.RETRIEVE: "retrieval",
    Kind.SYNTHESIZE: "chain",
    Kind.POSTPROCESS: "transform",
    Kind.TOOL: "tool",
    Kind.MODEL: "model",
    Kind.FUNCTION: "chain",
}

REQUESTS: Final = frozenset({Kind.QUERY, Kind.CHAT, Kind.WORKFLOW, Kind.RETRIEVE, Kind.SYNTHESIZE})
"""Spans that make the outermost span around them a request. A call of a model alone does not."""

_Row = tuple[Mapping[str, Kind], Kind]

_CALLS: Final = {"call", "acall", "__call__"}
_MODEL_METHODS: Final = dict.fromkeys(
    (
        "chat", "achat", "stream_chat", "astream_chat", "complete", "acomplete", "stream_complete", "astream_complete",
    ),
    Kind.MODEL,
)  # fmt: skip
"""Other methods of a model call one of these."""
_METHODS: Final[tuple[tuple[type, Mapping[str, Kind], Kind], ...]] = (
    (BaseQueryEngine, {"query": Kind.QUERY, "aquery": Kind.QUERY}, Kind.DETAIL),
    (BaseChatEngine, dict.fromkeys(("chat", "achat", "stream_chat", "astream_chat"), Kind.CHAT), Kind.DETAIL),
    (BaseRetriever, {"retrieve": Kind.RETRIEVE, "aretrieve": Kind.RETRIEVE}, Kind.DETAIL),
    (BaseSynthesizer, {"synthesize": Kind.SYNTHESIZE, "asynthesize": Kind.SYNTHESIZE}, Kind.DETAIL),
    (
        BaseNodePostprocessor,
        {"_postprocess_nodes": Kind.POSTPROCESS, "_apostprocess_nodes": Kind.POSTPROCESS},
        Kind.DETAIL,
    ),
    (BaseTool, dict.fromkeys(_CALLS, Kind.TOOL), Kind.FUNCTION),
    (
        StreamingAgentChatResponse,
        {"write_response_to_history": Kind.WRITER, "awrite_response_to_history": Kind.WRITER},
        Kind.DETAIL,
    ),
    (Workflow, {"run": Kind.WORKFLOW}, Kind.FUNCTION),
    (BaseLLM, _MODEL_METHODS, Kind.DETAIL),
    (TransformComponent, {}, Kind.DETAIL),  # splitters, extractors and embeddings
    (BaseSparseEmbedding, {}, Kind.DETAIL),
    (BaseOutputParser, {}, Kind.DETAIL),
    (BasePydanticProgram, {}, Kind.DETAIL),
    (BaseSelector, {}, Kind.DETAIL),
    (BaseQuestionGenerator, {}, Kind.DETAIL),
    (BaseQueryTransform, {}, Kind.DETAIL),
)
_rows: WeakKeyDictionary[type, _Row] = WeakKeyDictionary()
_OTHER: Final[_Row] = ({}, Kind.FUNCTION)


def kind_of(key: str, instance: object) -> Kind:
    """Return the kind of a span.

    Args:
        key: Its id, "Class.method-uuid".
        instance: The object whose method it is; None for a function.
    """
    if instance is None:
        return Kind.FUNCTION
    kind = type(instance)
    row = _rows.get(kind)
    if row is None:
        row = next(((methods, rest) for base, methods, rest in _METHODS if issubclass(kind, base)), _OTHER)
        _rows[kind] = row
    methods, rest = row
    return methods.get(key[key.find(".") + 1 : -37], rest) if methods else rest
