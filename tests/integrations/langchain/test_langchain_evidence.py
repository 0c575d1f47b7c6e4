"""Programs whose state, tools and callbacks look like retrieved passages or like requests of their own."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_scenarios import Q
from langchain_scenarios.attaching import collect_traces
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send

from ragstone.testing import MemoryRecorder

TOWER = "The lighthouse of Sollund was rebuilt in 1894 after a storm and is 31 metres tall, measured from its base."
LAMP = "Its lamp was electrified in 1922. Before that, the keepers carried eleven litres of oil a night up the stairs."
DRINK = "The ferry to Sollund runs four times a day from April to September and carries no more than twelve cars."
PLAN = ["Find the height of the lighthouse of Sollund in the documents", "Write a short answer for the visitor"]
ANSWER = "The lighthouse of Sollund is 31 metres tall."


def calls(*wanted: tuple[str, dict[str, Any]]) -> AIMessage:
    """A reply that calls tools."""
    return AIMessage(
        "", tool_calls=[{"name": name, "args": args, "id": f"{name}-{n}"} for n, (name, args) in enumerate(wanted)]
    )


def invoke(program, inputs, config):
    return program.invoke(inputs, config)


def ainvoke(program, inputs, config):
    return asyncio.run(program.ainvoke(inputs, config))


def stream(program, inputs, config):
    return list(program.stream(inputs, config))


def astream(program, inputs, config):
    async def read():
        return [chunk async for chunk in program.astream(inputs, config)]

    return asyncio.run(read())


ways = pytest.mark.parametrize("call", [invoke, ainvoke, stream, astream])


def texts(draft):
    """Texts of the contexts, None if they are unknown."""
    if draft.contexts is not None:
        return [passage.text for passage in draft.contexts]
    if draft.evidence.contexts == "unknown":
        return None
    return [passage.text for search in draft.retrievals for passage in search.passages]


@tool
def search(query: str) -> list[Document]:
    """Search the documents about Sollund."""
    return [Document(TOWER, id="t"), Document(LAMP, id="l")]


# -- the state of a graph


@ways
@pytest.mark.parametrize("options", [{}, {"retriever_tools": {"write_todos": False}}], ids=["undeclared", "declared"])
def test_the_to_do_list_of_a_middleware_is_not_retrieved(make_app, call, options):
    """LangChain's own plan tool writes its items into the state and into the prompt."""
    app = make_app(options=options)
    todos = [{"content": text, "status": "pending"} for text in PLAN]
    model = app.model(calls(("write_todos", {"todos": todos})), calls(("search", {"query": "height"})), ANSWER)
    agent = create_agent(model, [search], middleware=[TodoListMiddleware()])
    call(agent, {"messages": [("user", Q)]}, app.config)

    assert ([TOWER, LAMP], ()) == (texts(app.draft), app.draft.evidence.doubts)


class Planned(AgentState):
    """The state of an agent with a plan, memories of the user and examples."""

    plan: list[Any]
    memories: list[Any]


def plan_graph(app, state, *, retrieves):
    """A graph that shows a list of its state in the prompt, with or without a retrieval."""

    def ask(state):
        shown = [item.get("content") or item.get("text") for item in state["memories"]]
        found = app.retriever(TOWER, LAMP).invoke("height") if retrieves else []
        prompt = ChatPromptTemplate.from_messages([("system", "{shown} {found}"), ("user", "{question}")])
        written = (prompt | app.model(ANSWER)).invoke(
            {"shown": "\n".join(shown), "found": "\n".join(one.page_content for one in found), "question": Q}
        )
        return {"messages": [written]}

    graph = StateGraph(state)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    return graph.compile()


MEMORIES = [
    [{"content": "The user is a sailor who prefers short answers with numbers."}],
    [{"text": "The user asked about the harbour of Sollund last week.", "kind": "semantic"}],
]


