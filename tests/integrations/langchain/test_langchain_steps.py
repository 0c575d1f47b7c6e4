"""LangChain's events as neutral steps: what is copied, from where, and in which form."""

from __future__ import annotations

import copy
import math
import uuid
from dataclasses import dataclass

import numpy as np
import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, Generation, LLMResult
from langchain_core.prompt_values import ChatPromptValue
from langchain_core.runnables import RunnableLambda
from langchain_scenarios import FOUND, Q, agents, retrieval
from langgraph.types import Command
from pydantic import BaseModel

from langchain_ragstone import RagstoneCallbackHandler, _messages, _steps
from langchain_ragstone._documents import MAX_PASSAGES, Passages, document_texts, documents_in
from ragstone.errors import ConfigurationError
from ragstone.requests import Message, PassageDraft, Step, TraceDraft
from ragstone.testing import MemoryRecorder

A, B = Document("alpha", id="a"), Document("beta", id="b")
_MAX_CHARS = 4_000_000
CALL = AIMessage("", tool_calls=[{"name": "search", "args": {"query": "who?"}, "id": "1"}])


class Requests:
    """A recorder that keeps the requests as they are."""

    def __init__(self):
        self.requests = []

    def record(self, request):
        """Keep it."""
        self.requests.append(request)
        return True


class State(BaseModel):
    """The state of a graph."""

    question: str
    docs: list[Document] = []


@dataclass
class Plain:
    """The same as a dataclass."""

    docs: list[Document]


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
    assert text == _messages.text_of(content)


def test_messages_of_a_prompt():
    """Roles, texts, and which tool answered; documents in content blocks are read by the model, so they are text."""
    blocks = [
        {"type": "text", "text": "Use this."},
        {"type": "image_url", "image_url": "http://x/y.png"},
        {"type": "document", "title": "Guide", "source": {"type": "text", "data": "alpha"}},
    ]
    messages = [
        SystemMessage("be brief"),
        HumanMessage(blocks),
        CALL,
        ToolMessage("found", tool_call_id="1", artifact=[A]),
        AIMessage([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "me"}]),
        ChatMessage("hello", role="user"),
        ChatMessage("hello", role="narrator"),
    ]
    passages = Passages()
    assert (
        Message("system", "be brief"),
        Message("user", "Use this.\nGuide\nalpha", passages=(PassageDraft(text="alpha", metadata={"title": "Guide"}),)),
        Message("assistant", "", calls_tool=True),
        Message("tool", "found", False, "search", (passages.of(A),)),
        Message("assistant", "me"),
        Message("user", "hello"),
        Message("other", "hello"),
    ) == _messages.prompt_from(messages, passages)


def test_passages():
    """Ids and scores are read where LangChain's stores put them. Of the metadata, flat values are kept."""
    documents = [
        Document(page_content="a", id="x", metadata={"score": 0.5, "relevance_score": 0.9}),
        Document(page_content="b", metadata={"doc_id": 7, "score": np.float32(0.25), "tags": ["no"], "ok": True}),
        Document(page_content="c", metadata={"score": "high", "when": object()}),
        Document(page_content="d", metadata={"id": np.int64(7)}),
    ]
    assert (
        PassageDraft(text="a", id="x", score=0.9, metadata={"score": 0.5, "relevance_score": 0.9}),
        PassageDraft(text="b", id="7", score=0.25, metadata={"doc_id": 7, "score": 0.25, "ok": True}),
        PassageDraft(text="c", metadata={"score": "high"}),
        PassageDraft(text="d", id="7", metadata={"id": 7}),
    ) == Passages().found(documents)
    assert Passages().of(Document("a", metadata={"score": math.nan})).score is None


def test_a_document_that_comes_again_is_the_same_passage():
    """By the identity of its text, unless its metadata changed or it got a score."""
    passages = Passages()
    found = passages.of(A)
    assert found is passages.of(Document(A.page_content, id="a"))
    scored = passages.of(Document(A.page_content, id="a", metadata={"score": 1.0}))
    assert (scored.score, found.score) == (1.0, None)
    pair = passages.in_list([(B, np.float32(0.5))])
    assert pair == (PassageDraft(text="beta", id="b", score=0.5),)


