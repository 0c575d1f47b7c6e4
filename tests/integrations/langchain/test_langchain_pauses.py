"""LangGraph's graphs: pauses, heard of without importing LangGraph for those who have no graphs; and what steps write."""

from __future__ import annotations

import subprocess
import sys

import langgraph.callbacks
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_scenarios import graphs
from langgraph.types import Command, Send

from langchain_ragstone import RagstoneCallbackHandler
from langchain_ragstone._graph import input_keys, keys_written
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


@pytest.mark.parametrize("inputs", [None, Command(resume="yes"), Command(goto="a step", update={"answer": ""}), "who?"])
def test_what_resumes_is_given_no_keys(inputs):
    """Its state is that of the request which it continues with."""
    assert input_keys(inputs) is None
