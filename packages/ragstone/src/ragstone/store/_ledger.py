"""The ledger, which `ragstone status` shows: the numbers of traces and deliveries, from counters."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import get_args

from ragstone.schema import DeclaredTool, IgnoredTraces, Ledger, LedgerRow
from ragstone.store._counters import DROPPED, IGNORED, count_outcome_kinds, count_unplanned, judge_of, read_states
from ragstone.store._deliveries import count_deliveries
from ragstone.store._erasure import ERASED, ERASED_DELIVERIES
from ragstone.store._feedback import count_feedback
from ragstone.store._plan import count_pending, read_spend
from ragstone.store._sql import Sql, read_all_meta, read_record, starting_with
from ragstone.store._types import TraceState


def read_ledger(db: Sql, *, now: float) -> Ledger:
    """Return the ledger. See `Store.ledger`."""
    traces = read_states(db)
    drops = _counts_of(db, DROPPED)
    captured = sum(n for (n,) in db.execute("SELECT n FROM counters WHERE name = 'captured'"))
    states = {state: traces[state] for state in get_args(TraceState)}
    total = LedgerRow(captured=captured, dropped=sum(drops.values()), **states)
    oldest = db.execute("SELECT received_at FROM traces WHERE state = 'pending' ORDER BY seq LIMIT 1").fetchone()
    return Ledger(
        total=total,
        metrics=_metric_rows(db, total),
        dropped_by_reason=drops,
        erased=_counts_of(db, ERASED),
        erased_deliveries=_erased_deliveries(db),
        oldest_pending_s=None if oldest is None else max(now - oldest[0], 0.0),
        outbox=count_deliveries(db, now=now),
        rules=_nested_counts_of(db, "rule:"),
        ignored=_ignored(db),
        doubts=_counts_of(db, "doubt:"),
        ended=_counts_of(db, "ended:"),
        declared_tools=_declared_tools(db),
        feedback=count_feedback(db, now=now),
        spent_today=read_spend(db, now=now),
        daily_budget=read_record(db, "daily_budget") or {},
        plans=tuple(count_pending(db)),
        last_worker=read_record(db, "last_worker") or {},
        other_outcomes=_count_others_by_judge(db),
    )


def _nested_counts_of(db: Sql, prefix: str) -> dict[str, dict[str, int]]:
    """Return counters by the two parts of their names."""
    nested: dict[str, dict[str, int]] = {}
    for name, n in _counts_of(db, prefix).items():
        first, _, second = name.partition(":")
        nested.setdefault(first, {})[second] = n
    return nested


def _declared_tools(db: Sql) -> dict[str, DeclaredTool]:
    counts = _nested_counts_of(db, "tool:")
    called, unused = Counter(counts.get("called")), Counter(counts.get("unused"))
    names = sorted(called | unused)
    return {name: DeclaredTool(captured=called[name] + unused[name], called=called[name]) for name in names}


def _erased_deliveries(db: Sql) -> dict[str, dict[str, int]]:
    by_sink: dict[str, dict[str, int]] = defaultdict(dict)
    for state, counts in _nested_counts_of(db, ERASED_DELIVERIES).items():
        for sink, n in counts.items():
            by_sink[sink][state] = n
    return dict(by_sink)


def _ignored(db: Sql) -> dict[str, IgnoredTraces]:
    examples = read_all_meta(db, IGNORED)
    return {
        reason: IgnoredTraces(n=n, example=examples.get(f"{IGNORED}{reason}"))
        for reason, n in _counts_of(db, IGNORED).items()
    }


def _counts_of(db: Sql, prefix: str) -> dict[str, int]:
    rows = db.execute("SELECT name, n FROM counters WHERE name >= ? AND name < ? ORDER BY name", starting_with(prefix))
    return {name.removeprefix(prefix): int(n) for name, n in rows}


def _metric_rows(db: Sql, total: LedgerRow) -> dict[str, LedgerRow]:
    kinds = count_outcome_kinds(db)
    # A pending trace may already have outcomes of some metrics.
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


def _count_others_by_judge(db: Sql) -> dict[str, int]:
    """Return the number of outcomes that are not of the plan, by the name of the judge, which only the bodies have."""
    counts: Counter[str] = Counter()
    for metric, version, judge_hash, n in count_unplanned(db):
        counts[judge_of(db, (metric, version, judge_hash)) or "none"] += int(n)
    return dict(counts)
