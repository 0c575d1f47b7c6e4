"""The content of messages of any chat format: text, or parts with text, calls of tools and results of tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragstone.requests._shape import get

TEXT_PARTS: Final = ("text", "input_text", "output_text", "refusal")
"""Types of parts with text that the model says or reads. Tuples, because a type can be any value of JSON."""
CALL_PARTS: Final = (
    "tool_use", "server_tool_use", "tool_call", "tool-call", "toolCall", "function_call", "custom_tool_call",
)  # fmt: skip
"""Types of parts, or of items without a role, that call a tool."""
RESULT_PARTS: Final = (
    "tool_result", "tool-result", "toolResult", "tool_call_response", "function_response", "function_call_output",
)  # fmt: skip
"""Types of parts, or of items without a role, with the result of a tool."""


def part_text(part: Any) -> str | None:
    """Return the text of one part; None if it has none, such as an image, reasoning, or a call of a tool."""
    if isinstance(part, str):
        return part
    kind = get(part, "type")
    if kind is not None and kind not in TEXT_PARTS:
        return None
    for name in ("text", "content", "refusal"):
        if isinstance(text := get(part, name), str):
            return text
    return None


def content_text(content: Any) -> str | None:
    """Return the text of a message's content, without reasoning, calls of tools and images. None if it does not have any."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    texts = [text for part in content if (text := part_text(part)) is not None]
    return "".join(texts) if texts else None


def message_body(message: Any) -> tuple[Any, Any]:
    """Return the role of a message, or its type without one, and the object with its fields.

    LangChain saves the fields under `kwargs`, next to the class, or under `data`, next to the type.
    """
    if isinstance(message, Mapping):
        if message.get("lc") and isinstance(kwargs := message.get("kwargs"), Mapping):
            path = message.get("id")
            return path[-1] if isinstance(path, list) and path else kwargs.get("type"), kwargs
        if isinstance(data := message.get("data"), Mapping) and "content" not in message:
            return message.get("type"), data
        label = message.get("role", message.get("type"))
    else:
        label = get(message, "role") or get(message, "type")
    return (label.get("value") if isinstance(label, Mapping) else label), message
