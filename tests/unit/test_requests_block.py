"""Blocks: requests that the application marks itself, and the steps of frameworks that join them."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import itertools
import logging
import threading
import tracemalloc
from types import SimpleNamespace

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragstone import Monitor
from ragstone._util.exit import run_exit_hooks
from ragstone.capture import Guard, suppress_capture
from ragstone.errors import ConfigurationError
from ragstone.reading import BufferedTrace
from ragstone.reading.otlp import spans_of_request, traces_of
from ragstone.requests import Message, PassageDraft, Request, RequestBlocks, Step, TraceDraft, assemble, current_request
from ragstone.requests._live import LiveRequest
from ragstone.requests._step import Statements
from ragstone.testing import MemoryRecorder


def live(**draft):
    """Return a request in flight."""
    return LiveRequest(TraceDraft(**draft), Step(id="root", kind="chain"))


def test_there_is_no_request_outside_a_block():
    """`current_request` returns None outside of all blocks."""
    assert current_request() is None


def test_a_frameworks_request_joins_the_block():
    """Its outermost steps hang on the block's step; inner steps keep their parents."""
    request = live()
    steps = [Step(id=1, parent="unknown"), Step(id=2, parent=1)]
    assert request.join(Request(draft=TraceDraft(), steps=steps), parent=request.root)
    assert ["root", 1] == [step.parent for step in steps]
    ended = request.end("ok")
    assert [request.root, *steps] == list(ended.steps)


def test_the_retriever_tools_of_a_joined_request_are_the_blocks():
    """A tool that a handler declares is declared for the block."""
    request = live()
    assert request.join(
        Request(draft=TraceDraft(), steps=[Step(id=1)], retriever_tools={"search": None}), parent=request.root
    )
    assert {"search": None} == request.end("ok").retriever_tools


def test_a_joined_request_gives_what_the_block_lacks():
    """What the block states wins; identity, tags and statements of the framework fill the gaps."""
    request = live(session_id="ours", tags=["a"], metadata={"k": 1})
    inner = TraceDraft(session_id="theirs", user_id="u", reference=["yes"], tags=["a", "b"], metadata={"k": 2, "m": 3})
    inner.error, inner.inner_errors = "ValueError: broken", ["KeyError: 'x'"]
    joined = Request(draft=inner, statements=Statements(contexts=[], response="stated"))
    assert request.join(joined, parent=request.root)
    draft = request.end("ok").draft
    assert ("ours", "u", ["yes"]) == (draft.session_id, draft.user_id, draft.reference)
    assert (["a", "b"], {"k": 1, "m": 3}) == (draft.tags, draft.metadata)
    assert (None, ["KeyError: 'x'", "ValueError: broken"]) == (draft.error, draft.inner_errors)
    assert ([], "stated") == (request.statements.contexts, request.statements.response)


def test_steps_after_the_end_are_left_out():
    """A request ends once, and steps that come later are left out."""
    request = live()
    ended = request.end("ok")
    assert request.end("error") is None
    assert not request.join(Request(draft=TraceDraft(), steps=[Step(id=1)]), parent=request.root)
    request.add(Step(id=2))
    assert [request.root] == list(ended.steps)
    assert "ok" == request.draft.status


# -- with monitor.request(...) as r

Q = "Why is the sky blue?"
ALPHA, BETA = "Blue light is scattered more than red light.", "The sea is blue because of the sky."
HITS = [{"id": 1, "text": ALPHA, "score": 0.9}, {"id": 2, "text": BETA, "score": 0.5}]
A = "Because blue light is scattered more."
REPLY = SimpleNamespace(
    model="tiny-1",
    choices=[SimpleNamespace(index=0, message=SimpleNamespace(content=A, tool_calls=None))],
    usage=SimpleNamespace(prompt_tokens=7, completion_tokens=2),
)


@pytest.fixture
def recorder():
    """Return a recorder in memory; the test fails if a block had an error of its own."""
    recorder = MemoryRecorder()
    yield recorder
    assert [] == [place for place in recorder.errors if place.startswith("request.")]


def only(recorder):
    """Return the one recorded draft."""
    (draft,) = recorder.drafts
    return draft


def outcome(recorder):
    """Return the status, the response and the error of the one recorded draft."""
    draft = only(recorder)
    return draft.status, draft.response, draft.error


def messages(*texts):
    """Return a prompt with the texts in it."""
    return [{"role": "system", "content": "Answer."}, {"role": "user", "content": "\n\n".join([*texts, Q])}]


