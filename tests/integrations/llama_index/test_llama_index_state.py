"""The instrumentor as a citizen of another package's process: threads, memory, forks, failures, suppression."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import inspect
import logging
import os
import uuid
import weakref

import pytest
from llama_index.core.base.response.schema import Response
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index.observability.ragstone import RagstoneInstrumentor
from llama_index.observability.ragstone import _requests as requests
from ragstone.capture import suppress_capture
from ragstone.errors import ConfigurationError
from ragstone.testing import MemoryRecorder

Q = "who?"
FOUND = ["alpha", "beta"]
OK = (Q, FOUND, "answer", "ok")
THREADS, CALLS, TASKS = 8, int(os.environ.get("RAGSTONE_TEST_REQUESTS", "200")), 500


def question_in(prompt):
    """The question that LlamaIndex's default prompt puts to a model."""
    return prompt.partition("Query: ")[2].partition("\n")[0]


def test_many_requests_through_one_instrumentor(app):
    """8 threads and 500 tasks at once, whole and streamed: each record has its own contexts and answer; no state is left."""
    whole = app.engine(app.echo(), app.model(question_in))
    streamed = app.engine(app.echo(), app.model(question_in), streaming=True)

    def call(thread):
        for i in range(CALLS):
            if i % 2:
                whole.query(f"t{thread}-{i}")
            else:
                list(streamed.query(f"t{thread}-{i}").response_gen)

    async def task(i):
        if i % 2:
            await whole.aquery(f"a{i}")
        else:
            response = await streamed.aquery(f"a{i}")
            async for _ in response.async_response_gen():
                await asyncio.sleep(0)

    async def all_tasks():
        await asyncio.gather(*(task(i) for i in range(TASKS)))

    with concurrent.futures.ThreadPoolExecutor(THREADS + 1) as pool:
        loop = pool.submit(asyncio.run, all_tasks())
        list(pool.map(call, range(THREADS)))
        loop.result()

    questions = [f"t{thread}-{i}" for thread in range(THREADS) for i in range(CALLS)] + [f"a{i}" for i in range(TASKS)]
    assert sorted((q, [f"about {q}"], q, "ok") for q in questions) == sorted(app.seen())
    tree = app.instrumentor._live
    assert (0, 0, 0) == (len(tree._begun), len(tree), app.instrumentor.late_events)


def spans_of(dispatcher):
    """Say by hand that a span begins and ends, as LlamaIndex does."""
    bound = inspect.signature(lambda str_or_query_bundle=None, nodes=None: None)

    def enter(key, instance=None, parent=None, **arguments):
        dispatcher.span_enter(id_=key, bound_args=bound.bind(**arguments), instance=instance, parent_id=parent)

    def leave(key, instance=None, result=None):
        dispatcher.span_exit(id_=key, bound_args=bound.bind(), instance=instance, result=result)

    return enter, leave


def key_of(name):
    """An id as LlamaIndex makes them."""
    return f"{name}-{uuid.uuid4()}"


def test_nothing_of_the_application_is_kept_alive(app):
    """While a request is in flight the instrumentor holds texts: no engines, arguments, nodes, results or errors."""

    class Opaque:
        """Can say whether it is gone, as the classes below."""

    class OddError(Exception):
        pass

    class Node(TextNode):
        pass

    enter, leave = spans_of(get_dispatcher())
    root, search, synthesis, failing = (key_of(f"X.{name}") for name in ("query", "retrieve", "synthesize", "y"))
    engine = app.engine()

    def request():
        retriever, opaque, error = app.retriever(), Opaque(), OddError("no")
        nodes = [NodeWithScore(node=Node(text="alpha", metadata={"opaque": opaque, "n": 1}), score=1.0)]
        response = Response("answer", source_nodes=nodes)
        with instrument_tags({"opaque": opaque}):
            enter(root, engine, str_or_query_bundle=Q)
        enter(search, retriever, root, str_or_query_bundle=Q)
        leave(search, retriever, nodes)
        enter(synthesis, engine._response_synthesizer, root, nodes=nodes)
        leave(synthesis, engine._response_synthesizer, response)
        enter(failing, None, root)
        get_dispatcher().span_drop(id_=failing, bound_args=inspect.signature(list).bind(), instance=None, err=error)
        return [weakref.ref(it) for it in (retriever, opaque, error, nodes[0].node, response)]

    kept = request()
    gc.collect()
    assert 1 == app.instrumentor.in_flight
    assert [None] * 5 == [ref() for ref in kept]
    leave(root, engine, Response("answer"))
    assert [(Q, ["alpha"], "answer", "ok")] == app.seen()
    assert ["OddError: no"] == app.draft.inner_errors


