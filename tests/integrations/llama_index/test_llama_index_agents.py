"""Agents and workflows: one record a run, with what its tools found; rows as in the docs' matrix."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core import get_response_synthesizer
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.response.schema import Response
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool, RetrieverTool
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step

Q = "who?"
FOUND = ["alpha", "beta"]
SEARCH = ("search", {"input": "sub"})


def run(agent, *, events=False, **start):
    """Run an agent to its end, with or without reading its events."""

    async def go():
        handler = agent.run(**(start or {"user_msg": Q}))
        if events:
            async for _ in handler.stream_events():
                pass
        return await handler

    return asyncio.run(go())


def function_agent(app, *calls, tools=None, **options):
    """An agent that makes these calls, and answers."""
    return FunctionAgent(tools=tools or [app.tool()], llm=app.agent_model(*(calls or [SEARCH])), **options)


def agent_function(app):
    run(function_agent(app))


def agent_not_streaming(app):
    run(function_agent(app, streaming=False))


def agent_stream_events(app):
    run(function_agent(app), events=True)


def agent_multi(app):
    agent = function_agent(app, name="one", description="answers")
    run(AgentWorkflow(agents=[agent], root_agent="one"))


def agent_message_object(app):
    run(function_agent(app), user_msg=ChatMessage(role="user", content=Q))


def agent_history_only(app):
    history = [ChatMessage(role="user", content="before"), ChatMessage(role="assistant", content="hm")]
    run(function_agent(app, SEARCH, SEARCH), chat_history=[*history, ChatMessage(role="user", content=Q)])


def agent_react(app):
    call = 'Thought: I need it.\nAction: search\nAction Input: {"input": "sub"}'
    run(ReActAgent(tools=[app.tool()], llm=app.model(call, "Thought: I can answer.\nAnswer: answer")))


def agent_two_retrievals(app):
    one = app.engine(app.retriever("alpha"), app.model("the first engine says that it is one of them"))
    two = app.engine(app.retriever("beta"), app.model("the second engine says that it is the other one"))
    tools = [app.tool(one, "one"), app.tool(two, "two")]
    run(function_agent(app, [("one", {"input": "s1"}), ("two", {"input": "s2"})], tools=tools))


def agent_two_rounds(app):
    run(function_agent(app, SEARCH, SEARCH))


def agent_retriever_tool(app):
    tool = RetrieverTool.from_defaults(app.retriever(), name="search", description="the retriever")
    run(function_agent(app, tools=[tool]))


def agent_retriever_tool_with_reranker(app):
    tool = RetrieverTool.from_defaults(
        app.retriever(), name="search", description="", node_postprocessors=[app.keep_last()]
    )
    run(function_agent(app, tools=[tool]))


def agent_tool_without_retriever(app):
    def search(input: str) -> Response:  # noqa: A002 - the tool's argument
        """Search."""
        return Response("found", source_nodes=app.retriever().__class__(["gamma"])._retrieve(None))

    run(function_agent(app, tools=[FunctionTool.from_defaults(search)]))


def agent_tool_of_text(app):
    def search(input: str) -> str:  # noqa: A002 - the tool's argument
        """Search."""
        return "some text"

    run(function_agent(app, tools=[FunctionTool.from_defaults(search)]))


def agent_tool_fails(app):
    run(function_agent(app, tools=[app.tool(app.engine(app.retriever(failures=[ConnectionError("index down")])))]))


def agent_tool_fails_after_its_retrieval(app):
    tools = [app.tool(app.engine(model=app.model(ConnectionError("model down"), "found")))]
    run(function_agent(app, SEARCH, SEARCH, tools=tools))


def agent_model_fails(app):
    with pytest.raises(ConnectionError):
        run(function_agent(app, SEARCH, ConnectionError("model down")))


class Found(Event):
    """Between the steps."""

    question: str
    nodes: list


class OnceMore:
    """Tries a failed step a second time, at once."""

    def next(self, elapsed_time: float, attempts: int, error: Exception, **_: object) -> float | None:
        """Seconds to wait, or None to give up."""
        return 0.0 if attempts < 2 else None


class RagWorkflow(Workflow):
    """Searches in one step, and answers in another."""

    retriever: object = None
    model: object = None
    result: object = None

    @step
    async def search(self, ev: StartEvent) -> Found:
        """Search."""
        question = ev.get("query") or ev.get("topic")
        return Found(question=question, nodes=await self.retriever.aretrieve(question))

    @step(retry_policy=OnceMore())
    async def answer(self, ev: Found) -> StopEvent:
        """Answer."""
        response = await get_response_synthesizer(self.model).asynthesize(ev.question, ev.nodes)
        return StopEvent(result=self.result(response))


def workflow(app, *, retriever=None, model=None, result=lambda response: response):
    """A RAG workflow."""
    made = RagWorkflow()
    made.retriever, made.model, made.result = retriever or app.retriever(), model or app.model(), result
    return made


def workflow_custom(app):
    run(workflow(app), query=Q)


def workflow_returns_text(app):
    run(workflow(app, result=str), query=Q)


def workflow_returns_dict(app):
    run(workflow(app, result=lambda response: {"answer": str(response), "n": 1}), query=Q)


def workflow_returns_number(app):
    run(workflow(app, result=lambda response: 42), query=Q)


def workflow_with_unknown_names(app):
    run(workflow(app), topic=Q)


def workflow_step_retried(app):
    run(workflow(app, model=app.model(ConnectionError("model down"), "answer")), query=Q)


def workflow_streams_deltas(app):
    class Streaming(Workflow):
        @step
        async def go(self, ctx: Context, ev: StartEvent) -> StopEvent:
            response, text = await app.engine(streaming=True).aquery(ev.query), ""
            async for token in response.async_response_gen():
                ctx.write_event_to_stream(Found(question=token, nodes=[]))
                text += token
            return StopEvent(result=text)

    async def go():
        handler = Streaming().run(query=Q)
        assert ["ans", "wer"] == [ev.question async for ev in handler.stream_events() if isinstance(ev, Found)]
        assert "answer" == await handler

    asyncio.run(go())


def workflow_fails(app):
    with pytest.raises(ConnectionError):
        run(workflow(app, retriever=app.retriever(failures=[ConnectionError("index down")])), query=Q)


def workflows_at_once(app):
    async def three():
        runs = [workflow(app, retriever=app.echo()).run(query=f"q{i}") for i in range(3)]
        await asyncio.gather(*runs)

    asyncio.run(three())


# fmt: off
MATRIX = [
    # row  scenario                              question  contexts             answer    status
    (30,   agent_function,                       [(Q,       FOUND,               "answer", "ok")]),
    (30,   agent_not_streaming,                  [(Q,       FOUND,               "answer", "ok")]),
    (30,   agent_multi,                          [(Q,       FOUND,               "answer", "ok")]),
    (30,   agent_message_object,                 [(Q,       FOUND,               "answer", "ok")]),
    (30,   agent_history_only,                   [(Q,       FOUND,               "answer", "ok")]),
    (30,   agent_react,                          [(Q,       FOUND,               "answer", "ok")]),
    (31,   agent_stream_events,                  [(Q,       FOUND,               "answer", "ok")]),
    (31,   agent_two_retrievals,                 [(Q,       FOUND,               "answer", "ok")]),
    (31,   agent_two_rounds,                     [(Q,       FOUND,               "answer", "ok")]),
    (32,   workflows_at_once,                    [(f"q{i}", [f"about q{i}"], "answer", "ok") for i in range(3)]),
    (33,   agent_retriever_tool,                 [(Q,       FOUND,               "answer", "ok")]),
    (33,   agent_retriever_tool_with_reranker,   [(Q,       ["beta"],            "answer", "ok")]),
    (33,   agent_tool_without_retriever,         [(Q,       ["gamma"],           "answer", "ok")]),
    (33,   agent_tool_of_text,                   [(Q,       None,                "answer", "ok")]),
    (34,   agent_tool_fails,                     [(Q,       None,                "answer", "ok")]),
    (34,   agent_tool_fails_after_its_retrieval, [(Q,       FOUND,               "answer", "ok")]),
    ("34b", agent_model_fails,                   [(Q,       FOUND,               None,     "error")]),
    (35,   workflow_custom,                      [(Q,       FOUND,               "answer", "ok")]),
    (35,   workflow_returns_text,                [(Q,       FOUND,               "answer", "ok")]),
    (35,   workflow_returns_dict,                [(Q,       FOUND,               "answer", "ok")]),
    (35,   workflow_returns_number,              [(Q,       FOUND,               "answer", "ok")]),
    (35,   workflow_with_unknown_names,          [(Q,       FOUND,               "answer", "ok")]),
    (35,   workflow_step_retried,                [(Q,       FOUND,               "answer", "ok")]),
    (35,   workflow_streams_deltas,              [(Q,       FOUND,               "answer", "ok")]),
    (35,   workflow_fails,                       [(Q,       None,                None,     "error")]),
]
# fmt: on


@pytest.mark.parametrize(("row", "scenario", "expected"), MATRIX, ids=[f"{row[0]}-{row[1].__name__}" for row in MATRIX])
def test_agent_matrix(app, row, scenario, expected):
    """Each scenario leaves exactly these records: question, contexts, answer, status."""
    scenario(app)
    assert expected == sorted(app.seen())


@pytest.mark.parametrize(
    ("scenario", "error"),
    [
        (agent_tool_fails, "ConnectionError: index down"),
        (agent_tool_fails_after_its_retrieval, "ConnectionError: model down"),
        (workflow_step_retried, "ConnectionError: model down"),
    ],
)
def test_errors_that_a_run_survived(app, scenario, error):
    """Rows 34, 35: the run says ok, the record says what went wrong inside."""
    scenario(app)
    assert (None, [error]) == (app.draft.error, app.draft.inner_errors)


def test_tags_of_a_run(app):
    """Row 37: a workflow's run is told without its tags; they are taken from where it runs."""
    with instrument_tags({"user_id": 7, "session_id": "s", "release": "r1", "llamaindex.secret": "x"}):
        run(workflow(app), query=Q)
    draft = app.draft
    assert ("7", "s", {"release": "r1"}) == (draft.user_id, draft.session_id, draft.metadata)