def test_a_block_is_a_request(recorder):
    """Question, search, prompt, reply, tokens and identity are those that the application named."""
    with recorder.request(
        Q, session_id="s", user_id="u", name="ask", tags=["t"], metadata={"k": 1}, reference="Scattering."
    ) as r:
        assert r.found(HITS, query="sky", name="docs") is HITS
        prompt = messages(ALPHA)
        assert r.prompt(prompt) is prompt
        assert r.answer(REPLY) is REPLY
        assert r.trace_id is not None
    draft = only(recorder)
    assert (r.trace_id, "request", Q, A, "ok") == (
        draft.trace_id, draft.source, draft.query, draft.response, draft.status
    )  # fmt: skip
    assert ("s", "u", "ask", ["t"], {"k": 1}, ["Scattering."]) == (
        draft.session_id, draft.user_id, draft.name, draft.tags, draft.metadata, draft.reference
    )  # fmt: skip
    (retrieval,) = draft.retrievals
    assert ("sky", "docs", [ALPHA, BETA]) == (
        retrieval.query, retrieval.name, [passage.text for passage in retrieval.passages]
    )  # fmt: skip
    assert ["1"] == [passage.id for passage in draft.contexts]
    assert ("stated", "in_prompt", "stated", ()) == (
        draft.evidence.query, draft.evidence.contexts, draft.evidence.response, draft.evidence.doubts
    )  # fmt: skip
    assert ("tiny-1", 7, 2) == (draft.model, draft.input_tokens, draft.output_tokens)
    assert draft.ended_at >= draft.started_at
    assert {} == recorder.errors


def test_used_states_the_contexts(recorder):
    """Several calls add up, hits are read in the same way as by `found`."""
    rows = [(1, ALPHA), (2, BETA)]
    with recorder.request(Q) as r:
        r.found(rows, columns=("id", "content"))
        assert r.used(rows[1:]) == rows[1:]
        r.used([ALPHA])
        r.answer(A)
    assert [PassageDraft(text=BETA, id="2"), PassageDraft(text=ALPHA)] == list(only(recorder).contexts)


def test_nothing_was_used(recorder):
    """An empty list says that the prompt held no passage."""
    with recorder.request(Q) as r:
        r.found(HITS)
        r.used([])
        r.answer(A)
    assert [] == list(only(recorder).contexts)


def test_an_exception_passes_through(recorder):
    """The request has failed, with the exception's type and message."""
    with pytest.raises(ValueError, match="broken"), recorder.request(Q) as r:
        r.answer(A)
        raise ValueError("broken")
    assert ("error", A, "ValueError: broken") == outcome(recorder)


def test_async_with(recorder):
    """A block in a coroutine; its tasks and threads see it."""

    def search():
        return current_request().found(HITS)

    async def ask():
        async with recorder.request(Q) as r:
            await asyncio.gather(asyncio.to_thread(search), asyncio.create_task(asyncio.to_thread(search)))
            assert current_request() is r
            return r.answer(A)

    assert A == asyncio.run(ask())
    assert 2 == len(only(recorder).retrievals)


def test_concurrent_blocks_do_not_mix(recorder):
    """Each task has its own request."""

    async def ask(question):
        async with recorder.request(question) as r:
            await asyncio.sleep(0)
            current_request().found([question])
            await asyncio.sleep(0)
            r.answer(question)

    async def main():
        await asyncio.gather(*(ask(str(n)) for n in range(20)))

    asyncio.run(main())
    seen = {(d.query, d.response, d.retrievals[0].passages[0].text) for d in recorder.drafts}
    assert {(str(n),) * 3 for n in range(20)} == seen


def test_a_nested_block_is_a_step(recorder):
    """One request: the inner question is a step, its search counts, its answer is not the request's."""
    with recorder.request(Q) as outer:
        with recorder.request("inner?") as inner:
            assert current_request() is inner
            inner.found(HITS)
            inner.answer("inner.")
        assert current_request() is outer
        outer.answer(A)
    assert current_request() is None
    draft = only(recorder)
    assert (Q, A, 1) == (draft.query, draft.response, len(draft.retrievals))


def test_a_block_of_another_recorder_is_a_request_of_its_own(recorder):
    """Two monitors capture two requests."""
    other = MemoryRecorder()
    with recorder.request(Q) as outer, other.request("inner?") as inner:
        assert current_request() is inner
        assert current_request(recorder) is outer
        inner.answer("inner.")
        outer.answer(A)
    assert (A, "inner.") == (only(recorder).response, only(other).response)


def test_a_framework_joins_the_block(recorder):
    """Steps of a framework become steps of the request, and late ones are counted."""
    with recorder.request(Q) as r:
        step = Step(id=1, kind="retrieval", passages=[PassageDraft(text=ALPHA)])
        assert r.join(Request(draft=TraceDraft(), steps=[step], statements=Statements(response=A)))
    draft = only(recorder)
    assert (A, 1) == (draft.response, len(draft.retrievals))
    assert not r.join(Request(draft=TraceDraft(), steps=[Step(id=2)]))
    assert {} == recorder.errors


