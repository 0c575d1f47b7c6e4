"""The OpenTelemetry span that a request runs in."""

from __future__ import annotations

import sys

from ragstone.requests._draft import TraceDraft

__all__ = ["link_current_span"]


def link_current_span(draft: TraceDraft) -> None:
    """Note the current span's ids and whether it is sampled, if there is a span.

    OpenTelemetry is only asked if the application has imported it: without it there cannot be a span.
    """
    otel = sys.modules.get("opentelemetry.trace")
    if otel is None:
        return
    context = otel.get_current_span().get_span_context()
    if context.is_valid:
        draft.otel_trace_id = f"{context.trace_id:032x}"
        draft.otel_span_id = f"{context.span_id:016x}"
        draft.otel_sampled = bool(context.trace_flags.sampled)