@ways
@pytest.mark.parametrize("memories", MEMORIES, ids=["content", "text"])
def test_memories_of_the_user_are_not_contexts_next_to_a_retrieval(app, call, memories):
    """A list of mappings with a text in the state is not retrieved, if the request has a retrieval."""
    call(plan_graph(app, Planned, retrieves=True), {"messages": [("user", Q)], "memories": memories}, app.config)

    assert ([TOWER, LAMP], ()) == (texts(app.draft), app.draft.evidence.doubts)


@pytest.mark.parametrize("memories", MEMORIES, ids=["content", "text"])
def test_memories_of_the_user_are_contexts_with_a_doubt_without_a_retrieval(app, memories):
    """Nothing says whether the list was retrieved: the doubt names its key."""
    graph = plan_graph(app, Planned, retrieves=False)
    graph.invoke({"messages": [("user", Q)], "memories": memories}, app.config)

    assert ("text_in_state:memories",) == app.draft.evidence.doubts


@pytest.mark.parametrize(
    "hits",
    [
        {"documents": [{"content": TOWER}]},
        {"retrieved_docs": [{"text": TOWER}]},
        {"found": [{"text": TOWER, "score": 0.7}]},
        {"found": [{"content": TOWER, "id": "t"}]},
        {"found": [{"page_content": TOWER}]},
    ],
    ids=["key", "another key", "score", "id", "page_content"],
)
def test_hits_in_the_state_with_an_evident_form_are_contexts(app, hits):
    """An application without a retriever keeps its hits in the state."""

    class Searched(TypedDict):
        question: str
        documents: list[Any]
        retrieved_docs: list[Any]
        found: list[Any]
        answer: str

    def answer(state):
        shown = [item for key in hits for item in state[key]]
        shown = "\n".join(item.get("content") or item.get("text") or item["page_content"] for item in shown)
        return {"answer": app.model(ANSWER).invoke(f"{shown}\n{Q}").content}

    graph = StateGraph(Searched)
    graph.add_node("search", lambda state: hits)
    graph.add_node("answer", answer)
    graph.add_edge(START, "search")
    graph.add_edge("search", "answer")
    graph.compile().invoke({"question": Q}, app.config)

    assert ([TOWER], ()) == (texts(app.draft), app.draft.evidence.doubts)


# -- short answers of tools


@ways
@pytest.mark.parametrize("reply", ["31 metres.", "1894", "Yes"])
def test_a_tool_that_answers_in_a_word_keeps_the_contexts_of_its_answer(app, call, reply):
    """The result of the tool is the reply of the call inside it, however short it is."""

    @tool
    def lookup(question: str) -> str:
        """Answer from the documents."""
        return app.rag(app.retriever(TOWER, LAMP), app.model(reply)).invoke(question)

    agent = create_agent(app.model(calls(("lookup", {"question": "how tall?"})), ANSWER), [lookup])
    call(agent, {"messages": [("user", Q)]}, app.config)

    assert ([TOWER, LAMP], ()) == (texts(app.draft), app.draft.evidence.doubts)


@pytest.mark.parametrize("answer", ["Yes", "No", "Partly"])
def test_an_answer_that_equals_that_of_one_tool_keeps_the_contexts_of_all(app, answer):
    """The last call read the results of both tools, also if its answer is the same word as one of them."""

    @tool
    def height(question: str) -> str:
        """Answer questions about the height."""
        return app.rag(app.retriever(TOWER), app.model("Yes")).invoke(question)

    @tool
    def ferry(question: str) -> str:
        """Answer questions about the ferry."""
        return app.rag(app.retriever(DRINK), app.model("No")).invoke(question)

    both = calls(("height", {"question": "31 metres?"}), ("ferry", {"question": "every day in winter?"}))
    create_agent(app.model(both, answer), [height, ferry]).invoke({"messages": [("user", Q)]}, app.config)

    assert ({TOWER, DRINK}, ()) == ({*texts(app.draft)}, app.draft.evidence.doubts)