def test_suppressed_blocks_record_nothing(recorder):
    """Inside `suppress_capture` a block passes everything through."""
    with suppress_capture(), recorder.request(Q) as r:
        assert r.found(HITS) is HITS
        assert A == r.answer(A)
        assert r.trace_id is None
    assert ([], {}) == (recorder.drafts, recorder.errors)


def test_a_monitor_stores_the_request(tmp_path):
    """The way through a real store, and the counts of wrong uses."""
    with Monitor(judge="lexical", metrics=["ccrs"], store=tmp_path / "s.db") as monitor:
        with monitor.request(Q) as r:
            r.found(HITS)
            r.answer(A)
        assert monitor.drain(30)
        assert 1 == monitor.ledger().total.scored
        assert {} == monitor.errors
        monitor.request(Q).found(HITS)
        assert {"found.early": 1} == monitor.errors


def test_the_span_of_the_request_is_noted(recorder):
    """A block inside an OpenTelemetry span is linked to it; without one there is nothing to link."""
    provider = TracerProvider()
    with provider.get_tracer("test").start_as_current_span("ask") as span, recorder.request(Q) as r:
        r.answer(A)
    context, draft = span.get_span_context(), only(recorder)
    assert (f"{context.trace_id:032x}", f"{context.span_id:016x}", True) == (
        draft.otel_trace_id, draft.otel_span_id, draft.otel_sampled
    )  # fmt: skip
    provider.shutdown()


def test_requests_in_flight_are_abandoned_at_exit(recorder):
    """A stream that is held and never read is recorded when the interpreter ends."""
    stream = ask_streamed(recorder, chunks())
    run_exit_hooks()
    run_exit_hooks()
    assert ("abandoned", None, None) == outcome(recorder)
    assert 3 == len(list(stream))


def test_a_forked_child_leaves_requests_to_its_parent(recorder, monkeypatch):
    """What the parent has begun the child does not record."""
    stream = ask_streamed(recorder, chunks())
    with monkeypatch.context() as patched:
        patched.setattr("os.getpid", lambda: -1)
        run_exit_hooks()
    assert [] == recorder.drafts
    list(stream)
    assert ("ok", A, None) == outcome(recorder)


def test_the_current_request_is_never_missing(recorder, caplog):
    """Code that may run outside of a request, or while capture is suppressed, does not have to check."""

    @recorder.observe
    def ask(question):
        assert recorder.current_request().found(HITS) is HITS
        return A

    with suppress_capture():
        assert A == ask(Q)
    assert ([], {}) == (recorder.drafts, recorder.errors)
    assert recorder.current_request().found(HITS) is HITS
    assert {"found.early": 1} == noted(recorder, caplog)
    ask(Q)
    assert 1 == len(only(recorder).retrievals)


# -- streams


def chunks():
    """Stream the answer as a client does."""
    for word in ("Because ", "blue light", " is scattered more."):
        delta = SimpleNamespace(content=word)
        yield SimpleNamespace(model="tiny-1", choices=[SimpleNamespace(index=0, delta=delta)])


async def achunks():
    """Stream the answer asynchronously."""
    for chunk in chunks():
        yield chunk


def ask_streamed(recorder, stream):
    """Return a stream out of a block."""
    with recorder.request(Q) as r:
        r.found(HITS)
        return r.answer(stream)


def test_a_stream_ends_the_request(recorder):
    """The block has been left before the stream is read."""
    stream = ask_streamed(recorder, chunks())
    assert [] == recorder.drafts
    assert 3 == len(list(stream))
    draft = only(recorder)
    assert ("ok", A, "tiny-1") == (draft.status, draft.response, draft.model)
    assert 0 <= draft.first_token_s <= draft.ended_at - draft.started_at


def test_a_stream_may_be_read_inside(recorder):
    """The block ends the request then."""
    with recorder.request(Q) as r:
        for _ in r.answer(chunks()):
            assert [] == recorder.drafts
    assert ("ok", A, None) == outcome(recorder)


def test_an_asynchronous_stream(recorder):
    """It is passed through, and ends the request."""

    async def ask():
        async with recorder.request(Q) as r:
            stream = r.answer(achunks())
        return [chunk async for chunk in stream]

    assert 3 == len(asyncio.run(ask()))
    assert ("ok", A, None) == outcome(recorder)


def test_a_stream_that_is_closed(recorder):
    """It is truncated, and a part of a text is not the answer."""
    stream = ask_streamed(recorder, chunks())
    next(stream)
    stream.close()
    assert ("truncated", None, None) == outcome(recorder)
    assert only(recorder).first_token_s is not None


