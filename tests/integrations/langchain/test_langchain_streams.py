"""Streams: the inputs come last, the end may come early, and may never come."""

from __future__ import annotations

import asyncio
import gc

import pytest
from langchain_core.runnables import RunnableGenerator, RunnableLambda
from langchain_scenarios import FOUND, Q

OK = (Q, FOUND, "answer", "ok")


def test_first_token_is_the_first_text(make_app):
    """Time is counted from the start of the request to the first text a reader sees, on the handler's clock."""
    now = [100.0]
    app = make_app(options={"clock": lambda: now[0]})

    def slow(question: str) -> str:
        now[0] += 2.0
        return question

    (RunnableLambda(slow) | app.rag()).invoke(Q, app.config)
    assert app.draft.first_token_s is None
    for _ in (RunnableLambda(slow) | app.rag()).stream(Q, app.config):
        now[0] += 1.0  # the reader takes its time over each token
    assert 2.0 == app.drafts[1].first_token_s


def test_stream_held_open_is_given_up_after_its_time(make_app):
    """Row 10: a generator that no one reads on ends never; after `ttl_s` the next request sweeps it out."""
    now = [0.0]
    app = make_app(options={"clock": lambda: now[0], "ttl_s": 60})
    stream = app.rag().stream(Q, app.config)
    next(stream)
    assert (0, 1) == (len(app.drafts), app.handler.in_flight)
    now[0] = 61.0
    app.rag(app.echo()).invoke("next", app.config)
    assert [(Q, FOUND, None, "abandoned"), ("next", ["about next"], "answer", "ok")] == app.seen()
    stream.close()
    assert (2, 0) == (len(app.drafts), app.handler.in_flight)


def test_abandoned_generator_ends_when_it_is_collected(app):
    """A reader that simply drops its generator is recorded when Python closes it."""
    stream = app.rag().stream(Q, app.config)
    next(stream)
    del stream
    gc.collect()
    assert [(Q, FOUND, None, "truncated")] == app.seen()


def test_error_in_the_middle_of_a_stream(app):
    """The question is known although the inputs of a stream come with its end."""

    def break_off(chunks):
        yield from (next(chunks),)
        raise ValueError("broken pipe")

    with pytest.raises(ValueError, match="broken pipe"):
        list((app.rag() | RunnableGenerator(break_off)).stream(Q, app.config))
    assert [(Q, FOUND, None, "error")] == app.seen()
    assert "ValueError: broken pipe" == app.draft.error


@pytest.mark.parametrize("streamed", [False, True])
def test_background_work_is_no_truncation(app, streamed):
    """A call or a stream read to its end that leaves a task at work has answered in full; the task's end comes late."""

    async def main() -> None:
        go_on = asyncio.Event()
        tasks = []

        async def later(text: str) -> str:
            await go_on.wait()
            return text

        async def answer(text: str, config) -> str:
            tasks.append(asyncio.create_task(RunnableLambda(later).ainvoke(text, config)))
            await asyncio.sleep(0)
            return text

        chain = RunnableLambda(answer) | app.rag()
        if streamed:
            assert [chunk async for chunk in chain.astream(Q, app.config)]
        else:
            await chain.ainvoke(Q, app.config)
        go_on.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert [OK] == app.seen()
    assert 1 == app.handler.late_events
