"""Reader of messages and documents of frameworks that are not imported, by their attributes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from ragstone.requests._hits import read_hits
from ragstone.requests._shape import get


def read_object(value: Any) -> Any:
    """Read a message or a document of LangChain or LlamaIndex, or return `NotImplemented` for any other value (see `harvest`)."""
    if isinstance(value, Mapping | list | tuple | type):
        return NotImplemented
    if isinstance(get(value, "page_content"), str) or get(get(value, "node"), "node_id") is not None:
        return next(iter(read_hits([value]).lists[0]), NotImplemented)
    role = get(value, "role") or get(value, "type")
    role = role.value if isinstance(role, Enum) else role
    if isinstance(role, str) and isinstance(get(value, "content"), str | list):
        return {name: get(value, name) for name in ("content", "name", "tool_calls")} | {"role": role}
    return NotImplemented