def test_an_asynchronous_stream_that_is_closed(recorder):
    """The same under both names that clients use."""

    async def ask(name):
        stream = ask_streamed(recorder, achunks())
        await stream.__anext__()
        await getattr(stream, name)()

    asyncio.run(ask("close"))
    asyncio.run(ask("aclose"))
    assert ["truncated"] * 2 == [draft.status for draft in recorder.drafts]


def test_a_stream_that_is_dropped(recorder):
    """Collected after a part it is truncated, unread it is abandoned."""
    stream = ask_streamed(recorder, chunks())
    next(stream)
    del stream
    ask_streamed(recorder, chunks())
    gc.collect()
    assert [("truncated", None), ("abandoned", None)] == [(d.status, d.response) for d in recorder.drafts]


def test_a_stream_that_fails(recorder):
    """The exception passes through, and is the request's error."""

    def failing():
        yield "Because"
        raise ConnectionError("lost")

    with pytest.raises(ConnectionError):
        list(ask_streamed(recorder, failing()))
    assert ("error", None, "ConnectionError: lost") == outcome(recorder)


def test_a_failed_stream_may_be_survived(recorder):
    """An answer after the failure counts."""

    def failing():
        raise ConnectionError("lost")
        yield

    with recorder.request(Q) as r:
        with pytest.raises(ConnectionError):
            list(r.answer(failing()))
        r.answer("Try later.")
    assert ("ok", "Try later.", None) == outcome(recorder)
    assert {} == recorder.errors


def test_a_tap_is_the_stream(recorder):
    """Attributes, `with` and values sent to a generator reach the stream."""

    class Stream:
        response = "headers"
        closed = False

        def __iter__(self):
            return self

        def __next__(self):
            return "Because."

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.closed = True

    inner = Stream()
    with ask_streamed(recorder, inner) as stream:
        assert "headers" == stream.response
        assert "Because." == next(stream)
    assert inner.closed
    assert "truncated" == only(recorder).status

    def echo():
        got = yield "first"
        yield got

    stream = ask_streamed(recorder, echo())
    next(stream)
    assert "second" == stream.send("second")


def test_a_streamed_response_of_llama_index(recorder, caplog):
    """The stream inside it is the answer; one that is made again each time is left to the framework's own steps."""

    class Chat:
        response = ""

        @property
        def response_gen(self):
            return iter(["Because."])

    response = SimpleNamespace(response_gen=iter(["Because ", "blue."]), response=None)
    with recorder.request(Q) as r:
        assert r.answer(response) is response
    assert "Because blue." == "".join(response.response_gen)
    with recorder.request(Q) as r:
        r.answer(Chat())
    assert [("ok", "Because blue."), ("ok", None)] == [(d.status, d.response) for d in recorder.drafts]
    assert {"answer.missing": 1} == noted(recorder, caplog)


def test_what_runs_while_a_stream_is_read_belongs_to_the_block(recorder):
    """Frameworks run lazily, maybe in another context than the block's."""
    seen = []

    def lazy():
        seen.append(current_request())
        yield "Because."

    with recorder.request(Q) as r:
        stream = r.answer(lazy())
    contextvars.Context().run(lambda: list(stream))
    assert [r] == seen
    assert current_request() is None


# -- wrong uses


def noted(recorder, caplog):
    """Return the counted places, after checking that each was logged once."""
    assert len(recorder.errors) == len([r for r in caplog.records if r.levelno == logging.WARNING])
    return dict(recorder.errors)


def test_a_request_that_is_never_answered(recorder, caplog):
    """It is recorded without an answer, counted each time and explained once."""
    for _ in range(2):
        with recorder.request(Q) as r:
            r.found(HITS)
    assert [("ok", None)] * 2 == [(draft.status, draft.response) for draft in recorder.drafts]
    assert {"answer.missing": 2} == noted(recorder, caplog)
    assert "pass it to answer()" in caplog.text


def test_a_request_that_is_answered_twice(recorder, caplog):
    """The last answer counts."""
    with recorder.request(Q) as r:
        r.answer("Hm.")
        r.answer(A)
    assert ("ok", A, None) == outcome(recorder)
    assert {"answer.twice": 1} == noted(recorder, caplog)


def test_a_reply_that_calls_a_tool_is_not_the_answer(recorder):
    """An agent can show each reply."""
    message = SimpleNamespace(content="Let me look.", tool_calls=[SimpleNamespace(id="1")])
    with recorder.request(Q) as r:
        r.prompt(messages())
        r.answer(SimpleNamespace(choices=[SimpleNamespace(index=0, message=message)]))
        r.found(HITS)
        r.prompt(messages(ALPHA))
        r.answer(REPLY)
    assert ("ok", A, None) == outcome(recorder)
    assert {} == recorder.errors


