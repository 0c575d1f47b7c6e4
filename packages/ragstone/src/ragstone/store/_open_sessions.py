"""Outcomes that wait for the end of their session."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from ragstone.store._sql import LAST_SEQ, Sql
from ragstone.store._watch_types import StreamKey, WatchedOutcome

_LABELS: Final = {"release": "t.release", "environment": "t.environment", "operation": "t.name"}
"""Fields by which alarms can be sliced, with their column."""
_FIELDS: Final = ("seq", "trace_id", "session", "requested_at", "value", "probability", "pending_at")
"""Other fields of a `WatchedOutcome`, which are columns with the same name."""


def queue_outcomes(
    db: Sql, rows: Sequence[tuple[str, str, str, str, float | None]], *, backfilled: bool = False
) -> None:
    """Queue outcomes for the end of their session.

    A row has the trace, metric, version, judge hash, and the score or None for a failure. Backfilled outcomes are for
    baselines only.
    """
    db.executemany(
        """
        INSERT INTO watch_queue (trace_id, app, session, requested_at, probability, metric, metric_version, judge_hash, value,
                                 backfilled)
        SELECT trace_id, COALESCE(app, ''), COALESCE(session_id, trace_id), started_at,
               inclusion_probability, ?, ?, ?, ?, ?
        FROM traces WHERE trace_id = ?
        """,
        [(*row, int(backfilled), trace_id) for trace_id, *row in rows],
    )


class WatchQueue:
    """The queued outcomes, in one transaction."""

    def __init__(self, db: Sql) -> None:
        self._db = db

    def closed_outcomes(
        self, *, now: float, gap_s: float, max_s: float, limit: int | None = None
    ) -> list[WatchedOutcome]:
        """Return the queued outcomes up to a time of sessions that have a closed part.

        Outcomes of requests that are pending, or that came after a pending request of their session, are left out. A
        session is closed `gap_s` after its last request, or `max_s` after its first one. `now` is in Unix seconds.
        """
        rows = self._db.execute(
            f"""
            SELECT q.app, q.metric, q.metric_version, q.judge_hash, q.backfilled, t.slices, {", ".join(_LABELS.values())},
                   q.seq, q.trace_id, q.session, q.requested_at, q.value, q.probability, closed.pending_at
            FROM (
                SELECT s.app, s.session, (
                    SELECT MIN(p.started_at) FROM traces AS p
                    WHERE p.state = 'pending' AND p.session_id = s.session AND COALESCE(p.app, '') = s.app
                ) AS pending_at
                FROM (
                    SELECT app, session FROM (
                        SELECT app, session, requested_at,
                               LEAD(requested_at) OVER (PARTITION BY app, session ORDER BY requested_at) AS next_at
                        FROM watch_queue WHERE requested_at <= ?3
                    ) AS queued
                    GROUP BY app, session
                    HAVING MIN(requested_at) <= ?2 OR MAX(
                        CASE WHEN requested_at <= ?1 AND (next_at IS NULL OR next_at - requested_at >= ?4) THEN 1 ELSE 0 END
                    ) = 1
                ) AS s
            ) AS closed
            JOIN watch_queue AS q ON q.app = closed.app AND q.session = closed.session
            JOIN traces AS t ON t.trace_id = q.trace_id
            WHERE t.state <> 'pending' AND q.requested_at <= ?3
                  AND (closed.pending_at IS NULL OR q.requested_at < closed.pending_at)
            ORDER BY q.seq LIMIT ?5
            """,  # noqa: S608 - constant columns
            (now - gap_s, now - max_s, now, gap_s, LAST_SEQ if limit is None else limit),
        )
        found = []
        for app, metric, version, judge, backfilled, slices, *values in rows:
            labels = {name: label for name, label in zip(_LABELS, values, strict=False) if label is not None}
            found.append(
                WatchedOutcome(
                    key=StreamKey(app, metric, version, judge),
                    is_backfilled=bool(backfilled),
                    labels=labels if slices is None else labels | json.loads(slices),
                    **dict(zip(_FIELDS, values[len(_LABELS) :], strict=True)),
                )
            )
        return found

    def time(self, n: int, *, after: float | None = None) -> float | None:
        """Return the time of the request (Unix seconds) after the first `n` queued outcomes, or None without one.

        Outcomes are in the order of their requests, and only those of requests after the time `after` count.
        """
        row = self._db.execute(
            """
            SELECT requested_at FROM watch_queue WHERE requested_at > ?1 OR ?1 IS NULL
            ORDER BY requested_at LIMIT 1 OFFSET ?2
            """,
            (after, n),
        ).fetchone()
        return None if row is None else float(row[0])

    def remove(self, seqs: Sequence[int]) -> None:
        """Delete outcomes from the queue."""
        self._db.executemany("DELETE FROM watch_queue WHERE seq = ?", [(seq,) for seq in seqs])
