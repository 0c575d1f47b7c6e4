"""Capture of an application while `ragstone.evaluate` or `ragstone.repair` runs it (entry point `ragstone.capture`)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index.observability.ragstone._instrumentor import RagstoneInstrumentor
from ragstone.requests import Recorder, RetrievalStage, changed_results


@contextmanager
def capture_into(recorder: Recorder) -> Iterator[None]:
    """Capture LlamaIndex requests of this process into a recorder while the context is open."""
    instrumentor = RagstoneInstrumentor(recorder)
    instrumentor.start_registering()
    try:
        with _changed_retrievers() if getattr(recorder, "changes_retrieval", False) else nullcontext():
            yield
    finally:
        instrumentor.stop_registering()


@contextmanager
def _changed_retrievers() -> Iterator[None]:
    """Change the nodes of all retrievers in requests of a trial: of query engines, those that postprocessors leave."""

    def make(text: str, _: object) -> NodeWithScore:
        return NodeWithScore(node=TextNode(text=text), score=1.0)

    options: dict[str, Any] = {"text": _text, "make": make}
    with ExitStack() as stack:
        for name in ("retrieve", "aretrieve"):
            stack.enter_context(changed_results(BaseRetriever, name, widen=_widen, **options))
            stack.enter_context(changed_results(RetrieverQueryEngine, name, **options))
        yield


def _text(item: Any) -> str:
    if not isinstance(item, NodeWithScore):
        raise TypeError(f"expected a node with a score, got {type(item).__name__}")
    return item.node.get_content()


def _widen(stage: RetrievalStage, args: Any, kwargs: Any) -> tuple[Any, Any]:
    retriever, *others = args
    if isinstance(k := getattr(retriever, "similarity_top_k", None), int):
        retriever = copy.copy(retriever)
        retriever.similarity_top_k = stage.wider(k)
    return (retriever, *others), kwargs
