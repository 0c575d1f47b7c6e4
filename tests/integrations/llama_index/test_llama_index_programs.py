"""Programs of 2026, as applications write them: each says what a careful reader of its prompts would write down."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from llama_index.core import get_response_synthesizer
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.chat_engine import CondensePlusContextChatEngine
from llama_index.core.llms import ChatMessage, TextBlock
from llama_index.core.memory import Memory
from llama_index.core.query_engine import RouterQueryEngine
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step

from llama_index.observability.ragstone import RagstoneInstrumentor
from ragstone.testing import MemoryRecorder

Q = "Can I return the pump after three weeks, and who pays the postage?"
RETURNS = (
    "Returns. You may return any unused device within 30 days of delivery. The original packaging must be included. "
    "Opened filters and seals cannot be returned for reasons of hygiene."
)
POSTAGE = "Postage. For returns within Germany we send you a prepaid label. From other countries you pay the postage yourself."
BOTH = [RETURNS, POSTAGE]
ANSWER = "Yes, an unused pump can be returned within 30 days. Inside Germany we send you a prepaid label."

PROGRAMS = {}


def program(contexts, answer=ANSWER, query=Q, doubts=()):
    """Add a program with what it is expected to leave."""

    def add(function):
        PROGRAMS[function.__name__] = (function, (query, contexts, answer, doubts))
        return function

    return add


def run(workflow, **start):
    """Run a workflow to its end."""

    async def go():
        return await workflow.run(**start)

    return asyncio.run(go())


@program(BOTH, "answer")
def agent_workflow_with_notes_in_its_state(app):
    """Agents write notes into the state, hand over, and read the notes again."""

    async def record_notes(ctx: Context, notes: str, title: str) -> str:
        """Record notes."""
        async with ctx.store.edit_state() as state:
            state["state"].setdefault("notes", []).append({"title": title, "text": notes})
        return "Notes recorded."

    async def read_notes(ctx: Context) -> str:
        """Read the notes."""
        return str((await ctx.store.get("state"))["notes"])

    notes = {
        "notes": "Returns are possible for thirty days, and Germany has prepaid labels for them.",
        "title": "Returns",
    }
    calls = [("search", {"input": "returns"}), ("record_notes", notes), ("read_notes", {})]
    tools = [app.tool(app.engine(app.retriever(*BOTH), app.model("30 days, with a prepaid label inside Germany.")))]
    tools += [FunctionTool.from_defaults(async_fn=record_notes), FunctionTool.from_defaults(async_fn=read_notes)]
    agent = FunctionAgent(name="research", description="d", tools=tools, llm=app.agent_model(*calls))
    run(AgentWorkflow(agents=[agent], root_agent="research", initial_state={"notes": []}), user_msg=Q)


@program(BOTH)
def react_agent_whose_tool_answers_in_a_word(app):
    """The observation is the reply of the engine."""
    engine = app.engine(app.retriever(*BOTH), app.model("Yes"))
    model = app.model(
        'Thought: I need a tool.\nAction: search\nAction Input: {"input": "returns"}',
        f"Thought: I can answer without using any more tools.\nAnswer: {ANSWER}",
    )
    run(ReActAgent(tools=[app.tool(engine)], llm=model, streaming=False), user_msg=Q)


@program(BOTH)
def router(app):
    """A selector chooses one of two engines."""
    right = app.tool(app.engine(app.retriever(*BOTH), app.model(ANSWER)), "returns")
    wrong = app.tool(app.engine(app.retriever("The shop is open until 18 on all working days of the week.")), "opening")
    selector = LLMSingleSelector.from_defaults(llm=app.model('[{"choice": 2, "reason": "It is about returns."}]'))
    RouterQueryEngine(selector=selector, query_engine_tools=[wrong, right], llm=app.model("x")).query(Q)


@program(BOTH, "Yes.", "And after three weeks?")
def chat_engine_with_a_memory(app):
    """A conversation whose memory holds earlier turns, with an answer of one word."""
    memory = Memory.from_defaults(session_id="s", token_limit=4000)
    memory.put_messages(
        [ChatMessage(role="user", content="Can I return a pump?"), ChatMessage(role="assistant", content="Yes.")]
    )
    model = app.model("Can a pump be returned after three weeks?", "Yes.")
    engine = CondensePlusContextChatEngine.from_defaults(app.retriever(*BOTH), llm=model, memory=memory)
    engine.chat("And after three weeks?")


class Found(Event):
    """What was retrieved."""

    nodes: list


@program([POSTAGE])
def workflow_that_filters_and_asks_itself(app):
    """Steps retrieve, filter and answer."""
    model = app.model(ANSWER)

    class Rag(Workflow):
        @step
        async def retrieve(self, event: StartEvent) -> Found:
            nodes = await app.retriever(*BOTH).aretrieve(event.query)
            return Found(nodes=[node for node in nodes if "postage" in node.text.lower()])

        @step
        async def answer(self, event: Found) -> StopEvent:
            context = "\n\n".join(node.text for node in event.nodes)
            reply = await model.acomplete(f"Context:\n{context}\n\nQuestion: {Q}\nAnswer:")
            return StopEvent(result=reply.text)

    run(Rag(), query=Q)


@program(BOTH)
def engine_in_a_block_next_to_a_guard(app):
    """A guard asks a model before and after the engine. The engine's answer is the only one made from passages."""
    guard = app.engine(
        app.retriever("Never give legal advice to customers of the shop, whatever they ask for."), app.model("safe")
    )
    with app.recorder.request(Q) as request:
        answer = app.engine(app.retriever(*BOTH), app.model(ANSWER)).query(Q)
        request.answer(answer)
        app.model("friendly").complete(f"Which tone has this text? {answer}")
    assert guard is not None


