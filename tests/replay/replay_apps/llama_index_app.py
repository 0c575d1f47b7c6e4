"""RAG applications of LlamaIndex: plain, re-ranked, finding nothing, and failing."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen, LLMMetadata
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

QUESTION = "How high is the north tower?"
NOTHING = "Who painted the cellar?"
FAILS = "When does the model fail?"
ANSWER = "The north tower is 41 metres high."
TEXTS = {
    "node-3": "The north tower of the lighthouse is 41 metres high.",
    "node-9": "Its stairs have 196 steps, the lift stops at the gallery.",
}


class Keeper(CustomLLM):
    """A model that gives one answer, and the tokens it took."""

    @property
    def metadata(self) -> LLMMetadata:
        """What it says of itself."""
        return LLMMetadata(context_window=4096, num_output=64, model_name="keeper-1")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answer."""
        if FAILS in prompt:
            msg = "the lamp is out"
            raise RuntimeError(msg)
        usage = {"prompt_tokens": 40, "completion_tokens": 9, "total_tokens": 49}
        return CompletionResponse(text=ANSWER, additional_kwargs=usage, raw={"usage": usage, "model": "keeper-1"})

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """Never used."""
        raise NotImplementedError


class Shelf(BaseRetriever):
    """Finds the same nodes for every question but one."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if query_bundle.query_str == NOTHING:
            return []
        return [
            NodeWithScore(node=TextNode(text=text, id_=node_id, metadata={"source": f"{node_id}.md"}), score=score)
            for (node_id, text), score in zip(TEXTS.items(), (0.5, 0.25), strict=True)
        ]


class Reversed(BaseNodePostprocessor):
    """A re-ranker that turns the order round and keeps the first."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return [NodeWithScore(node=nodes[-1].node, score=0.75)] if nodes else []


def requests() -> list[tuple[str, Any, str]]:
    """What is recorded: a name, an engine, and what it is asked."""
    plain = RetrieverQueryEngine.from_args(Shelf(), llm=Keeper())
    reranked = RetrieverQueryEngine.from_args(Shelf(), llm=Keeper(), node_postprocessors=[Reversed()])
    return [
        ("plain", plain, QUESTION),
        ("reranked", reranked, QUESTION),
        ("nothing", plain, NOTHING),
        ("fails", plain, FAILS),
    ]


def run_all() -> None:
    """Make all requests, one after another."""
    for _, engine, question in requests():
        try:
            engine.query(question)
        except RuntimeError:
            continue
