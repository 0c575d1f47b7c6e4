"""Removal of the texts of old requests, or of whole requests. What is counted stays. The ages are `settings.Retention`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ragstone.store._bodies import Body, seal, text_of
from ragstone.store._counters import SAMPLED_OUT_FORGOTTEN, add_to_counters
from ragstone.store._database import Part
from ragstone.store._erasure import erase_group
from ragstone.store._feedback import forget_feedback, remove_comments
from ragstone.store._labels import take_labels
from ragstone.store._types import RemovedText, RetentionCounts

_OLD: Final = "t.started_at < ?1 AND t.text_removed_at IS NULL AND t.state IN ('scored', 'not_applicable', 'failed')"
"""Finished requests with a text. The index `traces_with_text` has this condition."""
_FINISHED: Final = "t.started_at < ?1 AND t.state <> 'pending'"
"""Requests of which nothing is left to do."""
_EXPIRED: Final = "expired"
"""Why the ledger counts requests as dropped that retention has removed."""
_WAITS: Final = """
    EXISTS (
        SELECT 1 FROM outcomes AS o CROSS JOIN sinks AS s
        LEFT JOIN outbox AS x ON x.kind = 'outcome' AND x.item_id = o.outcome_id AND x.sink = s.name
        WHERE o.sample_id = t.trace_id AND (x.state = 'pending' OR x.state IS NULL AND EXISTS (
            SELECT 1 FROM sink_ranges AS r WHERE r.sink = s.name AND o.seq > r.cursor AND o.seq <= r.stop
        ))
    )
"""
_CURSOR: Final = "forgotten_until:sampled_out"
"""Counter with the `seq` of the last request that was sampled out and considered for removal, so that what is kept is
read once."""
_GROUP: Final = 100
"""Requests that one transaction removes."""
_CANARY: Final = "EXISTS (SELECT 1 FROM canaries AS c WHERE c.trace_id = t.trace_id)"
_LABELED: Final = f"""
    (EXISTS (SELECT 1 FROM labels AS l WHERE l.trace_id = t.trace_id)
     OR EXISTS (SELECT 1 FROM label_frame AS f WHERE f.trace_id = t.trace_id AND f.position IS NOT NULL)
     OR {_CANARY})
