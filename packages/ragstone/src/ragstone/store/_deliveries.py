"""The outbox: one row for each outcome or alarm and sink, from the transaction that stores it to its delivery."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from typing_extensions import override

from ragstone.schema import Delivery, DeliveryCounts
from ragstone.store._records import DeliveryKind, DeliveryState, OutboxRow
from ragstone.store._sql import LAST_SEQ, Sql, SqlStore, to_outcome

__all__ = ["REQUEST_COLUMNS", "SqlDeliveries", "count_deliveries", "deliveries"]

REQUEST_COLUMNS: Final = {
    "trace_id": "t.trace_id",
    "run_id": "t.run_id",
    "otel_trace_id": "t.otel_trace_id",
    "otel_span_id": "t.otel_span_id",
    "session_id": "t.session_id",
    "user_id": "t.user_id",
    "app": "t.app",
    "release": "t.release",
    "environment": "t.environment",
    "name": "t.name",
    "requested_at": "t.started_at",
    "inclusion_probability": "t.inclusion_probability",
}
"""Fields of a `Delivery` that are read from a column of its request without conversion, with this column."""

_COLUMNS: Final = REQUEST_COLUMNS | {"attempts": "x.attempts", "since": "x.since"}


class SqlDeliveries(SqlStore):
    """The methods of a store that deliver outcomes to sinks."""

    @override
    def due_deliveries(self, sink: str, *, limit: int, now: float | None = None) -> list[Delivery]:
        with self._database.read() as db:
            rows = db.execute(
                f"""
                SELECT b.body, t.otel_sampled, o.backfilled, {", ".join(_COLUMNS.values())}
                FROM outbox AS x
                JOIN outcomes AS o ON o.outcome_id = x.item_id
                JOIN outcome_bodies AS b ON b.seq = o.seq
                JOIN traces AS t ON t.trace_id = o.sample_id
                WHERE x.kind = 'outcome' AND x.sink = ? AND x.state = 'pending' AND x.next_try <= ?
                ORDER BY x.next_try, x.seq LIMIT ?
                """,  # noqa: S608 - constant columns
                (sink, self._clock() if now is None else now, max(limit, 0)),
            )
            return [
                Delivery(
                    outcome=to_outcome(body),
                    otel_sampled=None if otel_sampled is None else bool(otel_sampled),
                    is_backfilled=backfilled is not None,
                    **dict(zip(_COLUMNS, columns, strict=True)),
                )
                for body, otel_sampled, backfilled, *columns in rows
            ]

    @override
    def mark_sent(self, sink: str, ids: Sequence[str], *, kind: DeliveryKind = "outcome") -> None:
        with self._database.write() as db:
            db.executemany(
                """
                UPDATE outbox SET state = 'sent', attempts = attempts + 1, last_error = NULL
                WHERE kind = ? AND item_id = ? AND sink = ? AND state <> 'sent'
                """,
                [(kind, id_, sink) for id_ in ids],
            )

    @override
    def mark_retry(
        self, sink: str, ids: Sequence[str], *, next_try: float, error: str, kind: DeliveryKind = "outcome"
    ) -> None:
        with self._database.write() as db:
            db.executemany(
                """
                UPDATE outbox SET attempts = attempts + 1, next_try = ?, last_error = ?
                WHERE kind = ? AND item_id = ? AND sink = ? AND state = 'pending'
                """,
                [(next_try, error, kind, id_, sink) for id_ in ids],
            )

    @override
    def mark_skipped(self, sink: str, ids: Sequence[str], *, reason: str, kind: DeliveryKind = "outcome") -> None:
        self._end_deliveries(sink, ids, "skipped", reason, kind)

    @override
    def mark_failed(self, sink: str, ids: Sequence[str], *, error: str, kind: DeliveryKind = "outcome") -> None:
        self._end_deliveries(sink, ids, "failed", error, kind)

    def _end_deliveries(
        self, sink: str, ids: Sequence[str], state: DeliveryState, reason: str, kind: DeliveryKind
    ) -> None:
        with self._database.write() as db:
            db.executemany(
                """
                UPDATE outbox SET state = ?, attempts = attempts + 1, last_error = ?
                WHERE kind = ? AND item_id = ? AND sink = ? AND state = 'pending'
                """,
                [(state, reason, kind, id_, sink) for id_ in ids],
            )

    @override
    def requeue_deliveries(self, *, sink: str | None = None, state: DeliveryState = "failed") -> int:
        with self._database.write() as db:
            return db.execute(
                """
                UPDATE outbox SET state = 'pending', attempts = 0, since = ?1, next_try = ?1
                WHERE state = ?2 AND (sink = ?3 OR ?3 IS NULL)
                """,
                (self._clock(), state, sink),
            ).rowcount

    @override
    def deliveries(
        self, *, sink: str | None = None, state: DeliveryState | None = None, limit: int = 100
    ) -> list[OutboxRow]:
        with self._database.read() as db:
            return deliveries(db, sink=sink, state=state, limit=max(limit, 0))

    @override
    def stop_sink(self, sink: str, *, reason: str) -> None:
        with self._database.write() as db:
            db.execute("UPDATE sinks SET stopped = ? WHERE name = ?", (reason, sink))


def deliveries(
    db: Sql,
    *,
    trace_id: str | None = None,
    sink: str | None = None,
    state: DeliveryState | None = None,
    limit: int = LAST_SEQ,
) -> list[OutboxRow]:
    """Return single deliveries, in the order in which they were queued."""
    rows = db.execute(
        """
        SELECT x.kind, x.item_id, o.sample_id, o.metric, x.sink, x.state, x.attempts, x.next_try, x.last_error
        FROM outbox AS x LEFT JOIN outcomes AS o ON x.kind = 'outcome' AND o.outcome_id = x.item_id
        WHERE (o.sample_id = ?1 OR ?1 IS NULL) AND (x.sink = ?2 OR ?2 IS NULL) AND (x.state = ?3 OR ?3 IS NULL)
        ORDER BY x.seq LIMIT ?4
        """,
        (trace_id, sink, state, limit),
    )
    return [
        OutboxRow(
            kind=kind,
            item_id=item_id,
            trace_id=sample_id,
            metric=metric,
            sink=name,
            state=where,
            attempts=attempts,
            next_try=next_try,
            last_error=last_error,
        )
        for kind, item_id, sample_id, metric, name, where, attempts, next_try, last_error in rows
    ]


def count_deliveries(db: Sql, *, now: float) -> dict[str, DeliveryCounts]:
    """Count the deliveries to each sink. A sink that is no longer in the plan keeps its rows and stays visible."""
    stopped: dict[str, str | None] = dict(db.execute("SELECT name, stopped FROM sinks ORDER BY name"))
    states: dict[str, dict[str, int]] = {name: {} for name in stopped}
    for sink, state, n in db.execute("SELECT sink, state, count(*) FROM outbox GROUP BY sink, state"):
        states.setdefault(sink, {})[state] = n
    counts = {}
    for sink, by_state in states.items():
        # Rows are queued in the order of `seq`, so the first pending one is the oldest.
        oldest = db.execute(
            "SELECT since FROM outbox WHERE sink = ? AND state = 'pending' ORDER BY seq LIMIT 1", (sink,)
        ).fetchone()
        error = db.execute(
            "SELECT last_error FROM outbox WHERE sink = ? AND state = 'pending' ORDER BY next_try LIMIT 1", (sink,)
        ).fetchone()
        counts[sink] = DeliveryCounts(
            **by_state,
            oldest_pending_s=None if oldest is None else max(now - oldest[0], 0.0),
            last_error=None if error is None else error[0],
            stopped=stopped.get(sink),
        )
    return counts
