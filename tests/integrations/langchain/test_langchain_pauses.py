"""LangGraph's graphs: pauses, heard of without importing LangGraph for those who have no graphs; and what steps write."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import uuid
from typing import Any, TypedDict

import langgraph.callbacks
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_scenarios import graphs
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from langchain_ragstone import RagstoneCallbackHandler, _graph
from langchain_ragstone._graph import keys_written
from langchain_ragstone._live import Live
from ragstone.requests import Step, TraceDraft
from ragstone.testing import MemoryRecorder


class Mine(RagstoneCallbackHandler):
    """A handler that someone made of ours."""


def test_a_handler_made_before_langgraph_was_imported_hears_of_pauses(app, monkeypatch):
    """It becomes one of LangGraph's at its first request, and stays what it was."""
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "langgraph.callbacks")
        app.handler = Mine(app.recorder)
        assert type(app.handler) is Mine
    graphs.graph_interrupt_before(app)
    assert ["interrupted", "ok"] == [draft.status for draft in app.drafts]
    assert isinstance(app.handler, langgraph.callbacks.GraphCallbackHandler)
    assert (Mine.__name__, Mine.__module__, Mine.__doc__) == (
        type(app.handler).__name__, type(app.handler).__module__, type(app.handler).__doc__,
    )  # fmt: skip


def test_handlers_of_one_class_become_one_class():
    """Not a class for each handler: an application may make one for each request."""
    first, second = Mine(MemoryRecorder()), Mine(MemoryRecorder())
    assert type(first) is type(second)
    assert issubclass(type(first), Mine)
    assert type(first) is not type(RagstoneCallbackHandler(MemoryRecorder()))


def test_a_pause_of_a_graph_that_is_not_followed_is_none_of_ours(app):
    """Its id may be unknown, or missing."""
    for run_id in (None, graphs.UNKNOWN):
        app.handler.on_interrupt(langgraph.callbacks.GraphInterruptEvent(run_id, "interrupt_before", "c", (), ()))
    assert ([], 0) == (app.drafts, app.handler.errors)


