"""The only module that imports OpenTelemetry. Import it only if the extra `otlp` is installed.

The logs API is experimental upstream, and its module names begin with an underscore.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import environ
from typing import Any, Final

import requests
from google.protobuf.message import DecodeError
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import (
    # Private names, but every instrumentation reads these keys. The public names are in another package.
    _SUPPRESS_HTTP_INSTRUMENTATION_KEY,
    _SUPPRESS_INSTRUMENTATION_KEY,
    Context,
    attach,
    detach,
    set_value,
)
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.environment_variables import OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_LOGS_HEADERS
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context
from opentelemetry.util.re import parse_env_headers

from ragstone._util.waiting import retry_after_s
from ragstone.errors import SinkRejectedError, SinkUnavailableError
from ragstone.sinks._otlp_event import AttributeValue

_logger = logging.getLogger("ragstone")

# Status codes that reject the batch itself. Others (401, 403, 404) point to the settings: deliveries stay pending until
# the settings are fixed.
_BATCH_AT_FAULT: Final = frozenset({400, 413, 422})
_NO_LOGS: Final = frozenset({404, 405})
"""Statuses of a server without a receiver for logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event: its name, attributes, times, and the ids of its span (0 if it does not have one)."""

    name: str
    attributes: Mapping[str, AttributeValue]
    timestamp_ns: int
    observed_ns: int
    trace_id: int = 0
    span_id: int = 0
    warning: str | None = None
    """Text of an event that needs attention. Its severity is then WARN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    retry_after_s: float | None
    body: bytes


class OtlpChannel:
    """An OTLP exporter with access to its responses. The exporter itself reports only success or failure."""

    def __init__(self, url: str, *, name: str, headers: Mapping[str, str], timeout_s: float | None) -> None:
        self._name = name
        self._answers: list[_Answer] = []
        session = requests.Session()
        session.hooks["response"].append(self._on_response)
        # Merged here, because older exporters ignore the environment's headers if headers are passed.
        self._exporter = OTLPLogExporter(
            endpoint=url, headers=_environment_headers() | dict(headers), timeout=timeout_s, session=session
        )
        self._resource = Resource.create()
        self._scope = InstrumentationScope("ragstone")

    def export(self, events: Sequence[Event]) -> None:
        """Send `events` in one request, with the exporter's own retries until its timeout, and check the response.

        Raise SinkUnavailableError if the request failed. Events may or may not have arrived. Raise SinkRejectedError if
        the receiver rejects the events themselves.
        """
        self._answers.clear()
        with _suppressed_instrumentation():
            result = self._exporter.export([self._record(event) for event in events])
        if not self._answers:
            raise SinkUnavailableError(f"the sink {self._name!r} could not be reached")
        answer = self._answers[-1]
        if answer.status in _BATCH_AT_FAULT:
            raise SinkRejectedError(f"the sink {self._name!r} rejected the batch with HTTP {answer.status}")
        if answer.status in _NO_LOGS:
            raise SinkUnavailableError(
                f"the sink {self._name!r} needs a server that accepts logs, but this one answers HTTP {answer.status} for them. "
                "Tracing tools often accept spans only: use the sink phoenix, mlflow, langfuse or langsmith for them, "
                "or give otlp the address of an OpenTelemetry collector.",
                retry_after_s=answer.retry_after_s,
            )
        # The exporter treats a redirect as success.
        if result is not LogRecordExportResult.SUCCESS or not 200 <= answer.status < 300:
            raise SinkUnavailableError(
                f"the sink {self._name!r} failed, its last response was HTTP {answer.status}",
                retry_after_s=answer.retry_after_s,
            )
        self._check_partial_success(answer.body, sent=len(events))

    def close(self) -> None:
        """Close the connection and cancel a retry in progress."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # not annotated upstream

    def _on_response(self, response: requests.Response, *_: Any, **__: Any) -> None:
        self._answers.append(
            _Answer(status=response.status_code, retry_after_s=retry_after_s(response.headers), body=response.content)
        )
        # Some versions of the exporter follow a redirect with a GET. Removing the header prevents that.
        response.headers.pop("location", None)

    def _record(self, event: Event) -> ReadableLogRecord:
        # An explicit context even without ids. Otherwise the record would use the current span.
        span = SpanContext(event.trace_id, event.span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.DEFAULT))
        record = LogRecord(
            timestamp=event.timestamp_ns,
            observed_timestamp=event.observed_ns,
            context=set_span_in_context(NonRecordingSpan(span), Context()),
            event_name=event.name,
            severity_number=None if event.warning is None else SeverityNumber.WARN,
            body=event.warning,
            attributes=event.attributes,
        )
        return ReadableLogRecord(record, self._resource, self._scope)

    def _check_partial_success(self, body: bytes, *, sent: int) -> None:
        """Check a 2xx response for rejected events. The response contains their number, but not which ones."""
        response = ExportLogsServiceResponse()
        try:
            response.ParseFromString(body)
        except DecodeError:
            return  # some receivers answer 200 with JSON or HTML
        rejected, reason = response.partial_success.rejected_log_records, response.partial_success.error_message
        if rejected >= sent:
            raise SinkRejectedError(f"the sink {self._name!r} rejected all events of the batch: {reason!r}")
        if rejected > 0:
            # The protocol forbids a retry of a partially accepted batch.
            _logger.warning("sink %r rejected %d of %d events: %r", self._name, rejected, sent, reason)


def _environment_headers() -> dict[str, str]:
    text = environ.get(OTEL_EXPORTER_OTLP_LOGS_HEADERS) or environ.get(OTEL_EXPORTER_OTLP_HEADERS) or ""
    return dict(parse_env_headers(text, liberal=True))


@contextmanager
def _suppressed_instrumentation() -> Iterator[None]:
    """Prevent instrumented HTTP clients from tracing Ragstone's own requests."""
    context = Context()
    for key in (_SUPPRESS_INSTRUMENTATION_KEY, _SUPPRESS_HTTP_INSTRUMENTATION_KEY):
        context = set_value(key, value=True, context=context)
    token = attach(context)
    try:
        yield
    finally:
        detach(token)
