"""CPU cost of the LangChain callback, compared with a handler that does nothing. `nox -s bench` prints the ratios."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_core.tools import create_retriever_tool

from langchain_ragstone import RagstoneCallbackHandler
from ragstone.requests import Request, TraceDraft

ROUNDS = 31
BUDGET = 1.2
"""CPU of our handler divided by the CPU of a handler that does nothing, on steps that do nothing: the worst case."""
BUDGET_OF_MANY = 1.4
"""The same for a request that finds 100 documents, each of which is copied."""

pytestmark = pytest.mark.bench


class NoOp(BaseCallbackHandler):
    """A handler that takes every event in line, and does nothing."""

    run_inline = True

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        """Take the event: without this method, LangChain formats the messages."""


class Forget:
    """A recorder that keeps nothing. A monitor assembles, redacts and writes on a thread of its own."""

    def record(self, request: Request | TraceDraft) -> bool:
        """Take it."""
        return True


class Found(BaseRetriever):
    """A retriever that finds documents of 1.5 kB."""

    documents: list[Document]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self.documents


def found(n: int) -> Found:
    """Make a retriever for `n` documents."""
    return Found(
        documents=[
            Document(f"{i} " + "word " * 300, id=str(i), metadata={"score": 0.5, "page": i, "source": "guide.md"})
            for i in range(n)
        ]
    )


class Caller(GenericFakeChatModel):
    """A model whose replies are called tools and texts, in turn."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Take the tools."""
        return self


def no_op_chain() -> Runnable[Any, Any]:
    """Nine runs, eighteen events, no work."""
    chain: Runnable[Any, Any] = RunnableLambda(lambda value: value)
    for _ in range(7):
        chain |= RunnableLambda(lambda value: value)
    return chain


def rag_chain(n: int = 4) -> Runnable[Any, Any]:
    """The chain of the README, with a fake model."""
    context = found(n) | (lambda documents: "\n".join(document.page_content for document in documents))
    prompt = ChatPromptTemplate.from_template("{context}\n{question}")
    model = FakeListChatModel(responses=["answer"])
    return {"context": context, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()


def hundred_documents() -> Runnable[Any, Any]:
    """The same chain with 100 documents, each in the prompt."""
    return rag_chain(100)


def agent() -> Runnable[Any, Any]:
    """Two searches, then an answer."""
    replies = [
        *(AIMessage("", tool_calls=[{"name": "search", "args": {"query": f"q{i}"}, "id": f"c{i}"}]) for i in range(2)),
        AIMessage("answer"),
    ]

    def forever() -> Any:
        while True:
            yield from (reply.model_copy() for reply in replies)

    search = create_retriever_tool(found(4), "search", "Search.")
    built = create_agent(Caller(messages=forever()), [search])
    return RunnableLambda(lambda question: {"messages": [HumanMessage(question)]}) | built


def invoke(chain: Runnable[Any, Any], config: dict[str, Any], calls: int) -> None:
    """Call it many times."""
    for _ in range(calls):
        chain.invoke("question", config)


def ainvoke(chain: Runnable[Any, Any], config: dict[str, Any], calls: int) -> None:
    """Await it many times."""

    async def run() -> None:
        for _ in range(calls):
            await chain.ainvoke("question", config)

    asyncio.run(run())


def stream(chain: Runnable[Any, Any], config: dict[str, Any], calls: int) -> None:
    """Stream it many times."""
    for _ in range(calls):
        for _ in chain.stream("question", config):
            pass


def cpu_s(call: Callable[[], None]) -> float:
    """Seconds of CPU that all threads of this process spend in a call: branches of a chain run in threads."""
    gc.collect()
    start = time.process_time()
    call()
    return time.process_time() - start


CASES = [
    (no_op_chain, invoke, 60),
    (no_op_chain, ainvoke, 60),
    (rag_chain, invoke, 60),
    (rag_chain, ainvoke, 60),
    (rag_chain, stream, 60),
    (hundred_documents, invoke, 30),
    (agent, invoke, 10),
]


@pytest.mark.parametrize(("build", "drive", "calls"), CASES, ids=[f"{b.__name__}-{d.__name__}" for b, d, _ in CASES])
def test_callback_overhead(build, drive, calls):
    """The median ratio stays within the budget."""
    chain = build()
    handler = RagstoneCallbackHandler(Forget())
    variants = {"none": [], "none again": [], "no-op": [NoOp()], "ragstone": [handler]}
    for callbacks in variants.values():
        drive(chain, {"callbacks": callbacks}, calls)

    rounds: dict[str, list[float]] = {name: [] for name in variants}
    names = list(variants)
    for i in range(ROUNDS):
        # Each round in another order: other load of the machine affects all of them equally.
        for name in names[i % 4 :] + names[: i % 4]:
            rounds[name].append(cpu_s(lambda name=name: drive(chain, {"callbacks": variants[name]}, calls)))

    def ratio(name: str, base: str) -> list[float]:
        pairs = zip(rounds[name], rounds[base], strict=True)
        return statistics.quantiles([ours / theirs for ours, theirs in pairs], n=4)

    print(f"\n{build.__name__}, {drive.__name__}: {ROUNDS} rounds of {calls} calls, CPU, median [quartiles]")
    for name, values in rounds.items():
        low, middle, high = ratio(name, "none")
        per_call_us = statistics.median(values) / calls * 1e6
        print(f"  {name:<11} {per_call_us:7.0f} us/call   x{middle:.2f} [{low:.2f}-{high:.2f}] of none")
    low, middle, high = ratio("ragstone", "no-op")
    budget = BUDGET_OF_MANY if build is hundred_documents else BUDGET
    print(f"  ragstone against no-op: x{middle:.2f} [{low:.2f}-{high:.2f}], budget x{budget}")
    assert handler.errors == 0
    assert middle <= budget


def test_a_hundred_thousand_documents_cost_what_a_thousand_cost():
    """The number of passages is cut before they are copied: in work, not in time, so this is a count of passages."""
    taken = []

    class Keep(Forget):
        def record(self, request: Request | TraceDraft) -> bool:
            taken.append(request)
            return True

    retriever = found(0)
    retriever.documents = [Document("word")] * 100_000
    start = time.process_time()
    retriever.invoke("question", {"callbacks": [RagstoneCallbackHandler(Keep())]})
    print(f"\n100,000 documents: {(time.process_time() - start) * 1e3:.1f} ms CPU")
    (request,) = taken
    retrievals = [request.steps[0]] if isinstance(request, Request) else request.retrievals
    assert len(retrievals[0].passages) == 1_000
