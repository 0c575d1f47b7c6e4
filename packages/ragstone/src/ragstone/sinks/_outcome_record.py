"""Whole records of outcomes and requests as rows of a table."""

from __future__ import annotations

from typing import Any, Final

from ragstone.schema import Failure, NotApplicable, Score, Trace

RECORD_COLUMNS: Final = {
    "outcome_id": "string",
    "trace_id": "string",
    "metric": "string",
    "outcome": "string",
    "value": "float64",
    "outcome_json": "string",
    "trace_json": "string",
}
"""Names of the columns, and their types in Arrow. All but the last two are for queries."""


def record_row(outcome: Score | NotApplicable | Failure, trace: Trace | None) -> dict[str, Any]:
    """Return an outcome and its request (None if another row has it) as a row with the columns `RECORD_COLUMNS`."""
    return {
        "outcome_id": outcome.id,
        "trace_id": outcome.sample_id,
        "metric": outcome.metric,
        "outcome": outcome.outcome,
        "value": outcome.value if isinstance(outcome, Score) else None,
        "outcome_json": outcome.model_dump_json(),
        "trace_json": None if trace is None else trace.model_dump_json(),
    }
