"""Outcomes as OpenTelemetry events, over OTLP/HTTP with protobuf."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult

from ragstone._util.lazy import needs_extra
from ragstone.errors import ConfigurationError, SinkError, SinkNoTargetError, SinkUnavailableError
from ragstone.schema import AlarmDelivery, Delivery, NotApplicable
from ragstone.sinks._http import host_and_port, parse_url
from ragstone.sinks._otlp_event import (
    ALARM_NAME,
    EVENT_NAME,
    AttributeValue,
    alarm_attributes,
    evaluation_attributes,
    parse_hex_id,
    request_attributes,
)
from ragstone.sinks._row import CAUSE, cause_note_of

if TYPE_CHECKING:
    from ragstone.sinks._otlp_channel import Event, OtlpChannel

_BATCH_MAX_EVENTS: Final = 512
_LOGS_PATH: Final = "/v1/logs"
_Attributes = Mapping[str, AttributeValue]


class OtlpSink:
    """Sends each score and each failure as a `gen_ai.evaluation.result` event to an OTLP/HTTP receiver.

    The event has the trace and span id of the captured request, so that tools show it with the evaluated span. OTLP
    does not have keys: after a failed attempt a receiver may receive an event twice, with the same
    `ragstone.evaluation.id`. A `NotApplicable` outcome is not an evaluation result and is not sent. If the answer is
    wrong, an event with the name "ragstone.cause" says why, after the last outcome of the request. Alarms are sent as
    `ragstone.alarm` events.

    The sink calls the exporter directly and checks its response. It does not use the SDK's batching processor, which
    drops events if its queue is full and still reports success.

    Args:
        endpoint: Base URL of the receiver, such as "http://host:4318". `/v1/logs` is appended if missing. Default:
            `OTEL_EXPORTER_OTLP_LOGS_ENDPOINT`, `OTEL_EXPORTER_OTLP_ENDPOINT` or "http://localhost:4318".
        headers: Headers of each request, in addition to those of `OTEL_EXPORTER_OTLP_HEADERS`.
        timeout_s: Seconds for one batch, including the exporter's own retries. Default: `OTEL_EXPORTER_OTLP_TIMEOUT`,
            or 10.
        include_text: Also send explanations and reasons, which may quote captured text.
        clock: Returns the current time in Unix seconds.

    Raises:
        ConfigurationError: If the endpoint is not an http(s) URL, or the environment selects gRPC.
        MissingExtraError: If the extra `otlp` is not installed.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout_s: float | None = None,
        include_text: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        with needs_extra("otlp", "opentelemetry-exporter-otlp-proto-http", "the sink 'otlp'"):
            import ragstone.sinks._otlp_channel  # noqa: F401
        self._url = _logs_url(endpoint)
        self._headers = dict(headers or {})
        self._timeout_s = timeout_s
        self._include_text = include_text
        self._clock = clock
        self._channel: OtlpChannel | None = None
        self._channel_pid = 0
        self._closed = False

    @classmethod
    def from_spec(cls, argument: str, *, include_text: bool = False) -> OtlpSink:
        """Create the sink from the argument of `"otlp"` or `"otlp:http://host:4318"`.

        Raises:
            ConfigurationError: If the endpoint is not an http(s) URL.
            MissingExtraError: If the extra `otlp` is not installed.
        """
        return cls(argument or None, include_text=include_text)

    @property
    def name(self) -> str:
        """Name of the sink: `otlp:` with host and port of the receiver."""
        return f"otlp:{host_and_port(self._url)}"

    async def write(self, batch: Sequence[Delivery]) -> Mapping[str, SinkError]:
        """Send `batch` with at most 512 events per request, and return when the receiver has confirmed all of them.

        Returns:
            Errors of the skipped outcomes (not applicable), by `outcome.id`.

        Raises:
            SinkUnavailableError: On connection failure, timeout, 401, 403, 404, 429 or 5xx.
            SinkRejectedError: If the receiver rejects the events themselves (400, 413, 422).
        """
        if self._closed:
            raise SinkUnavailableError(f"the sink {self.name!r} is closed")
        events = [self._event(delivery, attributes) for delivery in batch for attributes in self._results(delivery)]
        for start in range(0, len(events), _BATCH_MAX_EVENTS):
            await asyncio.to_thread(self._send, events[start : start + _BATCH_MAX_EVENTS])
        return {
            d.outcome.id: SinkNoTargetError("a metric that does not apply is not an evaluation result")
            for d in batch
            if isinstance(d.outcome, NotApplicable)
        }

    async def write_alarms(self, batch: Sequence[AlarmDelivery]) -> None:
        """Send each event of an alarm as an event `ragstone.alarm` with severity WARN. Raises the errors of `write`."""
        if self._closed:
            raise SinkUnavailableError(f"the sink {self.name!r} is closed")
        await asyncio.to_thread(self._send, [self._alarm_event(delivery) for delivery in batch])

    async def aclose(self) -> None:
        """Close the connection and cancel a retry in progress."""
        self._closed = True
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def _send(self, events: Sequence[Event]) -> None:
        from ragstone.sinks._otlp_channel import OtlpChannel

        # Created at first use in each process: after a fork, parent and child must not share a connection.
        if self._channel is None or self._channel_pid != os.getpid():
            self._channel = OtlpChannel(
                self._url.geturl(), name=self.name, headers=self._headers, timeout_s=self._timeout_s
            )
            self._channel_pid = os.getpid()
        self._channel.export(events)

    def _results(self, delivery: Delivery) -> Iterator[_Attributes]:
        """Yield the attributes of the outcome's event, and of the cause's if it has one."""
        if not isinstance(delivery.outcome, NotApplicable):
            yield evaluation_attributes(delivery, include_text=self._include_text)
        note, cause = cause_note_of(delivery), delivery.cause
        if note is not None and cause is not None:
            yield request_attributes(delivery) | {
                "gen_ai.evaluation.name": CAUSE,
                "gen_ai.evaluation.explanation": note.comment,
                "ragstone.evaluation.id": note.id,
                "ragstone.cause": cause.name,
                **({} if note.label is None else {"gen_ai.evaluation.score.label": note.label}),
            }

    def _event(self, delivery: Delivery, attributes: _Attributes) -> Event:
        from ragstone.sinks._otlp_channel import Event

        now, scored_at = self._clock(), delivery.outcome.created_at
        return Event(
            name=EVENT_NAME,
            attributes=attributes,
            timestamp_ns=_to_ns(now if scored_at is None else scored_at),
            observed_ns=_to_ns(now),
            trace_id=parse_hex_id(delivery.otel_trace_id, digits=32),
            span_id=parse_hex_id(delivery.otel_span_id, digits=16),
        )

    def _alarm_event(self, delivery: AlarmDelivery) -> Event:
        from ragstone.sinks._otlp_channel import Event

        now = self._clock()
        return Event(
            name=ALARM_NAME,
            attributes=alarm_attributes(delivery),
            timestamp_ns=_to_ns(now if delivery.since is None else delivery.since),
            observed_ns=_to_ns(now),
            warning=delivery.text,
        )


def _logs_url(endpoint: str | None) -> SplitResult:
    """Return the URL for logs, by the rules of OpenTelemetry's environment variables."""
    environ = os.environ
    exact = None
    if endpoint is None:
        if (environ.get("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")) == "grpc":
            raise ConfigurationError(
                "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc', but the sink 'otlp' supports only http/protobuf. "
                "Give the HTTP receiver: 'otlp:http://host:4318'."
            )
        exact = environ.get("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")
        endpoint = exact or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "http://localhost:4318"
    url = parse_url(endpoint)
    if url is None:
        # The message omits the URL, because it may contain credentials.
        raise ConfigurationError("the endpoint of the sink 'otlp' must be a URL such as 'http://host:4318'")
    path = url.path.rstrip("/")
    return url if exact or path.endswith(_LOGS_PATH) else url._replace(path=path + _LOGS_PATH)


def _to_ns(unix_s: float) -> int:
    return int(unix_s * 1_000_000_000)
