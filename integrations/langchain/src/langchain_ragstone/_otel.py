"""The OpenTelemetry span of a request, for applications that trace already.

Other handlers of LangChain open a span for each request, which is the one to link. Handlers registered before this one
have it open when the request begins, later handlers while it ends. OpenInference's spans are never current and are
looked up by the id of the run. Other spans are found if they are current and have the request's name.
"""

from __future__ import annotations

import sys
from typing import Any
from uuid import UUID

from ragstone.requests import TraceDraft, link_span


def link_current_span(draft: TraceDraft) -> None:
    """Note the span a request begins in: ids, as 32 and 16 hex digits, and whether it was sampled; if there is one.

    OpenTelemetry is only asked when the application has imported it: without it there can be no span.
    """
    otel = sys.modules.get("opentelemetry.trace")
    if otel is not None:
        link_span(draft, _of_openinference(draft.run_id) or otel.get_current_span())


def link_root_span(draft: TraceDraft) -> None:
    """Look again when a request ends: the span that stands for it may have come after its beginning."""
    otel = sys.modules.get("opentelemetry.trace")
    if otel is None:
        return
    span = _of_openinference(draft.run_id)
    if span is None and draft.otel_trace_id is None:
        current = otel.get_current_span()
        span = current if getattr(current, "name", None) == draft.name else None
    if span is not None:
        link_span(draft, span)


def _of_openinference(run_id: str | None) -> Any:
    """Return the open span of OpenInference for a run, or None."""
    kind = getattr(sys.modules.get("openinference.instrumentation.langchain"), "LangChainInstrumentor", None)
    if kind is None or run_id is None:
        return None
    instrumentor = kind()  # there is one for the process
    # Where it is not at work, asking for a span prints a complaint.
    return instrumentor.get_span(UUID(run_id)) if instrumentor.is_instrumented_by_opentelemetry else None
