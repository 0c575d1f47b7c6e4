"""The plan: which metrics every trace gets, and which sinks every outcome goes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ragstone.errors import ConfigurationError
from ragstone.store._records import PlannedMetric
from ragstone.store._sql import Sql

__all__ = ["planned_metrics", "set_plan"]


def set_plan(db: Sql, metrics: Sequence[PlannedMetric], sinks: Sequence[str]) -> None:
    """Replace the plan; metrics that stay keep their books."""
    twice = sorted(name for name, n in Counter(metric.name for metric in metrics).items() if n > 1)
    if twice:
        raise ConfigurationError(f"metrics {twice!r} are planned twice. Name each metric once.")
    finished_before = {
        PlannedMetric(name=name, version=version, judge_hash=judge_hash): n
        for name, version, judge_hash, n in db.execute("SELECT name, version, judge_hash, finished_before FROM plan")
    }
    for metric in metrics:
        if metric not in finished_before:
            finished_before[metric] = _finished_without(db, metric)
    db.execute("DELETE FROM plan")
    db.executemany(
        "INSERT INTO plan (name, version, judge_hash, position, finished_before) VALUES (?, ?, ?, ?, ?)",
        [
            (metric.name, metric.version, metric.judge_hash, position, finished_before[metric])
            for position, metric in enumerate(metrics)
        ],
    )
    db.execute("DELETE FROM sinks")
    db.executemany("INSERT INTO sinks (name) VALUES (?)", [(name,) for name in dict.fromkeys(sinks)])


def planned_metrics(db: Sql) -> list[PlannedMetric]:
    """The planned metrics, in the order they were given in."""
    rows = db.execute("SELECT name, version, judge_hash FROM plan ORDER BY position")
    return [PlannedMetric(name=name, version=version, judge_hash=judge_hash) for name, version, judge_hash in rows]


def _finished_without(db: Sql, metric: PlannedMetric) -> int:
    (n,) = db.execute(
        """
        SELECT count(*) FROM traces AS t
        WHERE t.state IN ('scored', 'not_applicable', 'failed') AND NOT EXISTS (
            SELECT 1 FROM outcomes AS o
            WHERE o.sample_id = t.trace_id AND o.metric = ? AND o.metric_version = ? AND o.judge_hash = ?
        )
        """,
        (metric.name, metric.version, metric.judge_hash),
    ).fetchone()
    return int(n)
