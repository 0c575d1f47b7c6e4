"""Streamed answers: the application's tokens are its own, and the record says how the stream ended."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import types

import pytest
from llama_index.core.instrumentation import get_dispatcher

from llama_index.observability.ragstone._stream import pulled_stream, tap_async, wrap_stream

Q = "who?"
FOUND = ["alpha", "beta"]
OK = (Q, FOUND, "answer", "ok")


def only_the_generator_kept(app):
    tokens = app.engine(streaming=True).query(Q).response_gen
    gc.collect()
    assert ["ans", "wer"] == list(tokens)


def through_str(app):
    response = app.engine(streaming=True).query(Q)
    assert ("answer", "answer") == (str(response), str(response))


def through_get_response(app):
    response = app.engine(streaming=True).query(Q).get_response()
    assert ("answer", FOUND) == (response.response, [node.text for node in response.source_nodes])


def asynchronous(app):
    async def read():
        response = await app.engine(streaming=True).aquery(Q)
        return [token async for token in response.async_response_gen()]

    assert ["ans", "wer"] == asyncio.run(read())


def asynchronous_through_its_own_generator(app):
    async def read():
        tokens = (await app.engine(streaming=True).aquery(Q)).response_gen
        return [token async for token in tokens]

    assert ["ans", "wer"] == asyncio.run(read())


def read_in_another_thread(app):
    response, read = app.engine(streaming=True).query(Q), []
    thread = threading.Thread(target=lambda: read.extend(response.response_gen))
    thread.start()
    thread.join()
    assert ["ans", "wer"] == read


def token_by_token_in_many_threads(app):
    tokens, read = app.engine(streaming=True).query(Q).response_gen, []
    for _ in range(2):
        thread = threading.Thread(target=lambda: read.append(next(tokens)))
        thread.start()
        thread.join()
    assert ([], ["ans", "wer"]) == (list(tokens), read)


def refine_over_two_chunks(app):
    draft = "a draft of the answer in more than a few words"
    engine = app.engine(model=app.model(draft, "answer"), streaming=True, response_mode="refine")
    assert "answer" == str(engine.query(Q))


def through_a_function_of_the_application(app):
    @get_dispatcher(__name__).span
    def ask(question):
        return app.engine(streaming=True).query(question)

    assert "answer" == str(ask(Q))


def synthesizer_alone(app):
    from llama_index.core import get_response_synthesizer
    from llama_index.core.schema import NodeWithScore, TextNode

    nodes = [NodeWithScore(node=TextNode(text=text)) for text in FOUND]
    assert "answer" == str(get_response_synthesizer(app.model(), streaming=True).synthesize(Q, nodes))


def test_model_is_asked_when_the_application_reads(app):
    """Until the first token is pulled nothing is generated; the late call belongs to the request it answers."""
    asked = []
    model = app.model(
        lambda prompt: asked.append(prompt) or "answer", raw={"usage": {"prompt_tokens": 7, "completion_tokens": 1}}
    )
    response = app.engine(model=model, streaming=True).query(Q)
    assert ([], 1, []) == (asked, app.instrumentor.in_flight, app.seen())
    assert "answer" == str(response)
    assert (1, 7, "tiny-1") == (len(asked), app.draft.input_tokens, app.draft.model)


def test_stream_read_inside_another_request(app):
    """What makes its tokens belongs to the request that it answers, not to the one that reads it."""
    raw = {"usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    response = app.engine(model=app.model(raw=raw), streaming=True).query(Q)

    @get_dispatcher(__name__).span
    def compare(question):
        return str(app.engine(model=app.model("other")).query(question)) + str(response)

    assert "otheranswer" == compare("another")
    assert [OK, ("another", FOUND, "otheranswer", "ok")] == app.seen()
    assert [(7, 2), (None, None)] == [(draft.input_tokens, draft.output_tokens) for draft in app.drafts]


def test_stream_without_nodes(app):
    """Nothing was found, nothing is asked: LlamaIndex streams its own words."""
    assert "Empty Response" == str(app.engine(app.nothing(), streaming=True).query(Q))
    assert [(Q, [], "Empty Response", "ok")] == app.seen()


def closed_early(app):
    tokens = app.engine(streaming=True).query(Q).response_gen
    assert "ans" == next(tokens)
    tokens.close()
    assert [] == list(tokens)


def dropped_early(app):
    for _ in app.engine(streaming=True).query(Q).response_gen:
        break
    gc.collect()


def closed_early_async(app):
    async def read():
        tokens = (await app.engine(streaming=True).aquery(Q)).response_gen
        async with contextlib.aclosing(tokens):
            async for _ in tokens:
                break

    asyncio.run(read())


def dropped_early_async(app):
    async def read():
        response = await app.engine(streaming=True).aquery(Q)
        async for _ in response.async_response_gen():
            break
        del response
        gc.collect()

    asyncio.run(read())


def never_read(app):
    response = app.engine(streaming=True).query(Q)
    assert 1 == app.instrumentor.in_flight
    del response
    gc.collect()


def never_read_async(app):
    response = asyncio.run(app.engine(streaming=True).aquery(Q))
    assert 1 == app.instrumentor.in_flight
    del response
    gc.collect()


def kept_open_after_sweep(app):
    tokens = app.engine(streaming=True).query(Q).response_gen
    assert ("ans", 1) == (next(tokens), app.instrumentor.in_flight)
    app.instrumentor.record_abandoned(older_than_s=0)
    assert ["wer"] == list(tokens)


def model_fails(app):
    error, read = ConnectionError("model down"), []
    with pytest.raises(ConnectionError) as raised:
        for token in app.engine(model=app.model(error), streaming=True).query(Q).response_gen:
            read.append(token)  # noqa: PERF402
    assert (error, ["par"]) == (raised.value, read)


def model_fails_async(app):
    error, read = ConnectionError("model down"), []

    async def read_all():
        async for token in (await app.engine(model=app.model(error), streaming=True).aquery(Q)).response_gen:
            read.append(token)  # noqa: PERF401 - as above

    with pytest.raises(ConnectionError) as raised:
        asyncio.run(read_all())
    assert (error, ["par"]) == (raised.value, read)


def many_tasks_at_once(app):
    model = app.model(lambda prompt: f"to {prompt.partition('Query: ')[2][:2]}")
    streaming = app.engine(app.echo(), model, streaming=True)

    async def ask(question):
        response = await streaming.aquery(question)
        async for _ in response.async_response_gen():
            await asyncio.sleep(0)

    async def all_at_once():
        await asyncio.gather(*(ask(f"q{i}") for i in range(8)))

    asyncio.run(all_at_once())


EARLY, ABANDONED, FAILED = (Q, FOUND, "ans", "truncated"), (Q, FOUND, None, "abandoned"), (Q, FOUND, None, "error")
# fmt: off
MATRIX = [
    # row  scenario                                question, contexts, answer, status
    (3,    only_the_generator_kept,                [OK]),
    (4,    through_str,                            [OK]),
    (4,    through_get_response,                   [OK]),
    (5,    asynchronous,                           [OK]),
    (5,    asynchronous_through_its_own_generator, [OK]),
    (6,    closed_early,                           [EARLY]),
    (6,    dropped_early,                          [EARLY]),
    (6,    closed_early_async,                     [EARLY]),
    (6,    dropped_early_async,                    [EARLY]),
    (7,    never_read,                             [ABANDONED]),
    (7,    never_read_async,                       [ABANDONED]),
    (8,    kept_open_after_sweep,                  [ABANDONED]),
    (9,    read_in_another_thread,                 [OK]),
    (9,    token_by_token_in_many_threads,         [OK]),
    (10,   refine_over_two_chunks,                 [OK]),
    (11,   model_fails,                            [FAILED]),
    (11,   model_fails_async,                      [FAILED]),
    (12,   many_tasks_at_once,                     [(f"q{i}", [f"about q{i}"], f"to q{i}", "ok") for i in range(8)]),
    (14,   synthesizer_alone,                      [OK]),
    (15,   through_a_function_of_the_application,  [OK]),
]
# fmt: on


@pytest.mark.parametrize(("row", "scenario", "expected"), MATRIX, ids=[f"{row[0]}-{row[1].__name__}" for row in MATRIX])
def test_stream_matrix(app, row, scenario, expected):
    """Each scenario leaves exactly these records; the first token has its time, the error is the trace's."""
    scenario(app)
    assert expected == sorted(app.seen())
    for draft in app.drafts:
        if draft.status == "ok":
            assert 0 <= draft.first_token_s <= draft.ended_at - draft.started_at
        assert ("ConnectionError: model down" if draft.status == "error" else None, []) == (
            draft.error, draft.inner_errors,
        )  # fmt: skip