@pytest.mark.parametrize(
    ("use", "place", "advice"),
    [
        (lambda r: r.found([{"Inhalt": ALPHA, "id": 1}]), "found.without_text", 'text="FIELD"'),
        (lambda r: r.found([(1, ALPHA)]), "found.unreadable", "columns="),
        (lambda r: r.found(3), "found.unreadable", "pass its list of hits"),
        (lambda r: r.found(HITS, ids=5), "found.unreadable", "ids must be a list, got int"),
        (lambda r: r.found([1], texts="alpha"), "found.unreadable", "texts must be a list, got str"),
        (lambda r: r.found([(1, ALPHA)], columns="id"), "found.unreadable", "columns must be a list, got str"),
        (lambda r: r.used("alpha"), "used.unreadable", "pass its list of hits"),
        (lambda r: r.prompt(3), "prompt.unreadable", "a text or a list of messages"),
        (lambda r: r.answer(3), "answer.unreadable", "pass the text"),
        (lambda r: list(r.answer(iter([b"Because."]))), "answer.unreadable", "no chunk of the stream"),
        (lambda r: r.__enter__(), "request.entered_twice", "call request() for each request"),
    ],
)
def test_what_cannot_be_read_is_explained(use, place, advice, caplog):
    """It is counted, and the log names the argument that helps and no text of the request."""
    recorder = MemoryRecorder()
    with recorder.request(Q) as r:
        use(r)
        r.answer(A)
    assert ("ok", A, None) == outcome(recorder)
    assert {place: 1} == noted(recorder, caplog)
    assert advice in caplog.text
    assert ALPHA not in caplog.text


@pytest.mark.parametrize(
    ("use", "doubts"),
    [
        pytest.param(lambda r: r.used(5), ("unreadable:used",), id="used"),
        pytest.param(lambda r: r.found(object()), ("unreadable:found",), id="found"),
        pytest.param(lambda r: r.found([1, 2]), ("unreadable:found",), id="positions"),
        pytest.param(lambda r: r.found(b"bytes"), ("unreadable:found",), id="bytes"),
        pytest.param(lambda r: r.prompt(5), ("unreadable:prompt",), id="prompt"),
        pytest.param(lambda r: (r.found(5), r.used(["What the model saw."])), (), id="stated after all"),
        pytest.param(lambda r: r.found([{"id": "an image"}]), ("without_text:found",), id="id"),
        pytest.param(lambda r: r.found([]), (), id="nothing found"),
    ],
)
def test_what_cannot_be_read_puts_the_contexts_in_doubt(recorder, use, doubts):
    """A score of other contexts than the application stated is worse than none."""
    with recorder.request("Why?") as r:
        r.found(["It rains in the mountains."])
        use(r)
        r.answer("Because.")
    evidence = recorder.drafts[0].evidence
    assert doubts == evidence.doubts
    assert any(doubt.startswith("unreadable") for doubt in doubts) == (evidence.doubt_about("contexts") is not None)


def test_a_stream_that_a_text_replaces(recorder):
    """The application drops a stream and states the text: the request was answered."""
    with recorder.request("Why?") as r:
        stream = r.answer(iter(["It ", "rains."]))
        r.answer("It rains.")
    del stream
    gc.collect()
    draft = recorder.drafts[0]
    assert ("ok", "It rains.") == (draft.status, draft.response)


def test_a_long_agent_holds_a_bounded_number_of_characters(recorder):
    """The oldest prompts of calls that asked for a tool are given up, and the last one decides."""
    passage = "The warranty of the pump covers parts and labor for two years."
    with recorder.request("How long?") as r:
        r.found([passage])
        for turn in range(40):
            r.prompt([{"role": "user", "content": f"{passage} {turn} " * 10_000}])
            r.answer({"content": None, "tool_calls": [{"id": turn}]} if turn < 39 else "Two years.")
        held = sum(len(message.text) for step in r._live._steps for message in step.prompt or ())
    assert held <= 4_000_000
    draft = recorder.drafts[0]
    assert ("Two years.", "in_prompt", ()) == (draft.response, draft.evidence.contexts, draft.evidence.doubts)


def test_a_nested_block_answers_for_those_around_it(recorder):
    """An answer inside is not missing outside."""
    with recorder.request("Why?"), recorder.request("And why?"), recorder.request("Why, then?") as r:
        r.answer("Because of the rain.")
    assert "Because of the rain." == recorder.drafts[0].response
    assert {} == dict(recorder.errors)


