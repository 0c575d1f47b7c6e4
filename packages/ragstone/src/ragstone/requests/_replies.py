"""Replies of model clients, read by their shape: OpenAI chat and Responses, Anthropic, and clients that imitate them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ragstone.requests._content import CALL_PARTS, part_text
from ragstone.requests._plain import read_tokens
from ragstone.requests._shape import get, is_list, whole_number
from ragstone.schema import field_names


@dataclass(slots=True)
class Reply:
    """A model's reply, or a piece of a streamed one."""

    text: str | None = None
    """None if it does not hold text, as a reply that only calls a tool."""
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    calls_tool: bool = False


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
    calls = any(get(item, "type") in CALL_PARTS for item in output)
    found = [text for text in texts if text is not None]
    return Reply(text="".join(found) if found else None, calls_tool=calls)


def _message(value: Any) -> Reply | None:
    message = get(value, "message")
    for holder in (value, message):
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
    return Reply(
        text=_str(get(message, "refusal")) if text is None else text,
        calls_tool=calls or any(get(part, "type") in CALL_PARTS for part in parts),
    )


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
            item = get(chunk, "item") or get(chunk, "content_block")
            return Reply(calls_tool=get(item, "type") in CALL_PARTS)
        case "content_block_delta":
            return Reply(text=_str(get(get(chunk, "delta"), "text")))
        case "response.created" | "response.completed" | "response.incomplete" | "message_start" | "chunk":
            # Known in whole from the pieces: only model and usage count.
            piece = Reply()
            for name in ("response", "message", "chunk"):
                if (inner := get(chunk, name)) is not None:
                    _add_usage(piece, inner)
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
