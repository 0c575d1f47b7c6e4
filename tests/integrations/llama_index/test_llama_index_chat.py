"""Chat engines: one record a turn, whole or streamed; rows as in the docs' matrix."""

from __future__ import annotations

import asyncio
import threading

import pytest
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.chat_engine.types import ChatMode, StreamingAgentChatResponse
from llama_index.core.llms import ChatMessage

Q = "who?"
FOUND = ["alpha", "beta"]
MODES = ["condense_question", "context", "condense_plus_context", "best"]
WAYS = ["chat", "achat", "stream_chat", "astream_chat"]
HISTORY = [ChatMessage(role="user", content="before"), ChatMessage(role="assistant", content="hm")]


def chat_engine(app, mode, *replies):
    """A chat engine of this mode over alpha alone."""
    model = app.model(*replies) if replies else app.model()
    return app.index("alpha").as_chat_engine(ChatMode(mode), llm=model)


def join_readers():
    """Wait for the threads in which LlamaIndex reads streams; older versions let the application continue without them."""
    for thread in threading.enumerate():
        if thread.name.endswith("(run)"):
            thread.join()


def turn(engine, way, message=Q, history=None):
    """One turn, its stream read to its end; returns what the application saw of the answer."""
    # A list of its own: the oldest versions append each turn to the list that they are given.
    history = history and list(history)
    if way == "chat":
        return engine.chat(message, history).response
    if way == "stream_chat":
        try:
            return "".join(engine.stream_chat(message, history).response_gen)
        finally:
            join_readers()

    async def go():
        if way == "achat":
            return (await engine.achat(message, history)).response
        response = await engine.astream_chat(message, history)
        reading = asyncio.all_tasks() - {asyncio.current_task()}
        try:
            return "".join([token async for token in response.async_response_gen()])
        finally:
            await asyncio.gather(*reading, return_exceptions=True)

    return asyncio.run(go())


def first_turn(mode, way):
    """A scenario of the matrix."""

    def scenario(app):
        assert "answer" == turn(chat_engine(app, mode), way)

    scenario.__name__ = f"{mode} {way}"
    return scenario


ROWS = {"chat": 27, "achat": 27, "stream_chat": 28, "astream_chat": 29}
MATRIX = [(ROWS[way], first_turn(mode, way), [(Q, ["alpha"], "answer", "ok")]) for way in WAYS for mode in MODES]


@pytest.mark.parametrize(("row", "scenario", "expected"), MATRIX, ids=[f"{row[0]}-{row[1].__name__}" for row in MATRIX])
def test_chat_matrix(app, row, scenario, expected):
    """The user's message, the nodes in the prompt, the text the application saw."""
    scenario(app)
    assert expected == app.seen()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["condense_question", "condense_plus_context"])
def test_rewritten_question(app, mode, way):
    """Rows 27, 28, 29: the trace has the user's words, its search the standalone question; one record for each turn."""
    engine = chat_engine(app, mode, "one", "standalone", "two")
    assert ["one", "two"] == [turn(engine, way, "first"), turn(engine, way)]
    assert [("first", ["alpha"], "one", "ok"), (Q, ["alpha"], "two", "ok")] == app.seen()
    assert ["first", "standalone"] == [draft.retrievals[0].query for draft in app.drafts]


@pytest.mark.parametrize("way", WAYS)
def test_chat_without_retrieval(app, way):
    """A simple chat engine has a question and an answer; that its contexts are unknown is not that there were none."""
    assert "answer" == turn(SimpleChatEngine.from_defaults(llm=app.model()), way, history=HISTORY)
    assert [(Q, None, "answer", "ok")] == app.seen()


@pytest.mark.parametrize("way", WAYS)
def test_postprocessed_contexts(app, way):
    """Of what was found, only what the re-ranker left reached the prompt."""
    engine = app.index("alpha", "beta").as_chat_engine(
        ChatMode.CONTEXT, llm=app.model(), similarity_top_k=2, node_postprocessors=[app.keep_last()]
    )
    turn(engine, way)
    (search,) = app.draft.retrievals
    assert [search.passages[-1].text] == [passage.text for passage in app.draft.contexts]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # LlamaIndex's own thread
@pytest.mark.parametrize("way", ["stream_chat", "astream_chat"])
def test_streamed_turn_that_fails(app, way):
    """The application gets the error, and so does the record; half an answer is none."""
    with pytest.raises(ConnectionError):
        turn(chat_engine(app, "context", ConnectionError("model down")), way)
    assert [(Q, ["alpha"], None, "error")] == app.seen()
    assert ("ConnectionError: model down", []) == (app.draft.error, app.draft.inner_errors)


def test_streamed_turn_that_nobody_reads(app):
    """The engine reads the model's stream to its end by itself: the turn is in its memory, and recorded."""
    engine = SimpleChatEngine.from_defaults(llm=app.model())
    response = engine.stream_chat(Q)
    join_readers()
    assert response.is_done
    assert [(Q, None, "answer", "ok")] == app.seen()


def test_streamed_turn_has_the_time_of_its_first_token(app):
    """Not before the request, not after its end."""
    turn(chat_engine(app, "context"), "stream_chat")
    assert 0 <= app.draft.first_token_s <= app.draft.ended_at - app.draft.started_at


class Unwritten(SimpleChatEngine):
    """Leaves the reading of its streams to the application, as older context engines do."""

    def stream_chat(self, message, chat_history=None):
        """Stream."""
        stream = self._llm.stream_chat([ChatMessage(role="user", content=message)])
        return StreamingAgentChatResponse(chat_stream=stream, is_writing_to_memory=False)

    async def astream_chat(self, message, chat_history=None):
        """The same."""
        stream = await self._llm.astream_chat([ChatMessage(role="user", content=message)])
        return StreamingAgentChatResponse(achat_stream=stream, is_writing_to_memory=False)


@pytest.mark.parametrize("way", ["stream_chat", "astream_chat"])
def test_streamed_turn_that_only_the_application_reads(app, way):
    """Then it is tapped, as a query engine's stream is."""
    assert "answer" == turn(Unwritten.from_defaults(llm=app.model()), way)
    assert [(Q, None, "answer", "ok")] == app.seen()


def test_streamed_turn_inside_a_request_of_the_application(app):
    """A function that returns a chat engine's stream is one request with it."""
    from llama_index.core.instrumentation import get_dispatcher

    engine = chat_engine(app, "context")

    @get_dispatcher(__name__).span
    def talk(message):
        return engine.stream_chat(message)

    assert "answer" == "".join(talk(Q).response_gen)
    join_readers()
    assert [(Q, ["alpha"], "answer", "ok")] == app.seen()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", MODES)
def test_earlier_messages_are_the_history(app, mode, way):
    """Those that the application passes, also if the engine rewrites the question from them."""
    turn(chat_engine(app, mode, "answer"), way, history=HISTORY)
    assert [("user", "before"), ("assistant", "hm")] == [(one.role, one.text) for one in app.draft.history]


def test_a_question_without_earlier_messages_has_no_history(app):
    """The first turn of an engine."""
    turn(chat_engine(app, "context"), "chat")
    assert [] == app.draft.history
