"""Runs that wait for a person: one record where they are answered in the process, `interrupted` and `ok` elsewhere."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from llama_index.core.agent.workflow import FunctionAgent, base_agent
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)

Q = "who?"
FOUND = ["alpha", "beta"]
OK = (Q, FOUND, "answer", "ok")


class Asking(Workflow):
    """Waits for a person in the middle of a step, which LlamaIndex runs again from its start when the answer comes."""

    app: object = None

    @step
    async def go(self, ctx: Context, ev: StartEvent) -> StopEvent:
        """Search, ask a person, answer."""
        await self.app.retriever().aretrieve(ev.query)
        question = InputRequiredEvent(prefix="sure?")
        await ctx.wait_for_event(HumanResponseEvent, waiter_event=question, waiter_id="sure")
        return StopEvent(result=await self.app.engine().aquery(ev.query))


class AskingBetweenSteps(Workflow):
    """Ends a step with a question to a person, and begins the next one with the answer."""

    app: object = None

    @step
    async def search(self, ctx: Context, ev: StartEvent) -> InputRequiredEvent:
        """Search, and ask a person."""
        await self.app.retriever().aretrieve(ev.query)
        return InputRequiredEvent(prefix="sure?")

    @step
    async def answer(self, ctx: Context, ev: HumanResponseEvent) -> StopEvent:
        """Answer."""
        return StopEvent(result=await self.app.engine().aquery(Q))


def asking_agent(app):
    """An agent with a tool that asks a person before it searches."""
    if not hasattr(base_agent, "_get_waiting_for_event_exception"):
        pytest.skip("agents of the oldest versions take the wait for an error of their tool")

    async def search(ctx: Context, input: str) -> str:  # noqa: A002 - the tool's argument
        """Search, if a person agrees."""
        question = InputRequiredEvent(prefix="sure?")
        await ctx.wait_for_event(HumanResponseEvent, waiter_event=question, waiter_id="sure")
        return str(await app.engine().aquery(input))

    search.__annotations__ = {"ctx": Context, "input": str, "return": str}  # LlamaIndex does not read them as texts
    return FunctionAgent(
        tools=[FunctionTool.from_defaults(async_fn=search)], llm=app.agent_model(("search", {"input": "sub"}))
    )


def workflow(kind):
    """Makes a workflow of this class."""

    def make(app):
        made = kind()
        made.app = app
        return made

    return make


RUNS = [
    pytest.param(workflow(Asking), {"query": Q}, id="inside a step"),
    pytest.param(workflow(AskingBetweenSteps), {"query": Q}, id="between steps"),
    pytest.param(asking_agent, {"user_msg": Q}, id="a tool of an agent"),
]


async def until_it_asks(handler):
    """Read the events of a run up to the question to a person."""
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            return


@pytest.mark.parametrize(("make", "start"), RUNS)
def test_answered_while_it_runs(app, make, start):
    """One request, which took as long as the person did; that it waited is no error."""

    async def go():
        handler = make(app).run(**start)
        await until_it_asks(handler)
        assert ([], 1) == (app.seen(), app.instrumentor.in_flight)
        handler.ctx.send_event(HumanResponseEvent(response="yes"))
        await handler

    asyncio.run(go())
    assert [OK] == app.seen()
    assert [] == app.draft.inner_errors


@pytest.mark.parametrize(("make", "start"), RUNS[:2])
def test_resumed_from_what_was_saved(app, make, start):
    """Two requests, as in two processes: the one that stopped to wait, and the one that went on to the answer."""

    async def ask():
        handler = make(app).run(**start)
        await until_it_asks(handler)
        saved = json.dumps(handler.ctx.to_dict())
        await handler.cancel_run()
        with pytest.raises(BaseException):  # noqa: B017, PT011 - named differently from version to version
            await handler
        return saved

    async def resume(saved):
        made = make(app)
        handler = made.run(ctx=Context.from_dict(made, json.loads(saved)))
        handler.ctx.send_event(HumanResponseEvent(response="yes"))
        await handler

    saved = asyncio.run(ask())
    (paused,) = app.seen()
    assert (Q, None, "interrupted") == (paused.question, paused.answer, paused.status)
    asyncio.run(resume(saved))
    assert ("answer", "ok") == app.seen()[1][2:]
    assert FOUND == app.seen()[1].contexts
    assert [[], []] == [draft.inner_errors for draft in app.drafts]


@pytest.mark.parametrize(("make", "start"), RUNS)
def test_left_waiting(app, make, start):
    """The event loop ends while the run waits: it did not fail, it was not finished."""

    async def go():
        await until_it_asks(make(app).run(**start))

    asyncio.run(go())
    (paused,) = app.seen()
    assert (Q, None, "interrupted") == (paused.question, paused.answer, paused.status)
    assert (None, []) == (app.draft.error, app.draft.inner_errors)


class Busy(Workflow):
    """A step that returns nothing, for another to continue, which is stopped at work."""

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Event | None:
        """Let the other step begin."""
        ctx.send_event(Event(message="go"))

    @step
    async def work(self, ctx: Context, ev: Event) -> StopEvent:
        """Work for ever."""
        ctx.write_event_to_stream(InputRequiredEvent(prefix="only to say that it works"))
        await asyncio.Event().wait()
        return StopEvent()


@pytest.mark.parametrize("stop", ["cancel", "leave"])
def test_stopped_at_work(app, stop):
    """A run that does not wait for anybody is not interrupted but stopped, or taken down."""

    async def go():
        handler = Busy(timeout=None).run(query=Q)
        await until_it_asks(handler)
        if stop == "cancel":
            await handler.cancel_run()
            with pytest.raises(BaseException):  # noqa: B017, PT011 - as above
                await handler

    asyncio.run(go())
    assert [(Q, None, None, "truncated" if stop == "cancel" else "error")] == app.seen()


class BusyInAThread(Workflow):
    """The same, with a step that is no coroutine, and continues when its run has been stopped."""

    begun: object = None
    released: object = None

    @step
    async def begin(self, ctx: Context, ev: StartEvent) -> Event | None:
        """Let the other step begin."""
        ctx.send_event(Event(message="go"))

    @step
    def work(self, ev: Event) -> StopEvent:
        """Work until it is let go."""
        self.begun.set()
        self.released.wait(60)
        return StopEvent()


def test_stopped_while_a_thread_is_at_work(app):
    """What the thread makes of it afterwards changes nothing."""
    made = BusyInAThread(timeout=None)
    made.begun, made.released = threading.Event(), threading.Event()

    async def go():
        handler = made.run(query=Q)
        await asyncio.to_thread(made.begun.wait, 60)
        await handler.cancel_run()
        with pytest.raises(BaseException):  # noqa: B017, PT011 - as above
            await asyncio.wait_for(handler, 30)
        made.released.set()

    asyncio.run(go())
    assert [(Q, None, None, "truncated")] == app.seen()