def test_streams_are_not_kept_alive(app):
    """A response that the application drops is gone, though its request is still being counted."""
    response = app.engine(streaming=True).query(Q)
    gone = weakref.ref(response)
    tokens = response.response_gen
    del response
    gc.collect()
    assert (None, 1) == (gone(), app.instrumentor.in_flight)
    list(tokens)


@pytest.mark.parametrize("recorder", ["ragstone.db", None, RagstoneInstrumentor(MemoryRecorder())])
def test_what_cannot_record_is_refused(recorder):
    """At once and in words: later no one would see that nothing is recorded."""
    name = type(recorder).__name__
    with pytest.raises(ConfigurationError, match=rf"^needs a recorder, such as a ragstone\.Monitor, got {name}$"):
        RagstoneInstrumentor(recorder)


@pytest.mark.parametrize("name", ["question", "contexts", "answer"])
def test_extractor_that_is_not_a_function_is_refused(name):
    """At once, rather than by a warning at each request: the name of an argument is an obvious mistake."""
    with pytest.raises(ConfigurationError, match=rf"^{name} must be a function, .*, got str$"):
        RagstoneInstrumentor(MemoryRecorder(), **{name: "field"})


def test_a_bug_of_ours_does_not_reach_the_application(make_app, monkeypatch, caplog):
    """LlamaIndex would hide it without a word: it is counted each time and logged once; the answer is there."""
    app = make_app()
    engine = app.engine()

    def bug(*_):
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(requests, "capture_suppressed", bug)
    with caplog.at_level(logging.WARNING):
        assert ["answer", "answer"] == [engine.query(Q).response for _ in range(2)]
    (line,) = [record for record in caplog.records if record.name == "ragstone.llamaindex"]
    assert "a bug of ours" in str(line.exc_info[1])
    assert app.instrumentor.errors >= 2


def test_a_bug_in_the_tap_does_not_reach_the_application(make_app, monkeypatch, caplog):
    """The application's stream continues."""
    app = make_app()

    def bug(*_):
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(requests.RequestTracker, "settle", bug)
    monkeypatch.setattr(requests.RequestTracker, "first_token", bug)
    with caplog.at_level(logging.WARNING):
        assert ["ans", "wer"] == list(app.engine(streaming=True).query(Q).response_gen)
    assert app.instrumentor.errors >= 2
    assert {"saw", "ended"} <= set(app.instrumentor._guard.counts())


def test_a_failing_recorder_does_not_reach_the_application(make_app, caplog):
    """The answer is there, the error is counted each time and logged once."""

    class Broken:
        def record(self, draft):
            raise RuntimeError("disk on fire")

    app = make_app(recorder=Broken())
    with caplog.at_level(logging.WARNING):
        assert ["answer", "answer"] == [app.engine().query(Q).response for _ in range(2)]
    assert (2, 0) == (app.instrumentor.errors, app.instrumentor.in_flight)
    (line,) = [record for record in caplog.records if record.name == "ragstone.llamaindex"]
    assert "disk on fire" in str(line.exc_info[1])


def test_suppressed_requests_leave_no_trace(app):
    """Our own work is not captured, wherever its steps run, and what follows it is."""
    with suppress_capture():
        app.engine().query("ours")
        list(app.engine(streaming=True).query("ours").response_gen)
        asyncio.run(app.engine().aquery("ours"))
        app.index("alpha").as_chat_engine(llm=app.model()).chat("ours")
    assert (0, 0) == (len(app.drafts), app.instrumentor.late_events)
    app.engine().query(Q)
    assert [OK] == app.seen()


def test_a_stream_that_is_read_after_suppression_is_still_ours(app):
    """The late call of the model belongs to the request that was suppressed."""
    with suppress_capture():
        response = app.engine(streaming=True).query("ours")
    assert "answer" == str(response)
    assert 0 == len(app.drafts)


def test_suppressed_steps_of_a_request_contribute_nothing(app):
    """A judge asked in the middle of a user's request through a LlamaIndex model is neither its answer nor its cost."""
    judge = app.model("87 of 100", raw={"usage": {"prompt_tokens": 1000, "completion_tokens": 1000}, "model": "judge"})

    @get_dispatcher(__name__).span
    def answer(question):
        app.engine().query(question)
        with suppress_capture():
            app.retriever("ours").retrieve("a judge's question")
            judge.complete("a judge's prompt")
        return 42

    answer(Q)
    assert [OK] == app.seen()
    assert (None, None, "tiny-1") == (app.draft.input_tokens, app.draft.output_tokens, app.draft.model)


