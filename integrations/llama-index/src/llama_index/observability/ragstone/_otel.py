"""The OpenTelemetry span a request runs in, for applications that trace already."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["current_span"]


def current_span() -> Any:
    """Return the current span; None if there is none.

<<<<<<< HEAD
    OpenTelemetry is only asked if the application has imported it: without it there cannot be a span.
=======
    trace_id: str
    """32 hex digits."""
    span_id: str
    """16 hex digits."""
    sampled: bool
    """Whether it is exported."""
    name: str | None
    """What it is called, if it has one."""


def current_span() -> CurrentSpan | None:
    """The current span; None when there is none.

    OpenTelemetry is only asked when the application has imported it: without it there can be no span.
>>>>>>> 31dbb28 (llama-index: Translate spans into steps that ragstone.requests assembles)
    """
    otel = sys.modules.get("opentelemetry.trace")
    if otel is None:
        return None
    span = otel.get_current_span()
    return span if span.get_span_context().is_valid else None
