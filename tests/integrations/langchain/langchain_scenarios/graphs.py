"""LangGraph: pauses, subgraphs, maps, checkpointers."""

from __future__ import annotations

import asyncio
import operator
import uuid
from typing import Annotated, TypedDict

from langchain_core.documents import Document
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

from langchain_scenarios import FOUND, Q

UNKNOWN = uuid.UUID(int=7)


class State(TypedDict, total=False):
    """What the steps share."""

    question: str
    context: list[Document]
    notes: Annotated[list[str], operator.add]
    answer: str


def search_and_write(app, *, write=None, **options):
    """Two steps, the second of which may be given."""
    graph = StateGraph(State)
    graph.add_node("search", lambda state: {"context": app.retriever(*FOUND).invoke(state["question"])})
    graph.add_node("write", write or (lambda _: {"answer": app.model("answer").invoke("a prompt").content}))
    graph.add_edge(START, "search")
    graph.add_edge("search", "write")
    return graph.compile(**options)


def threaded(app):
    """The configuration of a conversation."""
    return {**app.config, "configurable": {"thread_id": "T"}}


def graph_interrupt_resume(app):
    bot = search_and_write(
        app, write=lambda _: {"answer": interrupt("what shall I say?")}, checkpointer=InMemorySaver()
    )
    bot.invoke({"question": Q, "answer": "of an earlier turn"}, threaded(app))
    bot.invoke(Command(resume="answer"), threaded(app))


def graph_interrupt_resume_async(app):
    async def run() -> None:
        async def ask(_: State) -> State:
            return {"answer": interrupt("what shall I say?")}

        bot = search_and_write(app, write=ask, checkpointer=InMemorySaver())
        await bot.ainvoke({"question": Q}, threaded(app))
        await bot.ainvoke(Command(resume="answer"), threaded(app))

    asyncio.run(run())


def graph_interrupt_streamed(app):
    bot = search_and_write(
        app, write=lambda _: {"answer": interrupt("what shall I say?")}, checkpointer=InMemorySaver()
    )
    list(bot.stream({"question": Q}, threaded(app)))
    list(bot.stream(Command(resume="answer"), threaded(app)))


def graph_interrupt_in_a_subgraph(app):
    inner = StateGraph(State)
    inner.add_node("ask", lambda _: {"answer": interrupt("what shall I say?")})
    inner.add_edge(START, "ask")
    bot = search_and_write(app, write=inner.compile(), checkpointer=InMemorySaver())
    bot.invoke({"question": Q}, threaded(app))
    bot.invoke(Command(resume="answer"), threaded(app))


def graph_interrupt_before(app):
    bot = search_and_write(app, checkpointer=InMemorySaver(), interrupt_before=["write"])
    bot.invoke({"question": Q}, threaded(app))
    bot.invoke(None, threaded(app))


def graph_interrupt_after(app):
    bot = search_and_write(app, checkpointer=InMemorySaver(), interrupt_after=["search"])
    bot.invoke({"question": Q}, threaded(app))
    bot.invoke(None, threaded(app))


def graph_interrupt_before_async(app):
    async def run() -> None:
        bot = search_and_write(app, checkpointer=InMemorySaver(), interrupt_before=["write"])
        await bot.ainvoke({"question": Q}, threaded(app))
        await bot.ainvoke(None, threaded(app))

    asyncio.run(run())


def graph_subgraph(app):
    inner = StateGraph(State)
    inner.add_node("search", lambda state: {"context": app.retriever(*FOUND).invoke(state["question"])})
    inner.add_edge(START, "search")
    graph = StateGraph(State)
    graph.add_node("retrieval", inner.compile())
    graph.add_node("write", lambda _: {"answer": app.model("answer").invoke("a prompt").content})
    graph.add_edge(START, "retrieval")
    graph.add_edge("retrieval", "write")
    graph.compile().invoke({"question": Q}, app.config)


def graph_map_reduce(app):
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
    graph.compile().invoke({"question": Q}, app.config)


def graph_turns_checkpointer(app):
    bot = search_and_write(app, checkpointer=InMemorySaver())
    for question in ("q one", "q two"):
        bot.invoke({"question": question}, threaded(app))
