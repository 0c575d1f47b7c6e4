"""Beside others: OpenInference, Langfuse and LangSmith all at work in one process, registered before or after ours."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("langfuse", reason="installed with the group `llama-index`")
pytest.importorskip("openinference.instrumentation.llama_index", reason="installed with the group `llama-index`")

Q = "who?"
FOUND = ["alpha", "beta"]
OK = [Q, FOUND, "text text", "ok"]
SCOPE = "openinference.instrumentation.llama_index"

PROCESS = """
import asyncio, contextlib, sys
from neighbours import Neighbours, loopback_only, report
refused = loopback_only()
order, around, sampled = sys.argv[1], sys.argv[2] == "inside a span", sys.argv[3:] != ["unsampled"]

import langsmith
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llama_index.observability.ragstone import RagstoneInstrumentor
from ragstone.testing import MemoryRecorder

class Retriever(BaseRetriever):
    def _retrieve(self, query_bundle):
        return [NodeWithScore(node=TextNode(text="alpha")), NodeWithScore(node=TextNode(text="beta"))]

def engine(**options):
    return RetrieverQueryEngine.from_args(Retriever(), llm=MockLLM(max_tokens=2), **options)

class Rag(Workflow):
    @step
    async def go(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=await engine().aquery(ev.query))

whole, streaming = engine(), engine(streaming=True)
whole.query("before")  # as in an application that has run for a while
neighbours = Neighbours(sample=sampled)
recorder = MemoryRecorder()
ours = RagstoneInstrumentor(recorder)
if order == "ours first":
    ours.start_registering()
neighbours.instrument("llama_index")
ours.start_registering()

def request():
    return neighbours.tracer.start_as_current_span("request") if around else contextlib.nullcontext()

@langsmith.traceable
def traced(function, *arguments):
    return function(*arguments)

async def read():
    response = await streaming.aquery("who?")
    return [token async for token in response.async_response_gen()]

async def run():
    return [str(await Rag().run(query="who?"))]

WAYS = {
    "query": lambda: [traced(whole.query, "who?").response],
    "aquery": lambda: [str(asyncio.run(whole.aquery("who?")))],
    "stream": lambda: list(traced(streaming.query, "who?").response_gen),
    "astream": lambda: asyncio.run(read()),
    "workflow": lambda: asyncio.run(run()),
}
said = {}
for way, ask in WAYS.items():
    with request():
        said[way] = ask()
langsmith.run_trees.get_cached_client().flush()
neighbours.langfuse.flush()
report(recorder.drafts, said=said, spans=neighbours.spans(), refused=refused, errors=ours.errors, in_flight=ours.in_flight)
"""


@pytest.fixture
def beside(run_python, collector):
    """Ask in five ways beside all of them."""

    def run(*arguments):
        done = run_python(PROCESS, *arguments, **collector.settings())
        if "only instruments" in done.stderr:
            pytest.skip("OpenInference refuses this version of LlamaIndex")
        assert "" == done.stderr
        return json.loads(done.stdout)

    return run


@pytest.mark.parametrize("around", ["alone", "inside a span"])
@pytest.mark.parametrize("order", ["ours first", "theirs first"])
def test_all_at_once(beside, collector, order, around):
    """Ours is complete, the tokens are the application's, and the others have the request under the ids we have."""
    saw = beside(order, around)
    whole, tokens = ["text text"], ["text ", "text"]
    assert {"query": whole, "aquery": whole, "stream": tokens, "astream": tokens, "workflow": whole} == saw["said"]
    assert [(OK, [])] * 5 == [(draft["seen"], draft["errors"]) for draft in saw["drafts"]]
    assert (0, 0, []) == (saw["errors"], saw["in_flight"], saw["refused"])

    spans = {span["span_id"]: span for span in saw["spans"]}
    exported_by_langfuse = {span.span_id.hex() for span in collector.langfuse_spans()}
    for draft in saw["drafts"]:
        root = spans[draft["otel"][1]]
        assert (SCOPE, draft["name"]) == (root["scope"], root["name"])
        assert [root["trace_id"], root["span_id"], True] == draft["otel"]
        assert root["span_id"] in exported_by_langfuse
    assert 2 == len(collector.langsmith_runs())


@pytest.mark.parametrize("order", ["ours first", "theirs first"])
def test_what_is_not_exported_says_so(beside, order):
    """A span that sampling left out has ids, which lead nowhere: the trace says that, too."""
    saw = beside(order, "inside a span", "unsampled")
    assert ([(OK, False)] * 5, []) == ([(draft["seen"], draft["otel"][2]) for draft in saw["drafts"]], saw["spans"])
    assert all(draft["otel"][1] for draft in saw["drafts"])
