"""A span or a log record of OpenTelemetry in any container, with the fields that conventions read and the form stored on disk."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ragstone.capture import Redactor, redact_json, redact_secrets, safe_redactor
from ragstone.reading._fields import mapping
from ragstone.reading._stage import BufferedSpan
from ragstone.reading._values import json_in, text_or_none

_HEX: Final = frozenset("0123456789abcdefABCDEF")
_ID: Final = re.compile(
    r"(?:.*\.)?(?:(?:end)?user|session|conversation|document)[._]?[iI]d|(?:.*\.)?thread_id|mlflow\.trace\.(?:user|session)"
)
"""Attributes with the id of a user, a session or a passage, in all conventions."""
_STAGED: Final = (
    "trace_id", "span_id", "parent_id", "name", "started_at", "ended_at", "is_error", "status_message", "attributes", "resource",
    "is_log",
)  # fmt: skip
"""Fields of a staged span, in their order. Its events follow."""
_DETAILS: Final = "gen_ai.client.inference.operation.details"
_LOG_EVENTS: Final = frozenset(
    {_DETAILS, "gen_ai.choice", *(f"gen_ai.{role}.message" for role in ("system", "user", "assistant", "tool"))}
)
"""Names of the log records with what a model was sent or replied. All others are left alone."""
_NANOSECONDS: Final = 1e9
_MAX_NANOSECONDS: Final = 2**64


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened within a span."""

    name: str
    at: float | None
    """Unix seconds."""
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtelSpan:
    """One span: ids in hex digits, times in Unix seconds, attributes as plain JSON values under their dotted names."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    started_at: float | None
    ended_at: float | None
    is_error: bool = False
    status_message: str = ""
    attributes: dict[str, Any]
    events: tuple[SpanEvent, ...] = ()
    resource: dict[str, str] = field(default_factory=dict)
    """App, release and environment, as far as the span's resource states them."""
    is_log: bool = False
    """Whether it is a log record of the span with its ids, which has what was logged as attributes or as one event."""

    def staged(self) -> BufferedSpan:
        """Return the span as a stage stores it."""
        events = [[event.name, event.at, event.attributes] for event in self.events]
        values = [*(getattr(self, name) for name in _STAGED), events]
        body = json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()
        # A span has several log records. The same one may arrive twice.
        suffix = f".{hashlib.sha256(body).hexdigest()}" if self.is_log else ""
        return BufferedSpan(
            trace_id=self.trace_id,
            span_id=self.span_id + suffix,
            is_root=self.parent_id is None and not self.is_log,
            body=body,
        )

    def redacted(self, redact: Redactor) -> OtelSpan:
        """Return the span with every text of the application redacted, not ids. The default rules redact names.

        Raise RedactionError if the function fails.
        """
        redact = safe_redactor(redact)
        attributes = redact_json(self.attributes, redact)
        for name in attributes.keys() & self.attributes.keys():
            if _ID.fullmatch(name) and isinstance(self.attributes[name], str | int):
                attributes[name] = self.attributes[name]
        return replace(
            self,
            name=redact_secrets(self.name),
            status_message=redact(self.status_message),
            attributes=attributes,
            events=tuple(
                replace(event, name=redact_secrets(event.name), attributes=redact_json(event.attributes, redact))
                for event in self.events
            ),
        )

    @classmethod
    def from_staged(cls, body: bytes) -> OtelSpan:
        """Read a span that a stage stored."""
        *values, events = json.loads(body)
        return cls(**dict(zip(_STAGED, values, strict=True)), events=tuple(SpanEvent(*event) for event in events))

    @property
    def error(self) -> str | None:
        """What went wrong; None when nothing did."""
        if not self.is_error:
            return None
        for event in self.events:
            if event.name == "exception":
                kind, message = (event.attributes.get(f"exception.{part}") for part in ("type", "message"))
                return ": ".join(str(part) for part in (kind, message) if part) or self.status_message or "exception"
        return self.status_message or str(self.attributes.get("error.type") or "error")


def hex_id(value: object, *, n_bytes: int) -> str | None:
    """Return an id as hex digits, from hex digits (OTLP's JSON), Base64 (protobuf's JSON) or bytes. None if invalid.

    An id of zeros is invalid: OpenTelemetry writes a missing parent so.
    """
    if isinstance(value, bytes):
        digits = value.hex()
    elif not isinstance(value, str):
        return None
    elif len(value) == 2 * n_bytes and not set(value) - _HEX:
        digits = value.lower()
    else:
        try:
            digits = base64.b64decode(value, validate=True).hex()
        except (binascii.Error, ValueError):
            return None
    return digits if len(digits) == 2 * n_bytes and digits.strip("0") else None


def read_span(trace_id: object, span_id: object, parent_id: object, **fields: Any) -> OtelSpan | str:
    """Return a span, whose ids are read as `hex_id` does, or the problem if it does not have ids."""
    trace, span = hex_id(trace_id, n_bytes=16), hex_id(span_id, n_bytes=8)
    if trace is None or span is None:
        return "no trace id of 16 bytes and span id of 8 bytes, in hex digits or base64"
    return OtelSpan(trace_id=trace, span_id=span, parent_id=hex_id(parent_id, n_bytes=8), **fields)


def read_log(
    ids: tuple[object, object], name: object, at: float | None, attributes: dict[str, Any], body: Any, resource: Any
) -> OtelSpan | str | None:
    """Return a log record with a message of a model, as `is_log` describes. None if it is another log record."""
    named = text_or_none(name, attributes.get("event.name"))
    if named not in _LOG_EVENTS:
        return None
    fields: dict[str, Any] = {"name": named, "started_at": at, "ended_at": at, "resource": resource, "is_log": True}
    if named == _DETAILS:
        return read_span(*ids, None, attributes=attributes, **fields)
    event = SpanEvent(named, at, {**attributes, **mapping(json_in(body))})
    return read_span(*ids, None, attributes={}, events=(event,), **fields)


def join_logs(spans: Iterable[OtelSpan]) -> list[OtelSpan]:
    """Return the spans of a trace, with their log records. Log records without their span are a span."""
    logs: dict[str, list[OtelSpan]] = {}
    joined: dict[str, OtelSpan] = {}
    for span in spans:
        if span.is_log:
            logs.setdefault(span.span_id, []).append(span)
        else:
            joined[span.span_id] = span
    for span_id, records in logs.items():
        records.sort(key=lambda record: record.started_at or 0.0)
        span = joined.get(span_id) or replace(records[0], attributes={}, events=())
        events = [event for record in records for event in record.events]
        attributes = {name: value for record in records for name, value in record.attributes.items()}
        joined[span_id] = replace(
            span, attributes={**attributes, **span.attributes}, events=(*span.events, *events), is_log=False
        )
    return list(joined.values())


def seconds(nanoseconds: object) -> float | None:
    """Unix seconds, of nanoseconds that may be written as text; None without a valid time."""
    if isinstance(nanoseconds, str) and len(nanoseconds) <= 20 and nanoseconds.isascii() and nanoseconds.isdigit():
        nanoseconds = int(nanoseconds)
    if isinstance(nanoseconds, bool) or not isinstance(nanoseconds, int | float):
        return None
    return nanoseconds / _NANOSECONDS if 0 < nanoseconds < _MAX_NANOSECONDS else None
