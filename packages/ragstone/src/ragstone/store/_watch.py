"""The part `watch` of a store: streams, their units, alarms, and canaries (requests scored again every day)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Final

from ragstone.store._database import Lock, Part
from ragstone.store._open_sessions import WatchQueue
from ragstone.store._sql import LAST_SEQ, Rows, Sql, marks, pages, read_all_meta, read_record, save_meta
from ragstone.store._watch_types import AlarmRow, CanaryScore, EndedBackfill, StreamKey, StreamRow, Unit, UnitAmounts

_CANARIES: Final = "watch_canaries"
_BUDGET: Final = "watch_budget"
"""Keys in `meta`."""
BACKFILL: Final = "backfill:"
"""Beginning of the keys in `meta` of the progress of backfills."""
_UNITS_KEPT_S: Final = 100 * 86_400.0
"""Units are kept for 100 days: a baseline and the time around an alarm need at most 28 days of them."""
_UNIT_COLUMNS: Final = tuple(each.name for each in fields(Unit) if each.name != "labels")
"""Columns that have the name of a field of a `Unit`."""


class Watch(Part):
    """Transactions over what watches the outcomes."""

    @contextmanager
    def change(self, *, notify: Sequence[str] = ()) -> Iterator[WatchTables | None]:
        """Run a block in one transaction that may change streams and alarms. None if another worker does this now.

        `notify` names the sinks that receive alarms.
        """
        with self._database.write() as db:
            may_change = self._database.lock(db, Lock.FOLDING, wait=False)
            yield WatchTables(db, notify=notify, now=self._database.now()) if may_change else None

    @contextmanager
    def read(self) -> Iterator[WatchTables]:
        """Run a block that reads streams and alarms in one snapshot."""
        with self._database.read() as db:
            yield WatchTables(db, notify=(), now=self._database.now())


class WatchTables:
    """The streams, their units, the alarms and their budget, in one transaction."""

    def __init__(self, db: Sql, *, notify: Sequence[str], now: float) -> None:
        self._db, self._notify, self._now = db, tuple(dict.fromkeys(notify)), now
        self.queue = WatchQueue(db)
        self.canaries = Canaries(db)

    def ended_backfills(self) -> list[EndedBackfill]:
        """Return the backfills that have ended and from which streams have not learned so far."""
        ended = []
        for progress in map(json.loads, read_all_meta(self._db, BACKFILL).values()):
            if progress["state"] != "running" and not progress.get("learned"):
                keys = [key for metric in progress["metrics"] for key in self._keys_of(metric)]
                ended.append(EndedBackfill(id=progress["id"], since=progress["since"], keys=keys))
        return ended

    def mark_learned(self, backfill: str) -> None:
        """Record that streams have learned from a backfill, by its id."""
        key = f"{BACKFILL}{backfill}"
        save_meta(self._db, key, json.dumps((read_record(self._db, key) or {}) | {"learned": True}))

    def last_units(self, sessions: Iterable[str], *, since: float) -> dict[tuple[StreamKey, str], float]:
        """Return when these sessions had their last unit since a time, by stream and session."""
        found: dict[tuple[StreamKey, str], float] = {}
        for page in pages(sorted(set(sessions))):
            rows = self._db.execute(
                f"""
                SELECT s.app, s.metric, s.metric_version, s.judge_hash, u.session, MAX(u.closed_at)
                FROM watch_units AS u JOIN streams AS s ON s.id = u.stream
                WHERE u.closed_at >= ? AND u.session IN ({marks(page)})
                GROUP BY s.app, s.metric, s.metric_version, s.judge_hash, u.session
                """,  # noqa: S608 - placeholders
                (since, *page),
            )
            found |= {(StreamKey(*key), session): closed_at for *key, session, closed_at in rows}
        return found

    def add_units(self, units: Sequence[tuple[StreamKey, Unit]]) -> None:
        """Store units."""
        ids = {key: self._id(key) for key in dict.fromkeys(key for key, _ in units)}
        self._db.executemany(
            f"""
            INSERT INTO watch_units (stream, labels, {", ".join(_UNIT_COLUMNS)})
            VALUES (?, ?, {marks(_UNIT_COLUMNS)})
            """,  # noqa: S608 - constant columns
            [
                (
                    ids[key],
                    json.dumps(dict(unit.labels), sort_keys=True) if unit.labels else None,
                    *(getattr(unit, column) for column in _UNIT_COLUMNS),
                )
                for key, unit in units
            ],
        )
        for id_ in ids.values():
            oldest = max(unit.closed_at for _, unit in units) - _UNITS_KEPT_S
            self._db.execute("DELETE FROM watch_units WHERE stream = ? AND closed_at < ?", (id_, oldest))

    def units(self, key: StreamKey, *, since: float, until: float) -> list[Unit]:
        """Return the units of a stream that closed from one time up to and including another, in that order."""
        return [
            Unit(labels={} if labels is None else json.loads(labels), **dict(zip(_UNIT_COLUMNS, values, strict=True)))
            for labels, *values in self._units(("labels", *_UNIT_COLUMNS), key, since=since, until=until)
        ]

    def unit_amounts(
        self, key: StreamKey, since: float, until: float, *, limit: int | None = None
    ) -> list[UnitAmounts]:
        """Return the numbers of the same units, or of the first ones: a baseline may have hundreds of thousands."""
        rows = self._units(UnitAmounts._fields, key, since=since, until=until, limit=limit)
        return list(map(UnitAmounts._make, rows))

    def streams(self) -> list[StreamRow]:
        """Return all streams."""
        rows = self._db.execute(
            """
            SELECT app, metric, metric_version, judge_hash, kind, state FROM streams
            WHERE state IS NOT NULL ORDER BY app, metric, metric_version, judge_hash, kind DESC
            """
        )
        return [StreamRow(key=StreamKey(*key), kind=kind, state=json.loads(state)) for *key, kind, state in rows]

    def save_stream(self, row: StreamRow) -> None:
        """Insert or replace a stream."""
        self._db.execute(
            """
            INSERT INTO streams (app, metric, metric_version, judge_hash, kind, state) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT (app, metric, metric_version, judge_hash, kind) DO UPDATE SET state = excluded.state
            """,
            (*row.key, row.kind, json.dumps(row.state)),
        )

    def budget(self) -> Mapping[str, Any] | None:
        """Return the state of the alarm budget, or None before the first unit."""
        return read_record(self._db, _BUDGET)

    def save_budget(self, state: Mapping[str, Any]) -> None:
        """Store the state of the alarm budget."""
        save_meta(self._db, _BUDGET, json.dumps(state))

    def alarms(self) -> list[AlarmRow]:
        """Return all alarms, oldest first."""
        rows = self._db.execute("SELECT number, state, body FROM alarms ORDER BY number")
        return [AlarmRow(number=number, state=state, body=json.loads(body)) for number, state, body in rows]

    def save_alarm(self, row: AlarmRow, *, event: str | None = None) -> None:
        """Insert or replace an alarm, and queue a delivery of `event`, if given, to every destination of alarms."""
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

    def _units(
        self, columns: Sequence[str], key: StreamKey, *, since: float, until: float, limit: int | None = None
    ) -> Rows:
        return self._db.execute(
            f"""
            SELECT {", ".join(f"u.{column}" for column in columns)} FROM watch_units AS u JOIN streams AS s ON s.id = u.stream
            WHERE s.app = ? AND s.metric = ? AND s.metric_version = ? AND s.judge_hash = ? AND s.kind = 'score'
                  AND u.closed_at >= ? AND u.closed_at <= ?
            ORDER BY u.closed_at, u.session LIMIT ?
            """,  # noqa: S608 - constant columns
            (*key, since, until, LAST_SEQ if limit is None else limit),
        )

    def _keys_of(self, metric: Sequence[str]) -> list[StreamKey]:
        rows = self._db.execute(
            """
            SELECT app, metric, metric_version, judge_hash FROM streams
            WHERE metric = ? AND metric_version = ? AND judge_hash = ? AND kind = 'score' ORDER BY app
            """,
            tuple(metric),
        )
        return [StreamKey(*key) for key in rows]

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


class Canaries:
    """The canaries and their scores, in one transaction."""

    def __init__(self, db: Sql) -> None:
        self._db = db

    def read(self) -> list[str]:
        """Return the canaries whose text is stored."""
        rows = self._db.execute(
            """
            SELECT c.trace_id FROM canaries AS c JOIN traces AS t USING (trace_id)
            WHERE t.text_removed_at IS NULL ORDER BY c.trace_id
            """
        )
        return [trace_id for (trace_id,) in rows]

    def suitable(self, n: int, *, since: float) -> list[str]:
        """Return at most `n` scored requests since a time whose text is stored, selected by a hash."""
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

    def set(self, trace_ids: Sequence[str], *, now: float) -> None:
        """Replace the canaries. Retention keeps the texts of these, and no longer those of earlier ones."""
        self._db.execute("DELETE FROM canaries")
        self._db.executemany("INSERT INTO canaries VALUES (?, ?)", [(trace_id, now) for trace_id in trace_ids])

    def status(self) -> Mapping[str, Any] | None:
        """Return what `save_status` stored."""
        return read_record(self._db, _CANARIES)

    def save_status(self, status: Mapping[str, Any]) -> None:
        """Store when the last round of canaries started, and its results."""
        save_meta(self._db, _CANARIES, json.dumps(status))

    def add_scores(self, scores: Sequence[CanaryScore], *, keep_since: float) -> None:
        """Store the scores of a round, and delete those before a time."""
        self._db.executemany(
            """
            INSERT INTO canary_scores (metric, metric_version, judge_hash, scored_at, trace_id, value)
            VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
            """,
            [(*score.key[1:], score.scored_at, score.trace_id, score.value) for score in scores],
        )
        self._db.execute("DELETE FROM canary_scores WHERE scored_at < ?", (keep_since,))

    def scores(self, key: StreamKey) -> list[CanaryScore]:
        """Return all scores of canaries for a metric and judge, oldest first."""
        rows = self._db.execute(
            """
            SELECT trace_id, scored_at, value FROM canary_scores
            WHERE metric = ? AND metric_version = ? AND judge_hash = ? ORDER BY scored_at, trace_id
            """,
            key[1:],
        )
        return [CanaryScore(key=key, trace_id=trace_id, scored_at=at, value=value) for trace_id, at, value in rows]
