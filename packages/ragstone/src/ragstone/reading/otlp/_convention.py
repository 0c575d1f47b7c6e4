"""Conventions of span attributes: how to recognize the spans of one, and how to read them as steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ragstone.reading._step_names import StepNames
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import Step

_INFRASTRUCTURE: Final = ("http.", "rpc.", "db.", "messaging.", "faas.")
_NO_NAMES: Final = StepNames()


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
    names: StepNames = _NO_NAMES
    fill: Callable[[Step, OtelSpan], None] | None = None
    """Sets what names alone do not tell, before the fields with names are read."""
    follows: Convention | None = None
    """The convention that spans of this one follow too. It is applied first."""
    covers: bool = True
    """Whether all spans of the followed convention are read in a trace with a claimed span."""
    fills_covered: bool = False
    """Whether `fill` is for these spans too."""

    def reads(self, span: OtelSpan) -> bool:
        """Whether it reads a span of a trace with a claimed span."""
        return self.claims(span) or (self.follows is not None and self.covers and self.follows.claims(span))

    def read(self, span: OtelSpan) -> Step:
        """Return the step of a span that it reads."""
        step = step_of(span) if self.follows is None else self.follows.read(span)
        if self.follows is None or self.fills_covered or self.claims(span):
            self.names.set_kind(step, span.attributes)
            if self.fill is not None:
                self.fill(step, span)
            self.names.fill(step, span.attributes)
        return step


def begin_with(*prefixes: str) -> Callable[[OtelSpan], bool]:
    """Return whether a span has an attribute whose name begins with one of these, as a function of the span."""
    return lambda span: any(name.startswith(prefixes) for name in span.attributes)


def step_of(span: OtelSpan) -> Step:
    """Return a step with what every span has, whatever its convention: infrastructure, if its attributes say so."""
    is_infrastructure = any(name.startswith(_INFRASTRUCTURE) for name in span.attributes)
    return Step(
        id=span.span_id,
        parent=span.parent_id,
        kind="infrastructure" if is_infrastructure else "other",
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
