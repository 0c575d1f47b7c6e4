"""The OpenTelemetry span a request runs in, for applications that trace already."""

from __future__ import annotations

import sys
from typing import NamedTuple

__all__ = ["CurrentSpan", "current_span"]


class CurrentSpan(NamedTuple):
    """What a trace keeps of a span."""

    trace_id: str
    """32 hex digits."""
    span_id: str
    """16 hex digits."""
    sampled: bool
    """Whether it is exported."""
    name: str | None
    """What it is called, if it can be told."""


def current_span() -> CurrentSpan | None:
    """The current span; None when there is none.

    OpenTelemetry is only asked when the application has imported it: without it there can be no span.
    """
    otel = sys.modules.get("opentelemetry.trace")
    if otel is None:
        return None
    span = otel.get_current_span()
    context = span.get_span_context()
    if not context.is_valid:
        return None
    # The API's own spans, such as one that came with a request from another service, have no name.
    name = getattr(span, "name", None)
    return CurrentSpan(f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags.sampled, name)
