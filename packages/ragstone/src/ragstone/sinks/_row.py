"""An outcome as a row of plain values: one set of names for every destination that has no names of its own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from ragstone.schema import Delivery, Failure, NotApplicable, Score

__all__ = ["evidence", "iso_time", "outcome_row"]

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


def evidence(delivery: Delivery) -> dict[str, Any]:
    """Return what stands behind an outcome, for the metadata of a score elsewhere: all that exists and holds no text."""
    row = outcome_row(delivery, include_text=False)
    return {name: value for name, value in row.items() if value not in (None, "") and name not in _NOT_EVIDENCE}


def iso_time(unix_s: float | None) -> str | None:
    """Return a time as ISO 8601 in UTC, to the microsecond; None for none, and for one that no calendar has."""
    try:
        return None if unix_s is None else datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError, OSError):
        return None
