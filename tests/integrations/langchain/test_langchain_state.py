"""The handler as a citizen of another package's process: threads, memory, forks, failures, suppression."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import logging
import os
import uuid
import weakref

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableLambda
from langchain_scenarios import FOUND, Q
from opentelemetry.sdk.trace import TracerProvider, sampling

from langchain_ragstone._live import LiveRequests
from ragstone.capture import suppress_capture

THREADS, CALLS_EACH, TASKS = 8, int(os.environ.get("RAGSTONE_TEST_REQUESTS", "200")), 500


def test_many_requests_through_one_handler(app):
    """8 threads of 200 and 500 tasks at once: each record has its own contexts and answer, and nothing of it all is left."""
    made = weakref.WeakSet()

    class Found(Document):
        """A document that can say whether it is gone, as the classes below; an identity is its only equal."""

        __hash__ = object.__hash__
        __eq__ = object.__eq__

    class Asked(dict):
        __hash__ = object.__hash__

    class Answered(dict):
        __hash__ = object.__hash__

    def watched(thing):
        made.add(thing)
        return thing

    search = RunnableLambda(lambda asked: app.echo().invoke(asked["question"]))
    rerank = RunnableLambda(lambda found: [watched(Found(page_content=d.page_content + "!")) for d in found])
    write = RunnableLambda(lambda found: watched(Answered(answer=found[0].page_content.removeprefix("about "))))
    chain = search | rerank | write

    def call(number: int) -> None:
        asked = watched(Asked(question=f"q{number}"))
        if number % 2:
            chain.invoke(asked, app.config)
        else:
            list(chain.stream(asked, app.config))

    async def task(number: int) -> None:
        asked = watched(Asked(question=f"q{number}"))
        if number % 2:
            await chain.ainvoke(asked, app.config)
        else:
            [part async for part in chain.astream(asked, app.config)]

    async def all_tasks(numbers: range) -> None:
        await asyncio.gather(*(task(number) for number in numbers))

    in_threads = THREADS * CALLS_EACH
    with concurrent.futures.ThreadPoolExecutor(THREADS + 1) as pool:
        loop = pool.submit(asyncio.run, all_tasks(range(in_threads, in_threads + TASKS)))
        calls = [
            pool.submit(lambda first=first: [call(number) for number in range(first, in_threads, THREADS)])
            for first in range(THREADS)
        ]
        for work in (loop, *calls):
            work.result()
    del loop, calls, work

    expected = sorted((f"q{i}", [f"about q{i}!"], f"q{i}!", "ok") for i in range(in_threads + TASKS))
    assert expected == sorted(app.seen())
    tree = app.handler._live
    assert (0, 0, 0) == (len(tree._begun), len(tree), app.handler.late_events)
    gc.collect()
    assert [] == list(made)


def test_nothing_of_the_application_is_kept_alive(app):
    """While a request is in flight the handler holds texts: no inputs, documents, messages, metadata or errors."""

    class Inputs(dict):
        """Inputs that can say whether they are gone, as the classes below."""

    class Opaque:
        pass

    class Found(Document):
        pass

    class Reply(AIMessage):
        pass

    class OddError(Exception):
        pass

    root, search, step, call, failing = (uuid.uuid4() for _ in range(5))

    def request() -> list[weakref.ref]:
        handler = app.handler
        inputs, opaque = Inputs(question=Q), Opaque()
        documents = [Found(page_content="alpha", metadata={"score": 1.0, "opaque": opaque})]
        reply, error = Reply("answer"), OddError("no")
        handler.on_chain_start(None, inputs, run_id=root, metadata={"opaque": opaque}, tags=["t"])
        handler.on_retriever_start(None, Q, run_id=search, parent_run_id=root)
        handler.on_retriever_end(documents, run_id=search)
        handler.on_chain_start(None, {"context": documents}, run_id=step, parent_run_id=root)
        handler.on_chain_end(documents[:1], run_id=step)
        handler.on_chat_model_start({}, [[HumanMessage(f"alpha {Q}")]], run_id=call, parent_run_id=root)
        handler.on_llm_end(LLMResult(generations=[[ChatGeneration(message=reply)]]), run_id=call)
        handler.on_tool_start({"name": "search"}, "", inputs=inputs, run_id=failing, parent_run_id=root)
        handler.on_tool_error(error, run_id=failing)
        return [weakref.ref(it) for it in (inputs, opaque, documents[0], reply, error)]

    kept = request()
    gc.collect()
    assert 1 == app.handler.in_flight
    assert [None] * 5 == [ref() for ref in kept]
    app.handler.on_chain_end({"unknown": "shape"}, run_id=root)
    assert [(Q, ["alpha"], "answer", "ok")] == app.seen()


def test_a_failing_recorder_does_not_reach_the_application(make_app, caplog):
    """The answer is there, the error is counted each time and logged once."""

    class Broken:
        def record(self, draft):
            raise RuntimeError("disk on fire")

    app = make_app(recorder=Broken())
    with caplog.at_level(logging.WARNING):
        assert ["answer", "answer"] == [app.rag().invoke(Q, app.config) for _ in range(2)]
    assert (2, 0) == (app.handler.errors, app.handler.in_flight)
    (line,) = [record for record in caplog.records if record.name == "ragstone.langchain"]
    assert "disk on fire" in str(line.exc_info[1])


@pytest.mark.parametrize("broken", ["start", "end", "find", "give_up"])
def test_a_bug_of_ours_does_not_reach_the_application(make_app, caplog, monkeypatch, broken):
    """However deep inside it is: the answers are there, each error is counted, and each place logs once."""
    app = make_app()

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(LiveRequests, broken, fail)
    with caplog.at_level(logging.WARNING):
        assert "answer" == app.rag().invoke(Q, app.config)
        assert "answer" == "".join(app.rag().stream(Q, app.config))
        once = (app.handler.errors, len(caplog.records))
        assert "answer" == "".join(app.rag().stream(Q, app.config))
    assert 0 < once[1] < once[0] < app.handler.errors
    assert once[1] == len(caplog.records)
    assert {"ragstone.langchain"} == {record.name for record in caplog.records}
    assert all("The application continues (logged once)" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("wrong", [None, 7, object(), {"question": 3}, {"messages": [None]}, [1, 2], b"bytes"])
def test_odd_inputs_are_no_errors(app, wrong):
    """Whatever an application passes around, its record comes out, if need be without a question."""
    assert wrong is RunnableLambda(lambda value: value).invoke(wrong, app.config)
    assert [(None, None, None, "ok")] == app.seen()


def test_hostile_objects_are_contained(make_app):
    """Objects that raise when they are read cost their part of the record, not the request."""

    class Hostile(dict):
        def items(self):
            raise RuntimeError("do not touch")

    class HostileError(Exception):
        def __str__(self):
            raise RuntimeError("do not print")

    def fail(_: object) -> None:
        raise HostileError

    app = make_app()
    RunnableLambda(lambda _: "answer").invoke(Hostile(question=Q), app.config)
    with pytest.raises(HostileError):
        RunnableLambda(fail).invoke(Q, app.config)
    assert [(None, None, "answer", "ok"), (Q, None, None, "error")] == app.seen()
    assert ("HostileError", 0) == (app.drafts[1].error, app.handler.in_flight)


def test_suppressed_requests_leave_no_trace(app):
    """Our own work is not captured, wherever its steps run, and what follows it is."""
    with suppress_capture():
        app.rag().invoke("ours", app.config)
        list(app.rag().stream("ours", app.config))
    assert (0, 0) == (len(app.drafts), app.handler.late_events)
    app.rag().invoke(Q, app.config)
    assert [(Q, FOUND, "answer", "ok")] == app.seen()


def test_suppressed_steps_of_a_request_contribute_nothing(app):
    """A judge asked in the middle of a user's request is neither its answer nor its retrieval."""

    def judge(text: str) -> dict[str, str]:
        with suppress_capture():
            app.retriever("ours").invoke("a judge's question")
            app.model("87 of 100").invoke("a judge's prompt")
        return {"unknown": text}

    (app.rag() | judge).invoke(Q, app.config)
    assert [(Q, FOUND, "answer", "ok")] == app.seen()