def test_two_documents_with_one_text_keep_their_ids():
    """As in a store that has a page twice. A document without an id, as a step may copy it, is the one that is known."""
    passages, text = Passages(), "alpha beta"
    documents = [Document(text, id="a"), Document(text, id="b"), Document(text)]
    assert ["a", "b", "b"] == [passage.id for passage in passages.found(documents)]


def test_stored_documents_with_odd_fields_are_read_without_them() -> None:
    """A checkpointer stores an artifact as mappings, and anybody may have written the store."""
    stored = {"type": "Document", "page_content": "A card costs twelve euros.", "id": 7, "metadata": ["not a mapping"]}
    found = Passages().in_list([stored, {"type": "Document", "page_content": None}, "other"])
    assert found is not None
    assert [(passage.text, passage.id, passage.metadata) for passage in found] == [
        ("A card costs twelve euros.", "7", {})
    ]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("alpha", {}),
        (None, {}),
        ([], {}),
        (["alpha"], {}),
        ([A, B], {(): ["alpha", "beta"]}),
        ([(A, 0.5)], {(): ["alpha"]}),
        (A, {(): ["alpha"]}),
        ({"docs": [A], "question": "who?"}, {("docs",): ["alpha"]}),
        ({"a": {"b": {"docs": [A]}}}, {("a", "b", "docs"): ["alpha"]}),
        ({"a": {"b": {"c": {"docs": [A]}}}}, {}),
        ([[A], [B]], {(): ["beta"]}),
        (State(question="who?", docs=[A]), {("docs",): ["alpha"]}),
        (Plain([A]), {("docs",): ["alpha"]}),
        (Command(update={"docs": [A]}), {("docs",): ["alpha"]}),
        (Command(goto="next"), {}),
        (HumanMessage("who?"), {}),
    ],
)
def test_documents_in_outputs(value, found):
    """Lists of documents, by key path."""
    values = documents_in(value, Passages(), expected=False)
    assert found == {value.path: [passage.text for passage in value.passages] for value in values}


def test_an_empty_list_says_something_after_documents_were_given():
    """A filter that removed all of them; otherwise nothing says what the list is a list of."""
    assert [()] == [value.passages for value in documents_in([], Passages(), expected=True)]
    assert [()] == [value.passages for value in documents_in({"documents": []}, Passages(), expected=True)]
    assert () == documents_in({"messages": []}, Passages(), expected=True)
    assert () == documents_in([], Passages(), expected=False)


def test_texts_of_the_documents_given():
    """Of all lists in the inputs, nested ones too."""
    assert frozenset({"alpha", "beta"}) == document_texts({"docs": [[A], [(B, 0.5)]]})
    assert document_texts({"docs": []}) is None
    assert document_texts("alpha") is None


def test_only_the_first_of_very_many_documents_are_copied():
    """The number is cut before they are copied."""
    documents = [A] * (MAX_PASSAGES + 5)
    (value,) = documents_in(documents, Passages(), expected=False)
    assert MAX_PASSAGES == len(value.passages) == len(Passages().found(documents))


def test_reply_of_a_chat_model():
    """Text, model, id and tokens."""
    step = Step(id=1, model="asked for")
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    about = {"model_name": "tiny", "id": "chatcmpl-7"}
    message = AIMessage("me", usage_metadata=usage, response_metadata=about)
    _messages.fill_reply(step, LLMResult(generations=[[ChatGeneration(message=message)]]))
    assert ("me", False, "tiny", "chatcmpl-7", 5, 2) == (
        step.reply, step.calls_tool, step.model, step.response_id, step.input_tokens, step.output_tokens,
    )  # fmt: skip


def test_a_reply_from_the_cache_of_langchain_has_no_tokens():
    """The cached message has those of the call that was sent, which are counted there."""
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    model = GenericFakeChatModel(messages=iter([AIMessage("me", usage_metadata=usage)]), cache=InMemoryCache())
    recorder = MemoryRecorder()

    for _ in range(2):
        model.invoke("who?", {"callbacks": [RagstoneCallbackHandler(recorder)]})

    assert [(5, 2), (0, 0)] == [(draft.input_tokens, draft.output_tokens) for draft in recorder.drafts]


