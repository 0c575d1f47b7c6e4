"""Whole records of outcomes and requests as rows, which a store can merge."""

from __future__ import annotations

from typing import Any, Final

from ragstone.schema import Delivery, Failure, NotApplicable, Score, Trace

RECORD_COLUMNS: Final = {
    "outcome_id": "string",
    "trace_id": "string",
    "metric": "string",
    "outcome": "string",
    "value": "float64",
    "is_finished": "bool_",
    "outcome_json": "string",
    "trace_json": "string",
}
"""Names of the columns, and their types in Arrow. All but the last three are for queries."""


def record_row(
    outcome: Score | NotApplicable | Failure, trace: Trace | None, *, is_finished: bool = True
) -> dict[str, Any]:
    """Return an outcome and its request as a row with the columns `RECORD_COLUMNS`, for `ragstone store merge`.

    Args:
        outcome: The outcome.
        trace: Its request. None if another row of the same file has it.
        is_finished: Whether the request has all outcomes that it will get.
    """
    return {
        "outcome_id": outcome.id,
        "trace_id": outcome.sample_id,
        "metric": outcome.metric,
        "outcome": outcome.outcome,
        "value": outcome.value if isinstance(outcome, Score) else None,
        "is_finished": is_finished,
        "outcome_json": outcome.model_dump_json(),
        "trace_json": None if trace is None else trace.model_dump_json(),
    }


def label_trace(delivery: Delivery) -> Trace:
    """Return a request whose text was removed: its id, time and labels."""
    labels = ("run_id", "otel_trace_id", "otel_span_id", "otel_sampled", "session_id", "user_id", "app", "release")
    return Trace(
        trace_id=delivery.trace_id,
        started_at=delivery.requested_at or 0.0,
        environment=delivery.environment,
        name=delivery.name,
        inclusion_probability=delivery.inclusion_probability,
        **{name: getattr(delivery, name) for name in labels},
    )
