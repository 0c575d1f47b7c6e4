"""Agents: the question is the user's, the contexts are what the tools found in this turn, the answer is the last word."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_core.tools import create_retriever_tool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

Q = "who?"
FOUND = ["alpha", "beta"]
ASK = {"messages": [HumanMessage(Q)]}


def agent_with(app, search, *, replies=("answer",), queries=("a query",), **options):
    """An agent that calls the tool once for each query, and then answers."""
    model = app.model(app.search_call(*queries), *replies)
    return create_agent(model, [search], **options)


def search_tool(app, response_format="content"):
    return create_retriever_tool(app.retriever(*FOUND), "search", "Searches.", response_format=response_format)


def agent_retriever_tool(app):
    agent_with(app, search_tool(app)).invoke(ASK, app.config)


def agent_retriever_tool_with_artifact(app):
    agent_with(app, search_tool(app, "content_and_artifact")).invoke(ASK, app.config)


def agent_messages_as_tuples(app):
    agent_with(app, search_tool(app)).invoke({"messages": [("user", Q)]}, app.config)


def agent_stream(app):
    assert list(agent_with(app, search_tool(app)).stream(ASK, app.config, stream_mode="messages"))
    assert app.draft.first_token_s > 0


def agent_artifact_tool_no_retriever(app):
    @tool("search", response_format="content_and_artifact")
    def search(query: str) -> tuple[str, list[Document]]:
        """Search an index that is none of LangChain's."""
        return "found", [Document(page_content=text) for text in FOUND]

    agent_with(app, search).invoke(ASK, app.config)


def agent_text_tool_no_artifact(app):
    @tool("search")
    def search(query: str) -> str:
        """Search, and return text only."""
        return "alpha and beta"

    agent_with(app, search).invoke(ASK, app.config)


def agent_rag_chain_as_tool(app):
    @tool("search")
    def search(query: str) -> str:
        """Ask another chain."""
        return app.rag(model=app.model("inner answer")).invoke(query)

    agent_with(app, search).invoke(ASK, app.config)


def agent_tool_error_then_recovers(app):
    attempts = []

    @tool("search")
    def search(query: str) -> str:
        """Fail once after searching, then succeed."""
        attempts.append(query)
        text = str(app.retriever("wrong" if len(attempts) == 1 else "right").invoke(query))
        if len(attempts) == 1:
            raise ConnectionError("try again")
        return text

    from langchain.agents.middleware import wrap_tool_call
    from langchain_core.messages import ToolMessage

    @wrap_tool_call
    def report(request, handler):
        try:
            return handler(request)
        except ConnectionError as error:
            return ToolMessage(str(error), tool_call_id=request.tool_call["id"])

    replies = (app.search_call("again"), "answer")
    agent_with(app, search, replies=replies, middleware=[report]).invoke(ASK, app.config)


# fmt: off
MATRIX = [
    # row  scenario                             contexts  searches
    (29,   agent_retriever_tool,                FOUND,    1),
    (29,   agent_retriever_tool_with_artifact,  FOUND,    1),
    (29,   agent_messages_as_tuples,            FOUND,    1),
    (31,   agent_stream,                        FOUND,    1),
    (33,   agent_artifact_tool_no_retriever,    FOUND,    1),
    (34,   agent_text_tool_no_artifact,         None,     0),  # unknown, which is not "none"
    (35,   agent_rag_chain_as_tool,             FOUND,    1),
    (36,   agent_tool_error_then_recovers,      ["right"], 1),
]
# fmt: on


@pytest.mark.parametrize(
    ("row", "scenario", "contexts", "searches"), MATRIX, ids=[f"{row[0]}-{row[1].__name__}" for row in MATRIX]
)
def test_agent_matrix(app, row, scenario, contexts, searches):
    """Each scenario leaves one good record with the user's question, these contexts and the final answer."""
    scenario(app)
    assert [(Q, contexts, "answer", "ok")] == app.seen()
    assert searches == len(app.draft.searches)


def test_agent_with_two_searches_at_once(app):
    """Row 30: the contexts of parallel tool calls are put together; each search keeps its query."""
    agent = agent_with(app, create_retriever_tool(app.echo(), "search", "Searches."), queries=("first", "second"))
    asyncio.run(agent.ainvoke(ASK, app.config))
    ((question, contexts, answer, status),) = app.seen()
    assert (Q, ["about first", "about second"], "answer", "ok") == (question, sorted(contexts), answer, status)
    assert ["first", "second"] == sorted(search.query for search in app.draft.searches)


def test_agent_turns_are_kept_apart(app):
    """Row 32: the checkpointer's state holds all turns, the record only its own; the thread is the session."""
    model = app.model(app.search_call("one"), "answer one", app.search_call("two"), "answer two")
    search = create_retriever_tool(app.echo(), "search", "Searches.")
    agent = create_agent(model, [search], checkpointer=InMemorySaver())
    config = {**app.config, "configurable": {"thread_id": "T"}}
    for question in ("q one", "q two"):
        agent.invoke({"messages": [HumanMessage(question)]}, config)
    assert [("q one", ["about one"], "answer one", "ok"), ("q two", ["about two"], "answer two", "ok")] == app.seen()
    assert ["T", "T"] == [draft.session_id for draft in app.drafts]
    assert [{}, {}] == [draft.metadata for draft in app.drafts]


def test_graph_interrupt_and_resume(app):
    """Row 38: the pause is no answer; after the resume the question is found in the state."""

    class State(TypedDict, total=False):
        question: str
        context: list[Document]
        answer: str

    graph = StateGraph(State)
    graph.add_node("search", lambda state: {"context": app.retriever(*FOUND).invoke(state["question"])})
    graph.add_node("ask", lambda _: {"answer": interrupt("what shall I say?")})
    graph.add_edge(START, "search")
    graph.add_edge("search", "ask")
    bot = graph.compile(checkpointer=InMemorySaver())
    config = {**app.config, "configurable": {"thread_id": "T"}}
    bot.invoke({"question": Q, "answer": "of an earlier turn"}, config)
    bot.invoke(Command(resume="answer"), config)
    assert [(Q, FOUND, None, "interrupted"), (Q, FOUND, "answer", "ok")] == app.seen()
    assert [[], []] == [draft.inner_errors for draft in app.drafts]


def test_graph_with_parallel_subgraphs(app):
    """Row 37: searches of a map step belong to the one request."""

    class State(TypedDict, total=False):
        question: str
        notes: Annotated[list[str], operator.add]
        answer: str

    class Notes(TypedDict, total=False):
        notes: list[str]

    inner = StateGraph(State, output_schema=Notes)
    inner.add_node("search", lambda state: {"notes": [str(app.echo().invoke(state["question"]))]})
    inner.add_edge(START, "search")
    graph = StateGraph(State)
    graph.add_node("map", inner.compile())
    graph.add_node("reduce", lambda _: {"answer": "answer"})
    graph.add_conditional_edges(START, lambda _: [Send("map", {"question": f"part {i}"}) for i in range(3)], ["map"])
    graph.add_edge("map", "reduce")
    graph.add_edge("reduce", END)
    graph.compile().invoke({"question": Q}, app.config)
    ((question, contexts, answer, status),) = app.seen()
    assert (Q, [f"about part {i}" for i in range(3)]) == (question, sorted(contexts))
    assert ("answer", "ok") == (answer, status)
