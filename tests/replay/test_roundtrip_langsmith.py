"""What LangSmith's tracer sent of a request, replayed, is what our own capture saw of the same request."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from ragstone.capture import Capture
from ragstone.reading._formats import all_formats
from ragstone.schema import Trace, sample_from_trace
from ragstone.spool import SpoolReader, SpoolWriter

pytest.importorskip("langchain_core")
pytest.importorskip("langchain_ragstone")


def seen(trace: Trace):
    """What metrics see of a request, who asked, and what LangSmith and our sink know it by.

    Of a request that failed, LangSmith's runs show documents as inputs of a step that the handler does not see: the same
    passages by another rule.
    """
    sample = sample_from_trace(trace)
    tokens = trace.usage and (trace.usage.input_tokens, trace.usage.output_tokens)
    told = {name: value for name, value in sample.metadata.items() if name != "langsmith_project"}
    return (
        trace.name, trace.run_id, trace.status, sample.model_dump(exclude={"id", "metadata", "evidence"}), trace.evidence.doubts, told, tokens, trace.model,
        trace.session_id, trace.user_id, trace.tags,
    )  # fmt: skip


def test_langsmith_replays_to_what_was_captured(read, tmp_path, monkeypatch):
    """Six kinds of requests: the same samples, the same status, the same tokens, and the same run to score."""
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    pytest.importorskip("langchain_classic")
    from replay_apps import langchain_app
    from replay_apps.langsmith_capture import captured as langsmith

    from langchain_ragstone import RagstoneCallbackHandler

    with langsmith("lighthouse") as (tracer, runs), Capture(partial(SpoolWriter, tmp_path / "spool")) as capture:
        langchain_app.run_all([tracer, RagstoneCallbackHandler(capture)])
    reader = SpoolReader(tmp_path / "spool")
    entries = [e for segment in reader.segments() for e in reader.read(segment.name, max_entries=1000).entries]
    captured = [entry.trace for entry in entries]
    replayed, rejected = read(
        all_formats()["langsmith"], "".join(json.dumps(run) + "\n" for run in runs.values()).encode()
    )

    assert [] == rejected
    assert 6 == len(captured)
    assert [seen(t) for t in captured] == [seen(t) for t in sorted(replayed, key=lambda trace: trace.started_at)]


TOWER = "The lighthouse of Sollund was rebuilt in 1894 after a storm and is 31 metres tall, measured from its base."
LAMP = "Its lamp was electrified in 1922. Before that, the keepers carried eleven litres of oil a night up the stairs."
PLAN = ["Find the height of the lighthouse of Sollund in the documents", "Write a short answer for the visitor"]


def agents():
    """Agents whose tools and state look like passages, by name."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import TodoListMiddleware
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeMessagesListChatModel
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.tools import ToolException, tool
    from langgraph.types import Command

    class Model(FakeMessagesListChatModel):
        def bind_tools(self, tools, **kwargs):
            return self

    def scripted(*calls):
        replies = [AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"{name}-1"}]) for name, args in calls]
        return Model(responses=[*replies, AIMessage("The lighthouse is 31 metres tall.")])

    @tool
    def search(query: str) -> Any:
        """Search."""
        return [Document(TOWER, id="t"), Document(LAMP, id="l")]

    @tool
    def lookup(question: str) -> str:
        """Answer from the documents."""
        prompt = ChatPromptTemplate.from_messages([("user", TOWER + " {question}")])
        return (prompt | Model(responses=[AIMessage("31 metres.")])).invoke({"question": question}).content

    @tool
    def transfer(reason: str) -> Any:
        """Hand over, with the history."""
        history = [HumanMessage("How tall?"), AIMessage("I am going to ask the expert for the height of it. " * 3)]
        return Command(update={"messages": [*history, ToolMessage("Transferred.", tool_call_id="transfer-1")]})

    @tool
    def archive(query: str) -> str:
        """Fail."""
        raise ToolException("The archive of Sollund is closed until the first of May. Please try another source then.")

    archive.handle_tool_error = True
    todos = {"todos": [{"content": text, "status": "pending"} for text in PLAN]}
    found = ("search", {"query": "height"})
    return {
        "plan": create_agent(scripted(("write_todos", todos), found), [search], middleware=[TodoListMiddleware()]),
        "word": create_agent(scripted(("lookup", {"question": "how tall?"}), found), [search, lookup]),
        "hand-off": create_agent(scripted(("transfer", {"reason": "height"}), found), [search, transfer]),
        "error": create_agent(scripted(("archive", {"query": "height"}), found), [search, archive]),
    }


