"""Programs whose tools and state look like retrieved passages, or whose engines run inside other requests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.query_engine import SubQuestionQueryEngine
from llama_index.core.question_gen.types import SubQuestion
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from pydantic import PrivateAttr

from ragstone.testing import MemoryRecorder

Q = "How tall is the lighthouse of Sollund?"
TOWER = "The lighthouse of Sollund was rebuilt in 1894 after a storm and is 31 metres tall, measured from its base."
LAMP = "Its lamp was electrified in 1922. Before that, the keepers carried eleven litres of oil a night up the stairs."
PLAN = ["Find the height of the lighthouse of Sollund in the documents", "Write a short answer for the visitor"]
ANSWER = "answer"


def contexts(draft):
    """Texts of the contexts, None if they are unknown."""
    if draft.contexts is not None:
        return [passage.text for passage in draft.contexts]
    if draft.evidence.contexts == "unknown":
        return None
    return [passage.text for search in draft.retrievals for passage in search.passages]


def run(agent, *, events=False):
    """Run an agent to its end."""

    async def go():
        handler = agent.run(user_msg=Q)
        if events:
            async for _ in handler.stream_events():
                pass
        return await handler

    return asyncio.run(go())


ways = pytest.mark.parametrize("how", [{"streaming": False}, {}, {"events": True}], ids=["whole", "stream", "events"])


def agent_of(app, calls, tools, how):
    """An agent that makes these calls, and answers."""
    options = {name: value for name, value in how.items() if name != "events"}
    return FunctionAgent(tools=tools, llm=app.agent_model(*calls), **options)


@ways
def test_the_plan_of_an_agent_is_not_retrieved(app, how):
    """A plan tool returns the items that the model wrote, and another one returns them again."""
    items: list[dict[str, Any]] = []

    def write_plan(steps: list[str]) -> list[dict[str, Any]]:
        """Write the plan."""
        items[:] = [{"text": text, "status": "open"} for text in steps]
        return items

    def read_plan() -> list[dict[str, Any]]:
        """Read the plan."""
        return items

    tools = [FunctionTool.from_defaults(write_plan), FunctionTool.from_defaults(read_plan)]
    tools.append(app.tool(app.engine(app.retriever(TOWER, LAMP), app.model("It is 31 metres tall."))))
    calls = [("write_plan", {"steps": PLAN}), ("read_plan", {}), ("search", {"input": "height"})]
    run(agent_of(app, calls, tools, how), events="events" in how)

    assert ([TOWER, LAMP], ()) == (contexts(app.draft), app.draft.evidence.doubts)


@ways
@pytest.mark.parametrize("reply", ["31 metres.", "Yes", "1894"])
def test_an_engine_that_answers_in_a_word_keeps_its_contexts(app, how, reply):
    """The tool's result is the reply of the call inside it."""
    tools = [app.tool(app.engine(app.retriever(TOWER, LAMP), app.model(reply)))]
    run(agent_of(app, [("search", {"input": "height"})], tools, how), events="events" in how)

    assert ([TOWER, LAMP], ()) == (contexts(app.draft), app.draft.evidence.doubts)


@ways
def test_the_handled_error_of_a_tool_is_not_in_doubt(app, how):
    """An error that the model reads is not a passage."""

    def archive(query: str) -> str:
        """Search the archive."""
        raise ValueError(f"The archive of Sollund is closed until the first of May, so nothing was found for {query}.")

    tools = [FunctionTool.from_defaults(archive)]
    tools.append(app.tool(app.engine(app.retriever(TOWER, LAMP), app.model("It is 31 metres tall."))))
    calls = [("archive", {"query": "height"}), ("search", {"input": "height"})]
    run(agent_of(app, calls, tools, how), events="events" in how)

    assert ([TOWER, LAMP], ()) == (contexts(app.draft), app.draft.evidence.doubts)


def test_short_answers_to_sub_questions_keep_their_contexts(app):
    """The prompt holds each sub-question with its answer."""

    class Generator:
        def generate(self, tools, query):
            return [SubQuestion(sub_question="How tall is the lighthouse?", tool_name="search")]

    inner = app.tool(app.engine(app.retriever(TOWER, LAMP), app.model("31 metres.")))
    engine = SubQuestionQueryEngine.from_defaults(
        [inner], question_gen=Generator(), use_async=False, llm=app.model(ANSWER)
    )
    from llama_index.core import get_response_synthesizer

    engine._response_synthesizer = get_response_synthesizer(llm=app.model("It is 31 metres tall, as I was told."))
    engine.query(Q)

    assert ([TOWER, LAMP], ()) == (contexts(app.draft), app.draft.evidence.doubts)


