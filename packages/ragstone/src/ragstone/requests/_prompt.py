"""Prompts as the application hands them to a model's client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from ragstone.requests._shape import get, is_list
from ragstone.requests._step import Message, Role

_ROLES: Final[Mapping[str, Role]] = {
    "user": "user",
    "human": "user",
    "system": "system",
    "developer": "system",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output", "tool_result"})
"""Types of items and blocks that hold the result of a tool."""
_CALLS: Final = frozenset({"tool_use", "function_call"})
_SYSTEM: Final = ("system", "instructions", "system_instruction")
_MAX_ITEMS: Final = 100_000
"""Messages of a prompt, or blocks of a message, that are read: a sequence of the application may never end."""
_LISTS: Final = ("messages", "input", "contents", "prompt")


def read_prompt(value: Any) -> tuple[Message, ...]:
    """Read a text, a list of messages, or the whole arguments of a client's call (`messages` or `input`, and `system`).

    Messages are mappings, objects or pairs of role and text. Results of tools are messages of role "tool", also if a
    client sends them inside a message of the user. Images and unknown items are left out.
    """
    if isinstance(value, str):
        return (Message("user", str(value)),)
    if is_list(value):
        return tuple(message for item in islice(value, _MAX_ITEMS) for message in _messages(item))
    if get(value, "role") is not None:
        return tuple(_messages(value))
    system = next((found for name in _SYSTEM if (found := get(value, name)) is not None), None)
    rest = next((found for name in _LISTS if (found := get(value, name)) is not None), None)
    first = () if system is None else (Message("system", "".join(_texts(system))),)
    return first + (read_prompt(rest) if isinstance(rest, str) or is_list(rest) else ())


def _messages(item: Any) -> Iterator[Message]:
    if isinstance(item, str):
        yield Message("user", str(item))
        return
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        yield Message(_ROLES.get(item[0], "other"), "".join(_texts(item[1])))
        return
    kind = get(item, "type")
    if kind in _OUTPUTS:
        yield Message("tool", "".join(_texts(get(item, "output"))))
        return
    role = _ROLES.get(str(get(item, "role") or kind))
    if role is None:
        return
    content = get(item, "content")
    blocks = list(islice(content, _MAX_ITEMS)) if is_list(content) else []
    # Anthropic sends the results of tools inside a message of the user.
    for block in blocks:
        if get(block, "type") in _OUTPUTS:
            yield Message("tool", "".join(_texts(get(block, "content"))))
    text = "".join(_texts(get(item, "parts") if content is None else content))
    calls = bool(get(item, "tool_calls")) or any(get(block, "type") in _CALLS for block in blocks)
    if text or calls or not blocks:
        name = get(item, "name")
        yield Message(role, text, calls_tool=calls, tool=name if role == "tool" and isinstance(name, str) else None)


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif is_list(content):
        for block in islice(content, _MAX_ITEMS):
            if isinstance(block, str):
                yield block
            elif get(block, "type") not in _OUTPUTS and isinstance(text := get(block, "text"), str):
                yield text