def test_stream_held_open_is_abandoned_after_a_while(make_app):
    """And what the application reads afterwards is still whole."""
    now = [0.0]
    app = make_app(options={"ttl_s": 60.0, "clock": lambda: now[0]})
    tokens = app.engine(streaming=True).query(Q).response_gen
    assert "ans" == next(tokens)
    now[0] = 61.0
    app.engine().query("another")
    assert [ABANDONED, ("another", FOUND, "answer", "ok")] == app.seen()
    assert (["wer"], 2, 0) == (list(tokens), len(app.drafts), app.instrumentor.in_flight)


def test_stream_that_fails_after_it_was_given_up(app):
    """What was recorded is not changed any more."""
    tokens = app.engine(model=app.model(ConnectionError("model down")), streaming=True).query(Q).response_gen
    app.instrumentor.record_abandoned(older_than_s=0)
    with pytest.raises(ConnectionError):
        list(tokens)
    assert ("abandoned", None) == (app.draft.status, app.draft.error)


class Heard:
    """Writes down what a tap says."""

    root_key = "root"

    def __init__(self):
        self.said = []

    def __getattr__(self, name):
        return lambda *what: self.said.append((name, *what))


def echo_tokens(log):
    """A generator that shows everything one can do to it."""
    try:
        sent = yield "a"
        log.append(sent)
        try:
            yield "b"
        except KeyError as error:
            log.append(error)
            yield "caught"
        return "value"
    finally:
        log.append("closed")


