"""The one text among a step's values that its path names as the question or the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from ragstone.requests._harvest import AS_JSON
from ragstone.requests._step import Message, Value

_OBJECT: Final = re.compile(r"[A-Z]\w*\((?:\w+=.*)?\)|<[\w.]+ (?:object )?at 0x\w+>|content='.*' \w+=.*", re.DOTALL)

FromMessages = Callable[[Sequence[Message]], str | None]


def look_up(values: Sequence[Value], names: Sequence[str], from_messages: FromMessages) -> str | None:
    """Return the text of a bare value, or of the first name that has one. The text is empty only if no other is found."""
    texts: list[str] = []
    for place in (0, 1):  # a bare text before the fields of an object
        for value in values:
            is_bare = value.path == () if place == 0 else value.path == (AS_JSON,)
            if is_bare and (text := _text_of(value, from_messages)) is not None:
                texts.append(text)
        if place == 0:
            for name in names:
                below = [value._replace(path=value.path[1:]) for value in values if value.path[:1] == (name,)]
                if below and (text := look_up(_only_item(below), names, from_messages)) is not None:
                    texts.append(text)
    return next((text for text in texts if text), texts[0] if texts else None)


def _only_item(values: Sequence[Value]) -> Sequence[Value]:
    """Return the values of a list with one item as the values of that item."""
    if all(value.path[:1] == ("0",) for value in values):
        return [value._replace(path=value.path[1:]) for value in values]
    return values


def _text_of(value: Value, from_messages: FromMessages) -> str | None:
    if value.text is not None:
        return None if is_shown_object(value.text) else value.text
    return None if value.messages is None else from_messages(value.messages)


def is_shown_object(text: str) -> bool:
    """Whether a text is what Python prints of an object: `Name(field=...)` or `<... at 0x...>`."""
    return _OBJECT.fullmatch(text) is not None


def last_question(messages: Sequence[Message]) -> str | None:
    """Return the text of the last message of a user."""
    return next((message.text for message in reversed(messages) if message.role == "user"), None)


def last_answer(messages: Sequence[Message]) -> str | None:
    """Return the text of the last message, if a model wrote it and it does not call a tool."""
    for message in reversed(messages):
        if message.role == "assistant":
            return None if message.calls_tool else message.text
        if message.role in ("user", "tool"):
            return None
    return None
