"""Conventions of span attributes: how to recognize the spans of one, and how to read them as steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import Step, StepKind

_INFRASTRUCTURE: Final = ("http.", "rpc.", "db.", "messaging.", "faas.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """One way to write a RAG request into span attributes."""

    name: str
    """`source` of the traces that it reads."""
    title: str
    """Name for people."""
    markers: tuple[str, ...]
    """Attribute names, or their beginnings, in a file with such spans."""
    claims: Callable[[OtelSpan], bool]
    """Whether a span follows this convention. A trace with such a span is read by it."""
    read: Callable[[OtelSpan], Step]
    covers: Callable[[OtelSpan], bool] | None = None
    """Further spans that are read in such a trace, if the producer follows another convention too."""

    def reads(self, span: OtelSpan) -> bool:
        """Whether it reads a span of a trace with a claimed span."""
        return self.claims(span) or (self.covers is not None and self.covers(span))


def step_of(span: OtelSpan, *, kind: StepKind | None = None) -> Step:
    """Return a step with what every span has, whatever its convention.

    Args:
        span: The span.
        kind: None for a span of no convention: infrastructure if its attributes say so.
    """
    if kind is None:
        kind = "infrastructure" if any(name.startswith(_INFRASTRUCTURE) for name in span.attributes) else "other"
    return Step(
        id=span.span_id,
        parent=span.parent_id,
        kind=kind,
        name=span.name or None,
        started_at=span.started_at,
        ended_at=span.ended_at,
        error=span.error,
        otel_trace_id=span.trace_id,
        otel_span_id=span.span_id,
        app=span.resource.get("app"),
        release=span.resource.get("release"),
        environment=span.resource.get("environment"),
    )


def indexed(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Return attributes `prefix.0.name`, `prefix.1.name` as one mapping an index, in the order of the indices."""
    found: dict[int, dict[str, Any]] = {}
    start = f"{prefix}."
    for key, value in attributes.items():
        if key.startswith(start):
            index, _, name = key[len(start) :].partition(".")
            if len(index) < 7 and index.isascii() and index.isdigit():
                found.setdefault(int(index), {})[name] = value
    return [found[index] for index in sorted(found)]


def exploded(attributes: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the object that was written as attributes `prefix.key`."""
    start = f"{prefix}."
    return {key[len(start) :]: value for key, value in attributes.items() if key.startswith(start)}