def test_methods_outside_of_the_block(recorder, caplog):
    """Too early and too late are counted, and change nothing."""
    r = recorder.request(Q)
    assert HITS is r.found(HITS)
    with r:
        r.answer(A)
    assert "again" == r.answer("again")
    assert ("ok", A, None) == outcome(recorder)
    assert {"found.early": 1, "answer.late": 1} == noted(recorder, caplog)


def test_objects_that_raise_do_not_harm():
    """Whatever an object of the application does, the application continues."""

    class Broken:
        def __getattr__(self, name):
            raise RuntimeError(name)

        def __iter__(self):
            raise RuntimeError("iter")

    recorder, broken = MemoryRecorder(), Broken()
    with recorder.request(broken, tags=3) as r:
        assert r.found(broken) is broken
        assert r.found([broken]) == [broken]
        assert r.prompt([broken]) == [broken]
        assert r.used([broken]) == [broken]
        assert r.answer(broken) is broken
        assert r.returned(broken) is broken
    assert recorder.errors
    assert 1 == len(recorder.drafts)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"tags": 3}, "request.tags"),
        ({"reference": 3.5}, "request.reference"),
        ({"metadata": ["a"]}, "request.metadata"),
        ({"name": 7}, "request.name"),
        ({"history": 5}, "request.history"),
    ],
)
def test_an_argument_of_the_wrong_type_is_left_out(caplog, given, place):
    """The request is captured without it, and the log says which argument it was."""
    recorder = MemoryRecorder()
    with recorder.request(Q, **given) as r:
        r.answer(A)
    draft = only(recorder)
    assert (Q, A, [], [], {}, None) == (
        draft.query, draft.response, draft.tags, draft.reference, draft.metadata, draft.name
    )  # fmt: skip
    assert {place: 1} == noted(recorder, caplog)


def test_arguments_that_never_end(recorder):
    """An endless iterator is not read to its end."""
    numbers = itertools.count()
    with recorder.request(Q, tags=numbers, reference=map(str, numbers)) as r:
        assert HITS is r.found(HITS, ids=numbers)
        assert HITS is r.found(HITS, scores=numbers)
        assert HITS is r.used(HITS, columns=map(str, numbers))
        endless = type("Endless", (list,), {"__iter__": lambda self: itertools.repeat({"role": "user", "content": Q})})
        r.prompt(endless([1]))
        r.answer(A)
    assert (1_000, 1_000) == (len(only(recorder).tags), len(only(recorder).reference))
    assert {"found.unreadable": 2} == dict(recorder.errors)


def test_what_a_search_was_asked_must_be_a_text(caplog):
    """A vector as the query leaves the rest of the request as it is."""
    recorder = MemoryRecorder()
    with recorder.request(Q) as r:
        r.found(HITS, query=[0.5, 0.25])
        with recorder.request([0.5]) as inner:
            inner.found(HITS)
        r.answer(A)
    draft = only(recorder)
    assert [None, None] == [search.query for search in draft.retrievals]
    assert "internal_error" not in draft.evidence.doubts
    assert {"found.query": 1, "request.question": 1} == noted(recorder, caplog)
    assert "found(): query must be a text or None, got list" in caplog.text


def test_texts_that_are_missing(recorder):
    """The text of a position can be missing: the hit is kept by its id."""
    with recorder.request(Q) as r:
        r.found([4, 7], texts=[ALPHA, None])
        r.answer(A)
    assert [("4", ALPHA), ("7", "")] == [(one.id, one.text) for one in only(recorder).retrievals[0].passages]


def test_a_recorder_that_raises_does_not_harm(monkeypatch):
    """An error while the request ends is counted."""
    recorder = MemoryRecorder()
    monkeypatch.setattr(recorder, "record", lambda draft: 1 / 0)
    with recorder.request(Q) as r:
        r.answer(A)
    assert {"request": 1} == dict(recorder.errors)


# -- @monitor.observe


def test_observed_functions(recorder):
    """The named parameter is the question, what is returned is the answer."""

    @recorder.observe(question="q", session_id="session", tags=["t"])
    def ask(k, q, *, session="s-0"):
        current_request().found(HITS[:k])
        return A

    assert A == ask(1, Q, session="s-1")
    draft = only(recorder)
    assert (Q, A, "ask", "s-1", ["t"]) == (draft.query, draft.response, draft.name, draft.session_id, draft.tags)
    assert "ask" == ask.__name__


def test_observed_methods_and_defaults(recorder):
    """Without a name the parameter with a usual name holds the question, or the only one."""

    class App:
        @recorder.observe
        def one(self, k, question=Q):
            return A

        @recorder.observe()
        def two(self, text):
            return A

    App().one(3)
    App().two("Two?")
    assert [Q, "Two?"] == [draft.query for draft in recorder.drafts]


