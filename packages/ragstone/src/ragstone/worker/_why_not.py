"""Which traces are scored."""

from __future__ import annotations

from ragstone.schema import Trace

__all__ = ["why_not"]


def why_not(trace: Trace) -> str | None:
    """Say why a trace is not scored; None when it is."""
    if trace.status != "ok":
        return f"the request ended as {trace.status!r}" + (f": {trace.error}" if trace.error else "")
    if trace.inner_errors:
        return f"something failed inside the request: {trace.inner_errors[0]}"
    if trace.response is None and trace.query is None:
        return "neither a question nor an answer was captured"
    return None
