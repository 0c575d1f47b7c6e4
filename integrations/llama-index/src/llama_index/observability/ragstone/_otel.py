"""The OpenTelemetry span a request runs in, for applications that trace already."""

from __future__ import annotations

import sys

__all__ = ["current_span_ids"]


def current_span_ids() -> tuple[str, str] | None:
    """Trace id and span id of the current span, as 32 and 16 hex digits; None when there is none.

    OpenTelemetry is only asked when the application has imported it: without it there can be no span.
    """
    otel = sys.modules.get("opentelemetry.trace")
    if otel is None:
        return None
    context = otel.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"