@pytest.mark.parametrize(
    ("message", "reply"),
    [
        (CALL, '{"query": "who?"}'),
        (CALL.model_copy(update={"tool_calls": CALL.tool_calls * 2}), '[{"query": "who?"}, {"query": "who?"}]'),
        (CALL.model_copy(update={"content": "Let me look."}), "Let me look."),
    ],
)
def test_reply_that_calls_tools(message, reply):
    """Without a text, the arguments: with structured output, they are the answer."""
    step = Step(id=1)
    _messages.fill_reply(step, LLMResult(generations=[[ChatGeneration(message=message)]]))
    assert (reply, True) == (step.reply, step.calls_tool)


def test_reply_of_a_completion_model():
    """Older models report tokens and their name next to the generations."""
    step = Step(id=1)
    result = LLMResult(
        generations=[[Generation(text="me")]],
        llm_output={"token_usage": {"prompt_tokens": 5, "completion_tokens": 2}, "model_name": "davinci"},
    )
    _messages.fill_reply(step, result)
    assert ("me", "davinci", 5, 2) == (step.reply, step.model, step.input_tokens, step.output_tokens)
    _messages.fill_reply(step, LLMResult(generations=[]))
    assert ("me", "davinci", None) == (step.reply, step.model, step.input_tokens)


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
    """The argument named like a query, the only text, else all of them as they came."""
    assert query == _steps.tool_query_from(inputs, text)


@pytest.mark.parametrize(
    ("output", "passages", "texts"),
    [
        ("plain", None, ["plain"]),
        ([A], ["alpha"], []),
        (ToolMessage("found", tool_call_id="1", artifact=[A]), ["alpha"], ["found"]),
        (ToolMessage("found", tool_call_id="1", artifact={"took_s": 3}), None, ["found"]),
        (Command(update={"messages": [ToolMessage("found", tool_call_id="1")]}), None, ["found"]),
        (Command(update={"messages": [ToolMessage("found", tool_call_id="1", artifact=[A])]}), ["alpha"], ["found"]),
        (Command(update={"messages": [HumanMessage("who?"), ToolMessage("found", tool_call_id="1")]}), None, ["found"]),
        (Command(update={"messages": "found", "note": "kept"}), None, []),
        (Command(update=[("messages", [])]), None, []),
    ],
)
def test_result_of_a_tool(output, passages, texts):
    """Documents, itself or as an artifact, and texts."""
    step = Step(id=1)
    _steps.fill_tool_result(step, output, Passages())
    assert passages == (None if step.passages is None else [passage.text for passage in step.passages])
    found = [value.text for value in step.outputs if value.text]
    found += [message.text for value in step.outputs for message in value.messages or ()]
    assert texts == found


def test_values_of_inputs():
    """LangChain's own objects are read as texts, messages and documents."""
    passages = Passages()
    value = {"input": ChatPromptValue(messages=[HumanMessage("who?")]), "docs": [A]}
    read = _steps.values_in(value, passages)
    assert [("input",), ("docs",)] == [one.path for one in read]
    assert (Message("user", "who?"),) == read[0].messages
    assert (passages.of(A),) == read[1].passages


def test_identity():
    """Known keys become fields, LangChain's own keys are left out."""
    draft = TraceDraft()
    metadata = {"thread_id": 5, "reference": "yes", "ls_provider": "x", "langgraph_step": 1, "team": "a", "__x": 1}
    _steps.fill_identity(draft, metadata, ["t"])
    assert ("5", None, ["yes"], {"team": "a"}, ["t"]) == (
        draft.session_id, draft.user_id, draft.reference, draft.metadata, draft.tags,
    )  # fmt: skip
    _steps.fill_identity(draft, {"thread_id": 5, "session_id": "s"}, [])
    assert "s" == draft.session_id


