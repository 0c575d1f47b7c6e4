"""`ragstone.evaluate(rows, app=...)` with engines of LlamaIndex, as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

import ragstone
from llama_index.observability.ragstone import RagstoneInstrumentor
from ragstone.testing import MemoryRecorder

ROWS = [{"id": f"q{n}", "question": f"Where is stone {n}?"} for n in range(3)]


class TwoNodes(BaseRetriever):
    """Finds two nodes that quote the question."""

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text=text), score=1.0) for text in texts(query_bundle.query_str)]


def texts(question: str) -> list[str]:
    """The nodes about a question."""
    return [f"Node {n} about the words {question!r} says that it lies at the river." for n in range(2)]


def query_engine(**options: Any) -> RetrieverQueryEngine:
    """An engine with a model that repeats its prompt."""
    return RetrieverQueryEngine(TwoNodes(), get_response_synthesizer(llm=MockLLM(), **options))


def chat_engine() -> ContextChatEngine:
    """An engine that remembers the conversation."""
    memory = ChatMemoryBuffer.from_defaults(token_limit=10_000)
    return ContextChatEngine(retriever=TwoNodes(), llm=MockLLM(), memory=memory, prefix_messages=[])


async def query(question: str) -> Any:
    """A function that awaits an engine."""
    return await query_engine().aquery(question)


async def stream_chat(question: str) -> Any:
    """A function that returns a stream of a chat."""
    return await chat_engine().astream_chat(question)


APPS: dict[str, Callable[[], Any]] = {
    "query engine": query_engine,
    "streaming query engine": lambda: query_engine(streaming=True),
    "chat engine": chat_engine,
    "aquery": lambda: query,
    "stream_chat": lambda: lambda question: chat_engine().stream_chat(question),
    "astream_chat": lambda: stream_chat,
}


@pytest.mark.parametrize("name", APPS)
def test_contexts_are_the_nodes_of_the_question(name: str) -> None:
    """Each sample has its own, and a chat engine does not carry a conversation over."""
    result = ragstone.evaluate(ROWS, ["ccrs.cc"], app=APPS[name](), judge="lexical")

    for row, sample, trace in zip(ROWS, result.samples, result.traces, strict=True):
        assert ("ok", row["question"]) == (trace.status, sample.query), trace.error
        assert texts(row["question"]) == [passage.text for passage in sample.contexts or ()]
        assert row["question"] in (sample.response or "")
        assert not any(other["question"] in (sample.response or "") for other in ROWS if other is not row)
        assert 1 == len(trace.retrievals)


def test_an_application_that_is_captured_live_is_captured_once_and_not_into_its_own_store() -> None:
    """Its own instrumentor joins the evaluation, and works again afterwards."""
    own = MemoryRecorder()
    instrumentor = RagstoneInstrumentor(own)
    instrumentor.start_registering()
    engine = query_engine()
    try:
        result = ragstone.evaluate(ROWS, ["ccrs.cc"], app=engine, judge="lexical")
        assert [] == own.drafts
        engine.query("after the run")
    finally:
        instrumentor.stop_registering()

    assert ["after the run"] == [draft.query for draft in own.drafts]
    assert [1, 1, 1] == [len(trace.retrievals) for trace in result.traces]
    assert texts(ROWS[0]["question"]) == [passage.text for passage in result.samples[0].contexts or ()]
