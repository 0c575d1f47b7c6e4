"""The monitoring in a store: the queue of outcomes, units, streams and alarms, and the transaction over them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from typing_extensions import override

from ragstone.schema import AlarmDelivery
from ragstone.store._sql import LAST_SEQ, Rows, Sql, SqlStore
from ragstone.store._watched import (
    AlarmRow,
    CanaryScore,
    EndedBackfill,
    StreamKey,
    StreamRow,
    Unit,
    UnitAmounts,
    WatchedOutcome,
    WatchTables,
)

_BUDGET: Final = "watch_budget"
"""Key in `meta`."""
BACKFILL: Final = "backfill:"
"""Beginning of the keys in `meta` of the progress of backfills."""
_CANARIES: Final = "watch_canaries"
"""Key in `meta`."""
_CHUNK: Final = 500
"""Sessions of one query."""
_UNITS_KEPT_S: Final = 100 * 86_400.0
"""Units are kept for 100 days: a baseline and the time around an alarm need at most 28 days of them."""
_LABELS: Final = {"release": "t.release", "environment": "t.environment", "operation": "t.name"}
"""Fields by which alarms can be sliced, with their column."""


class SqlWatch(SqlStore):
    """The methods of a store that watch its outcomes."""

    @override
    @contextmanager
    def watching(self, *, notify: Sequence[str] = ()) -> Iterator[WatchTables | None]:
        with self._database.write() as db:
            yield _Tables(db, notify=notify, now=self._clock()) if self._may_fold(db) else None

    @override
    @contextmanager
    def watched(self) -> Iterator[WatchTables]:
        with self._database.read() as db:
            yield _Tables(db, notify=(), now=self._clock())

    @override
    def due_alarms(self, sink: str, *, limit: int, now: float | None = None) -> list[AlarmDelivery]:
        with self._database.read() as db:
            rows = db.execute(
                """
                SELECT item_id, attempts, since FROM outbox
                WHERE kind = 'alarm' AND sink = ? AND state = 'pending' AND next_try <= ? ORDER BY next_try, seq LIMIT ?
                """,
                (sink, self._clock() if now is None else now, max(limit, 0)),
            ).fetchall()
            found = []
            for item_id, attempts, since in rows:
                number, _, event = item_id.partition(":")
                (body,) = db.execute("SELECT body FROM alarms WHERE number = ?", (int(number),)).fetchone()
                found.append(
                    AlarmDelivery(id=item_id, event=event, alarm=json.loads(body), attempts=attempts, since=since)
                )
            return found

    def _may_fold(self, db: Sql) -> bool:  # noqa: ARG002 - a file has one owner, which needs no lock
        """Return whether this transaction may change streams. If several workers share a store, only one does."""
        return True


def queue_outcomes(
    db: Sql, rows: Sequence[tuple[str, str, str, str, float | None]], *, backfilled: bool = False
) -> None:
    """Queue outcomes for the end of their session. Those of requests that only feedback has selected are not queued.

    Args:
        db: The transaction that stores them.
        rows: Trace, metric, version, judge hash, and the score or None for a failure.
        backfilled: They are for baselines only.
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