@pytest.mark.parametrize("name", ["plan", "word", "hand-off", "error"])
def test_tools_and_state_that_look_like_passages_are_read_as_in_live_capture(read, tmp_path, monkeypatch, name):
    """The contexts are those of the search, without a doubt."""
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    pytest.importorskip("langchain.agents")
    from replay_apps.langsmith_capture import captured as langsmith

    from langchain_ragstone import RagstoneCallbackHandler
    from ragstone.testing import MemoryRecorder

    recorder = MemoryRecorder()
    with langsmith("lighthouse") as (tracer, runs):
        config = {"callbacks": [tracer, RagstoneCallbackHandler(recorder)]}
        agents()[name].invoke({"messages": [("user", "How tall is the lighthouse of Sollund?")]}, config)
    replayed, rejected = read(
        all_formats()["langsmith"], "".join(json.dumps(run) + "\n" for run in runs.values()).encode()
    )

    assert [] == rejected
    (draft,), (trace,) = recorder.drafts, replayed
    live = draft.contexts or [passage for search in draft.retrievals for passage in search.passages]
    assert ([TOWER, LAMP], ()) == ([passage.text for passage in live], draft.evidence.doubts)
    assert ([TOWER, LAMP], ()) == ([p.text for p in trace.prompt_contexts or ()], trace.evidence.doubts)


def short_and_direct():
    """Agents whose tools reply shortly or answer directly, with what is expected of each, by name."""
    from langchain.agents import create_agent
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeMessagesListChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.tools import tool

    class Model(FakeMessagesListChatModel):
        def bind_tools(self, tools, **kwargs):
            return self

    class Pages(BaseRetriever):
        page: str

        def _get_relevant_documents(self, query, *, run_manager):
            return [Document(self.page, id=self.page[:3])]

    def about(page, reply, question):
        prompt = ChatPromptTemplate.from_messages([("user", "{page} {question}")])
        found = Pages(page=page).invoke(question)[0].page_content
        return (prompt | Model(responses=[AIMessage(reply)])).invoke({"page": found, "question": question}).content

    @tool
    def height(question: str) -> str:
        """Answer a question about the tower."""
        return f"The expert says: {about(TOWER, '31 metres.', question)}"

    @tool
    def lamp(question: str) -> str:
        """Look into a page, with a note about another one."""
        return f"A note of {about(TOWER, '31 metres', question)} is old. {Pages(page=LAMP).invoke(question)[0].page_content}"

    @tool(return_direct=True)
    def answer(question: str) -> str:
        """Answer directly."""
        return about(TOWER, "31 metres.", question)

    def agent(one):
        call = AIMessage("", tool_calls=[{"name": one.name, "args": {"question": "how tall?"}, "id": "1"}])
        return create_agent(Model(responses=[call, AIMessage("It is 31 metres tall.")]), [one])

    return {
        "label": (agent(height), ([TOWER], "It is 31 metres tall.", ())),
        "sentence": (agent(lamp), ([LAMP], "It is 31 metres tall.", ("short_reply",))),
        "direct": (agent(answer), ([TOWER], "31 metres.", ())),
    }


@pytest.mark.parametrize("name", ["label", "sentence", "direct"])
def test_short_replies_and_direct_answers_are_read_as_in_live_capture(read, monkeypatch, name):
    """Contexts, answer and doubts are the same."""
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    pytest.importorskip("langchain.agents")
    from replay_apps.langsmith_capture import captured as langsmith

    from langchain_ragstone import RagstoneCallbackHandler
    from ragstone.testing import MemoryRecorder

    recorder = MemoryRecorder()
    runnable, expected = short_and_direct()[name]
    with langsmith("lighthouse") as (tracer, runs):
        config = {"callbacks": [tracer, RagstoneCallbackHandler(recorder)]}
        runnable.invoke({"messages": [("user", "How tall is the lighthouse of Sollund?")]}, config)
    replayed, rejected = read(
        all_formats()["langsmith"], "".join(json.dumps(run) + "\n" for run in runs.values()).encode()
    )

    assert [] == rejected
    (draft,), (trace,) = recorder.drafts, replayed
    live = draft.contexts or [passage for search in draft.retrievals for passage in search.passages]
    assert expected == ([passage.text for passage in live], draft.response, draft.evidence.doubts)
    assert expected == ([p.text for p in trace.prompt_contexts or ()], trace.response, trace.evidence.doubts)