def test_langgraph_is_not_imported_for_chains():
    """It takes half a second, which those with graphs have spent already."""
    code = (
        "import sys; from langchain_ragstone import RagstoneCallbackHandler as H; from langchain_core.callbacks import *;"
        "h = H(type('R', (), {'record': print})()); import uuid; h.on_chain_start(None, 'q', run_id=uuid.uuid4());"
        "print([name for name in sys.modules if name.startswith('langgraph')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]" == done.stdout.splitlines()[0]
    assert BaseCallbackHandler in RagstoneCallbackHandler.__mro__


@pytest.mark.parametrize(
    ("output", "keys"),
    [
        (None, set()),
        ("the next step", set()),
        (Send("a step", {"context": []}), set()),
        ([Send("a step", {"context": []}), "another"], set()),
        ({"context": [], "answer": None}, {"context", "answer"}),
        (graphs.Typed(question="who?", answer=None), {"question", "answer"}),
        (Command(goto="a step"), set()),
        (Command(update={"answer": ""}), {"answer"}),
        (Command(update=[("answer", ""), ("notes", [])]), {"answer", "notes"}),
        ([Command(update={"answer": ""}), {"notes": []}], {"answer", "notes"}),
        ((1, 2), None),
        (7, None),
        (["the next step", 7], None),
    ],
)
def test_what_a_step_writes(output, keys):
    """All that it returns for the state, in each form that graphs take; of other forms no one knows."""
    assert keys == keys_written(output)


DOCS = [Document(id=f"d{n}", page_content=f"Passage {n} says where boat {n} lands on Sundays.") for n in range(3)]
NEW = Document(id="new", page_content="A clerk has noted that no boat lands today.")


class _Retriever(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return DOCS


class _State(TypedDict, total=False):
    question: str
    documents: list[Document]
    draft: str
    answer: str


def reviewed(app, *between, after=None):
    """A graph whose model sees one of three documents, and whose draft a person reviews.

    Args:
        app: The application.
        between: For each request, what happens between its parts, or None.
        after: A step after the pause.
    """
    model = FakeListChatModel(responses=["It lands at the pier of the town."])
    graph = StateGraph(_State)
    graph.add_node("find", lambda state: {"documents": _Retriever().invoke(state["question"])})
    graph.add_node(
        "write", lambda state: {"draft": model.invoke(f"{DOCS[0].page_content} {state['question']}").content}
    )
    graph.add_node("review", lambda state: {"answer": interrupt(state["draft"])})
    graph.add_node("last", after or (lambda _: {}))
    for start, end in itertools.pairwise((START, "find", "write", "review", "last", END)):
        graph.add_edge(start, end)
    compiled = graph.compile(checkpointer=InMemorySaver())
    for step in between:
        thread = {"configurable": {"thread_id": f"{uuid.uuid4()}"}}
        compiled.invoke({"question": "Where does it land?"}, {**thread, "callbacks": [app.handler]})
        if step is not None:
            step()
        compiled.invoke(Command(resume="It lands at the pier of the town."), {**thread, "callbacks": [app.handler]})
    return app.drafts[1::2]


def contexts(app):
    """The ids of the contexts of each resumed request. None if they are unknown."""
    known = {one.page_content: one.id for one in (*DOCS, NEW)}
    return [None if seen.contexts is None else [known[text] for text in seen.contexts] for seen in app.seen()[1::2]]


def test_a_resumed_graph_has_the_contexts_of_the_prompt_before_the_pause(app):
    """Not all documents of its state. The model's tokens were paid before the pause."""
    (draft,) = reviewed(app, None)
    assert [["d0"]] == contexts(app)
    assert ("Where does it land?", "in_prompt") == (draft.query, draft.evidence.contexts)
    assert [["d0", "d1", "d2"]] == [[passage.id for passage in found.passages] for found in draft.retrievals]


def test_a_handler_of_the_second_part_alone_knows_them(app):
    """An application may make a handler for each part."""

    def another():
        app.handler = RagstoneCallbackHandler(app.recorder)

    reviewed(app, another)
    assert [["d0"]] == contexts(app)


def test_contexts_are_unknown_if_the_first_part_is(app):
    """As in another process: nothing says which documents of the state the model saw."""
    (draft,) = reviewed(app, _graph._paused._steps.clear)
    assert ([None], "unknown", []) == (contexts(app), draft.evidence.contexts, draft.retrievals)
    assert ("Where does it land?", "It lands at the pier of the town.") == (draft.query, draft.response)


def test_documents_that_the_second_part_wrote_count(app):
    """They are of this request."""
    (draft,) = reviewed(app, _graph._paused._steps.clear, after=lambda _: {"documents": [NEW]})
    assert ([["new"]], "in_output") == (contexts(app), draft.evidence.contexts)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent():
    """A thread that holds the lock at the fork does not exist in the child."""
    code = """
import os, signal
from langchain_ragstone import _graph
with _graph._paused._lock:
    child = os.fork()
    if not child:
        signal.alarm(20)
        os._exit(0 if _graph._paused._lock.acquire(timeout=5) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "0\n" == done.stdout


def test_parts_of_other_threads_are_not_mixed_up(app):
    """Each is kept with its thread, and forgotten at its end."""
    reviewed(app, None, None)
    assert [["d0"], ["d0"]] == contexts(app)
    assert {} == dict(_graph._paused._steps)


def test_a_hundred_paused_requests_are_kept(app, monkeypatch):
    """The oldest are forgotten, and those with much text are not kept."""
    monkeypatch.setattr(_graph, "_MAX_PAUSED", 2)
    graphs_paused = []
    for limit in (200_000, 200_000, 200_000, 10):
        monkeypatch.setattr(_graph, "_MAX_PAUSED_CHARS", limit)
        reviewed(app, lambda: graphs_paused.append(len(_graph._paused._steps)))
    assert [1, 1, 1, 0] == graphs_paused
    monkeypatch.setattr(_graph, "_MAX_PAUSED_CHARS", 200_000)
    for n in range(4):
        live = Live(TraceDraft(trace_id=str(n), source="langchain", started_at=0.0), Step(id=n))
        live.thread = ("graph", str(n))
        _graph.end_on_thread(live, "interrupted")
    assert [("graph", "2"), ("graph", "3")] == list(_graph._paused._steps)
    _graph._paused._steps.clear()


@pytest.mark.parametrize(
    ("inputs", "resumed", "written"),
    [
        (None, True, set()),
        (Command(resume="yes"), True, set()),
        (Command(goto="a step", update={"answer": ""}), True, {"answer"}),
        ({"question": "who?"}, False, {"question"}),
        ("who?", False, None),
    ],
)
def test_what_resumes(inputs, resumed, written):
    """A graph that is given nothing, or a command, continues with its state."""
    live = Live(TraceDraft(trace_id="1", source="langchain", started_at=0.0), Step(id=1))
    _graph.begin_on_thread(live, inputs, "t")
    assert (resumed, written) == (live.resumed, live.written)
