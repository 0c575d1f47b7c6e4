"""Backfills: requests without outcomes of a metric that was added later, and the outcomes that are added to them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.schema import Outcome
from ragstone.store._bodies import to_trace
from ragstone.store._database import Part
from ragstone.store._save_outcomes import insert_outcomes, prepare
from ragstone.store._sql import read_all_meta, save_meta
from ragstone.store._types import BackfillCounts, Completion, PlannedMetric, UnscoredPage, UnscoredTrace
from ragstone.store._watch import BACKFILL

_FINISHED: Final = "t.state IN ('scored', 'not_applicable', 'failed')"
_KEY: Final = "(o.metric = ? AND o.metric_version = ? AND o.judge_hash = ?)"


class Backfills(Part):
    """Methods of `Outcomes` that score requests again, with metrics that were added later."""

    def count_backfill(self, metrics: Sequence[PlannedMetric], *, since: float, until: float) -> BackfillCounts:
        """Count the requests that started between two times (Unix seconds), by whether they have these metrics."""
        known, keys = _known(metrics)
        with self._database.read() as db:
            rows = db.execute(
                f"""
                SELECT state, removed, known, COUNT(*) FROM (
                    SELECT t.state AS state, CASE WHEN t.text_removed_at IS NULL THEN 0 ELSE 1 END AS removed,
                           {known} AS known
                    FROM traces AS t WHERE t.started_at >= ? AND t.started_at < ?
                ) AS found GROUP BY state, removed, known
                """,  # noqa: S608 - placeholders
                (*keys, since, until),
            ).fetchall()
        n = Counter[str]()
        for state, removed, found, count in rows:
            if state in ("pending", "sampled_out"):
                n[state] += count
            elif found == len(metrics):
                n["scored"] += count
            else:
                n["removed" if removed else "unscored"] += count
        return BackfillCounts(**{name: n[name] for name in BackfillCounts._fields})

    def unscored(
        self,
        metrics: Sequence[PlannedMetric],
        *,
        since: float,
        before: tuple[float, int],
        sample: float = 1.0,
        limit: int = 100,
    ) -> UnscoredPage:
        """Return finished requests that have a text and lack an outcome of at least one of these metrics, newest first.

        Only up to `limit` requests are looked at: those that started at `since` (Unix seconds) or later, and before the
        place `before`, a start time and a sequence number from the page before. `sample` is the share of the sessions,
        in (0, 1]. It depends on the session alone which of them are returned.
        """
        known, keys = _known(metrics)
        started_at, seq = before
        with self._database.read() as db:
            rows = db.execute(
                f"""
                SELECT t.seq, t.started_at, t.trace_id, COALESCE(t.session_id, t.trace_id), b.body
                FROM traces AS t JOIN trace_bodies AS b USING (seq)
                WHERE {_FINISHED} AND t.started_at >= ? AND t.started_at <= ? AND (t.started_at < ? OR t.seq < ?)
                      AND {known} < ?
                ORDER BY t.started_at DESC, t.seq DESC LIMIT ?
                """,  # noqa: S608 - placeholders and constant conditions
                (since, started_at, started_at, seq, *keys, len(metrics), limit),
            ).fetchall()
            traces = []
            for _, _, trace_id, session, body in rows:
                digest = hashlib.sha256(session.encode("utf-8", "surrogatepass")).digest()
                # The same sessions are drawn in every run, and more if the share grows.
                if int.from_bytes(digest[:8]) >= sample * 2**64:
                    continue
                of_trace = "SELECT metric, metric_version, judge_hash FROM outcomes WHERE sample_id = ?"
                found = set(map(tuple, db.execute(of_trace, (trace_id,))))
                missing = tuple(metric.name for metric in metrics if metric not in found)
                traces.append(UnscoredTrace(to_trace(body, trace_id), missing))
        return UnscoredPage(traces, (rows[-1][1], rows[-1][0]) if len(rows) == limit else None)

    def add_backfilled(self, trace_id: str, outcomes: Sequence[Outcome], *, sample: float = 1.0) -> int:
        """Add outcomes to a finished request, and return how many were not stored before.

        They are delivered like others, and belong to baselines, but are not evidence for an alarm. The state of the
        request stays as it is. `sample` is the share of the sessions that this backfill scores. Raise DataError if the
        request is not found, is pending or was sampled out.
        """
        prepared = prepare(Completion(trace_id=trace_id, outcomes=outcomes))
        with self._database.write() as db:
            row = db.execute(
                f"SELECT state FROM traces WHERE trace_id = ? {self._database.lock_completed}",  # noqa: S608 - a constant lock
                (trace_id,),
            ).fetchone()
            if row is None or row[0] in ("pending", "sampled_out"):
                raise DataError(f"trace {trace_id!r} is not scored. Only finished requests can be backfilled.")
            if isinstance(prepared, DataError):
                raise prepared
            known = {key for (key,) in db.execute("SELECT outcome_id FROM outcomes WHERE sample_id = ?", (trace_id,))}
            new = {key: outcome for key, outcome in prepared.outcomes.items() if key not in known}
            insert_outcomes(db, self._database, new, backfilled=sample)
            # These requests were finished without the metric, and now count in its row of the ledger.
            db.executemany(
                """
                UPDATE plan SET finished_before = finished_before - 1
                WHERE name = ? AND version = ? AND judge_hash = ? AND finished_before > 0
                """,
                [outcome.key[1:] for outcome, _ in new.values()],
            )
            return len(new)

    def save_backfill(self, progress: Mapping[str, Any]) -> None:
        """Insert or replace the progress of a backfill, by its `id`. It has `metrics`, `since`, `state` and `started_at`."""
        with self._database.write() as db:
            save_meta(db, f"{BACKFILL}{progress['id']}", json.dumps(progress))

    def backfills(self) -> list[dict[str, Any]]:
        """Return the progress of all backfills, oldest first."""
        with self._database.read() as db:
            progress = map(json.loads, read_all_meta(db, BACKFILL).values())
            return sorted(progress, key=lambda each: float(each["started_at"]))


def _known(metrics: Sequence[PlannedMetric]) -> tuple[str, list[str]]:
    """Return an expression for the number of these metrics that a trace has outcomes of, and its parameters."""
    keys = " OR ".join([_KEY] * len(metrics))
    parameters = [value for metric in metrics for value in metric]
    return f"(SELECT COUNT(*) FROM outcomes AS o WHERE o.sample_id = t.trace_id AND ({keys}))", parameters  # noqa: S608