def test_observed_coroutines(recorder):
    """The same for a coroutine, which stays one."""

    @recorder.observe(question="q")
    async def ask(q):
        await asyncio.sleep(0)
        return REPLY

    assert inspect.iscoroutinefunction(ask)
    assert REPLY is asyncio.run(ask(Q))
    assert ("ok", A, None) == outcome(recorder)


def test_observed_generators(recorder):
    """What is yielded is the answer; values and exceptions reach the generator; the block does not leak."""

    @recorder.observe(question="q")
    def ask(q):
        current_request().found(HITS)
        yield "Because "
        yield "blue light is scattered more."
        return "done"

    assert inspect.isgeneratorfunction(ask)
    words = ask(Q)
    assert "Because " == next(words)
    assert current_request() is None
    with pytest.raises(StopIteration) as end:
        next(words)
        next(words)
    assert "done" == end.value.value
    assert ("ok", A, None) == outcome(recorder)
    assert 1 == len(only(recorder).retrievals)


def test_observed_asynchronous_generators(recorder):
    """The same for an asynchronous one."""

    @recorder.observe(question="q")
    async def ask(q):
        current_request().found(HITS)
        async for chunk in achunks():
            yield chunk.choices[0].delta.content

    async def main():
        assert A == "".join([word async for word in ask(Q)])
        assert current_request() is None

    assert inspect.isasyncgenfunction(ask)
    asyncio.run(main())
    assert ("ok", A, None) == outcome(recorder)


def test_observed_generators_that_are_dropped(recorder):
    """They are truncated; one that never began is not a request."""

    @recorder.observe
    def ask(question):
        yield "Because "
        yield "blue light."

    words = ask(Q)
    next(words)
    del words
    ask(Q)
    gc.collect()
    assert ("truncated", None, None) == outcome(recorder)


def test_an_observed_function_may_answer_itself(recorder):
    """Its own answer counts, and what it returns may be anything."""

    @recorder.observe
    def ask(question):
        current_request().answer(A)
        return {"status": 200}

    @recorder.observe
    def stream(question):
        for chunk in current_request().answer(chunks()):
            yield b"data: " + chunk.choices[0].delta.content.encode()

    assert {"status": 200} == ask(Q)
    assert 3 == len(list(stream(Q)))
    assert [("ok", A)] * 2 == [(draft.status, draft.response) for draft in recorder.drafts]
    assert {} == recorder.errors


def test_observed_functions_may_be_nested(recorder):
    """An observed function that another one calls is a step."""

    @recorder.observe
    def inner(question):
        return "inner."

    @recorder.observe
    def outer(question):
        return inner("inner?") and A

    outer(Q)
    assert ("ok", A, None) == outcome(recorder)


def test_a_parameter_that_does_not_exist_is_refused(recorder):
    """When the function is decorated, not when it is called."""
    with pytest.raises(ConfigurationError, match=r"question='q' names no parameter of 'ask'; it has \['text'\]"):

        @recorder.observe(question="q")
        def ask(text):
            return text