def test_streamed_result_of_a_workflow(app):
    """A run that returns a stream is recorded when the application has read it."""

    class Streaming(Workflow):
        @step
        async def go(self, ev: StartEvent) -> StopEvent:
            return StopEvent(result=await app.engine(streaming=True).aquery(ev.query))

    async def go():
        response = await Streaming().run(query=Q)
        assert ([], 1) == (app.seen(), app.instrumentor.in_flight)
        return "".join([token async for token in response.async_response_gen()])

    assert "answer" == asyncio.run(go())
    assert [(Q, FOUND, "answer", "ok")] == app.seen()


def test_cancelled_run_is_truncated(app):
    """The application stopped it: no error, and no answer."""

    class Waiting(Workflow):
        @step
        async def go(self, ctx: Context, ev: StartEvent) -> StopEvent:
            await app.retriever().aretrieve(ev.query)
            ctx.write_event_to_stream(Found(question="", nodes=[]))
            await asyncio.Event().wait()
            return StopEvent()

    async def go():
        handler = Waiting(timeout=None).run(query=Q)
        async for _ in handler.stream_events():
            await handler.cancel_run()
            break
        with pytest.raises(BaseException):  # noqa: B017, PT011 - named differently from version to version
            await handler

    asyncio.run(go())
    assert [(Q, FOUND, None, "truncated")] == app.seen()
