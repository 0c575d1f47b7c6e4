"""Messages of any chat format: their content, the prompts of clients and their replies, read by their shape."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from ragstone.requests._draft import PassageDraft
from ragstone.requests._hits import documents_in, found_by_provider
from ragstone.requests._shape import (
    CALL_PARTS,
    RESULT_PARTS,
    calls_tool,
    content_text,
    get,
    is_list,
    message_body,
    part_text,
    read_tokens,
    shown_text,
    whole_number,
)
from ragstone.requests._step import Message, Role
from ragstone.schema import field_names, message_role

_SYSTEM: Final = ("system", "instructions", "system_instruction")
_MAX_ITEMS: Final = 100_000
"""Messages of a prompt, or blocks of a message, that are read: a sequence of the application may never end."""
_RESULTS: Final = ("response", "output", "result", "content", "value", "text")
_LISTS: Final = ("messages", "input", "contents", "prompt")


def read_prompt(value: Any) -> tuple[Message, ...]:
    """Read a text, a list of messages, or the whole arguments of a client's call (`messages` or `input`, and `system`).

    Messages are mappings, objects or pairs of role and text. Results of tools are messages of role "tool", also if a
    client sends them inside a message of the user. Images and unknown items are left out.
    """
    if isinstance(value, str):
        return (Message("user", str(value)),)
    if is_list(value):
        return tuple(message for item in islice(value, _MAX_ITEMS) for message in messages_of(item))
    if get(value, "role") is not None:
        return messages_of(value)
    system = next((found for name in _SYSTEM if (found := get(value, name)) is not None), None)
    rest = next((found for name in _LISTS if (found := get(value, name)) is not None), None)
    first = () if system is None else (Message("system", shown_text(system)),)
    return first + (read_prompt(rest) if isinstance(rest, str) or is_list(rest) else ())


def messages_of(item: Any) -> tuple[Message, ...]:
    """Return the messages that one object is, of a client or as recorded: the message, and one for each result of a tool in it."""
    if isinstance(item, str):
        return (Message("user", str(item)),)
    if isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[0], str):
        role: Role | None = message_role(item[0])
        return () if role is None and isinstance(item, list) else (Message(role or "other", shown_text(item[1])),)
    label, item = message_body(item)
    if label in RESULT_PARTS:
        return (_result(item),)
    if label in CALL_PARTS:
        return (Message("assistant", "", calls_tool=True),)
    role = "other" if label in ("ChatMessage", "ChatMessageChunk") else message_role(label)
    calls = bool(get(item, "tool_calls"))
    content = next((found for name in ("content", "parts", "blocks") if (found := get(item, name)) is not None), None)
    if role is None or (content is None and not calls):
        return ()
    if isinstance(content, str) and role in ("user", "system"):  # most of them
        return (Message(role, content),)
    blocks = list(islice(content, _MAX_ITEMS)) if is_list(content) else []
    # Anthropic sends the results of tools inside a message of the user.
    results = tuple(_result(block) for block in blocks if get(block, "type") in RESULT_PARTS)
    calls = calls or calls_tool(blocks)
    text = content_text(blocks or content) if role == "assistant" else shown_text(content)
    if results and not text:
        return results
    name = get(item, "name") or get(item, "tool_name")
    tool = name if role == "tool" and isinstance(name, str) else None
    if role == "tool" and get(item, "status") == "error":
        role = "other"  # what a tool raised is not what it found
    return (Message(role, text or "", calls, tool, documents_in(blocks) or None), *results)


def _result(item: Any) -> Message:
    content = next((found for name in _RESULTS if (found := get(item, name)) is not None), "")
    if isinstance(content, Mapping) and content.get("type") in ("text", "json") and "value" in content:
        content = content["value"]
    text = content_text(content) or shown_text(content)
    if not text and isinstance(content, Mapping | list) and content:
        text = json.dumps(content, ensure_ascii=False, default=str)
    name = next((found for key in ("name", "toolName", "tool_name") if isinstance(found := get(item, key), str)), None)
    role: Role = "other" if get(item, "is_error") is True else "tool"
    return Message(role, text, tool=name, passages=documents_in(content) or None)


@dataclass(slots=True)
class Reply:
    """A model's reply, or a piece of a streamed one."""

    text: str | None = None
    """None if it does not hold text, as a reply that only calls a tool."""
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    calls_tool: bool = False
    found: list[PassageDraft] = field(default_factory=list)
    """What the provider's own search gave to the model."""


def read_reply(value: Any) -> Reply | None:
    """Read the reply that a text or an object of a client holds, or None if its shape is not known.

    It reads texts, chat completions (`choices[0].message`), responses of OpenAI's Responses API (`output`), messages
    of Anthropic (`content` blocks) and other messages (`message.content`, `content`). It also reads objects and
    mappings with the answer under a known name (`response`, `answer`, …).
    """
    if isinstance(value, str):
        return Reply(text=str(value))
    reply = _chat_completion(value) or _response(value) or _message(value) or _named(value)
    if reply is not None:
        _add_usage(reply, value)
        if get(value, "choices") is None:
            reply.found = found_by_provider(value)
    return reply


