"""Ways to attach the handler, and to miss it."""

from __future__ import annotations

import threading
from contextlib import contextmanager

from langchain_core.callbacks import CallbackManager
from langchain_core.callbacks.manager import trace_as_chain_group
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from langchain_ragstone import ragstone_disable, ragstone_enable
from langchain_ragstone._evaluated import capture_into
from langchain_scenarios import FOUND, Q
from langchain_scenarios.graphs import search_and_write
from ragstone.testing import MemoryRecorder


@contextmanager
def enabled(app):
    """Process-wide, for as long as a scenario lasts."""
    ragstone_enable(app.handler)
    try:
        yield
    finally:
        ragstone_disable()


def in_a_bare_thread(call, *arguments):
    """A thread that starts without this one's context."""
    thread = threading.Thread(target=call, args=arguments)
    thread.start()
    thread.join()


def constructor_callbacks_only(app):
    # LangChain ignores the argument: nothing is captured, and nothing breaks.
    type(app.retriever())(texts=FOUND, callbacks=[app.handler]).invoke(Q)


def with_config_bound(app):
    app.rag().with_config(callbacks=[app.handler]).invoke(Q, app.config)


@contextmanager
def collect_traces():
    """The requests of a block, as `ragstone.evaluate` collects them."""
    recorder = MemoryRecorder()
    with capture_into(recorder):
        yield recorder.drafts


def process_wide(app):
    with enabled(app):
        app.rag().invoke(Q)
        in_a_bare_thread(app.rag().invoke, Q)
        app.rag().invoke(Q, app.config)


def block_and_a_plain_thread(app):
    with collect_traces() as traces:
        app.rag().invoke(Q)
        in_a_bare_thread(app.rag().invoke, "missed")
    app.drafts.extend(traces)


def process_wide_graph_interrupt_before(app):
    bot = search_and_write(app, checkpointer=InMemorySaver(), interrupt_before=["write"])
    with enabled(app):
        bot.invoke({"question": Q}, {"configurable": {"thread_id": "T"}})
        bot.invoke(None, {"configurable": {"thread_id": "T"}})


def process_wide_graph_interrupt_resume(app):
    bot = search_and_write(
        app, write=lambda _: {"answer": interrupt("what shall I say?")}, checkpointer=InMemorySaver()
    )
    with enabled(app):
        bot.invoke({"question": Q}, {"configurable": {"thread_id": "T"}})
        bot.invoke(Command(resume="answer"), {"configurable": {"thread_id": "T"}})


def process_wide_plain_thread_in_lambda(app):
    def search(question: str) -> str:
        in_a_bare_thread(app.retriever(*FOUND).invoke, question)
        return question

    with enabled(app):
        (RunnableLambda(search) | app.model("answer")).invoke(Q)


def group_of(app, **options):
    """LangChain's way to make one run of several calls."""
    with trace_as_chain_group("group", inputs={"input": Q}, **options) as group:
        documents = app.retriever(*FOUND).invoke(Q, {"callbacks": group})
        reply = app.model("answer").invoke(str(documents), {"callbacks": group})
        group.on_chain_end({"output": reply.content})


def chain_group(app):
    # LangChain drops the callbacks of a group unless LangSmith traces.
    group_of(app, callback_manager=CallbackManager([app.handler], [app.handler]))


def chain_group_process_wide(app):
    with enabled(app):
        group_of(app)
