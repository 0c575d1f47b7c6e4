"""LangGraph: pauses, subgraphs, maps, checkpointers."""

from __future__ import annotations

import asyncio
import operator
import uuid
from typing import Annotated, TypedDict

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel

from langchain_scenarios import FOUND, Q, prompt_of

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
    graph.add_node("write", write or (lambda state: {"answer": app.model("answer").invoke(prompt_of(state)).content}))
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
    graph.add_node("write", lambda state: {"answer": app.model("answer").invoke(prompt_of(state)).content})
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


def searches_when_asked(app, **options):
    """A graph that searches for questions only; what is no question it answers by itself, or not at all."""
    graph = StateGraph(State)
    graph.add_node("search", lambda state: {"context": app.retriever(*FOUND).invoke(state["question"])})
    graph.add_node("write", lambda _: {"answer": "answer"})
    graph.add_node("greet", lambda state: {"answer": "hello"} if state["question"] == "hi" else None)
    graph.add_conditional_edges(START, lambda state: "search" if state["question"].endswith("?") else "greet")
    graph.add_edge("search", "write")
    return graph.compile(checkpointer=InMemorySaver(), **options)


def graph_turn_without_retrieval(app):
    bot = searches_when_asked(app)
    for said in ("who?", "hi", "bye"):
        bot.invoke({"question": said}, threaded(app))


def graph_turn_without_retrieval_streamed(app):
    bot = searches_when_asked(app)
    for said in ("who?", "hi", "bye"):
        for _ in bot.stream({"question": said}, threaded(app)):
            pass


def graph_turn_with_commands(app):
    graph = StateGraph(State)
    graph.add_node(
        "search", lambda state: Command(goto="write", update={"context": [Document(f"about {state['question']}")]})
    )
    graph.add_node("write", lambda _: [Command(update=[("answer", "answer")])])
    graph.add_edge(START, "search")
    bot = graph.compile(checkpointer=InMemorySaver())
    for question in ("one", "two"):
        bot.invoke({"question": question}, threaded(app))


def graph_subgraph_returns_contexts(app):
    inner = StateGraph(State)
    inner.add_node(
        "found", lambda _: Command(graph=Command.PARENT, goto="write", update={"context": [Document("far")]})
    )
    inner.add_edge(START, "found")
    graph = StateGraph(State)
    graph.add_node("search", inner.compile())
    graph.add_node("write", lambda _: {"answer": "answer"})
    graph.add_edge(START, "search")
    graph.compile(checkpointer=InMemorySaver()).invoke({"question": Q}, threaded(app))


def graph_with_contexts_in_its_input(app):
    graph = StateGraph(State)
    graph.add_node("write", lambda _: {"answer": "answer"})
    graph.add_edge(START, "write")
    given = {"question": Q, "context": [Document("given")]}
    graph.compile(checkpointer=InMemorySaver()).invoke(given, threaded(app))


def function_with_a_checkpointer(app):
    @entrypoint(checkpointer=InMemorySaver())
    def bot(question: str) -> dict:
        return entrypoint.final(value={"context": [Document("own")], "answer": "answer"}, save=question)

    bot.invoke(Q, threaded(app))


class Typed(BaseModel):
    """A state with types."""

    question: str
    context: list[Document] = []
    answer: str | None = None


def graph_typed_state(app):
    graph = StateGraph(Typed)
    graph.add_node(
        "search", lambda state: Typed(question=state.question, context=[Document(f"about {state.question}")])
    )
    graph.add_node("write", lambda _: {"answer": "answer"})
    graph.add_conditional_edges(START, lambda state: "search" if state.question == Q else "write")
    graph.add_edge("search", "write")
    bot = graph.compile(checkpointer=InMemorySaver())
    for question in (Q, "two"):
        bot.invoke(Typed(question=question), threaded(app))


def chain_around_a_graph_on_a_thread(app):
    graph = StateGraph(State)
    graph.add_node("search", lambda _: {"context": [Document("own")], "answer": "answer"})
    graph.add_edge(START, "search")
    shown = graph.compile(checkpointer=InMemorySaver()) | (
        lambda state: {"source_documents": state["context"], "result": state["answer"]}
    )
    shown.invoke({"question": Q}, {**threaded(app), "metadata": {"thread_id": "T"}})


def function_on_a_thread(app):
    own = RunnableLambda(lambda _: {"context": [Document("own")], "answer": "answer"})
    own.invoke({"question": Q}, {**app.config, "metadata": {"thread_id": "T"}})
