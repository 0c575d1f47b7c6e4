"""The books: `captured` from its own counter, everything else counted from the rows themselves."""

from __future__ import annotations

from collections import defaultdict

from ragstone.schema import Ledger, LedgerRow
from ragstone.store import _outbox
from ragstone.store._intake import counter
from ragstone.store._sql import Sql

__all__ = ["ledger"]


def ledger(db: Sql, *, now: float) -> Ledger:
    """Make up the books. Belongs into one transaction, so that all columns are of one moment."""
    traces = defaultdict(int, db.execute("SELECT state, count(*) FROM traces GROUP BY state").fetchall())
    drops: dict[str, int] = dict(db.execute("SELECT reason, n FROM drops ORDER BY reason"))
    total = LedgerRow(
        captured=counter(db, "captured"),
        scored=traces["scored"],
        sampled_out=traces["sampled_out"],
        not_applicable=traces["not_applicable"],
        failed=traces["failed"],
        dropped=sum(drops.values()),
        pending=traces["pending"],
    )
    oldest = db.execute("SELECT received_at FROM traces WHERE state = 'pending' ORDER BY seq LIMIT 1").fetchone()
    return Ledger(
        total=total,
        metrics=_metric_rows(db, total),
        dropped_by_reason=drops,
        oldest_pending_s=None if oldest is None else max(now - oldest[0], 0.0),
        outbox=_outbox.books(db, now=now),
    )


def _metric_rows(db: Sql, total: LedgerRow) -> dict[str, LedgerRow]:
    kinds: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for name, kind, n in db.execute(
        """
        SELECT p.name, o.kind, count(*) FROM plan AS p JOIN outcomes AS o
        ON o.metric = p.name AND o.metric_version = p.version AND o.judge_hash = p.judge_hash
        GROUP BY p.name, o.kind
        """
    ):
        kinds[name][kind] = n
    # A pending trace may have some of its outcomes: those metrics are done with it.
    done_early: defaultdict[str, int] = defaultdict(
        int,
        db.execute(
            """
            SELECT p.name, count(*) FROM traces AS t CROSS JOIN plan AS p JOIN outcomes AS o
            ON o.sample_id = t.trace_id
            AND o.metric = p.name AND o.metric_version = p.version AND o.judge_hash = p.judge_hash
            WHERE t.partial = 1
            GROUP BY p.name
            """
        ).fetchall(),
    )
    return {
        name: LedgerRow(
            captured=total.captured - finished_before,
            scored=kinds[name]["score"],
            sampled_out=total.sampled_out,
            not_applicable=kinds[name]["not_applicable"],
            failed=kinds[name]["failure"],
            dropped=total.dropped,
            pending=total.pending - done_early[name],
        )
        for name, finished_before in db.execute("SELECT name, finished_before FROM plan ORDER BY position").fetchall()
    }
