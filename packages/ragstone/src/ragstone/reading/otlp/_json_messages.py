"""OTLP messages as JSON: its own encoding (hex ids), and protobuf's generic one (base64, names with underscores)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import starmap
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.reading._fields import mapping
from ragstone.reading.otlp._span import OtelSpan, SpanEvent, read_log, read_span, seconds
from ragstone.requests import read_resource

_MAX_DEPTH: Final = 16
_SIGNALS: Final = frozenset(
    {
        "resourceSpans", "resourceLogs", "resourceMetrics", "resourceProfiles",
        "resource_spans", "resource_logs", "resource_metrics", "resource_profiles",
    }
)  # fmt: skip
_ERROR: Final = (2, "2", "STATUS_CODE_ERROR", "ERROR")


def spans_of_message(message: Any) -> Iterator[OtelSpan | str]:
    """Yield the spans of a message. An unreadable span is replaced by the problem and the span's number.

    Log records with messages of a model are spans too (see `read_log`). Raise DataError if it is not an OTLP message.
    """
    if not isinstance(message, Mapping) or _SIGNALS.isdisjoint(message):
        raise DataError("not an OTLP message: `resourceSpans` is missing")
    for resources, parts, items, read, title in _SIGNALS_READ:
        number = 0
        for resource in _list(message, *resources):
            about = read_resource(_attributes(mapping(mapping(resource).get("resource"))))
            for item in (item for scope in _list(resource, *parts) for item in _list(scope, *items)):
                number += 1
                span = read(item, about)
                if span is not None:
                    yield span if isinstance(span, OtelSpan) else f"{title} {number}: {span}"


def span_of(span: Any, resource: dict[str, str] | None = None) -> OtelSpan | str:
    """Return the span of a JSON object, or a description of the problem."""
    if not isinstance(span, Mapping):
        return f"a span must be an object, got {type(span).__name__}"
    status = mapping(span.get("status"))
    events = (
        (str(event.get("name") or ""), seconds(_either(event, "timeUnixNano", "time_unix_nano")), _attributes(event))
        for event in _list(span, "events")
        if isinstance(event, Mapping)
    )
    return read_span(
        _either(span, "traceId", "trace_id"),
        _either(span, "spanId", "span_id"),
        _either(span, "parentSpanId", "parent_span_id"),
        name=str(span.get("name") or ""),
        started_at=seconds(_either(span, "startTimeUnixNano", "start_time_unix_nano")),
        ended_at=seconds(_either(span, "endTimeUnixNano", "end_time_unix_nano")),
        is_error=status.get("code") in _ERROR,
        status_message=str(status.get("message") or ""),
        attributes=_attributes(span),
        resource=resource or {},
        events=tuple(starmap(SpanEvent, events)),
    )


def log_of(record: Any, resource: dict[str, str] | None = None) -> OtelSpan | str | None:
    """Return the log record of a JSON object, a description of the problem, or None if it is not one of a model."""
    if not isinstance(record, Mapping):
        return f"a log record must be an object, got {type(record).__name__}"
    ids = _either(record, "traceId", "trace_id"), _either(record, "spanId", "span_id")
    at = seconds(_either(record, "timeUnixNano", "time_unix_nano"))
    at = at or seconds(_either(record, "observedTimeUnixNano", "observed_time_unix_nano"))
    name, body = _either(record, "eventName", "event_name"), _any_value(record.get("body"), 0)
    return read_log(ids, name, at, _attributes(record), body, resource or {})


_SIGNALS_READ: Final[tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], Any, str], ...]] = (
    (
        ("resourceSpans", "resource_spans"), ("scopeSpans", "scope_spans", "instrumentationLibrarySpans"), ("spans",),
        span_of, "span",
    ),
    (("resourceLogs", "resource_logs"), ("scopeLogs", "scope_logs"), ("logRecords", "log_records"), log_of, "log record"),
)  # fmt: skip
"""The lists in a message, from outer to inner, the function that reads an item, and its name."""


def _either(value: Mapping[str, Any], *names: str) -> Any:
    return next((value[name] for name in names if name in value), None)


def _list(value: Any, *names: str) -> list[Any]:
    found = _either(value, *names) if isinstance(value, Mapping) else None
    return found if isinstance(found, list) else []


def _attributes(value: Mapping[str, Any]) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for item in _list(value, "attributes"):
        if isinstance(item, Mapping) and isinstance(item.get("key"), str):
            attributes.setdefault(item["key"], _any_value(item.get("value"), 0))
    return attributes


def _any_value(value: Any, depth: int) -> Any:
    if not isinstance(value, Mapping) or not value or depth >= _MAX_DEPTH:
        return None
    kind, inner = next(iter(value.items()))
    if kind in ("arrayValue", "array_value"):
        return [_any_value(item, depth + 1) for item in _list(inner, "values")]
    if kind in ("kvlistValue", "kvlist_value"):
        pairs = ((item.get("key"), item.get("value")) for item in _list(inner, "values") if isinstance(item, Mapping))
        return {str(key): _any_value(item, depth + 1) for key, item in pairs}
    if kind in ("intValue", "int_value"):
        return _int(inner)
    # Bytes stay in base64, as they came.
    return inner if isinstance(inner, str | int | float | bool) else None


def _int(value: Any) -> int | None:
    if isinstance(value, str) and len(value) <= 20 and value.isascii() and value.removeprefix("-").isdigit():
        return int(value)
    return value if isinstance(value, int) else None
