"""Streams, read to their end or not."""

from __future__ import annotations

import asyncio

from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, StateGraph

from langchain_scenarios import FOUND, Q, prompt_of


def lcel_stream(app):
    assert "answer" == "".join(app.rag().stream(Q, app.config))


def lcel_astream(app):
    async def read() -> str:
        return "".join([chunk async for chunk in app.rag().astream(Q, app.config)])

    assert "answer" == asyncio.run(read())


def lcel_astream_events_v2(app):
    async def read() -> list[object]:
        return [event async for event in app.rag().astream_events(Q, app.config, version="v2")]

    assert asyncio.run(read())


def stream_of_a_dict(app):
    list((RunnableLambda(lambda row: row["input"]) | app.rag()).stream({"input": Q}, app.config))


def model_stream_events_v3(app):
    assert "answer" == "".join(app.model("answer").stream_events(Q, app.config, version="v3").text)


def model_astream_events_v3(app):
    async def read() -> str:
        stream = await app.model("answer").astream_events(Q, app.config, version="v3")
        return "".join([text async for text in stream.text])

    assert "answer" == asyncio.run(read())


def graph(app):
    """Search, then write."""
    steps = StateGraph(dict)
    steps.add_node("search", lambda state: {**state, "context": app.retriever(*FOUND).invoke(state["question"])})
    steps.add_node("write", lambda state: {**state, "answer": app.model("answer").invoke(prompt_of(state)).content})
    steps.add_edge(START, "search")
    steps.add_edge("search", "write")
    return steps.compile()


def graph_stream(app):
    assert list(graph(app).stream({"question": Q}, app.config, stream_mode="messages"))


def graph_astream(app):
    async def read() -> list[object]:
        return [
            part async for part in graph(app).astream({"question": Q}, app.config, stream_mode=["messages", "values"])
        ]

    assert asyncio.run(read())


def graph_stream_events_v3(app):
    assert list(graph(app).stream_events({"question": Q}, app.config, version="v3"))


def graph_astream_events_v3(app):
    async def read() -> list[object]:
        return [event async for event in await graph(app).astream_events({"question": Q}, app.config, version="v3")]

    assert asyncio.run(read())


def stream_closed_early(app):
    stream = app.rag().stream(Q, app.config)
    next(stream)
    stream.close()


def stream_abandoned(app):
    stream = app.rag().stream(Q, app.config)
    next(stream)
    assert (0, 1) == (len(app.drafts), app.handler.in_flight)
    assert 1 == app.handler.record_abandoned(older_than_s=0)
    stream.close()


def astream_break(app):
    async def leave() -> None:
        stream = app.rag().astream(Q, app.config)
        await anext(stream)
        await stream.aclose()

    asyncio.run(leave())


def graph_stream_closed_early(app):
    stream = graph(app).stream({"question": Q}, app.config)
    next(stream)
    stream.close()
