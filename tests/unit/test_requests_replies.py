"""`read_reply` and `StreamReader`: replies of model clients by their shape, as objects and as mappings."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ragstone.requests._messages import Reply, StreamReader, read_reply


def objects(value):
    """Return JSON as objects with attributes, as clients return it."""
    if isinstance(value, dict):
        return SimpleNamespace(**{key: objects(item) for key, item in value.items()})
    return [objects(item) for item in value] if isinstance(value, list) else value


CHAT = {
    "id": "1",
    "object": "chat.completion",
    "model": "tiny-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Because.", "tool_calls": None}}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
}
RESPONSES = {
    "object": "response",
    "model": "tiny-1",
    "output": [
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Because."}]},
    ],
    "usage": {"input_tokens": 7, "output_tokens": 2},
}
ANTHROPIC = {
    "type": "message",
    "role": "assistant",
    "model": "tiny-1",
    "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Because."}],
    "usage": {"input_tokens": 5, "cache_creation_input_tokens": None, "cache_read_input_tokens": 2, "output_tokens": 2},
}
FULL = Reply(text="Because.", model="tiny-1", input_tokens=7, output_tokens=2)


SEARCHED = ANTHROPIC | {
    "content": [
        {"type": "text", "text": "Let me look."},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "why"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        {"type": "text", "text": "Because."},
    ]
}


def test_an_answer_after_a_search_at_the_provider():
    """The reply is an answer if text follows the call, and calls a tool if it ends with the call."""
    reply = read_reply(SEARCHED)
    assert (False, True) == (reply.calls_tool, reply.text.endswith("Because."))
    assert read_reply(SEARCHED | {"content": SEARCHED["content"][:2]}).calls_tool


@pytest.mark.parametrize("form", [dict, objects])
@pytest.mark.parametrize("value", [CHAT, RESPONSES, ANTHROPIC], ids=["chat", "responses", "anthropic"])
def test_replies(value, form):
    """Text, model and tokens are read from each client's reply, thoughts are not part of the text."""
    assert FULL == read_reply(form(value))


@pytest.mark.parametrize("form", [dict, objects])
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Because.", "Because."),
        ("", ""),
        ({"message": {"role": "assistant", "content": "Because."}, "model": "tiny-1"}, "Because."),
        ({"choices": [{"text": "Because."}]}, "Because."),
        ({"choices": [{"message": {"content": None, "refusal": "I cannot."}}]}, "I cannot."),
        ({"choices": [{"message": {"content": [{"type": "text", "text": "Beca"}, {"type": "text", "text": "use."}]}}]}, "Because."),
        ({"answer": "Because.", "sources": ["alpha"]}, "Because."),
        ({"content": "Because.", "additional_kwargs": {}}, "Because."),
    ],
)  # fmt: skip
def test_texts(value, text, form):
    """Older and imitated shapes are read too, and answers under a known name."""
    assert text == read_reply(value if isinstance(value, str) else form(value)).text


@pytest.mark.parametrize("form", [dict, objects])
@pytest.mark.parametrize(
    "value",
    [
        {"choices": [{"message": {"content": None, "tool_calls": [{"id": "1", "function": {"name": "search"}}]}}]},
        {"output": [{"type": "function_call", "name": "search", "arguments": "{}"}]},
        {"content": [{"type": "tool_use", "name": "search", "input": {}}]},
    ],
    ids=["chat", "responses", "anthropic"],
)
def test_tool_calls(value, form):
    """A reply that calls a tool says so, and does not have a text."""
    reply = read_reply(form(value))
    assert (None, True) == (reply.text, reply.calls_tool)


@pytest.mark.parametrize("value", [None, 3, b"Because.", object(), {"status": 200}, ["Because."], iter(["Because."])])
def test_other_values_are_not_replies(value):
    """What has another shape is not read."""
    assert read_reply(value) is None


CHAT_STREAM = [
    {"model": "tiny-1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    {"model": "tiny-1", "choices": [{"index": 0, "delta": {"content": "Beca"}}]},
    {"model": "tiny-1", "choices": [{"index": 1, "delta": {"content": "another answer"}}]},
    {"model": "tiny-1", "choices": [{"index": 0, "delta": {"content": "use."}}]},
    {"model": "tiny-1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"model": "tiny-1", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
]
RESPONSES_STREAM = [
    {"type": "response.created", "response": {"model": "tiny-1", "output": [], "usage": None}},
    {"type": "response.output_item.added", "item": {"type": "message", "content": []}},
    {"type": "response.output_text.delta", "delta": "Beca"},
    {"type": "response.output_text.delta", "delta": "use."},
    {"type": "response.output_text.done", "text": "Because."},
    {"type": "response.output_item.done", "item": RESPONSES["output"][1]},
    {"type": "response.completed", "response": RESPONSES},
]
ANTHROPIC_STREAM = [
    {
        "type": "message_start",
        "message": {**ANTHROPIC, "content": [], "usage": {"input_tokens": 7, "output_tokens": 1}},
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Beca"}},
    {"type": "text", "text": "Beca", "snapshot": "Beca"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "use."}},
    {"type": "content_block_stop", "index": 0, "content_block": {"type": "text", "text": "Because."}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop", "message": ANTHROPIC},
]


@pytest.mark.parametrize("form", [dict, objects])
@pytest.mark.parametrize(
    "chunks", [CHAT_STREAM, RESPONSES_STREAM, ANTHROPIC_STREAM], ids=["chat", "responses", "anthropic"]
)
def test_streams(chunks, form):
    """The text of the deltas counts once, whatever else repeats it."""
    reader = StreamReader()
    assert 2 == sum(reader.add(form(chunk)) for chunk in chunks)
    assert FULL == reader.reply


@pytest.mark.parametrize(
    "chunks",
    [
        ["Beca", "use."],
        [{"content": "Beca", "type": "AIMessageChunk"}, {"content": "use.", "type": "AIMessageChunk"}],
        [{"message": {"content": "Beca"}}, {"message": {"content": "use."}}],
        [{"context": []}, {"answer": "Beca"}, {"answer": "use."}],
        [{"type": "chunk", "chunk": CHAT_STREAM[1]}, {"type": "content.delta", "delta": "Because."}],
    ],
)
def test_other_streams(chunks):
    """Texts and the chunks of other clients are pieces of the answer."""
    reader = StreamReader()
    for chunk in chunks:
        reader.add(chunk)
    assert "Because." == reader.reply.text


@pytest.mark.parametrize(
    "chunks",
    [
        [{"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]}],
        [{"type": "response.output_item.added", "item": {"type": "function_call"}}],
        [{"type": "content_block_start", "content_block": {"type": "tool_use"}}],
        [{"type": "content_block_start", "content_block": {"type": "tool_use"}},
         {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{}"}}],
    ],
)  # fmt: skip
def test_streamed_tool_calls(chunks):
    """A stream can call a tool as well."""
    reader = StreamReader()
    for chunk in chunks:
        reader.add(chunk)
    assert (None, True) == (reader.reply.text, reader.reply.calls_tool)


def test_chunks_of_bytes_are_not_read():
    """The bytes of a server's own protocol add no text."""
    reader = StreamReader()
    assert not reader.add(b"data: x")
    assert reader.reply.text is None
