"""What a convention of attributes is: how to know its spans, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ragstone.replay._payloads import json_in
from ragstone.replay._tree import NodeKind, Step
from ragstone.replay.otlp._span import OtelSpan

__all__ = ["Convention", "exploded", "indexed", "node_of", "tags_in", "text_or_none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """One way to put a RAG request into attributes of spans."""

    name: str
    """What a trace read by it has as its `source`."""
    title: str
    """What people call it."""
    markers: tuple[str, ...]
    """Names of attributes, or their beginnings, that a file with such spans has."""
    claims: Callable[[OtelSpan], bool]
    read: Callable[[OtelSpan], Step]


def node_of(span: OtelSpan, *, kind: NodeKind = "other") -> Step:
    """A step with what every span says, whatever the convention."""
    return Step(
        id=span.span_id,
        parent_id=span.parent_id,
        trace_id=span.trace_id,
        kind=kind,
        name=span.name or None,
        started_at=span.started_at,
        ended_at=span.ended_at,
        error=span.error,
        is_otel=True,
    )


def indexed(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Attributes of the form `prefix.0.name`, `prefix.1.name`, as one mapping an index, in the order of the indices."""
    found: dict[int, dict[str, Any]] = {}
    start = f"{prefix}."
    for key, value in attributes.items():
        if key.startswith(start):
            index, _, name = key[len(start) :].partition(".")
            if len(index) < 7 and index.isascii() and index.isdigit():
                found.setdefault(int(index), {})[name] = value
    return [found[index] for index in sorted(found)]


def text_or_none(*values: object) -> str | None:
    """The first of the values that is a text with something in it."""
    return next((value for value in values if isinstance(value, str) and value), None)


def tags_in(value: object) -> tuple[str, ...]:
    """Tags: a list, or one written as JSON."""
    tags = json_in(value)
    return tuple(str(tag) for tag in tags if isinstance(tag, str | int)) if isinstance(tags, list) else ()


def exploded(attributes: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """What was one object and came as attributes `prefix.key`."""
    start = f"{prefix}."
    return {key[len(start) :]: value for key, value in attributes.items() if key.startswith(start)}
