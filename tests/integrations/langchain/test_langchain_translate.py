"""LangChain's shapes in, Ragstone's words out: the rules one by one."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import Generation, LLMResult
from langchain_core.prompt_values import ChatPromptValue, StringPromptValue
from pydantic import BaseModel

from langchain_ragstone import _translate as translate
from langchain_ragstone._compat import check_floor
from ragstone.requests import PassageDraft, TraceDraft


class State(BaseModel):
    """What an application may carry through its chains."""

    question: str | None = None
    answer: str | None = None
    context: list[str] | None = None


class Verse(BaseModel):
    """A reply whose only name no rule knows."""

    line: str


@dataclass
class Plain:
    """The same, plainer."""

    question: str | None = None
    answer: str | None = None
    context: list[str] | None = None


HUMAN, AI = HumanMessage("who?"), AIMessage("me")
CALL = AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": "1"}])


@pytest.mark.parametrize(
    ("inputs", "question"),
    [
        ("who?", "who?"),
        ("", None),
        (None, None),
        (3, None),
        ({"question": "who?"}, "who?"),
        ({"query": "who?", "k": 4}, "who?"),
        ({"input": "who?", "chat_history": [HumanMessage("before")]}, "who?"),
        ({"user_input": "who?"}, "who?"),
        ({"input": "", "query": "who?"}, "who?"),
        ({"input": {"nested": 1}, "messages": [HUMAN]}, "who?"),
        ({"topic": "no rule knows this"}, None),
        ({"messages": "who?"}, "who?"),
        ({"messages": [HumanMessage("before"), AI, HUMAN]}, "who?"),
        ({"messages": [("system", "be brief"), ("human", "who?")]}, "who?"),
        ({"messages": [{"role": "user", "content": "who?"}, {"role": "assistant", "content": "me"}]}, "who?"),
        ({"messages": [{"type": "human", "content": [{"type": "text", "text": "who?"}]}]}, "who?"),
        ([SystemMessage("be brief"), HUMAN], "who?"),
        (HUMAN, "who?"),
        (AI, None),
        (ChatPromptValue(messages=[HUMAN]), "who?"),
        (StringPromptValue(text="who?"), "who?"),
        (State(question="who?"), "who?"),
        (Plain(question="who?"), "who?"),
        (Plain, None),
    ],
)
def test_question(inputs, question):
    """A text, the last human message, or either of them under a known key."""
    assert question == translate.question_from(inputs)


@pytest.mark.parametrize(
    ("outputs", "answer"),
    [
        ("me", "me"),
        ("", ""),
        (None, None),
        (["me"], None),
        (State(answer="me"), "me"),
        (Plain(answer="me"), "me"),
        (Plain(), None),
        (State(), None),
        (Verse(line="me"), '{"line":"me"}'),
        ({"answer": Plain(answer="me")}, None),
        ({"answer": State(answer="me")}, "me"),
        ({"answer": Verse(line="me")}, '{"line":"me"}'),
        ({"messages": [CALL], "structured_response": Verse(line="me")}, '{"line":"me"}'),
        (Document(page_content="found"), None),
        (AI, "me"),
        (CALL, None),
        ({"answer": "me", "context": []}, "me"),
        ({"answer": AI}, "me"),
        ({"result": "me"}, "me"),
        ({"output": "me", "input": "who?"}, "me"),
        ({"answer": "", "output": "me"}, "me"),
        ({"answer": ""}, ""),
        ({"haiku": "no rule knows this"}, None),
        ({"messages": [HUMAN, CALL, ToolMessage("found", tool_call_id="1"), AI]}, "me"),
        ({"messages": [HUMAN, AI, HUMAN]}, None),
        ({"messages": [HUMAN, CALL]}, None),
        ({"messages": [HUMAN, CALL, ToolMessage("found", tool_call_id="1")]}, None),
        ({"messages": [{"role": "user", "content": "who?"}, {"role": "assistant", "content": "me"}]}, "me"),
    ],
)
def test_answer(outputs, answer):
    """The last word of the model; a call of a tool is none."""
    assert answer == translate.answer_from(outputs)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ([], None),
        (["one", {"type": "text", "text": " two"}], "one two"),
        ([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "so"}], "so"),
        ([{"type": "image", "url": "x"}], None),
        ([{"type": "text", "text": None}], None),
        (b"bytes", None),
    ],
)
def test_text(content, text):
    """Text blocks only."""
    assert text == translate.text_of(content)


@pytest.mark.parametrize(
    ("outputs", "contexts"),
    [
        ({"context": [Document(page_content="a")]}, ["a"]),
        ({"source_documents": [Document(page_content="a")]}, ["a"]),
        ({"contexts": ["a", "b"]}, ["a", "b"]),
        ({"context": []}, []),
        ({"context": "formatted already"}, None),
        ({"documents": [{"page_content": "a dict"}]}, None),
        (State(context=["a"]), ["a"]),
        (Plain(context=["a"]), ["a"]),
        ([Document(page_content="a")], None),
    ],
)
def test_contexts(outputs, contexts):
    """Documents or texts under a known key; an empty list is an answer, an unknown shape is none."""
    found = translate.contexts_from(outputs)
    assert contexts == (None if found is None else [passage.text for passage in found])


def test_passage():
    """Ids and scores are found where LangChain's stores put them; metadata keeps what JSON can hold."""
    import numpy as np

    documents = [
        Document(page_content="a", id="x", metadata={"score": 0.5, "relevance_score": 0.9}),
        Document(page_content="b", metadata={"doc_id": 7, "score": np.float32(0.25), "tags": ["no"], "ok": True}),
        Document(page_content="c", metadata={"score": math.nan, "when": object()}),
        Document(page_content="d", metadata={"score": "high"}),
        Document(page_content="e", metadata={"id": np.int64(7)}),
    ]
    assert [
        PassageDraft(text="a", id="x", score=0.9, metadata={"score": 0.5, "relevance_score": 0.9}),
        PassageDraft(text="b", id="7", score=0.25, metadata={"doc_id": 7, "score": 0.25, "ok": True}),
        PassageDraft(text="c"),
        PassageDraft(text="d", metadata={"score": "high"}),
        PassageDraft(text="e", id="7", metadata={"id": 7}),
    ] == translate.passages_from(documents)


