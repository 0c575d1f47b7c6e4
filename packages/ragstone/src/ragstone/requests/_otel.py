"""The OpenTelemetry span that a request runs in."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from ragstone.requests._current import current_request
from ragstone.requests._draft import TraceDraft

TRACE_ID_KEY: Final = "ragstone.trace_id"
"""Attribute of a span, or key of a run's metadata: the id of the request. A reader of the exported trace uses it as the
trace id, so that a request that was captured as well is stored once."""

_FIELDS: Final = {
    "app": ("service.name",),
    "release": ("service.version",),
    "environment": ("deployment.environment.name", "deployment.environment"),
}


def read_resource(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Return app, release and environment, as far as the attributes of an OpenTelemetry resource state them.

    The name that the SDK invents for an application without one (`unknown_service`) is ignored.
    """
    found: dict[str, str] = {}
    for field, keys in _FIELDS.items():
        values = (attributes.get(key) for key in keys)
        value = next((value for value in values if isinstance(value, str) and value), None)
        if value is not None and not value.startswith("unknown_service"):
            found[field] = value
    return found


def link_current_span(draft: TraceDraft) -> None:
    """Link a request to the current span, if there is one.

    OpenTelemetry is only asked if the application has imported it: without it there cannot be a span.
    """
    otel = sys.modules.get("opentelemetry.trace")
    if otel is not None:
        link_span(draft, otel.get_current_span())


def link_span(draft: TraceDraft, span: Any) -> None:
    """Link a request to a span: note its ids, its resource and if it is sampled, and set the request's id as its attribute.

    Inside a block the attribute is the block's id, because the request becomes a part of it.
    """
    context = span.get_span_context()
    if not context.is_valid:
        return
    draft.otel_trace_id = f"{context.trace_id:032x}"
    draft.otel_span_id = f"{context.span_id:016x}"
    draft.otel_sampled = bool(context.trace_flags.sampled)
    attributes = getattr(getattr(span, "resource", None), "attributes", None)
    if isinstance(attributes, Mapping):
        for field, value in read_resource(attributes).items():
            setattr(draft, field, getattr(draft, field) or value)
    if span.is_recording():
        block = current_request()
        span.set_attribute(TRACE_ID_KEY, draft.trace_id if block is None else block.trace_id or draft.trace_id)