def test_many_threads(recorder):
    """Blocks in threads are apart, and searches from several threads of one block are all kept."""
    with recorder.request(Q) as r:
        threads = [
            threading.Thread(target=contextvars.copy_context().run, args=(lambda: current_request().found(HITS),))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        r.answer(A)
    assert 8 == len(only(recorder).retrievals)


# -- one id


RAG = {"openinference.span.kind": "CHAIN", "input.value": Q, "output.value": A}
SEARCH = {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": ALPHA}


@pytest.fixture
def tracer():
    """Return a tracer, and the list that its finished spans go to."""
    provider, memory = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    yield provider.get_tracer("test"), memory
    provider.shutdown()


def exported_ids(memory):
    """Return the trace ids that a reader of the exported trace gives its requests."""
    message = encode_spans(memory.get_finished_spans()).SerializeToString()
    spans = spans_of_request(message, "application/x-protobuf")
    bodies = tuple(span.body for span in spans)
    return [trace.trace_id for trace in traces_of(BufferedTrace(seq=1, trace_id="t", spans=bodies, is_cut=False))]


@pytest.mark.parametrize("around", [{}, {"http.request.method": "POST"}], ids=["its span", "the server's span"])
def test_a_request_that_is_exported_as_well_has_one_id(recorder, tracer, around):
    """The id is an attribute of the span that the block runs in, and the reader of the trace finds it there."""
    make, memory = tracer
    with make.start_as_current_span("server", attributes=around or RAG), recorder.request(Q) as r:
        if around:
            with make.start_as_current_span("rag", attributes=RAG):
                make.start_span("search", attributes=SEARCH).end()
        else:
            make.start_span("search", attributes=SEARCH).end()
        r.answer(A)
    assert [only(recorder).trace_id] == exported_ids(memory)


def test_several_requests_in_one_trace_have_their_own_ids(recorder, tracer):
    """Each is found by its own span."""
    make, memory = tracer
    with make.start_as_current_span("batch"):
        for _ in range(2):
            with make.start_as_current_span("rag", attributes=RAG), recorder.request(Q) as r:
                make.start_span("search", attributes=SEARCH).end()
                r.answer(A)
    ids = [draft.trace_id for draft in recorder.drafts]
    assert 2 == len(set(ids))
    assert sorted(ids) == sorted(exported_ids(memory))


def test_several_blocks_in_one_span_leave_ids_to_the_reader(recorder, tracer):
    """An attribute that cannot mean all requests is the id of none of them, if their own spans do not have it."""
    make, memory = tracer
    with make.start_as_current_span("batch"):
        for _ in range(2):
            with recorder.request(Q) as r, make.start_as_current_span("rag", attributes=RAG):
                make.start_span("search", attributes=SEARCH).end()
                r.answer(A)
    assert set(exported_ids(memory)).isdisjoint(draft.trace_id for draft in recorder.drafts)


def test_a_nested_stream_that_is_read_after_the_outer_block(recorder):
    """It holds the blocks around it open: the answer is not lost."""
    with recorder.request("q"), recorder.request("inner") as inner:
        stream = inner.answer(iter(["a", "b"]))
    assert [] == recorder.drafts
    assert ["a", "b"] == list(stream)
    (draft,) = recorder.drafts
    assert ("q", "ab", "ok") == (draft.query, draft.response, draft.status)


@pytest.mark.parametrize("way", ["observe", "answer"])
def test_a_text_that_a_framework_wrote(recorder, way):
    """The framework's call stands behind the text that the application returns: its prompt shows the contexts."""

    def framework(question):
        passage = "The harbor library opens at ten in the morning on Saturdays."
        other = "The ferry to the harbor leaves every twenty minutes."
        steps = [
            Step(id="chain", kind="chain"),
            Step(
                id="r",
                parent="chain",
                kind="retrieval",
                passages=[PassageDraft(text=passage), PassageDraft(text=other)],
            ),
            Step(
                id="m",
                parent="chain",
                kind="model",
                prompt=(Message("user", f"{passage}\n{question}"),),
                reply="At ten.",
            ),
        ]
        current_request().join(Request(draft=TraceDraft(), steps=steps, root=steps[0]))
        return "At ten."

    if way == "observe":
        recorder.observe(framework)("When?")
    else:
        with recorder.request("When?") as r:
            r.answer(framework("When?"))
    (draft,) = recorder.drafts
    assert ("At ten.", "in_prompt") == (draft.response, draft.evidence.contexts)
    assert ["The harbor library opens at ten in the morning on Saturdays."] == [p.text for p in draft.contexts]


def test_hits_beyond_the_limit_are_counted(recorder, caplog):
    """1,000 are kept, and the log says how many were left out."""
    with recorder.request("q") as r:
        r.found(["alpha"] * 1_500)
        r.answer("a")
    assert 1_000 == len(recorder.drafts[0].retrievals[0].passages)
    assert 1 == recorder.errors["found.cut"]
    assert "left out 500" in caplog.text


def test_an_empty_answer_is_called_one(recorder):
    """Not a text that no model wrote."""
    with recorder.request("q") as r:
        r.found(["The harbor library opens at ten in the morning on Saturdays."])
        r.prompt("The harbor library opens at ten in the morning on Saturdays.\nq")
        r.answer({"choices": [{"message": {"tool_calls": [{}]}}], "model": "m"})
        r.answer("")
    assert ("empty_answer",) == recorder.drafts[0].evidence.doubts


@pytest.mark.parametrize("n", [4_000, pytest.param(20_000, marks=pytest.mark.long)])
def test_requests_of_many_sessions_leave_nothing(n):
    """No session is remembered: many requests in as many sessions need no more memory than the first thousand."""

    class Forget(RequestBlocks):
        _guard = Guard("test")

        def record(self, request):
            return assemble(request) is not None

    recorder = Forget()

    def ask(first, n):
        for number in range(first, first + n):
            with recorder.request(f"{Q} {number}", session_id=f"session {number}") as r:
                r.found(HITS)
                r.prompt(f"{number} {ALPHA}")
                r.answer(A)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = ask(0, 1_000)
        assert ask(1_000, n) - before < 100_000
    finally:
        tracemalloc.stop()