def test_a_short_answer_of_a_grader_does_not_bring_its_passages(app):
    """A grader's reply stands in the later prompt by coincidence, and it is not the result of a tool."""

    def grade(state: dict[str, Any]) -> dict[str, Any]:
        found = app.retriever(TOWER, DRINK).invoke(Q)
        kept = [
            one
            for one in found
            if app.model("yes" if one.page_content == TOWER else "no")
            .invoke(f"Does this help? {one.page_content}")
            .content
            == "yes"
        ]
        shown = "\n".join(one.page_content for one in kept)
        return {"answer": app.model(ANSWER).invoke(f"Say yes or no first, then explain.\n{shown}\n{Q}").content}

    from langchain_core.runnables import RunnableLambda

    RunnableLambda(grade).invoke({"question": Q}, app.config)
    assert [TOWER] == texts(app.draft)


# -- runs without their parent


class Other(BaseCallbackHandler):
    """The handler of another tool."""


@ways
@pytest.mark.parametrize("passed", ["other", "own"])
def test_a_node_that_passes_callbacks_does_not_split_the_request(make_app, call, passed):
    """LangChain does not name the parent of such a run, but its configuration variable still holds it."""
    with collect_traces() as traces:
        app = make_app()
        given = {"callbacks": [Other()] if passed == "other" else [app.handler]}

        def retrieve(state):
            found = app.retriever(TOWER, LAMP).invoke(state["question"], given)
            return {"documents": found}

        def answer(state):
            shown = "\n".join(one.page_content for one in state["documents"])
            return {"answer": app.model(ANSWER).invoke(f"{shown}\n{state['question']}", given).content}

        class Asked(TypedDict):
            question: str
            documents: list[Document]
            answer: str

        graph = StateGraph(Asked)
        graph.add_node("retrieve", retrieve)
        graph.add_node("generate", answer)
        graph.add_edge(START, "retrieve")
        graph.add_edge("retrieve", "generate")
        call(graph.compile(), {"question": Q}, app.config)

    for drafts in (app.drafts, traces) if passed == "own" else (traces,):
        (draft,) = drafts
        assert (Q, [TOWER, LAMP], ANSWER, "in_prompt") == (
            draft.query, texts(draft), draft.response, draft.evidence.contexts,
        )  # fmt: skip


def test_a_graph_whose_model_calls_are_not_seen_has_contexts_with_a_doubt(app):
    """Callbacks that a node passes replace the handler of the request: no prompt is visible."""

    def answer(state):
        found = app.retriever(TOWER, LAMP).invoke(state["question"])
        shown = found[0].page_content
        reply = app.model(ANSWER).invoke(f"{shown}\n{state['question']}", {"callbacks": [Other()]})
        return {"documents": found, "answer": reply.content}

    class Asked(TypedDict):
        question: str
        documents: list[Document]
        answer: str

    graph = StateGraph(Asked)
    graph.add_node("generate", answer)
    graph.add_edge(START, "generate")
    graph.compile().invoke({"question": Q}, app.config)

    assert "unseen_prompt" in app.draft.evidence.doubts


# -- a framework's request in a block


class Parts(TypedDict):
    """The state of a graph that maps over parts and reduces."""

    question: str
    notes: Annotated[list[str], operator.add]
    answer: str


def map_reduce(app):
    """A graph whose last call is not the one that began last."""

    def take(state):
        reply = app.model("It is 31 metres tall, says the first part.").invoke(f"{TOWER}\n{Q}")
        return {"notes": [reply.content]}

    def reduce(state):
        answer = app.model(ANSWER).invoke("\n".join(state["notes"]) + Q).content
        app.model("friendly").invoke(f"What is the tone of this? {answer}")
        return {"answer": answer}

    graph = StateGraph(Parts)
    graph.add_node("find", lambda state: app.retriever(TOWER).invoke(Q) and {})
    graph.add_node("take", take)
    graph.add_node("reduce", reduce)
    graph.add_edge(START, "find")
    graph.add_conditional_edges("find", lambda state: [Send("take", state)], ["take"])
    graph.add_edge("take", "reduce")
    graph.add_edge("reduce", END)
    return graph.compile()


@ways
def test_the_output_of_a_graph_in_a_block_is_the_answer(make_app, call):
    """A later reply of a guard is not."""
    recorder = MemoryRecorder()
    app = make_app(recorder=recorder)
    with recorder.request(Q):
        call(map_reduce(app), {"question": Q, "notes": []}, app.config)

    (draft,) = recorder.drafts
    assert (ANSWER, [TOWER], ()) == (draft.response, texts(draft), draft.evidence.doubts)