def test_reply_of_a_completion_model():
    """Older models report tokens and their name beside the generations."""
    result = LLMResult(
        generations=[[Generation(text="me")]],
        llm_output={"token_usage": {"prompt_tokens": 5, "completion_tokens": 2}, "model_name": "davinci"},
    )
    assert translate.LlmReply(text="me", model="davinci", input_tokens=5, output_tokens=2) == translate.reply_from(
        result
    )
    nothing = translate.LlmReply(text=None, model=None, input_tokens=None, output_tokens=None)
    assert nothing == translate.reply_from(LLMResult(generations=[]))


@pytest.mark.parametrize(
    ("inputs", "text", "query"),
    [
        ({"query": "who?", "k": 3}, "{...}", "who?"),
        ({"topic": "who?"}, "{...}", "who?"),
        ({"a": "x", "b": "y"}, "{'a': 'x', 'b': 'y'}", "{'a': 'x', 'b': 'y'}"),
        (None, "who?", "who?"),
    ],
)
def test_tool_query(inputs, text, query):
    """The argument that looks like a query, the only text, else all of them as they came."""
    assert query == translate.tool_query_from(inputs, text)


def test_identity():
    """Known keys become fields; the framework's own are left out."""
    draft = TraceDraft()
    metadata = {"thread_id": 5, "reference": "yes", "ls_provider": "x", "langgraph_step": 1, "team": "a", "__x": 1}
    translate.fill_identity(draft, metadata, ["t"])
    assert ("5", None, ["yes"], {"team": "a"}, ["t"]) == (
        draft.session_id, draft.user_id, draft.reference, draft.metadata, draft.tags,
    )  # fmt: skip
    translate.fill_identity(draft, {"thread_id": 5, "session_id": "s"}, [])
    assert "s" == draft.session_id


def test_an_old_framework_is_refused_with_the_way_out():
    """The message names the version found, the floor, and the line to type."""
    check_floor("1.4.0")
    check_floor("2.0.0rc1")
    with pytest.raises(ImportError, match=r"needs langchain-core 1\.4 or newer, found '0\.3\.76'.*pip install"):
        check_floor("0.3.76")


def test_copies_of_the_handler_are_the_handler(app):
    """A copied chain or configuration still reports to the one handler."""
    assert app.handler is copy.deepcopy({"callbacks": [app.handler]})["callbacks"][0]
    assert app.handler is copy.copy(app.handler)
