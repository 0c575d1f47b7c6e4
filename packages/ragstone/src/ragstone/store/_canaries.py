"""Canaries: requests that are scored again every day, to see changes of a judge."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragstone.store._sql import Sql, read_meta, save_meta
from ragstone.store._watch_types import CanaryScore, StreamKey

_STATUS: Final = "watch_canaries"
"""Key in `meta`."""


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
        text = read_meta(self._db, _STATUS)
        return None if text is None else json.loads(text)

    def save_status(self, status: Mapping[str, Any]) -> None:
        """Store when the last round of canaries started, and its results."""
        save_meta(self._db, _STATUS, json.dumps(status))

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