@ways
def test_answer_reads_the_state_of_an_agent(make_app, call):
    """`request.answer(agent.invoke(...))` is the line of our documentation."""
    recorder = MemoryRecorder()
    app = make_app(recorder=recorder)
    agent = create_agent(app.model(calls(("search", {"query": "height"})), ANSWER), [search])
    with recorder.request(Q) as request:
        returned = call(agent, {"messages": [("user", Q)]}, app.config)
        request.answer(returned if isinstance(returned, dict) else returned[-1])

    (draft,) = recorder.drafts
    assert (ANSWER, [TOWER, LAMP], (), {}) == (draft.response, texts(draft), draft.evidence.doubts, recorder.errors)


@ways
def test_a_block_inside_a_node_is_a_part_of_the_chain(make_app, call):
    """Passages that a node states in a block of its own are those of the request around it."""
    recorder = MemoryRecorder()
    app = make_app(recorder=recorder)

    def answer(inputs):
        with recorder.request(inputs["question"]) as request:
            request.found([TOWER])
        return ANSWER

    call(RunnableLambda(answer), {"question": Q}, app.config)

    (draft,) = recorder.drafts
    assert (Q, ANSWER, [TOWER], {}) == (draft.query, draft.response, texts(draft), recorder.errors)


# -- doubts without reason


@ways
def test_a_hand_off_that_passes_the_history_on_is_not_in_doubt(app, call):
    """The messages before the tool's own one are not its result."""

    @tool
    def transfer_to_expert(reason: str) -> Command[Any]:
        """Hand the request over to the expert."""
        history = [HumanMessage(Q), AIMessage("I am going to ask the expert for the height of the lighthouse. " * 3)]
        return Command(
            update={"messages": [*history, ToolMessage("Transferred.", tool_call_id="transfer_to_expert-0")]}
        )

    model = app.model(
        calls(("transfer_to_expert", {"reason": "height"})), calls(("search", {"query": "height"})), ANSWER
    )
    call(create_agent(model, [transfer_to_expert, search]), {"messages": [("user", Q)]}, app.config)

    assert ([TOWER, LAMP], ()) == (texts(app.draft), app.draft.evidence.doubts)


@ways
def test_the_handled_error_of_a_tool_is_not_in_doubt(app, call):
    """An error that the model reads is not a passage."""

    @tool
    def broken(query: str) -> str:
        """Fail."""
        raise ValueError("The archive of Sollund is closed for maintenance until the first of May. Try another source.")

    broken.handle_tool_error = True
    broken.handle_validation_error = True
    from langchain_core.tools import ToolException

    def fail(query: str) -> str:
        raise ToolException("The archive of Sollund is closed for maintenance until the first of May. Try another one.")

    broken.func = fail
    model = app.model(calls(("broken", {"query": "height"})), calls(("search", {"query": "height"})), ANSWER)
    call(create_agent(model, [broken, search]), {"messages": [("user", Q)]}, app.config)

    assert ([TOWER, LAMP], ()) == (texts(app.draft), app.draft.evidence.doubts)


# -- smaller ones


def test_a_handler_in_the_constructor_of_a_model_does_not_record_a_call_of_a_tool_as_the_answer(app):
    """Such a handler sees the model's calls only, and each of them is a request."""
    model = app.model(calls(("search", {"query": "height"})), ANSWER)
    model.callbacks = [app.handler]
    create_agent(model, [search]).invoke({"messages": [("user", Q)]})

    assert [None, ANSWER] == [draft.response for draft in app.drafts]


@ways
def test_drafts_have_the_contexts_that_traces_have(make_app, call):
    """Also if they are simply what was found."""
    app = make_app(recorder=MemoryRecorder())
    with collect_traces() as traces:
        call(app.rag(app.retriever(TOWER, LAMP), app.model(ANSWER)), Q, app.config)

    for draft in (*traces, *app.recorder.drafts):
        assert [TOWER, LAMP] == [passage.text for passage in draft.contexts or ()]
        assert draft.stored_contexts is None