@program(BOTH)
def streamed_synthesis_by_hand(app):
    """The application retrieves, and hands the nodes to a synthesizer, whose stream it reads in a block."""
    with app.recorder.request(Q) as request:
        nodes = app.retriever(*BOTH).retrieve(Q)
        response = get_response_synthesizer(llm=app.model(ANSWER), streaming=True).synthesize(Q, nodes)
        request.answer(response)
        assert "".join(response.response_gen)


@program(BOTH)
def provider_search_of_the_responses_api(app):
    """The raw response of the provider holds what it found."""
    results = [{"file_id": f"f{n}", "filename": "a", "score": 0.9, "text": text} for n, text in enumerate(BOTH)]
    raw = SimpleNamespace(model="gpt-5", output=[{"type": "file_search_call", "results": results}], usage=None)
    model = app.model(ANSWER, raw=raw)

    class Asks(Workflow):
        @step
        async def answer(self, event: StartEvent) -> StopEvent:
            return StopEvent(result=(await model.acomplete(event.query)).text)

    run(Asks(), query=Q)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_captured_as_a_careful_reader_sees_it(make_app, name):
    """Question, contexts, answer and doubts of one request."""
    function, expected = PROGRAMS[name]
    app = make_app(recorder=MemoryRecorder())
    function(app)
    app.instrumentor.stop_registering()
    (draft,) = app.drafts
    contexts = None if draft.contexts is None else [passage.text for passage in draft.contexts]
    assert expected == (draft.query, contexts, draft.response, draft.evidence.doubts)
    assert (0, {}) == (app.instrumentor.errors, app.recorder.errors)
    assert isinstance(app.instrumentor, RagstoneInstrumentor)


@pytest.mark.parametrize(
    ("declared", "contexts", "doubts"),
    [
        ({}, [RETURNS], ("text_tool:preferences",)),
        ({"preferences": False}, [RETURNS], ()),
        ({"preferences": True}, [RETURNS, POSTAGE, Q], ()),
    ],
    ids=["undeclared", "does not retrieve", "retrieves"],
)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("form", ["list", "blocks"])
def test_plain_texts_of_a_tool_next_to_an_engine(make_app, declared, contexts, doubts, streamed, form):
    """They are in doubt until the tool is declared, and never mixed with what was retrieved."""
    app = make_app(recorder=MemoryRecorder(), options={"retriever_tools": declared})

    def preferences(user: str) -> Any:
        """Look up what the user likes."""
        return [TextBlock(text=text) if form == "blocks" else text for text in (POSTAGE, Q)]

    calls = [("search", {"input": "returns"}), ("preferences", {"user": "u1"})]
    tools = [app.tool(app.engine(app.retriever(RETURNS), app.model("Within 30 days, if it is unused."))), preferences]
    agent = FunctionAgent(tools=tools, llm=app.agent_model(*calls), streaming=streamed)
    run(agent, user_msg="Which rules apply?")

    app.instrumentor.stop_registering()
    (draft,) = app.drafts
    assert (contexts, doubts) == ([passage.text for passage in draft.contexts], draft.evidence.doubts)
