"""What the LlamaIndex instrumentor costs the application: process CPU, interleaved, as ratios; `nox -s bench` prints them."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index.observability.ragstone import RagstoneInstrumentor
from ragstone.requests import TraceDraft

ROUNDS = 41
CALLS = 30
BUDGET = 1.3
"""Ours against handlers that do nothing, on mock work: the worst case, a real model dwarfs it."""

pytestmark = pytest.mark.bench


class NoOpSpans(BaseSpanHandler[BaseSpan]):
    """Takes every span, and does nothing."""

    def span_enter(self, *args: Any, **kwargs: Any) -> None:
        """Nothing."""

    def span_exit(self, *args: Any, **kwargs: Any) -> None:
        """Nothing."""

    def span_drop(self, *args: Any, **kwargs: Any) -> None:
        """Nothing."""

    def new_span(self, *args: Any, **kwargs: Any) -> None:
        """Nothing."""

    def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> None:
        """Nothing."""

    def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> None:
        """Nothing."""


class NoOpEvents(BaseEventHandler):
    """Takes every event, and does nothing."""

    def handle(self, event: Any, **kwargs: Any) -> None:
        """Nothing."""


class Forget:
    """A recorder that keeps nothing."""

    def record(self, draft: TraceDraft) -> bool:
        """Take it."""
        return True


class FourNodes(BaseRetriever):
    """Finds four nodes of 200 words."""

    def __init__(self) -> None:
        super().__init__()
        self._nodes = [
            NodeWithScore(node=TextNode(text="word " * 200, id_=str(i), metadata={"page": i}), score=0.5)
            for i in range(4)
        ]

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return self._nodes


def query(engine: RetrieverQueryEngine) -> None:
    """Ask many times."""
    for _ in range(CALLS):
        engine.query("question")


def aquery(engine: RetrieverQueryEngine) -> None:
    """Ask many times, on a loop."""

    async def calls() -> None:
        for _ in range(CALLS):
            await engine.aquery("question")

    asyncio.run(calls())


def stream(engine: RetrieverQueryEngine) -> None:
    """Ask many times, and read ten tokens each."""
    for _ in range(CALLS):
        list(engine.query("question").response_gen)


def cpu_s(call: Callable[[], None]) -> float:
    """Seconds of CPU that all threads of this process spend in a call."""
    gc.collect()
    start = time.process_time()
    call()
    return time.process_time() - start


@pytest.mark.parametrize("drive", [query, aquery, stream])
def test_instrumentor_overhead(drive):
    """At most 1.3 times the CPU of handlers that do nothing."""
    engine = RetrieverQueryEngine.from_args(
        FourNodes(), llm=MockLLM(max_tokens=10), response_mode="simple_summarize", streaming=drive is stream
    )
    instrumentor = RagstoneInstrumentor(Forget())
    ours = ([instrumentor._span_handler], [instrumentor._event_handler])
    variants = {"none": ([], []), "none again": ([], []), "no-op": ([NoOpSpans()], [NoOpEvents()]), "ragstone": ours}
    dispatcher = get_dispatcher()
    before = dispatcher.span_handlers, dispatcher.event_handlers

    def measure(name: str) -> float:
        dispatcher.span_handlers, dispatcher.event_handlers = map(list, variants[name])
        return cpu_s(lambda: drive(engine))

    try:
        for name in variants:
            measure(name)
        rounds: dict[str, list[float]] = {name: [] for name in variants}
        names = list(variants)
        for i in range(ROUNDS):
            # Each round in another order: what the machine does meanwhile hits all of them alike.
            for name in names[i % 4 :] + names[: i % 4]:
                rounds[name].append(measure(name))
    finally:
        dispatcher.span_handlers, dispatcher.event_handlers = before

    def ratio(name: str, base: str) -> list[float]:
        pairs = zip(rounds[name], rounds[base], strict=True)
        return statistics.quantiles([ours / theirs for ours, theirs in pairs], n=4)

    print(f"\n{drive.__name__}: {ROUNDS} rounds of {CALLS} calls, CPU, median [quartiles]")
    for name, values in rounds.items():
        low, middle, high = ratio(name, "none")
        per_call_us = statistics.median(values) / CALLS * 1e6
        print(f"  {name:<11} {per_call_us:7.0f} us/call   x{middle:.2f} [{low:.2f}-{high:.2f}] of none")
    low, middle, high = ratio("ragstone", "no-op")
    print(f"  ragstone against no-op: x{middle:.2f} [{low:.2f}-{high:.2f}], budget x{BUDGET}")
    assert (0, 0) == (instrumentor.errors, instrumentor.in_flight)
    assert middle <= BUDGET