"""  # noqa: S608 - a constant condition
"""Requests whose texts people or the judge read again."""


class Retention(Part):
    """Methods of `Upkeep` that remove old requests and their texts."""

    def remove_texts(self, *, before: float, limit: int = 100) -> int:
        """Remove the texts of up to `limit` requests that started before a time, and return their number.

        Removed are the captured trace, and the explanations, the judge's replies and all texts in the details of its
        outcomes. The values, intervals and other numbers of the outcomes stay. Kept is the text of a request that is
        pending, or labeled, or has an outcome that waits for a sink of the plan. A delivery that is retried later by
        `Deliveries.requeue` does not have texts. `before` is in Unix seconds. The `limit` keeps other transactions from
        waiting long.
        """
        take_labels(self._database)
        with self._database.write() as db:
            rows: list[tuple[int, str]] = db.execute(
                f"""
                SELECT t.seq, t.trace_id FROM traces AS t
                WHERE {_OLD} AND NOT {_WAITS} AND NOT {_LABELED}
                ORDER BY t.started_at LIMIT ?2
                {self._database.lock_claimed}
                """,  # noqa: S608 - constant conditions and one of two constant locks
                (before, max(limit, 0)),
            ).fetchall()
            now = self._database.now()
            bodies = [
                (_without_text(body, outcome_id), seq)
                for _, trace_id in rows
                for seq, outcome_id, body in db.execute(
                    """
                    SELECT b.seq, o.outcome_id, b.body FROM outcomes AS o JOIN outcome_bodies AS b USING (seq)
                    WHERE o.sample_id = ?
                    """,
                    (trace_id,),
                ).fetchall()
            ]
            db.executemany("UPDATE outcome_bodies SET body = ? WHERE seq = ?", bodies)
            for _, trace_id in rows:
                remove_comments(db, "trace_id = ?", (trace_id,))
            # Comments about requests that never came.
            remove_comments(db, "trace_id IS NULL AND received_at < ?", (before,))
            db.executemany("DELETE FROM trace_bodies WHERE seq = ?", [(seq,) for seq, _ in rows])
            db.executemany("UPDATE traces SET text_removed_at = ? WHERE seq = ?", [(now, seq) for seq, _ in rows])
            return len(rows)

    def remove_requests(self, *, before: float, limit: int = 100) -> int:
        """Remove up to `limit` requests that started before a time, with all that is stored about them, and return their number.

        The ledger counts them as dropped, with the reason "expired". Kept are requests that are pending, or a canary, or
        have an outcome that waits for a sink of the plan. Labeled ones are removed with their labels, because the rest
        would not represent what was captured. Values of closed sessions stay in streams. `before` is in Unix seconds,
        and `limit` at most 100.
        """
        take_labels(self._database)
        with self._database.write() as db:
            rows = db.execute(
                f"""
                SELECT t.trace_id FROM traces AS t WHERE {_FINISHED} AND NOT {_WAITS} AND NOT {_CANARY}
                ORDER BY t.started_at LIMIT ?2 {self._database.lock_claimed}
                """,  # noqa: S608 - constant conditions and one of two constant locks
                (before, min(max(limit, 0), _GROUP)),
            ).fetchall()
            ids = sorted(trace_id for (trace_id,) in rows)
            return erase_group(db, ids, lock=self._database.lock_completed, reason=_EXPIRED).requests if ids else 0

    def forget_unknown_feedback(self, *, limit: int = 100) -> int:
        """Remove up to `limit` entries of old feedback about unknown requests, and return their number."""
        with self._database.write() as db:
            return forget_feedback(db, now=self._database.now(), limit=limit)

    def forget_sampled_out(self, *, before: float, limit: int = 1_000) -> int:
        """Remove the ids of up to `limit` requests that were sampled out and arrived before a time. They stay counted.

        A request that arrives again after that is counted again. Kept are those with feedback. The search ends at the
        first request that is newer. `before` is in Unix seconds. Returned is the number of requests that were
        considered. Less than `limit`: no others are old enough.
        """
        with self._database.write() as db:
            cursor = db.execute("SELECT n FROM counters WHERE name = ?", (_CURSOR,)).fetchone()
            rows = db.execute(
                f"""
                SELECT t.seq, t.received_at,
                       EXISTS (SELECT 1 FROM feedback AS f WHERE f.trace_id = t.trace_id)
                FROM traces AS t WHERE t.state = 'sampled_out' AND t.seq > ?1 ORDER BY t.seq LIMIT ?2
                {self._database.lock_claimed}
                """,  # noqa: S608 - one of two constant locks
                (cursor[0] if cursor else -1, max(limit, 0)),
            ).fetchall()
            # The first one that is too new ends the search.
            old = list(itertools.takewhile(lambda row: row[1] < before, rows))
            found = [(seq,) for seq, _, has_feedback in old if not has_feedback]
            db.executemany("DELETE FROM traces WHERE seq = ?", found)
            if old:
                add_to_counters(db, {SAMPLED_OUT_FORGOTTEN: len(found)})
                db.execute(
                    "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET n = excluded.n",
                    (_CURSOR, old[-1][0]),
                )
            return len(old)

    def count_texts(self, *, before: float) -> RetentionCounts:
        """Count the requests that started before a time (Unix seconds) and have a text, by why it is kept."""
        return self._count(_OLD, _LABELED, before)

    def count_requests(self, *, before: float) -> RetentionCounts:
        """Count the requests that started before a time (Unix seconds), by why `remove_requests` keeps them."""
        return self._count(_FINISHED, _CANARY, before)

    def _count(self, old: str, keeps: str, before: float) -> RetentionCounts:
        take_labels(self._database)
        with self._database.read() as db:
            waiting, kept, n, labels = db.execute(
                f"""
                SELECT COALESCE(SUM(waits), 0), COALESCE(SUM(CASE WHEN waits = 0 THEN kept ELSE 0 END), 0), COUNT(*),
                       COALESCE(SUM(CASE WHEN waits + kept = 0 THEN labels ELSE 0 END), 0)
                FROM (
                    SELECT CASE WHEN {_WAITS} THEN 1 ELSE 0 END AS waits, CASE WHEN {keeps} THEN 1 ELSE 0 END AS kept,
                           (SELECT COUNT(*) FROM labels AS l WHERE l.trace_id = t.trace_id) AS labels
                    FROM traces AS t WHERE {old}
                ) AS found
                """,  # noqa: S608 - constant conditions
                (before,),
            ).fetchone()
            (pending,) = db.execute(
                "SELECT COUNT(*) FROM traces WHERE state = 'pending' AND started_at < ?", (before,)
            ).fetchone()
        return RetentionCounts(n - int(waiting) - int(kept), pending, int(waiting), int(kept), int(labels))

    def removed_texts(self, *, since: float | None = None, until: float | None = None) -> Iterator[RemovedText]:
        """Yield the requests whose text was removed, in order of arrival. `since` and `until` select as in `Outcomes.read`."""
        return self._read_pages(
            "traces",
            f"""
            SELECT seq, trace_id, started_at, {", ".join(_LABELS)} FROM traces
            WHERE seq > ?1 AND text_removed_at IS NOT NULL
                  AND (started_at >= ?3 OR ?3 IS NULL) AND (started_at < ?4 OR ?4 IS NULL)
            ORDER BY seq LIMIT ?2
            """,  # noqa: S608 - constant columns
            (since, until),
            lambda _, page: map(_removed_text, page),
        )


_LABELS: Final = ("status", "name", "session_id", "user_id", "app", "release", "environment")


def _removed_text(row: Sequence[Any]) -> RemovedText:
    _, trace_id, started_at, *values = row
    labels = {key: value for key, value in zip(_LABELS, values, strict=True) if value is not None}
    return RemovedText(trace_id, started_at, labels)


def _without_text(body: object, outcome_id: str) -> Body:
    """Return the body of an outcome without the judge's words and captured text. Numbers and their structure stay."""
    record = json.loads(text_of(body, "outcome_bodies", outcome_id))
    for key in ("explanation", "raw", "fingerprint"):
        if record.get(key) is not None:
            record[key] = None
    if "details" in record:
        record["details"] = _blank(record["details"])
    return seal(json.dumps(record, ensure_ascii=False, separators=(",", ":")))


def _blank(value: Any) -> Any:
    """Return a JSON value with empty texts, so that what was counted is counted the same."""
    if isinstance(value, str):
        return ""
    if isinstance(value, list):
        return [_blank(item) for item in value]
    return {key: _blank(item) for key, item in value.items()} if isinstance(value, dict) else value