def test_a_chain_as_steps(make_app):
    """Kinds, names, parents and order."""
    app = make_app(recorder=Requests())
    app.rag().invoke(Q, app.config)
    (request,) = app.recorder.requests
    kinds = [(step.kind, step.name) for step in request.steps if step.kind != "chain"]
    assert [
        ("retrieval", "FixedRetriever"),
        ("part", "ChatPromptTemplate"),
        ("model", "FakeListChatModel"),
        ("part", "StrOutputParser"),
    ] == kinds
    by_id = {step.id: step for step in request.steps}
    assert [request.root] == [step for step in request.steps if step.parent not in by_id]
    times = [step.started_at for step in request.steps]
    assert times == sorted(times)
    (model,) = (step for step in request.steps if step.kind == "model")
    assert (Message("user", f"alpha\nbeta\n{Q}"),) == model.prompt


def test_a_reranker_is_a_transform(make_app):
    """Documents in, documents out; a step that retrieves itself is not."""
    app = make_app(recorder=Requests())
    retrieval.rerank_in_lambda(app)
    retrieval.second_retrieval_from_the_first(app)
    first, second = ([step for step in request.steps if step.kind == "transform"] for request in app.recorder.requests)
    assert ([["beta"]], []) == ([[passage.text for passage in step.passages] for step in first], second)
    assert frozenset(FOUND) == first[0].input_texts


def test_tools_are_named_and_asked(make_app):
    """By the name that the model knows, with the query of the call."""
    app = make_app(recorder=Requests())
    agents.agent_retriever_tool(app)
    (tool,) = (step for step in app.recorder.requests[0].steps if step.kind == "tool")
    assert ("search", "a query") == (tool.name, tool.query)


def test_a_request_holds_a_bounded_amount_of_text(make_app):
    """The prompts of tool calls are dropped first, the oldest first."""
    app = make_app(recorder=Requests())
    handler, root = app.handler, uuid.uuid4()
    handler.on_chain_start(None, Q, run_id=root)
    long = "word " * (_MAX_CHARS // 5 // 4)
    for number in range(8):
        call = uuid.uuid4()
        handler.on_chat_model_start({}, [[HumanMessage(f"{number} {long}")]], run_id=call, parent_run_id=root)
        message = CALL if number % 2 else AIMessage("me")
        handler.on_llm_end(LLMResult(generations=[[ChatGeneration(message=message)]]), run_id=call)
    handler.on_chain_end("answer", run_id=root)
    models = [step for step in app.recorder.requests[0].steps if step.kind == "model"]
    kept = sum(len(message.text) for step in models for message in step.prompt or ())
    assert kept <= _MAX_CHARS
    assert models[-1].prompt
    assert models[1].prompt == ()
    assert 0 == handler.errors


def test_prompts_that_share_their_messages_count_once(make_app):
    """An agent's prompts repeat each other: nothing is dropped for that."""
    app = make_app(recorder=Requests())
    handler, root = app.handler, uuid.uuid4()
    handler.on_chain_start(None, Q, run_id=root)
    messages = [HumanMessage("word " * (_MAX_CHARS // 5 // 3))]
    for _ in range(10):
        call = uuid.uuid4()
        messages = [*messages, CALL]
        handler.on_chat_model_start({}, [messages], run_id=call, parent_run_id=root)
        handler.on_llm_end(LLMResult(generations=[[ChatGeneration(message=CALL)]]), run_id=call)
    handler.on_chain_end("answer", run_id=root)
    assert all(step.prompt for step in app.recorder.requests[0].steps if step.kind == "model")


@pytest.mark.parametrize("tools", [[3], {"search": 3}, {"": None}])
def test_retriever_tools_are_names_and_separators(tools):
    """An error at once, not at the first request."""
    with pytest.raises(ConfigurationError, match="retriever_tools"):
        RagstoneCallbackHandler(Requests(), retriever_tools=tools)


def test_a_question_under_an_unknown_key_is_a_question(app):
    """The only text of the inputs."""
    RunnableLambda(lambda row: "answer").invoke({"topic": "harbors of the north", "k": 4}, app.config)
    assert "harbors of the north" == app.draft.query


def test_copies_of_the_handler_are_the_handler(app):
    """A copied chain or configuration still reports to the one handler."""
    assert app.handler is copy.deepcopy({"callbacks": [app.handler]})["callbacks"][0]
    assert app.handler is copy.copy(app.handler)