def test_suppression_reaches_steps_that_lost_their_context(app):
    """What runs below a suppressed step is ours too, even in a thread that does not know it."""
    enter, leave = spans_of(get_dispatcher())
    root, ours, inner = key_of("X.query"), key_of("f"), key_of("R.retrieve")
    engine, retriever = app.engine(), app.retriever("ours")
    enter(root, engine, str_or_query_bundle=Q)
    with suppress_capture():
        enter(ours, None, root)
    enter(inner, retriever, ours, str_or_query_bundle="ours")
    leave(inner, retriever, retriever._retrieve(None))
    leave(ours)
    leave(root, engine, Response("answer"))
    assert [(Q, None, "answer", "ok")] == app.seen()


def test_too_many_live_requests_push_out_the_oldest(make_app):
    """The cap bounds memory; nothing is lost silently."""
    app = make_app(options={"max_live": 2})
    streams = [app.engine(streaming=True).query(f"q{i}").response_gen for i in range(4)]
    assert [("q0", "abandoned"), ("q1", "abandoned")] == [(draft.query, draft.status) for draft in app.drafts]
    assert 2 == app.instrumentor.record_abandoned(older_than_s=0)
    assert ["abandoned"] * 4 == [draft.status for draft in app.drafts]
    assert [["ans", "wer"]] * 4 == [list(tokens) for tokens in streams]
    assert (4, 0) == (len(app.drafts), app.instrumentor.in_flight)


def test_late_spans_open_no_new_request(app):
    """A step that starts after its request has ended is counted, with everything below it."""
    enter, leave = spans_of(get_dispatcher())
    root, child, below = key_of("X.query"), key_of("R.retrieve"), key_of("R.retrieve")
    engine, retriever = app.engine(), app.retriever()
    enter(root, engine, str_or_query_bundle=Q)
    leave(root, engine, Response("answer"))
    enter(child, retriever, root, str_or_query_bundle=Q)
    enter(below, retriever, child, str_or_query_bundle=Q)
    leave(child, retriever, [])
    assert [(Q, None, "answer", "ok")] == app.seen()
    assert 3 == app.instrumentor.late_events


def test_memory_of_ended_spans_is_bounded(app):
    """Ids of ended spans are forgotten after a while, the youngest last."""
    from ragstone.requests._in_flight import _REMEMBERED

    tree, keys = app.instrumentor._live, [f"X.query-{i}" for i in range(3 * _REMEMBERED)]
    for key in keys:
        tree.close(tree.start(key, None, "query").live)
    closed = tree._closed
    assert len(closed) <= _REMEMBERED
    assert (False, True) == (hash(keys[0]) in closed, hash(keys[-1]) in closed)


def test_a_copied_context_keeps_the_search(app):
    """`asyncio.to_thread` copies the context: one request."""

    @get_dispatcher(__name__).span
    async def answer(question):
        await asyncio.to_thread(app.retriever().retrieve, "inside")
        return "answer"

    asyncio.run(answer(Q))
    assert [(Q, FOUND, "answer", "ok")] == app.seen()


def test_cancelled_request_is_an_error(app):
    """Row 21: what was found before the cancellation is kept."""

    async def cancel():
        waiting = asyncio.Event()

        @get_dispatcher(__name__).span
        async def answer(question):
            await app.retriever().aretrieve(question)
            waiting.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(answer(Q))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert [(Q, FOUND, None, "error")] == app.seen()
    assert "CancelledError" == app.draft.error


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_starts_afresh(app):
    """The child is not stopped by locks that its parent held, and does not record its parent's requests."""
    from llama_index.observability.ragstone import _instrumentor

    tokens = app.engine(streaming=True).query(Q).response_gen
    next(tokens)
    tree = app.instrumentor._live
    with tree._lock, _instrumentor._registering:
        child = os.fork()
        if child == 0:  # pragma: no cover - in another process
            code = 1
            try:
                left = len(tree)
                app.instrumentor.start_registering()
                tokens.close()
                app.engine(app.echo()).query("child")
                code = int([("child", ["about child"], "answer", "ok")] != app.seen() or left != 0)
            finally:
                os._exit(code)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    tokens.close()
    assert [(Q, FOUND, "ans", "truncated")] == app.seen()