@pytest.mark.parametrize("mode", ["updates", "values", "messages"])
def test_a_graph_stream_that_is_closed_in_a_block_is_truncated(make_app, mode):
    """It began to answer, at the time of its first chunk."""
    recorder = MemoryRecorder()
    app = make_app(recorder=recorder)
    with recorder.request(Q) as request:
        stream = request.answer(map_reduce(app).stream({"question": Q, "notes": []}, app.config, stream_mode=mode))
        next(stream)
        stream.close()

    (draft,) = recorder.drafts
    assert ("truncated", None, []) == (draft.status, draft.error, draft.inner_errors)
    assert draft.first_token_s is not None


# -- two frameworks


def test_an_engine_of_another_framework_in_a_tool_is_a_part_of_the_request(make_app):
    """LlamaIndex's engine answers in a word, inside a tool of LangChain's agent."""
    core = pytest.importorskip("llama_index.core")
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    from llama_index.observability.ragstone import RagstoneInstrumentor

    class Found(BaseRetriever):
        def _retrieve(self, query_bundle):
            return [NodeWithScore(node=TextNode(text=text), score=1.0) for text in (TOWER, LAMP)]

    engine = core.query_engine.RetrieverQueryEngine.from_args(Found(), llm=MockLLM(max_tokens=2))

    @tool
    def ask(question: str) -> str:
        """Ask the engine."""
        return str(engine.query(question))

    app = make_app()
    instrumentor = RagstoneInstrumentor(app.recorder)
    instrumentor.start_registering()
    try:
        agent = create_agent(app.model(calls(("ask", {"question": "how tall?"})), ANSWER), [ask])
        agent.invoke({"messages": [("user", Q)]}, app.config)
    finally:
        instrumentor.stop_registering()

    assert (Q, ANSWER, [TOWER, LAMP], ()) == (
        app.draft.query, app.draft.response, texts(app.draft), app.draft.evidence.doubts,
    )  # fmt: skip


def test_a_chain_of_another_framework_in_a_workflow_is_a_part_of_the_request(make_app):
    """LangChain's chain answers inside a step of LlamaIndex's workflow."""
    pytest.importorskip("llama_index.core")
    from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step

    from llama_index.observability.ragstone import RagstoneInstrumentor

    app = make_app()
    chain = app.rag(app.retriever(TOWER, LAMP), app.model(ANSWER))

    class Asks(Workflow):
        @step
        async def answer(self, event: StartEvent) -> StopEvent:
            return StopEvent(result=await chain.ainvoke(event.user_msg, app.config))

    async def go():
        await Asks().run(user_msg=Q)

    instrumentor = RagstoneInstrumentor(app.recorder)
    instrumentor.start_registering()
    try:
        asyncio.run(go())
    finally:
        instrumentor.stop_registering()

    assert (Q, ANSWER, [TOWER, LAMP], ()) == (
        app.draft.query, app.draft.response, texts(app.draft), app.draft.evidence.doubts,
    )  # fmt: skip


def test_a_thousand_requests_at_once_are_not_mixed(make_app):
    """Requests in tasks that share a context variable, each with a call that has callbacks of its own."""
    app = make_app()

    async def one(number):
        async def step(question):
            found = await app.echo().ainvoke(question, {"callbacks": [app.handler]})
            await asyncio.sleep(0)
            reply = await app.model(f"answer {question}").ainvoke(
                f"{found[0].page_content}\n{question}", {"callbacks": [app.handler]}
            )
            return reply.content

        from langchain_core.runnables import RunnableLambda

        await RunnableLambda(step).ainvoke(f"question number {number} of all", app.config)

    async def go():
        await asyncio.gather(*(one(number) for number in range(1_000)))

    asyncio.run(go())
    assert 1_000 == len(app.drafts)
    for draft in app.drafts:
        assert (f"answer {draft.query}", [f"about {draft.query}"]) == (draft.response, texts(draft))