@ways
def test_an_agent_over_an_engine_in_a_block_answers_with_its_output(make_app, how):
    """The engine's inner reply is not the answer."""
    recorder = MemoryRecorder()
    app = make_app(recorder=recorder)
    tools = [app.tool(app.engine(app.retriever(TOWER, LAMP), app.model("It is 31 metres tall, says the archive.")))]
    with recorder.request(Q) as request:
        returned = run(agent_of(app, [("search", {"input": "height"})], tools, how), events="events" in how)
        request.answer(returned)
    app.instrumentor.stop_registering()

    (draft,) = recorder.drafts
    assert (ANSWER, [TOWER, LAMP], (), {}) == (
        draft.response, contexts(draft), draft.evidence.doubts, recorder.errors,
    )  # fmt: skip


def test_a_block_inside_an_engine_is_a_part_of_its_query(make_app):
    """Passages that an engine states in a block of its own are those of the request around it."""
    from llama_index.core.query_engine import CustomQueryEngine

    recorder = MemoryRecorder()
    app = make_app(recorder=recorder)

    class Engine(CustomQueryEngine):
        def custom_query(self, query_str):
            with recorder.request(query_str) as request:
                request.found([TOWER])
            return ANSWER

    Engine().query(Q)
    app.instrumentor.stop_registering()

    (draft,) = recorder.drafts
    assert (Q, ANSWER, [TOWER], {}) == (draft.query, draft.response, contexts(draft), recorder.errors)


class Undecorated(FunctionCallingLLM):
    """A model of an application whose methods LlamaIndex does not see."""

    _n: Any = PrivateAttr(default=0)

    @property
    def metadata(self):
        return LLMMetadata(model_name="own", is_function_calling_model=True)

    async def achat(self, messages, **kwargs):
        done = len(messages) == 1
        calls = [] if done else [ToolSelection(tool_id="1", tool_name="search", tool_kwargs={"input": "height"})]
        return ChatResponse(
            message=ChatMessage(role="assistant", content=ANSWER, additional_kwargs={"tool_calls": calls})
        )

    def _prepare_chat_with_tools(self, tools, user_msg=None, chat_history=None, **_):
        return {"messages": [*(chat_history or []), *([user_msg] if user_msg else [])]}

    def get_tool_calls_from_response(self, response, **_):
        return response.message.additional_kwargs.get("tool_calls", [])

    def chat(self, messages, **kwargs):
        raise NotImplementedError

    stream_chat = astream_chat = complete = stream_complete = acomplete = astream_complete = chat


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_model_that_is_not_seen_gives_contexts_with_a_doubt(app, is_seen):
    """A model without LlamaIndex's callbacks is seen as a span. Of another client nothing says what the model saw."""

    class Asks(Workflow):
        @step
        async def answer(self, event: StartEvent) -> StopEvent:
            nodes = await app.retriever(TOWER, LAMP).aretrieve(Q)
            if not is_seen:
                return StopEvent(result=ANSWER)
            reply = await Undecorated().achat([ChatMessage(role="user", content=f"{nodes[0].text} {Q}")])
            return StopEvent(result=reply.message.content)

    async def go():
        await Asks().run(user_msg=Q)

    asyncio.run(go())
    expected = ([TOWER], ()) if is_seen else ([TOWER, LAMP], ("unseen_prompt",))
    assert expected == (contexts(app.draft), app.draft.evidence.doubts)


@ways
def test_a_hand_off_between_agents_is_not_in_doubt(app, how):
    """The framework's text about the hand-off is not a passage."""
    tools = [app.tool(app.engine(app.retriever(TOWER, LAMP), app.model("It is 31 metres tall.")))]
    options = {name: value for name, value in how.items() if name != "events"}
    calls = [("handoff", {"to_agent": "expert", "reason": "It knows the height of each lighthouse of this coast."})]
    first = FunctionAgent(
        name="desk", description="d", llm=app.agent_model(*calls), can_handoff_to=["expert"], **options
    )
    expert = FunctionAgent(
        name="expert", description="e", tools=tools,
        llm=app.agent_model(*calls, ("search", {"input": "height"})), **options,
    )  # fmt: skip
    run(AgentWorkflow(agents=[first, expert], root_agent="desk"), events="events" in how)

    assert ([TOWER, LAMP], ()) == (contexts(app.draft), app.draft.evidence.doubts)


def test_two_instrumentors_of_one_recorder_record_a_request_once(make_app, caplog):
    """An instrumentor for each request is a mistake that a warning names."""
    app = make_app()
    again = make_app(recorder=app.recorder)
    app.engine().query(Q)
    again.instrumentor.stop_registering()
    app.instrumentor.stop_registering()

    assert 1 == len(app.drafts)
    assert ["registered already" in record.message for record in caplog.records] == [True]