def test_collector_may_call_back_while_the_lock_is_held(app):
    """An abandoned stream that is collected inside our own code ends there, instead of waiting for its own thread."""
    response = app.engine(streaming=True).query(Q)
    with app.instrumentor._live._lock:
        del response
        gc.collect()
    assert [(Q, FOUND, None, "abandoned")] == app.seen()


def test_registering_twice_is_registering_once(app):
    """Idempotent both ways; what was captured by others stays."""
    before = [id(handler) for handler in get_dispatcher().span_handlers]
    app.instrumentor.start_registering()
    assert before == [id(handler) for handler in get_dispatcher().span_handlers]
    app.engine().query(Q)
    app.instrumentor.stop_registering()
    app.instrumentor.stop_registering()
    app.engine().query("unseen")
    app.instrumentor.start_registering()
    app.engine().query("again")
    assert [OK, ("again", FOUND, "answer", "ok")] == app.seen()
    assert 0 == app.instrumentor.late_events


def test_inner_errors_are_bounded(app):
    """An agent that continues for hours may survive thousands; some of them tell the story."""
    enter, leave = spans_of(get_dispatcher())
    root, engine, bound = key_of("X.query"), app.engine(), inspect.signature(list).bind()
    enter(root, engine, str_or_query_bundle=Q)
    for number in (*range(50), 0, 1):
        failing = key_of("f")
        enter(failing, None, root)
        get_dispatcher().span_drop(id_=failing, bound_args=bound, err=ValueError(str(number)))
    leave(root, engine, Response("answer"))
    assert [f"ValueError: {number}" for number in range(20)] == app.draft.inner_errors


def test_handlers_that_hear_everything_twice(app):
    """Registered at two dispatchers on the way up: one record, and the echoes are counted."""
    for _ in range(2):
        get_dispatcher().add_span_handler(app.instrumentor._span_handler)
    app.engine().query(Q)
    assert [OK] == app.seen()
    assert app.instrumentor.late_events > 0


def test_embedding_alone_opens_nothing(app):
    """While an index is built, thousands of texts are embedded: none is followed as a request."""
    opened = []
    app.instrumentor._live._start_root = lambda *what: opened.append(what)
    app.index(*FOUND)
    assert [] == opened


def test_several_instrumentors_at_once(app, make_app):
    """Each records everything, streams too, and stopping one leaves the other."""
    other = make_app()
    app.engine().query(Q)
    assert "answer" == str(app.engine(streaming=True).query(Q))
    other.instrumentor.stop_registering()
    app.engine().query("third")
    assert ([OK, OK], [OK, OK, ("third", FOUND, "answer", "ok")]) == (other.seen(), app.seen())
    assert (0, 0) == (other.instrumentor.errors, other.instrumentor.in_flight)


def test_registering_from_many_threads(make_app):
    """Start and stop in any order from any thread leave one handler, or none."""
    app = make_app()
    ours = app.instrumentor._span_handler
    count = lambda: sum(handler is ours for handler in get_dispatcher().span_handlers)  # noqa: E731
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: app.instrumentor.start_registering(), range(64)))
        assert 1 == count()
        list(pool.map(lambda _: app.instrumentor.stop_registering(), range(64)))
    assert 0 == count()


def test_stopping_with_requests_in_flight(app):
    """What only a span could end is abandoned; a stream that the application holds is recorded when it is read."""
    enter, leave = spans_of(get_dispatcher())
    root, engine = key_of("X.query"), app.engine()
    tokens = app.engine(streaming=True).query(Q).response_gen
    enter(root, engine, str_or_query_bundle="in flight")
    app.instrumentor.stop_registering()
    assert [("in flight", None, None, "abandoned")] == app.seen()
    leave(root, engine, Response("answer"))
    list(tokens)
    assert [("in flight", None, None, "abandoned"), OK] == app.seen()


def test_shutting_the_dispatcher_down_ends_what_is_in_flight(app):
    """LlamaIndex's own shutdown is heard."""
    enter, _ = spans_of(get_dispatcher())
    enter(key_of("X.query"), app.engine(), str_or_query_bundle="in flight")
    get_dispatcher().shutdown()
    assert [("in flight", None, None, "abandoned")] == app.seen()


def test_a_new_instrumentor_is_quiet():
    """Nothing is captured before `start_registering`."""
    instrumentor = RagstoneInstrumentor(MemoryRecorder())
    assert not any(handler is instrumentor._span_handler for handler in get_dispatcher().span_handlers)