class _Tables(WatchTables):
    """`WatchTables` in one transaction."""

    def __init__(self, db: Sql, *, notify: Sequence[str], now: float) -> None:
        self._db, self._notify, self._now = db, tuple(dict.fromkeys(notify)), now

    @override
    def closed_outcomes(
        self, *, now: float, gap_s: float, max_s: float, limit: int | None = None
    ) -> list[WatchedOutcome]:
        rows = self._db.execute(
            f"""
            SELECT q.seq, q.app, q.metric, q.metric_version, q.judge_hash, q.trace_id, q.session, q.requested_at, q.value,
                   q.probability, q.backfilled, closed.pending_at, t.slices, {", ".join(_LABELS.values())}
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
        return [
            WatchedOutcome(
                key=StreamKey(app, metric, version, judge),
                trace_id=trace_id,
                session=session,
                requested_at=requested_at,
                value=value,
                probability=probability,
                is_backfilled=bool(backfilled),
                pending_at=pending_at,
                labels={name: label for name, label in zip(_LABELS, labels, strict=True) if label is not None}
                | ({} if slices is None else json.loads(slices)),
                seq=seq,
            )
            for (
                seq,
                app,
                metric,
                version,
                judge,
                trace_id,
                session,
                requested_at,
                value,
                probability,
                backfilled,
                pending_at,
                slices,
                *labels,
            ) in rows
        ]

    @override
    def queue_time(self, n: int, *, after: float | None = None) -> float | None:
        row = self._db.execute(
            """
            SELECT requested_at FROM watch_queue WHERE requested_at > ?1 OR ?1 IS NULL
            ORDER BY requested_at LIMIT 1 OFFSET ?2
            """,
            (after, n),
        ).fetchone()
        return None if row is None else float(row[0])

    @override
    def ended_backfills(self) -> list[EndedBackfill]:
        rows = self._db.execute("SELECT value FROM meta WHERE key >= ? AND key < ?", (BACKFILL, f"{BACKFILL[:-1]};"))
        ended = []
        for progress in [json.loads(value) for (value,) in rows]:
            if progress["state"] == "running" or progress.get("learned"):
                continue
            keys = [key for metric in progress["metrics"] for key in self._keys_of(metric)]
            ended.append(EndedBackfill(id=progress["id"], since=progress["since"], keys=keys))
        return ended

    @override
    def mark_learned(self, backfill: str) -> None:
        (value,) = self._db.execute("SELECT value FROM meta WHERE key = ?", (f"{BACKFILL}{backfill}",)).fetchone()
        progress = json.dumps(json.loads(value) | {"learned": True})
        self._db.execute("UPDATE meta SET value = ? WHERE key = ?", (progress, f"{BACKFILL}{backfill}"))

    def _keys_of(self, metric: Sequence[str]) -> list[StreamKey]:
        rows = self._db.execute(
            """
            SELECT app, metric, metric_version, judge_hash FROM streams
            WHERE metric = ? AND metric_version = ? AND judge_hash = ? AND kind = 'score' ORDER BY app
            """,
            tuple(metric),
        )
        return [StreamKey(*key) for key in rows]

    @override
    def remove_outcomes(self, seqs: Sequence[int]) -> None:
        self._db.executemany("DELETE FROM watch_queue WHERE seq = ?", [(seq,) for seq in seqs])

    @override
    def last_units(self, sessions: Iterable[str], *, since: float) -> dict[tuple[StreamKey, str], float]:
        found: dict[tuple[StreamKey, str], float] = {}
        wanted = sorted(set(sessions))
        for start in range(0, len(wanted), _CHUNK):
            chunk = wanted[start : start + _CHUNK]
            rows = self._db.execute(
                f"""
                SELECT s.app, s.metric, s.metric_version, s.judge_hash, u.session, MAX(u.closed_at)
                FROM watch_units AS u JOIN streams AS s ON s.id = u.stream
                WHERE u.closed_at >= ? AND u.session IN ({", ".join("?" * len(chunk))})
                GROUP BY s.app, s.metric, s.metric_version, s.judge_hash, u.session
                """,  # noqa: S608 - placeholders
                (since, *chunk),
            )
            found |= {(StreamKey(*key), session): closed_at for *key, session, closed_at in rows}
        return found

    @override
    def add_units(self, units: Sequence[tuple[StreamKey, Unit]]) -> None:
        ids = {key: self._id(key) for key in dict.fromkeys(key for key, _ in units)}
        self._db.executemany(
            """
            INSERT INTO watch_units (stream, session, closed_at, value, weight, failed_weight, p_min, gap_s, worst_trace,
                                     worst_value, labels)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                (
                    ids[key],
                    unit.session,
                    unit.closed_at,
                    unit.value,
                    unit.weight,
                    unit.failed_weight,
                    unit.p_min,
                    unit.gap_s,
                    unit.worst_trace,
                    unit.worst_value,
                    json.dumps(dict(unit.labels), sort_keys=True) if unit.labels else None,
                )
                for key, unit in units
            ],
        )
        for id_ in ids.values():
            oldest = max(unit.closed_at for _, unit in units) - _UNITS_KEPT_S
            self._db.execute("DELETE FROM watch_units WHERE stream = ? AND closed_at < ?", (id_, oldest))

    @override
    def units(self, key: StreamKey, *, since: float, until: float) -> list[Unit]:
        columns = (
            "session, u.closed_at, u.value, u.weight, u.failed_weight, u.p_min, u.gap_s, u.worst_trace, u.worst_value, "
            "u.labels"
        )
        rows = self._units(columns, key, since=since, until=until)
        return [
            Unit(
                session=session,
                closed_at=closed_at,
                value=value,
                weight=weight,
                failed_weight=failed_weight,
                p_min=p_min,
                gap_s=gap_s,
                worst_trace=worst_trace,
                worst_value=worst_value,
                labels={} if labels is None else json.loads(labels),
            )
            for (
                session,
                closed_at,
                value,
                weight,
                failed_weight,
                p_min,
                gap_s,
                worst_trace,
                worst_value,
                labels,
            ) in rows
        ]

    @override
    def unit_amounts(
        self, key: StreamKey, since: float, until: float, *, limit: int | None = None
    ) -> list[UnitAmounts]:
        columns = "closed_at, u.value, u.weight, u.failed_weight, u.p_min"
        rows = self._units(columns, key, since=since, until=until, limit=limit)
        return list(map(UnitAmounts._make, rows))

    def _units(self, columns: str, key: StreamKey, *, since: float, until: float, limit: int | None = None) -> Rows:
        return self._db.execute(
            f"""
            SELECT u.{columns} FROM watch_units AS u JOIN streams AS s ON s.id = u.stream
            WHERE s.app = ? AND s.metric = ? AND s.metric_version = ? AND s.judge_hash = ? AND s.kind = 'score'
                  AND u.closed_at >= ? AND u.closed_at <= ?
            ORDER BY u.closed_at, u.session LIMIT ?
            """,  # noqa: S608 - constant columns
            (*key, since, until, LAST_SEQ if limit is None else limit),
        )

    @override
    def streams(self) -> list[StreamRow]:
        rows = self._db.execute(
            """
            SELECT app, metric, metric_version, judge_hash, kind, state FROM streams
            WHERE state IS NOT NULL ORDER BY app, metric, metric_version, judge_hash, kind DESC
            """
        )
        return [StreamRow(key=StreamKey(*key), kind=kind, state=json.loads(state)) for *key, kind, state in rows]

    @override
    def save_stream(self, row: StreamRow) -> None:
        self._db.execute(
            """
            INSERT INTO streams (app, metric, metric_version, judge_hash, kind, state) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT (app, metric, metric_version, judge_hash, kind) DO UPDATE SET state = excluded.state
            """,
            (*row.key, row.kind, json.dumps(row.state)),
        )

    @override
    def budget(self) -> Mapping[str, Any] | None:
        return self._meta(_BUDGET)

    @override
    def save_budget(self, state: Mapping[str, Any]) -> None:
        self._save_meta(_BUDGET, state)

    @override
    def canaries(self) -> list[str]:
        rows = self._db.execute(
            """
            SELECT c.trace_id FROM canaries AS c JOIN traces AS t USING (trace_id)
            WHERE t.text_removed_at IS NULL ORDER BY c.trace_id
            """
        )
        return [trace_id for (trace_id,) in rows]

    @override
    def suitable_canaries(self, n: int, *, since: float) -> list[str]:
        rows = self._db.execute(
            """
            SELECT t.trace_id FROM traces AS t JOIN outcomes AS o ON o.sample_id = t.trace_id
            WHERE t.state = 'scored' AND t.started_at >= ? AND t.text_removed_at IS NULL
                  AND o.kind = 'score' AND o.judge_hash <> ''
            GROUP BY t.trace_id ORDER BY MIN(o.outcome_id) LIMIT ?
            """,
            (since, n),
        )
        return sorted(trace_id for (trace_id,) in rows)

    @override
    def set_canaries(self, trace_ids: Sequence[str], *, now: float) -> None:
        self._db.execute("DELETE FROM canaries")
        self._db.executemany("INSERT INTO canaries VALUES (?, ?)", [(trace_id, now) for trace_id in trace_ids])

    @override
    def canary_status(self) -> Mapping[str, Any] | None:
        return self._meta(_CANARIES)

    @override
    def save_canary_status(self, status: Mapping[str, Any]) -> None:
        self._save_meta(_CANARIES, status)

    @override
    def add_canary_scores(self, scores: Sequence[CanaryScore], *, keep_since: float) -> None:
        self._db.executemany(
            """
            INSERT INTO canary_scores (metric, metric_version, judge_hash, scored_at, trace_id, value)
            VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
            """,
            [(*score.key[1:], score.scored_at, score.trace_id, score.value) for score in scores],
        )
        self._db.execute("DELETE FROM canary_scores WHERE scored_at < ?", (keep_since,))

    @override
    def canary_scores(self, key: StreamKey) -> list[CanaryScore]:
        rows = self._db.execute(
            """
            SELECT trace_id, scored_at, value FROM canary_scores
            WHERE metric = ? AND metric_version = ? AND judge_hash = ? ORDER BY scored_at, trace_id
            """,
            key[1:],
        )
        return [CanaryScore(key=key, trace_id=trace_id, scored_at=at, value=value) for trace_id, at, value in rows]

    def _meta(self, name: str) -> Mapping[str, Any] | None:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def _save_meta(self, name: str, value: Mapping[str, Any]) -> None:
        self._db.execute(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (name, json.dumps(value)),
        )

    @override
    def alarms(self) -> list[AlarmRow]:
        rows = self._db.execute("SELECT number, state, body FROM alarms ORDER BY number")
        return [AlarmRow(number=number, state=state, body=json.loads(body)) for number, state, body in rows]

    @override
    def save_alarm(self, row: AlarmRow, *, event: str | None = None) -> None:
        self._db.execute(
            """
            INSERT INTO alarms (number, state, body) VALUES (?, ?, ?)
            ON CONFLICT (number) DO UPDATE SET state = excluded.state, body = excluded.body
            """,
            (row.number, row.state, json.dumps(row.body)),
        )
        if event is not None:
            self._db.executemany(
                """
                INSERT INTO outbox (kind, item_id, sink, since, next_try) VALUES ('alarm', ?, ?, ?, ?)
                ON CONFLICT (kind, item_id, sink) DO NOTHING
                """,
                [(f"{row.number}:{event}", sink, self._now, self._now) for sink in self._notify],
            )

    def _id(self, key: StreamKey) -> int:
        """Return the id of the stream of scores to which units belong."""
        self._db.execute(
            """
            INSERT INTO streams (app, metric, metric_version, judge_hash, kind) VALUES (?, ?, ?, ?, 'score')
            ON CONFLICT (app, metric, metric_version, judge_hash, kind) DO NOTHING
            """,
            tuple(key),
        )
        (id_,) = self._db.execute(
            """
            SELECT id FROM streams
            WHERE app = ? AND metric = ? AND metric_version = ? AND judge_hash = ? AND kind = 'score'
            """,
            tuple(key),
        ).fetchone()
        return int(id_)
