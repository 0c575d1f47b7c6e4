"""An outcome as a row of plain values, where it belongs in a tracing tool, and the delivery of rows one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from ragstone.errors import SinkDeniedError, SinkError, SinkNoTargetError, SinkTargetMissingError, SinkUnavailableError
from ragstone.schema import Delivery, Failure, NotApplicable, Score
from ragstone.sinks._otlp_event import parse_hex_id

__all__ = ["SpanRef", "build_comment", "build_score_metadata", "iso_time", "outcome_row", "span_ref_of", "write_each"]

_WORDS_MAX_CHARS: Final = 16_000
"""At most 64,000 bytes: what the narrowest text column of the servers' databases holds (MySQL)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRef:
    """The span of a request, as tracing tools write its ids: hexadecimal, in small letters."""

    trace_id: str
    span_id: str | None


def span_ref_of(delivery: Delivery) -> SpanRef | SinkNoTargetError:
    """Return where an evaluation belongs in a tool that knows traces by their OpenTelemetry ids, or why nowhere."""
    if isinstance(delivery.outcome, NotApplicable):
        return SinkNoTargetError("a metric that does not apply is no evaluation result")
    trace_id = parse_hex_id(delivery.otel_trace_id, digits=32)
    span_id = parse_hex_id(delivery.otel_span_id, digits=16)
    if not trace_id:
        return SinkNoTargetError("the request was captured outside of any OpenTelemetry trace")
    if delivery.otel_sampled is False:
        return SinkNoTargetError("the trace of the request was not sampled, so no tracing tool has it")
    return SpanRef(trace_id=f"{trace_id:032x}", span_id=f"{span_id:016x}" if span_id else None)


def build_comment(delivery: Delivery) -> str | None:
    """Return the explanation of a score or the reason why there is none; either may quote captured text."""
    outcome = delivery.outcome
    words = outcome.explanation if isinstance(outcome, Score) else outcome.reason
    if words is None or len(words) <= _WORDS_MAX_CHARS:
        return words
    return words[: _WORDS_MAX_CHARS - 1] + "…"


_NOT_EVIDENCE: Final = ("id", "reason", "usage")


def outcome_row(delivery: Delivery, *, include_text: bool) -> dict[str, Any]:
    """Return what is known of an outcome, under one name each; what does not exist is None.

    Args:
        delivery: The outcome and where it belongs.
        include_text: Add what may hold captured text at length: explanation, details, and the judge's raw reply. The
            reason of a missing score, a sentence of ours that may quote it, is there either way.
    """
    outcome = delivery.outcome
    score = outcome if isinstance(outcome, Score) else None
    failure = outcome if isinstance(outcome, Failure) else None
    row: dict[str, Any] = {
        "schema_version": outcome.schema_version,
        "id": outcome.id,
        "trace_id": delivery.trace_id,
        "run_id": delivery.run_id,
        "otel_trace_id": delivery.otel_trace_id,
        "otel_span_id": delivery.otel_span_id,
        "metric": outcome.metric,
        "metric_version": outcome.metric_version,
        "outcome": outcome.outcome,
        "value": score.value if score else None,
        "interval": score.interval.model_dump(mode="json") if score and score.interval else None,
        "method": score.method if score else None,
        "n": score.n if score else None,
        "kind": failure.kind if failure else None,
        "reason": None if isinstance(outcome, Score) else outcome.reason,
        "missing": list(outcome.missing) if isinstance(outcome, NotApplicable) else None,
        "judge": outcome.judge,
        "judge_hash": outcome.judge_hash,
        "prompt_hash": outcome.prompt_hash,
        "usage": outcome.usage.model_dump(mode="json") if outcome.usage else None,
        "inclusion_probability": delivery.inclusion_probability,
        "requested_at": delivery.requested_at,
        "scored_at": outcome.created_at,
    }
    if include_text:
        row["explanation"] = score.explanation if score else None
        row["details"] = score.model_dump(mode="json", include={"details"})["details"] if score else None
        row["raw"] = None if isinstance(outcome, NotApplicable) else outcome.raw
    return row


def build_score_metadata(delivery: Delivery) -> dict[str, Any]:
    """Return what stands behind an outcome, for the metadata of a score elsewhere: all that exists and holds no text."""
    row = outcome_row(delivery, include_text=False)
    return {name: value for name, value in row.items() if value not in (None, "") and name not in _NOT_EVIDENCE}


def iso_time(unix_s: float | None) -> str | None:
    """Return a time as ISO 8601 in UTC, to the microsecond; None for none, and for one that no calendar has."""
    try:
        return None if unix_s is None else datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError, OSError):
        return None


_AT_ONCE: Final = 8


async def write_each(
    batch: Sequence[Delivery], send: Callable[[Delivery], Awaitable[SinkError | None]], *, at_once: int = _AT_ONCE
) -> dict[str, SinkError]:
    """Send each row of `batch` by itself.

    Once the destination is found to be down, what has not been sent yet is not tried: it would only wait for the same
    time-out, row after row.

    Args:
        batch: The rows.
        send: Sends one and returns what became of it, or raises it; None: it has arrived.
        at_once: Rows under way at any moment.

    Returns:
        What did not arrive, by `outcome.id`.

    Raises:
        SinkDeniedError: The credentials are refused.
    """
    errors: dict[str, SinkError] = {}
    outage: SinkUnavailableError | None = None
    waiting = iter(batch)

    async def work() -> None:
        nonlocal outage
        for delivery in waiting:
            error: SinkError | None = outage
            if error is None:
                try:
                    error = await send(delivery)
                except SinkDeniedError:
                    raise
                except SinkError as raised:
                    error = raised
            if isinstance(error, SinkDeniedError):
                raise error
            if isinstance(error, SinkUnavailableError) and not isinstance(error, SinkTargetMissingError):
                outage = error
            if error is not None:
                errors[delivery.outcome.id] = error

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(batch))):
                group.create_task(work())
    except* SinkError as raised:
        raise raised.exceptions[0] from None
    return errors
