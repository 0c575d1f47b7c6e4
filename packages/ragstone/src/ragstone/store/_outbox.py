"""The outbox: one row for each outcome and sink, from the transaction that stores the outcome to its delivery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ragstone.schema import Delivery, SinkBooks
from ragstone.store._bodies import to_outcome
from ragstone.store._records import DeliveryState, OutboxRow
from ragstone.store._sql import Sql

__all__ = ["again", "books", "due", "mark_dead", "mark_retry", "mark_sent", "mark_skipped", "rows", "stop"]


_ALL: Final = 2**62


def due(db: Sql, sink: str, *, limit: int, now: float) -> list[Delivery]:
    """Deliveries whose time has come, in that order."""
    found = db.execute(
        """
        SELECT b.body, t.trace_id, t.run_id, t.otel_trace_id, t.otel_span_id, t.otel_sampled, t.session_id, t.user_id,
               t.name, t.started_at, t.inclusion_probability, x.attempts, x.since
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
        Delivery(
            outcome=to_outcome(body),
            trace_id=trace_id,
            run_id=run_id,
            otel_trace_id=otel_trace_id,
            otel_span_id=otel_span_id,
            otel_sampled=None if otel_sampled is None else bool(otel_sampled),
            session_id=session_id,
            user_id=user_id,
            name=name,
            requested_at=started_at,
            inclusion_probability=inclusion_probability,
            attempts=attempts,
            since=since,
        )
        for (
            body,
            trace_id,
            run_id,
            otel_trace_id,
            otel_span_id,
            otel_sampled,
            session_id,
            user_id,
            name,
            started_at,
            inclusion_probability,
            attempts,
            since,
        ) in found
    ]


def rows(
    db: Sql,
    *,
    trace_id: str | None = None,
    sink: str | None = None,
    state: DeliveryState | None = None,
    limit: int = _ALL,
) -> list[OutboxRow]:
    """Rows of the books, in the order they were put in line."""
    found = db.execute(
        """
        SELECT x.outcome_id, o.sample_id, o.metric, x.sink, x.state, x.attempts, x.next_try, x.last_error
        FROM outbox AS x JOIN outcomes AS o USING (outcome_id)
        WHERE (o.sample_id = ?1 OR ?1 IS NULL) AND (x.sink = ?2 OR ?2 IS NULL) AND (x.state = ?3 OR ?3 IS NULL)
        ORDER BY x.seq LIMIT ?4
        """,
        (trace_id, sink, state, limit),
    )
    return [
        OutboxRow(
            outcome_id=outcome_id,
            trace_id=sample_id,
            metric=metric,
            sink=name,
            state=where,
            attempts=attempts,
            next_try=next_try,
            last_error=last_error,
        )
        for outcome_id, sample_id, metric, name, where, attempts, next_try, last_error in found
    ]


def books(db: Sql, *, now: float) -> dict[str, SinkBooks]:
    """Where each sink stands. One that left the plan keeps its rows: what it is still owed stays visible."""
    planned: dict[str, str | None] = dict(db.execute("SELECT name, stopped FROM sinks ORDER BY name"))
    counts: dict[str, dict[str, int]] = {name: {} for name in planned}
    for sink, state, n in db.execute("SELECT sink, state, count(*) FROM outbox GROUP BY sink, state"):
        counts.setdefault(sink, {})[state] = n
    return {sink: _books_of(db, sink, found, planned.get(sink), now=now) for sink, found in counts.items()}


def _books_of(db: Sql, sink: str, counts: Mapping[str, int], stopped: str | None, *, now: float) -> SinkBooks:
    # Rows are put in line in the order of `seq`; the oldest that waits is the first of them.
    oldest = db.execute(
        "SELECT since FROM outbox WHERE sink = ? AND state = 'pending' ORDER BY seq LIMIT 1", (sink,)
    ).fetchone()
    error = db.execute(
        "SELECT last_error FROM outbox WHERE sink = ? AND state = 'pending' ORDER BY next_try LIMIT 1", (sink,)
    ).fetchone()
    return SinkBooks(
        **counts,
        oldest_pending_s=None if oldest is None else max(now - oldest[0], 0.0),
        last_error=None if error is None else error[0],
        stopped=stopped,
    )


def mark_sent(db: Sql, sink: str, outcome_ids: Sequence[str]) -> None:
    """Close the deliveries that arrived."""
    db.executemany(
        """
        UPDATE outbox SET state = 'sent', attempts = attempts + 1, last_error = NULL
        WHERE outcome_id = ? AND sink = ? AND state <> 'sent'
        """,
        [(outcome_id, sink) for outcome_id in outcome_ids],
    )


def mark_retry(db: Sql, sink: str, outcome_ids: Sequence[str], *, next_try: float, error: str) -> None:
    """Put deliveries that failed back in line."""
    db.executemany(
        """
        UPDATE outbox SET attempts = attempts + 1, next_try = ?, last_error = ?
        WHERE outcome_id = ? AND sink = ? AND state = 'pending'
        """,
        [(next_try, error, outcome_id, sink) for outcome_id in outcome_ids],
    )


def mark_skipped(db: Sql, sink: str, outcome_ids: Sequence[str], *, reason: str) -> None:
    """Close the deliveries that have no place at their sink."""
    _close(db, sink, outcome_ids, state="skipped", words=reason)


def mark_dead(db: Sql, sink: str, outcome_ids: Sequence[str], *, error: str) -> None:
    """Close the deliveries that will not arrive."""
    _close(db, sink, outcome_ids, state="dead", words=error)


def _close(db: Sql, sink: str, outcome_ids: Sequence[str], *, state: DeliveryState, words: str) -> None:
    db.executemany(
        """
        UPDATE outbox SET state = ?, attempts = attempts + 1, last_error = ?
        WHERE outcome_id = ? AND sink = ? AND state = 'pending'
        """,
        [(state, words, outcome_id, sink) for outcome_id in outcome_ids],
    )


def again(db: Sql, *, sink: str | None, state: DeliveryState, now: float) -> int:
    """Put closed deliveries in line once more; how many."""
    return db.execute(
        """
        UPDATE outbox SET state = 'pending', attempts = 0, since = ?1, next_try = ?1
        WHERE state = ?2 AND (sink = ?3 OR ?3 IS NULL)
        """,
        (now, state, sink),
    ).rowcount


def stop(db: Sql, sink: str, *, reason: str) -> None:
    """Note why nothing goes to a sink any more; the next `set_plan` forgets it."""
    db.execute("UPDATE sinks SET stopped = ? WHERE name = ?", (reason, sink))
