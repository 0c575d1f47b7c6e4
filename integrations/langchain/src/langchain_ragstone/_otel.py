"""The OpenTelemetry span a request runs in, for applications that trace already."""

from __future__ import annotations

import sys

from ragstone.capture import TraceDraft

__all__ = ["link_current_span"]


def link_current_span(draft: TraceDraft) -> None:
    """Note the ids of the current span, as 32 and 16 hex digits, and whether it was sampled, if there is one.

    OpenTelemetry is only asked when the application has imported it: without it there can be no span.
    """
    otel = sys.modules.get("opentelemetry.trace")
    if otel is None:
        return
    context = otel.get_current_span().get_span_context()
    if context.is_valid:
        draft.otel_trace_id = f"{context.trace_id:032x}"
        draft.otel_span_id = f"{context.span_id:016x}"
        draft.otel_sampled = bool(context.trace_flags.sampled)