async def echo_tokens_async(log):
    """The same, asynchronous."""
    try:
        sent = yield "a"
        log.append(sent)
        try:
            yield "b"
        except KeyError as error:
            log.append(error)
            yield "caught"
    finally:
        log.append("closed")


def test_the_tap_is_the_generator_it_stands_for():
    """Items are the same objects; `send`, `throw`, `return` and `close` reach the generator behind it."""
    log, heard, error = [], Heard(), KeyError("thrown")
    tokens = wrap_stream(echo_tokens(log), heard, str)
    assert isinstance(tokens, types.GeneratorType)
    assert ("a", "b") == (next(tokens), tokens.send("sent"))
    assert "caught" == tokens.throw(error)
    with pytest.raises(StopIteration) as end:
        next(tokens)
    assert "value" == end.value.value
    assert ["sent", error, "closed"] == log
    assert [("saw", "a"), ("saw", "b"), ("saw", "caught"), ("ended", "abcaught")] == heard.said

    log, heard = [], Heard()
    tokens = wrap_stream(echo_tokens(log), heard, str)
    next(tokens)
    tokens.close()
    assert (["closed"], [("saw", "a"), ("stopped", "a")]) == (log, heard.said)


def test_the_asynchronous_tap_is_the_generator_it_stands_for():
    """The same for asynchronous generators."""

    async def whole():
        log, heard, error = [], Heard(), KeyError("thrown")
        tokens = tap_async(echo_tokens_async(log), heard, str)
        assert isinstance(tokens, types.AsyncGeneratorType)
        assert ("a", "b") == (await anext(tokens), await tokens.asend("sent"))
        assert "caught" == await tokens.athrow(error)
        with pytest.raises(StopAsyncIteration):
            await anext(tokens)
        assert ["sent", error, "closed"] == log
        assert [("saw", "a"), ("saw", "b"), ("saw", "caught"), ("ended", "abcaught")] == heard.said

        log, heard = [], Heard()
        tokens = tap_async(echo_tokens_async(log), heard, str)
        await anext(tokens)
        await tokens.aclose()
        assert (["closed"], [("saw", "a"), ("stopped", "a")]) == (log, heard.said)

    asyncio.run(whole())


def test_items_pass_as_they_are():
    """Not only texts: versions of an object, of which the last one is the answer."""
    items, heard = [{"v": 1}, {"v": 2}], Heard()
    passed = list(wrap_stream(iter(items), heard, str))
    assert [True, True] == [one is other for one, other in zip(items, passed, strict=True)]
    assert ("ended", "{'v': 2}") == heard.said[-1]


def test_a_throw_into_a_plain_iterator_comes_back():
    """What has no `throw` of its own ends with the error, as a loop over it would."""
    heard = Heard()
    tokens = wrap_stream(iter(["a", "b"]), heard, str)
    next(tokens)
    with pytest.raises(KeyError):
        tokens.throw(KeyError("thrown"))
    assert ["saw", "failed"] == [said[0] for said in heard.said]


def test_whose_stream_it_is_is_said_only_while_it_is_pulled():
    """Between two tokens the application's own calls are its own."""

    def tokens():
        yield pulled_stream.get()

    tapped = wrap_stream(tokens(), Heard(), str)
    assert ("root", None) == (next(tapped), pulled_stream.get())
