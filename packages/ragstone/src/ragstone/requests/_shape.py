"""Access to objects of libraries that are not imported: items, attributes, numbers, counts of tokens and metadata."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from numbers import Integral, Real
from typing import Any, Final, TypeGuard

from ragstone.schema import TOKEN_NAMES

TEXT_PARTS: Final = ("text", "input_text", "output_text", "refusal")
"""Types of parts with text that the model says or reads. Tuples, because a type can be any value of JSON."""
CALL_PARTS: Final = ("tool_use", "tool_call", "tool-call", "toolCall", "function_call", "custom_tool_call")
"""Types of parts, or of items without a role, that call a tool."""
RESULT_PARTS: Final = (
    "tool_result", "tool-result", "toolResult", "tool_call_response", "function_response", "function_call_output",
    "custom_tool_call_output",
)  # fmt: skip
"""Types of parts, or of items without a role, with the result of a tool."""
_UNSHOWN: Final = frozenset((
    *CALL_PARTS, *RESULT_PARTS, "server_tool_use", "image", "image_url", "input_image", "audio", "video", "reasoning",
    "thinking", "base64", "url", "file",
))  # fmt: skip
"""Types of parts whose texts, if they have any, are not a part of what a model reads in a message."""
_MAX_NESTED: Final = 4
_MAX_PARTS: Final = 100_000
"""Parts of a content that are read: a sequence of the application may never end."""


def calls_tool(parts: Iterable[object]) -> bool:
    """Return whether the parts of a reply call a tool. A call at the provider counts if no text follows it."""
    kinds = [get(part, "type") for part in parts]
    said = [kind for kind in kinds if kind in (*TEXT_PARTS, "server_tool_use")]
    return any(kind in CALL_PARTS for kind in kinds) or said[-1:] == ["server_tool_use"]


def get(value: object, name: str) -> Any:
    """Return an item of a mapping or an attribute of another object, or None if it is absent or cannot be read."""
    try:
        return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a property of the application's object; it says nothing then
        return None


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a list of things, which a text is not."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)


def whole_number(value: object) -> int | None:
    """Return a count, such as a number of tokens, or None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def finite_number(value: object) -> float | None:
    """Return a finite number of any type, NumPy's too, as a float; None for anything else."""
    if type(value) is not float:  # nearly always, and asking for `Real` is slow
        if isinstance(value, bool) or not isinstance(value, Real):
            return None
        try:
            value = float(value)
        except (OverflowError, ValueError, TypeError):
            return None
    return value if math.isfinite(value) else None


_FLAT: Final = frozenset({str, int, float, bool, type(None)})


def read_tokens(places: Iterable[object]) -> tuple[int | None, int | None]:
    """Return the tokens read and written, each under the first name with a count in the first place that has one.

    Places are objects or mappings.
    """
    holders = [place for place in places if place]
    read, written = (
        next((n for holder in holders for name in names if (n := whole_number(get(holder, name))) is not None), None)
        for names in TOKEN_NAMES
    )
    return read, written


def flat_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the flat values of metadata. NumPy's numbers become Python's."""
    if _FLAT.issuperset(map(type, metadata.values())):
        return dict(metadata)
    flat: dict[str, Any] = {}
    for key, value in metadata.items():
        if type(value) in _FLAT:
            flat[key] = value
        elif isinstance(value, str):
            flat[str(key)] = str(value)
        elif isinstance(value, Integral):
            flat[str(key)] = int(value)  # the id of a data frame's row is 7, not 7.0
        elif isinstance(value, Real):
            flat[str(key)] = float(value)
    return flat


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


def shown_text(content: Any, depth: int = 0) -> str:
    """Return every text that a model reads in a message's content: texts, documents and results of searches."""
    if isinstance(content, str):
        return content
    if depth > _MAX_NESTED or content is None or isinstance(content, bytes | int | float):
        return ""
    if is_list(content):
        parts: Iterable[Any] = islice(content, _MAX_PARTS)
    elif str(get(content, "type") or get(content, "block_type")) in _UNSHOWN:
        return ""
    else:
        parts = (get(content, name) for name in ("title", "text", "content", "data", "source"))
    return "\n".join(text for part in parts if (text := shown_text(part, depth + 1)))


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
