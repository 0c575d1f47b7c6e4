"""Beside others: OpenInference, LangSmith and Langfuse all at work in one process, each registered before or after ours."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("langfuse", reason="installed with the group `langchain`")
pytest.importorskip("openinference.instrumentation.langchain", reason="installed with the group `langchain`")

Q = "who?"
FOUND = ["alpha", "beta"]
OK = [Q, FOUND, "answer", "ok"]
SCOPE = "openinference.instrumentation.langchain"

PROCESS = """
import asyncio, contextlib, sys
from neighbours import Neighbours, loopback_only, report
refused = loopback_only()
order, around, sampled = sys.argv[1], sys.argv[2] == "inside a span", sys.argv[3:] != ["unsampled"]
openinference = sys.argv[3:] != ["langfuse alone"]

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tracers.langchain import wait_for_all_tracers
from langchain_ragstone import RagstoneCallbackHandler
from ragstone.testing import MemoryRecorder

class Retriever(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content="alpha"), Document(page_content="beta")]

def chain():
    join = lambda documents: " ".join(document.page_content for document in documents)
    prompt = ChatPromptTemplate.from_template("{context} {question}")
    model = FakeListChatModel(responses=["answer"])
    return {"context": Retriever() | join, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()

neighbours = Neighbours(sample=sampled)
from langfuse.langchain import CallbackHandler
recorder = MemoryRecorder()
ours = RagstoneCallbackHandler(recorder)
theirs = CallbackHandler()
if openinference and order == "theirs first":
    neighbours.instrument("langchain")
callbacks = [ours, theirs] if order == "ours first" else [theirs, ours]
config = {"callbacks": callbacks, "metadata": {"session_id": "s"}}
rag = chain()
rag.invoke("before", {"callbacks": []})  # as in an application that has run for a while
if openinference and order == "ours first":
    neighbours.instrument("langchain")

def request():
    return neighbours.tracer.start_as_current_span("request") if around else contextlib.nullcontext()

async def read():
    return [token async for token in rag.astream("who?", config)]

WAYS = {
    "invoke": lambda: [rag.invoke("who?", config)],
    "ainvoke": lambda: [asyncio.run(rag.ainvoke("who?", config))],
    "stream": lambda: list(rag.stream("who?", config)),
    "astream": lambda: asyncio.run(read()),
    "retriever": lambda: [document.page_content for document in Retriever().invoke("who?", config)],
}
said = {}
for way, ask in WAYS.items():
    with request():
        said[way] = ask()
wait_for_all_tracers()
neighbours.langfuse.flush()
report(recorder.drafts, said=said, spans=neighbours.spans(), refused=refused, errors=ours.errors, in_flight=ours.in_flight)
"""
SAID = {
    "invoke": ["answer"], "ainvoke": ["answer"], "stream": [*"answer"], "astream": [*"answer"], "retriever": FOUND,
}  # fmt: skip


@pytest.fixture
def beside(run_python, collector):
    """Ask in five ways beside all of them."""

    def run(*arguments):
        done = run_python(PROCESS, *arguments, **collector.settings())
        # The others warn of LangChain's deprecations and of models without a name.
        assert [] == [line for line in done.stderr.splitlines() if "ragstone" in line or "Traceback" in line]
        return json.loads(done.stdout)

    return run


@pytest.mark.parametrize("around", ["alone", "inside a span"])
@pytest.mark.parametrize("order", ["ours first", "theirs first"])
def test_all_at_once(beside, collector, order, around):
    """Ours is complete, the tokens are the application's, and each of them has the request under the ids we have."""
    saw = beside(order, around)
    assert (SAID, 0, 0, []) == (saw["said"], saw["errors"], saw["in_flight"], saw["refused"])
    assert [*[OK] * 4, [Q, FOUND, None, "ok"]] == [draft["seen"] for draft in saw["drafts"]]
    assert [("s", [])] * 5 == [(draft["session_id"], draft["errors"]) for draft in saw["drafts"]]

    runs = collector.langsmith_runs()
    spans = {span["span_id"]: span for span in saw["spans"]}
    traces_of_langfuse = {span.trace_id.hex() for span in collector.langfuse_spans()}
    for draft in saw["drafts"]:
        run = runs[draft["run_id"]]
        assert (draft["run_id"], draft["name"], None) == (run["trace_id"], run["name"], run.get("parent_run_id"))
        root = spans[draft["otel"][1]]
        assert (SCOPE, draft["name"]) == (root["scope"], root["name"])
        assert [root["trace_id"], root["span_id"], True] == draft["otel"]
        assert root["trace_id"] in traces_of_langfuse


@pytest.mark.parametrize("order", ["ours first", "theirs first"])
def test_what_is_not_exported_says_so(beside, order):
    """A span that sampling left out has ids, which lead nowhere: the trace says that, too."""
    saw = beside(order, "inside a span", "unsampled")
    assert ([False] * 5, [], 0) == ([draft["otel"][2] for draft in saw["drafts"]], saw["spans"], saw["errors"])
    assert all(draft["otel"][1] for draft in saw["drafts"])


@pytest.mark.parametrize("order", ["ours first", "theirs first"])
def test_langfuse_alone(beside, collector, order):
    """Without OpenInference the span is Langfuse's, whose handler may come before ours or after it.

    In asynchronous calls LangChain runs its handler elsewhere, and no one can see its span: there only a span around
    the request is linked, which is in the same trace.
    """
    alone = beside(order, "alone", "langfuse alone")
    spans = {span["span_id"]: span for span in alone["spans"]}
    linked = {way: draft for way, draft in zip(SAID, alone["drafts"], strict=True) if draft["otel"][1]}
    assert ["invoke", "stream", "retriever"] == list(linked)
    assert {"langfuse-sdk"} == {spans[draft["otel"][1]]["scope"] for draft in linked.values()}
    assert [draft["name"] for draft in linked.values()] == [spans[d["otel"][1]]["name"] for d in linked.values()]

    inside = beside(order, "inside a span", "langfuse alone")
    spans = {span["span_id"]: span for span in inside["spans"]}
    traces_of_langfuse = {span.trace_id.hex() for span in collector.langfuse_spans()}
    assert {draft["otel"][0] for draft in inside["drafts"]} <= traces_of_langfuse
    assert [draft["otel"][0] for draft in inside["drafts"]] == [
        spans[draft["otel"][1]]["trace_id"] for draft in inside["drafts"]
    ]
