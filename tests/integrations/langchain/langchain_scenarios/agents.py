"""Agents and their tools."""

from __future__ import annotations

import asyncio

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import create_retriever_tool, tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_scenarios import ASK, FOUND, Q


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


def agent_artifact_tool_no_retriever(app):
    @tool("search", response_format="content_and_artifact")
    def search(query: str) -> tuple[str, list[Document]]:
        """Search an index that is none of LangChain's."""
        return str(FOUND), [Document(page_content=text) for text in FOUND]

    agent_with(app, search).invoke(ASK, app.config)


def agent_tool_returns_documents(app):
    @tool("search")
    def search(query: str) -> list[Document]:
        """Search, and return documents, which the model gets as their text in Python."""
        return [Document(page_content=text, id=str(place)) for place, text in enumerate(FOUND)]

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
        return app.rag(model=app.model("an inner answer of a few more words than that")).invoke(query)

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

    @wrap_tool_call
    def report(request, handler):
        try:
            return handler(request)
        except ConnectionError as error:
            return ToolMessage(str(error), tool_call_id=request.tool_call["id"])

    replies = (app.search_call("again"), "answer")
    agent_with(app, search, replies=replies, middleware=[report]).invoke(ASK, app.config)


def agent_ainvoke(app):
    asyncio.run(agent_with(app, search_tool(app)).ainvoke(ASK, app.config))


def agent_two_parallel_retrievals(app):
    agent = agent_with(app, create_retriever_tool(app.echo(), "search", "Searches."), queries=("first", "second"))
    asyncio.run(agent.ainvoke(ASK, app.config))


def agent_multi_turn_checkpointer(app):
    model = app.model(app.search_call("one"), "answer one", app.search_call("two"), "answer two")
    search = create_retriever_tool(app.echo(), "search", "Searches.")
    agent = create_agent(model, [search], checkpointer=InMemorySaver())
    config = {**app.config, "configurable": {"thread_id": "T"}}
    for question in ("q one", "q two"):
        agent.invoke({"messages": [HumanMessage(question)]}, config)