class StreamReader:
    """Collects the reply from the chunks of a stream."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._reply = Reply()

    def add(self, chunk: Any) -> bool:
        """Read a chunk, and return whether it holds text."""
        piece = _piece(chunk)
        if piece is None:
            return False
        reply = self._reply
        reply.model = piece.model or reply.model
        reply.input_tokens = reply.input_tokens if piece.input_tokens is None else piece.input_tokens
        reply.output_tokens = reply.output_tokens if piece.output_tokens is None else piece.output_tokens
        reply.calls_tool = reply.calls_tool or piece.calls_tool
        reply.found = piece.found or reply.found
        if piece.text:
            self._parts.append(piece.text)
        return bool(piece.text)

    @property
    def reply(self) -> Reply:
        """The reply so far. Its text is None if no chunk held any."""
        self._reply.text = "".join(self._parts) if self._parts else None
        return self._reply


def _chat_completion(value: Any) -> Reply | None:
    choices = get(value, "choices")
    if not is_list(choices):
        return None
    if not choices or get(choices[0], "index"):
        return Reply()  # a stream's last chunk has the usage alone, and of several answers the first counts
    # `delta` in a chunk of a stream, `text` of a plain completion.
    message = get(choices[0], "message") or get(choices[0], "delta")
    return Reply(text=_str(get(choices[0], "text"))) if message is None else _content(message)


def _response(value: Any) -> Reply | None:
    """Read a response of OpenAI's Responses API."""
    output = get(value, "output")
    if not is_list(output) or not all(_str(get(item, "type")) for item in output):
        return None
    texts = [_content(item).text for item in output if get(item, "type") == "message"]
    calls = calls_tool(output)
    found = [text for text in texts if text is not None]
    return Reply(text="".join(found) if found else None, calls_tool=calls)


def _message(value: Any) -> Reply | None:
    for holder in (value, get(value, "message")):
        if isinstance(get(holder, "content"), str) or is_list(get(holder, "content")):
            return _content(holder)
    return None


def _content(message: Any) -> Reply:
    """Read what a message holds: text, or parts of which some are text."""
    content = get(message, "content")
    parts: Sequence[Any] = content if is_list(content) else ()
    texts = [text for part in parts if (text := part_text(part)) is not None]
    text = "".join(texts) if texts else _str(content)
    calls = bool(get(message, "tool_calls") or get(message, "function_call"))
    return Reply(text=_str(get(message, "refusal")) if text is None else text, calls_tool=calls or calls_tool(parts))


def _named(value: Any) -> Reply | None:
    for name in field_names("response", "output"):
        inner = get(value, name)
        if isinstance(inner, str):
            return Reply(text=inner)
    return None


def _add_usage(reply: Reply, value: Any) -> None:
    usage = get(value, "usage")
    reply.input_tokens, reply.output_tokens = read_tokens([usage])
    if reply.input_tokens is not None:
        # Anthropic counts what its prompt cache wrote or read apart.
        cached = (whole_number(get(usage, f"cache_{verb}_input_tokens")) for verb in ("creation", "read"))
        reply.input_tokens += sum(count or 0 for count in cached)
    reply.model = _str(get(value, "model")) or reply.model


def _piece(chunk: Any) -> Reply | None:
    """Read a chunk: an event of the Responses API or of Anthropic, or else a reply of which this is a part."""
    kind = get(chunk, "type")
    match kind:
        case "response.output_text.delta" | "response.refusal.delta" | "content.delta":
            return Reply(text=_str(get(chunk, "delta")))
        case "response.output_item.added" | "content_block_start":
            # Anthropic's block starts empty; what it says comes as deltas.
            return Reply(calls_tool=get(get(chunk, "item") or get(chunk, "content_block"), "type") in CALL_PARTS)
        case "content_block_delta":
            return Reply(text=_str(get(get(chunk, "delta"), "text")))
        case "response.created" | "response.completed" | "response.incomplete" | "message_start" | "chunk":
            # Known in whole from the pieces: only model and usage count.
            piece = Reply()
            for name in ("response", "message", "chunk"):
                if (inner := get(chunk, name)) is not None:
                    _add_usage(piece, inner)
                    piece.found = found_by_provider(inner)
            return piece
        case "message_delta":
            piece = Reply()
            _add_usage(piece, chunk)
            return piece
        case str() if "." in kind or get(chunk, "content") is None:
            return None  # another event, which may repeat a text that came before
    return read_reply(chunk)


def _str(value: object) -> str | None:
    return value if isinstance(value, str) else None
