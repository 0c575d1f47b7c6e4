"""What the LangChain callback costs the application: process CPU, interleaved, as ratios; `nox -s bench` prints them."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough

from langchain_ragstone import RagstoneCallbackHandler
from ragstone.requests import TraceDraft

ROUNDS = 41
CALLS = 60
BUDGET = 1.2
"""Ours against a handler that does nothing, on steps that do nothing: the worst case, a real step dwarfs it."""

pytestmark = pytest.mark.bench


class NoOp(BaseCallbackHandler):
    """Takes every event, in line, and does nothing."""

    run_inline = True

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        """Without this LangChain raises and formats the messages."""


class Forget:
    """A recorder that keeps nothing."""

    def record(self, draft: TraceDraft) -> bool:
        """Take it."""
        return True


class FourDocuments(BaseRetriever):
    """Finds four documents of 200 words."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(page_content="word " * 200, id=str(i), metadata={"score": 0.5, "page": i}) for i in range(4)]


def no_op_chain() -> Runnable[Any, Any]:
    """Nine runs, eighteen events, no work."""
    chain: Runnable[Any, Any] = RunnableLambda(lambda value: value)
    for _ in range(7):
        chain |= RunnableLambda(lambda value: value)
    return chain


def rag_chain() -> Runnable[Any, Any]:
    """The chain of the README, with a fake model."""
    context = FourDocuments() | (lambda documents: "\n".join(document.page_content for document in documents))
    prompt = ChatPromptTemplate.from_template("{context}\n{question}")
    model = FakeListChatModel(responses=["answer"])
    return {"context": context, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()


def invoke(chain: Runnable[Any, Any], config: dict[str, Any]) -> None:
    """Call it many times."""
    for _ in range(CALLS):
        chain.invoke("question", config)


def ainvoke(chain: Runnable[Any, Any], config: dict[str, Any]) -> None:
    """Await it many times."""

    async def calls() -> None:
        for _ in range(CALLS):
            await chain.ainvoke("question", config)

    asyncio.run(calls())


def cpu_s(call: Callable[[], None]) -> float:
    """Seconds of CPU that all threads of this process spend in a call."""
    gc.collect()
    start = time.process_time()
    call()
    return time.process_time() - start


@pytest.mark.parametrize("drive", [invoke, ainvoke])
@pytest.mark.parametrize("build", [no_op_chain, rag_chain])
def test_callback_overhead(build, drive):
    """At most 1.2 times the CPU of a handler that does nothing."""
    chain = build()
    handler = RagstoneCallbackHandler(Forget())
    variants = {"none": [], "none again": [], "no-op": [NoOp()], "ragstone": [handler]}
    for callbacks in variants.values():
        drive(chain, {"callbacks": callbacks})

    rounds: dict[str, list[float]] = {name: [] for name in variants}
    names = list(variants)
    for i in range(ROUNDS):
        # Each round in another order: what the machine does meanwhile hits all of them alike.
        for name in names[i % 4 :] + names[: i % 4]:
            rounds[name].append(cpu_s(lambda name=name: drive(chain, {"callbacks": variants[name]})))

    def ratio(name: str, base: str) -> list[float]:
        pairs = zip(rounds[name], rounds[base], strict=True)
        return statistics.quantiles([ours / theirs for ours, theirs in pairs], n=4)

    print(f"\n{build.__name__}, {drive.__name__}: {ROUNDS} rounds of {CALLS} calls, CPU, median [quartiles]")
    for name, values in rounds.items():
        low, middle, high = ratio(name, "none")
        per_call_us = statistics.median(values) / CALLS * 1e6
        print(f"  {name:<11} {per_call_us:7.0f} us/call   x{middle:.2f} [{low:.2f}-{high:.2f}] of none")
    low, middle, high = ratio("ragstone", "no-op")
    print(f"  ragstone against no-op: x{middle:.2f} [{low:.2f}-{high:.2f}], budget x{BUDGET}")
    assert handler.errors == 0
    assert middle <= BUDGET