def test_suppression_reaches_steps_that_lost_their_context(app):
    """What runs below a suppressed step is ours too, even in a thread that does not know it."""
    handler = app.handler
    root, ours, inner = (uuid.uuid4() for _ in range(3))
    handler.on_chain_start(None, Q, run_id=root)
    with suppress_capture():
        handler.on_tool_start({"name": "judge"}, "x", run_id=ours, parent_run_id=root)
    handler.on_retriever_start(None, "ours", run_id=inner, parent_run_id=ours)
    handler.on_retriever_end([Document(page_content="ours")], run_id=inner)
    handler.on_tool_end("87", run_id=ours)
    handler.on_chain_end("answer", run_id=root)
    assert [(Q, None, "answer", "ok")] == app.seen()


def test_too_many_live_requests_push_out_the_oldest(make_app):
    """The cap bounds memory; nothing is lost silently."""
    app = make_app(options={"max_live": 2})
    streams = [app.rag(app.echo()).stream(f"q{i}", app.config) for i in range(4)]
    for stream in streams:
        next(stream)
    assert [("q0", "abandoned"), ("q1", "abandoned")] == [(draft.query, draft.status) for draft in app.drafts]
    assert 2 == app.handler.record_abandoned(older_than_s=0)
    assert ["abandoned"] * 4 == [draft.status for draft in app.drafts]
    for stream in streams:
        stream.close()
    assert (4, 0) == (len(app.drafts), app.handler.in_flight)


