"""One turn of a conversation, the same history: through a block, LangChain, LlamaIndex and recorded traces."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ragstone.reading import BufferedTrace
from ragstone.reading.otlp import OtelSpan, traces_of
from ragstone.schema import Turn
from ragstone.testing import MemoryRecorder
from request_steps import ANSWER, QUESTION, A, prompt

SESSION = "s-1"
EARLIER = [("user", "Which pump do you sell?"), ("assistant", "The Alpha pump.")]
MESSAGES = [("system", "Be brief."), *EARLIER, ("user", prompt(A))]
"""The prompt of the model call that writes the answer."""
TURNS = [Turn(role="user", text="Which pump do you sell?"), Turn(role="assistant", text="The Alpha pump.")]

Conversation = tuple[str | None, list[tuple[str, str]]]


def _block(messages: Conversation) -> Any:
    recorder = MemoryRecorder()
    session, said = messages
    with recorder.request(QUESTION, session_id=session) as r:
        r.found([{"text": A}])
        r.prompt([{"role": role, "content": text} for role, text in said])
        r.answer(ANSWER)
    return recorder.drafts[0]


def _langchain(messages: Conversation) -> Any:
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnableLambda

    from langchain_ragstone import RagstoneCallbackHandler

    class Search(BaseRetriever):
        """Finds one passage."""

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(page_content=A)]

    recorder = MemoryRecorder()
    session, said = messages
    chain = Search() | RunnableLambda(lambda _: said) | FakeListChatModel(responses=[ANSWER])
    metadata = {"session_id": session} if session else {}
    chain.invoke(QUESTION, config={"callbacks": [RagstoneCallbackHandler(recorder)], "metadata": metadata})
    return recorder.drafts[0]


def _llama_index(messages: Conversation) -> Any:
    pytest.importorskip("llama_index.core")
    from llama_index.core.instrumentation import get_dispatcher
    from llama_index.core.instrumentation.dispatcher import instrument_tags
    from llama_index.core.llms import ChatMessage, MockLLM
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    from llama_index.observability.ragstone import RagstoneInstrumentor

    class Search(BaseRetriever):
        """Finds one passage."""

        def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
            return [NodeWithScore(node=TextNode(text=A))]

    class Model(MockLLM):
        """Gives the answer to a list of messages."""

        def chat(self, messages: Any, **kwargs: Any) -> Any:
            from llama_index.core.base.llms.types import ChatResponse

            return ChatResponse(message=ChatMessage(role="assistant", content=ANSWER))

    dispatcher = get_dispatcher()
    session, said = messages

    @dispatcher.span
    def ask(question: str) -> str:
        Search().retrieve(question)
        reply = Model().chat([ChatMessage(role=role, content=text) for role, text in said])
        return str(reply.message.content)

    recorder = MemoryRecorder()
    instrumentor = RagstoneInstrumentor(recorder)
    instrumentor.start_registering()
    try:
        with instrument_tags({"session_id": session} if session else {}):
            ask(QUESTION)
    finally:
        instrumentor.stop_registering()
    return recorder.drafts[0]


def _read(*attributes: dict[str, Any]) -> Any:
    """Read three spans: the root, and within it the search and the model."""
    spans = [
        OtelSpan(
            trace_id="0af7651916cd43dd8448eb211c80319c",
            span_id=f"{i + 1:016x}",
            parent_id=f"{1:016x}" if i else None,
            name=("ask", "search", "chat")[i],
            started_at=float(i + 1),
            ended_at=(9.0, 2.5, 4.5)[i],
            attributes=one,
            events=(),
        )
        for i, one in enumerate(attributes)
    ]
    (trace,) = traces_of(
        BufferedTrace(seq=0, trace_id="t", spans=tuple(span.staged().body for span in spans), is_cut=False)
    )
    return trace


def _openinference(messages: Conversation) -> Any:
    session, said = messages
    return _read(
        {
            "openinference.span.kind": "CHAIN",
            "input.value": QUESTION,
            "output.value": ANSWER,
            **({"session.id": session} if session else {}),
        },
        {"openinference.span.kind": "RETRIEVER", "input.value": QUESTION, "retrieval.documents.0.document.content": A},
        {
            "openinference.span.kind": "LLM",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": ANSWER,
            **{f"llm.input_messages.{n}.message.role": role for n, (role, _) in enumerate(said)},
            **{f"llm.input_messages.{n}.message.content": text for n, (_, text) in enumerate(said)},
        },
    )


def _genai(messages: Conversation) -> Any:
    def parts(said: list[tuple[str, str]]) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in said])

    session, said = messages
    return _read(
        {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.input.messages": parts([("user", QUESTION)]),
            "gen_ai.output.messages": parts([("assistant", ANSWER)]),
            **({"gen_ai.conversation.id": session} if session else {}),
        },
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.query.text": QUESTION,
            "gen_ai.retrieval.documents": json.dumps([{"content": A}]),
        },
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": parts(said),
            "gen_ai.output.messages": parts([("assistant", ANSWER)]),
        },
    )


WAYS = [_block, _langchain, _llama_index, _openinference, _genai]


@pytest.mark.parametrize("capture", WAYS)
def test_one_conversation_has_the_same_history(capture: Callable[[Conversation], Any]) -> None:
    """Query, history and response do not depend on the way of capture."""
    trace = capture((SESSION, MESSAGES))

    assert (QUESTION, TURNS, ANSWER, SESSION) == (trace.query, list(trace.history), trace.response, trace.session_id)
    assert "in_prompt" == trace.evidence.contexts


@pytest.mark.parametrize("capture", WAYS)
def test_examples_of_a_template_are_not_a_history(capture: Callable[[Conversation], Any]) -> None:
    """Without a session, earlier messages of a prompt may be the same for each request."""
    assert [] == list(capture((None, MESSAGES)).history)


@pytest.mark.parametrize("capture", WAYS)
def test_the_first_question_of_a_session_has_none(capture: Callable[[Conversation], Any]) -> None:
    """The prompt contains the system's message and the question."""
    assert [] == list(capture((SESSION, [MESSAGES[0], MESSAGES[-1]])).history)


def test_a_block_states_a_history() -> None:
    """It wins over the prompt. A value that cannot be read is counted and leaves the prompt to decide."""
    said = [{"role": role, "content": text} for role, text in EARLIER]
    for history, expected in ((said, TURNS), ([], []), (7, TURNS), (said[:1], TURNS[:1])):
        recorder = MemoryRecorder()
        with recorder.request(QUESTION, session_id=SESSION, history=history) as r:
            r.prompt([{"role": role, "content": text} for role, text in MESSAGES])
            r.answer(ANSWER)
        assert expected == recorder.drafts[0].history
        assert ({"request.history": 1} if history == 7 else {}) == dict(recorder.errors)
