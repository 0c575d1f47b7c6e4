"""The only file that knows OpenTelemetry's classes; import it only where the extra `otlp` is known to be there.

The logs API is still called experimental upstream, and its modules begin with an underscore.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import environ
from typing import Any, Final

import requests
from google.protobuf.message import DecodeError
from opentelemetry._logs import LogRecord
from opentelemetry.context import (
    # Private in name, but they are what every instrumentation looks at; the public spelling is in another package.
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

from ragstone.errors import SinkRejectedError, SinkUnavailableError
from ragstone.sinks._otlp_event import EVENT_NAME, AttributeValue

__all__ = ["Event", "OtlpChannel"]

_logger = logging.getLogger("ragstone")

# The answers that blame the batch. Other refusals (401, 403, 404) blame the settings: deliveries wait until these are
# repaired.
_BATCH_AT_FAULT: Final = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One evaluation event: what it says, when, and which span it is about (0: none)."""

    attributes: Mapping[str, AttributeValue]
    timestamp_ns: int
    observed_ns: int
    trace_id: int
    span_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    retry_after: str | None
    body: bytes


class OtlpChannel:
    """An exporter whose answers are looked at: its own verdict is no more than success or failure."""

    def __init__(self, url: str, *, name: str, headers: Mapping[str, str], timeout_s: float | None) -> None:
        self._name = name
        self._answers: list[_Answer] = []
        session = requests.Session()
        session.hooks["response"].append(self._on_response)
        # Merged here, because older exporters take given headers in place of those of the environment.
        self._exporter = OTLPLogExporter(
            endpoint=url, headers=_environment_headers() | dict(headers), timeout=timeout_s, session=session
        )
        self._resource = Resource.create()
        self._scope = InstrumentationScope("ragstone")

    def export(self, events: Sequence[Event]) -> None:
        """Send `events` in one request (with the exporter's own retries until its time-out) and check the answer.

        Raises:
            SinkUnavailableError: Nothing is known to have arrived.
            SinkRejectedError: The receiver refuses the events themselves.
        """
        self._answers.clear()
        with _suppressed_instrumentation():
            result = self._exporter.export([self._record(event) for event in events])
        if not self._answers:
            raise SinkUnavailableError(f"the sink {self._name!r} could not be reached")
        answer = self._answers[-1]
        if answer.status in _BATCH_AT_FAULT:
            raise SinkRejectedError(f"the sink {self._name!r} refuses the batch with HTTP {answer.status}")
        # The exporter takes a redirection for a success.
        if result is not LogRecordExportResult.SUCCESS or not 200 <= answer.status < 300:
            raise SinkUnavailableError(
                f"the sink {self._name!r} failed, its last answer was HTTP {answer.status}",
                retry_after_s=_seconds(answer.retry_after),
            )
        self._check_partial_success(answer.body, sent=len(events))

    def close(self) -> None:
        """Let go of the connection; a retry that is under way is given up."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # upstream has no annotation

    def _on_response(self, response: requests.Response, *_: Any, **__: Any) -> None:
        self._answers.append(
            _Answer(
                status=response.status_code,
                retry_after=response.headers.get("retry-after"),
                body=response.content,
            )
        )
        # Some versions of the exporter follow a redirection, with a GET; without a target there is nothing to follow.
        response.headers.pop("location", None)

    def _record(self, event: Event) -> ReadableLogRecord:
        # A context of our own even without ids: given none, the record would take the span that is current here.
        about = SpanContext(event.trace_id, event.span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.DEFAULT))
        record = LogRecord(
            timestamp=event.timestamp_ns,
            observed_timestamp=event.observed_ns,
            context=set_span_in_context(NonRecordingSpan(about), Context()),
            event_name=EVENT_NAME,
            attributes=event.attributes,
        )
        return ReadableLogRecord(record, self._resource, self._scope)

    def _check_partial_success(self, body: bytes, *, sent: int) -> None:
        """A 2xx answer may still say that some events were refused. Which ones, it does not say."""
        response = ExportLogsServiceResponse()
        try:
            response.ParseFromString(body)
        except DecodeError:
            return  # some receivers answer 200 with JSON or with a page
        rejected, why = response.partial_success.rejected_log_records, response.partial_success.error_message
        if rejected >= sent:
            raise SinkRejectedError(f"the sink {self._name!r} refuses all events of the batch: {why!r}")
        if rejected > 0:
            # The protocol forbids to send the batch again.
            _logger.warning("sink %r refused %d of %d events: %r", self._name, rejected, sent, why)


def _environment_headers() -> dict[str, str]:
    text = environ.get(OTEL_EXPORTER_OTLP_LOGS_HEADERS) or environ.get(OTEL_EXPORTER_OTLP_HEADERS) or ""
    return dict(parse_env_headers(text, liberal=True))


@contextmanager
def _suppressed_instrumentation() -> Iterator[None]:
    """Keep instrumented HTTP clients from recording our own requests as traces of the application."""
    context = Context()
    for key in (_SUPPRESS_INSTRUMENTATION_KEY, _SUPPRESS_HTTP_INSTRUMENTATION_KEY):
        context = set_value(key, value=True, context=context)
    token = attach(context)
    try:
        yield
    finally:
        detach(token)


def _seconds(retry_after: str | None) -> float | None:
    """Return the seconds in a Retry-After header; its date form is left to our own back-off."""
    try:
        seconds = float(retry_after or "")
    except ValueError:
        return None
    return seconds if seconds >= 0 and math.isfinite(seconds) else None
