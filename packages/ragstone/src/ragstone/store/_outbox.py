"""The outbox: one row for each outcome and sink, from the transaction that stores the outcome to its delivery."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from ragstone.store._bodies import to_outcome
from ragstone.store._records import OutboxItem

__all__ = ["due", "mark_dead", "mark_retry", "mark_sent"]


def due(db: sqlite3.Connection, sink: str, *, limit: int, now: float) -> list[OutboxItem]:
    """Deliveries whose time has come, in that order."""
    rows = db.execute(
        """
        SELECT b.body, x.attempts, t.trace_id, t.run_id, t.otel_trace_id, t.otel_span_id, t.session_id, t.user_id,
               t.name, t.started_at, t.inclusion_probability
        FROM outbox AS x
        JOIN outcomes AS o USING (outcome_id)
        JOIN outcome_bodies AS b ON b.seq = o.seq
        JOIN traces AS t ON t.trace_id = o.sample_id
        WHERE x.sink = ? AND x.state = 'pending' AND x.next_try <= ?
        ORDER BY x.next_try, x.seq LIMIT ?
        """,
        (sink, now, max(limit, 0)),
    )
    return [
        OutboxItem(
            outcome=to_outcome(body),
            trace_id=trace_id,
            run_id=run_id,
            otel_trace_id=otel_trace_id,
            otel_span_id=otel_span_id,
            session_id=session_id,
            user_id=user_id,
            name=name,
            requested_at=started_at,
            inclusion_probability=inclusion_probability,
            attempts=attempts,
        )
        for (
            body,
            attempts,
            trace_id,
            run_id,
            otel_trace_id,
            otel_span_id,
            session_id,
            user_id,
            name,
            started_at,
            inclusion_probability,
        ) in rows
    ]


def mark_sent(db: sqlite3.Connection, sink: str, outcome_ids: Sequence[str]) -> None:
    """Close the deliveries that arrived."""
    db.executemany(
        """
        UPDATE outbox SET state = 'sent', attempts = attempts + 1, last_error = NULL
        WHERE outcome_id = ? AND sink = ? AND state <> 'sent'
        """,
        [(outcome_id, sink) for outcome_id in outcome_ids],
    )


def mark_retry(db: sqlite3.Connection, sink: str, outcome_ids: Sequence[str], *, next_try: float, error: str) -> None:
    """Put deliveries that failed back in line."""
    db.executemany(
        """
        UPDATE outbox SET attempts = attempts + 1, next_try = ?, last_error = ?
        WHERE outcome_id = ? AND sink = ? AND state = 'pending'
        """,
        [(next_try, error, outcome_id, sink) for outcome_id in outcome_ids],
    )


def mark_dead(db: sqlite3.Connection, sink: str, outcome_ids: Sequence[str], *, error: str) -> None:
    """Close the deliveries that will never arrive."""
    db.executemany(
        """
        UPDATE outbox SET state = 'dead', attempts = attempts + 1, last_error = ?
        WHERE outcome_id = ? AND sink = ? AND state = 'pending'
        """,
        [(error, outcome_id, sink) for outcome_id in outcome_ids],
    )