def test_late_children_open_no_new_request(app):
    """A step that starts after its request has ended is counted, with everything below it."""
    handler, root, child = app.handler, uuid.uuid4(), uuid.uuid4()
    handler.on_chain_start(None, Q, run_id=root)
    handler.on_chain_end("answer", run_id=root)
    handler.on_retriever_start(None, Q, run_id=child, parent_run_id=root)
    handler.on_chain_start(None, Q, run_id=uuid.uuid4(), parent_run_id=child)
    handler.on_retriever_end([], run_id=child)
    assert [(Q, None, "answer", "ok")] == app.seen()
    assert 3 == handler.late_events


def test_a_step_that_ends_twice_counts_once(app):
    """The second end of a step is counted as late, while its request is in flight too."""
    handler, root, search = app.handler, uuid.uuid4(), uuid.uuid4()
    handler.on_chain_start(None, Q, run_id=root)
    handler.on_retriever_start(None, Q, run_id=search, parent_run_id=root)
    handler.on_retriever_end([Document(page_content="found")], run_id=search)
    handler.on_retriever_end([Document(page_content="found again")], run_id=search)
    handler.on_chain_end("answer", run_id=root)
    assert [(Q, ["found"], "answer", "ok")] == app.seen()
    assert 1 == handler.late_events


def test_memory_of_ended_runs_is_bounded(app, monkeypatch):
    """Ids of ended runs are forgotten after a while, the youngest last."""
    remembered = 1_000
    monkeypatch.setattr("ragstone.requests._in_flight._REMEMBERED", remembered)
    ids = [uuid.UUID(int=i) for i in range(3 * remembered)]
    for run_id in ids:
        app.handler.on_chain_start(None, Q, run_id=run_id)
        app.handler.on_chain_end("answer", run_id=run_id)
    closed = app.handler._live._closed
    assert len(closed) <= remembered
    assert (False, True) == (ids[0].int in closed, ids[-1].int in closed)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_starts_afresh(app):
    """The child is not stopped by a lock that its parent held, and does not record its parent's requests."""
    stream = app.rag().stream(Q, app.config)
    next(stream)
    tree = app.handler._live
    root = uuid.UUID(int=next(iter(tree._live)))
    with tree._lock:
        child = os.fork()
        if child == 0:  # pragma: no cover - in another process
            code = 1
            try:
                app.handler.on_chain_start(None, "a step", run_id=uuid.uuid4(), parent_run_id=root)
                left = len(tree)
                app.rag(app.echo()).invoke("child", app.config)
                code = int([("child", ["about child"], "answer", "ok")] != app.seen() or left != 0)
            finally:
                os._exit(code)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    stream.close()
    assert [(Q, FOUND, None, "truncated")] == app.seen()


def test_collector_may_call_back_while_the_lock_is_held(app):
    """An abandoned stream that is collected inside our own code ends there, instead of waiting for its own thread."""
    stream = app.rag().stream(Q, app.config)
    next(stream)
    with app.handler._live._lock:
        del stream
        gc.collect()
    assert [(Q, FOUND, None, "truncated")] == app.seen()


@pytest.mark.parametrize(("sampler", "sampled"), [(sampling.ALWAYS_ON, True), (sampling.ALWAYS_OFF, False)])
def test_the_current_span_is_linked(app, sampler, sampled):
    """An application that traces with OpenTelemetry gets its scores on its own spans, if these are kept."""
    with TracerProvider(sampler=sampler).get_tracer("test").start_as_current_span("request") as span:
        app.rag().invoke(Q, app.config)
    app.rag().invoke(Q, app.config)
    context = span.get_span_context()
    linked = [(draft.otel_trace_id, draft.otel_span_id, draft.otel_sampled) for draft in app.drafts]
    assert [(f"{context.trace_id:032x}", f"{context.span_id:016x}", sampled), (None, None, None)] == linked


def test_errors_that_a_request_survives_are_bounded(app):
    """An agent that continues for hours may survive thousands; the first twenty tell."""

    def fail(place: int) -> None:
        raise ValueError(place)

    def go_on(_: str) -> str:
        for place in range(30):
            with contextlib.suppress(ValueError):
                RunnableLambda(fail).invoke(place)
        return "answer"

    RunnableLambda(go_on).invoke(Q, app.config)
    assert [f"ValueError: {place}" for place in range(20)] == app.draft.inner_errors
