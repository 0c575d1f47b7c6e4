"""What a span of LlamaIndex is, by its method and the object whose method it is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal

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

Kind = Literal[
    "query", "chat", "workflow", "retrieve", "synthesize", "postprocess", "tool", "model", "writer", "function",
    "detail",
]  # fmt: skip
"""What a span is.

`query`, `chat`: a call of an engine. `workflow`: a run of a workflow or an agent. `synthesize`: an answer made from
nodes. `postprocess`: a reranker or a filter. `writer`: the reader of a streamed chat turn. `function`: a step of a
workflow, or a function of the application. `detail`: any other span. It is not a step, and its id stands for the step around it.

Texts, because looking up a member of an enumeration takes time, and each span does it several times.
"""

STEP_KINDS: Final[Mapping[Kind, StepKind]] = {
    "query": "chain", "chat": "chain", "workflow": "agent", "retrieve": "retrieval", "synthesize": "chain",
    "postprocess": "transform", "tool": "tool", "model": "model", "writer": "other", "function": "chain",
}  # fmt: skip
"""The kind of the step of each span that is one."""

REQUESTS: Final = frozenset({"query", "chat", "workflow", "retrieve", "synthesize"})
"""Spans that make the outermost span around them a request. A call of a model alone does not."""

_Row = tuple[Mapping[str, Kind], Kind]

_CALLS: Final = {"call", "acall", "__call__"}
_MODEL_METHODS: Final[Mapping[str, Kind]] = dict.fromkeys(
    (
        "chat", "achat", "stream_chat", "astream_chat", "complete", "acomplete", "stream_complete", "astream_complete",
    ),
    "model",
)  # fmt: skip
"""Other methods of a model call one of these."""
_METHODS: Final[tuple[tuple[type, Mapping[str, Kind], Kind], ...]] = (
    (BaseQueryEngine, {"query": "query", "aquery": "query"}, "detail"),
    (BaseChatEngine, dict.fromkeys(("chat", "achat", "stream_chat", "astream_chat"), "chat"), "detail"),
    (BaseRetriever, {"retrieve": "retrieve", "aretrieve": "retrieve"}, "detail"),
    (BaseSynthesizer, {"synthesize": "synthesize", "asynthesize": "synthesize"}, "detail"),
    (BaseNodePostprocessor, {"_postprocess_nodes": "postprocess", "_apostprocess_nodes": "postprocess"}, "detail"),
    (BaseTool, dict.fromkeys(_CALLS, "tool"), "function"),
    (
        StreamingAgentChatResponse,
        {"write_response_to_history": "writer", "awrite_response_to_history": "writer"},
        "detail",
    ),
    (Workflow, {"run": "workflow"}, "function"),
    (BaseLLM, _MODEL_METHODS, "detail"),
    (TransformComponent, {}, "detail"),  # splitters, extractors and embeddings
    (BaseSparseEmbedding, {}, "detail"),
    (BaseOutputParser, {}, "detail"),
    (BasePydanticProgram, {}, "detail"),
    (BaseSelector, {}, "detail"),
    (BaseQuestionGenerator, {}, "detail"),
    (BaseQueryTransform, {}, "detail"),
)
_OTHER: Final[_Row] = ({}, "function")


@lru_cache(maxsize=1024)
def _row_of(kind: type[Any]) -> _Row:
    return next(((methods, rest) for base, methods, rest in _METHODS if issubclass(kind, base)), _OTHER)


def kind_of(key: str, instance: object) -> Kind:
    """Return the kind of a span by its id ("Class.method-uuid") and the object of its method, None for a function."""
    if instance is None:
        return "function"
    kind: Any = type(instance)
    methods, rest = _row_of(kind)
    return methods.get(key[key.find(".") + 1 : -37], rest) if methods else rest
