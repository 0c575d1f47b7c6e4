"""What an outcome is to a tool that has the trace already: where it belongs there, and the words that go with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ragstone.errors import SinkNoTargetError
from ragstone.schema import Delivery, NotApplicable, Score
from ragstone.sinks._otlp_event import parse_hex_id

__all__ = ["Place", "place_of", "words_of"]

_WORDS_MAX_CHARS: Final = 16_000
"""At most 64,000 bytes: what the narrowest text column of the servers' databases holds (MySQL)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The span of a request, as tracing tools write its ids: hexadecimal, in small letters."""

    trace_id: str
    span_id: str | None


def place_of(delivery: Delivery) -> Place | SinkNoTargetError:
    """Return where an evaluation belongs in a tool that knows traces by their OpenTelemetry ids, or why nowhere."""
    if isinstance(delivery.outcome, NotApplicable):
        return SinkNoTargetError("a metric that does not apply is no evaluation result")
    trace_id = parse_hex_id(delivery.otel_trace_id, digits=32)
    span_id = parse_hex_id(delivery.otel_span_id, digits=16)
    if not trace_id:
        return SinkNoTargetError("the request was captured outside of any OpenTelemetry trace")
    if delivery.otel_sampled is False:
        return SinkNoTargetError("the trace of the request was not sampled, so no tracing tool has it")
    return Place(trace_id=f"{trace_id:032x}", span_id=f"{span_id:016x}" if span_id else None)


def words_of(delivery: Delivery) -> str | None:
    """Return the explanation of a score or the reason why there is none; either may quote captured text."""
    outcome = delivery.outcome
    words = outcome.explanation if isinstance(outcome, Score) else outcome.reason
    if words is None or len(words) <= _WORDS_MAX_CHARS:
        return words
    return words[: _WORDS_MAX_CHARS - 1] + "…"
