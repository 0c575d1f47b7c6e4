"""The OpenTelemetry span a request runs in, for applications that trace already."""

from __future__ import annotations

import sys
from typing import Any


def current_span() -> Any:
    """Return the current span; None if there is none.

    OpenTelemetry is only asked if the application has imported it: without it there cannot be a span.
    """
    otel = sys.modules.get("opentelemetry.trace")
    if otel is None:
        return None
    span = otel.get_current_span()
    return span if span.get_span_context().is_valid else None
