"""Haystack: OpenInference, with messages as Python shows them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, Final

from ragstone.reading.otlp._openinference import value_of
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import Message, Step, Value

_MESSAGE: Final = re.compile(r"ChatMessage\(_role=<ChatRole\.[A-Z]{1,20}: '(?P<role>[a-z]{1,20})'>")
_LITERAL: Final = r"(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_TEXT: Final = re.compile(rf"TextContent\(text={_LITERAL}", re.DOTALL)
_RESULT: Final = re.compile(rf"ToolCallResult\(result={_LITERAL}", re.DOTALL)
_TOOL: Final = re.compile(r"tool_name='(?P<name>[^']{1,200})'")


def shows_messages(span: OtelSpan) -> bool:
    """Return whether the inputs or outputs of a span show messages of Haystack."""
    shown = (str(span.attributes.get(f"{side}.value", "")) for side in ("input", "output"))
    return _MESSAGE.search("".join(shown)) is not None


def fill_haystack(step: Step, span: OtelSpan) -> None:
    """Set the messages that a span shows."""
    given, got = (value_of(span.attributes, side) for side in ("input", "output"))
    prompt, replies = _messages(given, "messages"), _messages(got, "replies", "messages")
    if step.kind == "model":
        # The attributes of a message with the result of a tool have no text.
        step.prompt = prompt or step.prompt
        if replies:
            step.reply = None if replies[-1].calls_tool else replies[-1].text
            step.calls_tool = replies[-1].calls_tool
    elif step.kind in ("chain", "agent"):
        step.inputs = (Value(("messages",), messages=prompt),) if prompt else step.inputs
        step.outputs = (Value(("messages",), messages=replies),) if replies else step.outputs


def _messages(value: Any, *names: str) -> tuple[Message, ...]:
    """Return the messages in the list of one of these names, in the object or one level below."""
    if not isinstance(value, Mapping):
        return ()
    for holder in (value, *(item for item in value.values() if isinstance(item, Mapping))):
        for name in names:
            listed = holder.get(name)
            found = [_message(item) for item in listed if isinstance(item, str)] if isinstance(listed, list) else []
            if found and None not in found:
                return tuple(message for message in found if message is not None)
    return ()


def _message(shown: str) -> Message | None:
    matched = _MESSAGE.match(shown)
    if matched is None:
        return None
    result = _RESULT.search(shown)
    tool = _TOOL.search(shown)
    if result is not None:
        return Message("tool", _text(result), tool=tool["name"] if tool else None)
    text = "".join(_text(found) for found in _TEXT.finditer(shown))
    return Message(Message.role_of(matched["role"]), text, calls_tool="ToolCall(" in shown)


def _text(literal: re.Match[str]) -> str:
    try:
        text = ast.literal_eval(literal["text"])
    except (ValueError, SyntaxError):
        return literal["text"][1:-1]
    return text if isinstance(text, str) else ""
