"""The part `plan` of a store: metrics and sinks, and settings of workers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Literal

from ragstone.errors import ConfigurationError
from ragstone.schema import Captured, SampledOut, ScoringPlan, Usage
from ragstone.store._database import Part
from ragstone.store._deliveries import set_sinks
from ragstone.store._sql import Sql, save_meta
from ragstone.store._types import PlannedMetric

STEP_S: Final = 1e-6
"""Difference between the times of two plans, if a clock was put back."""
_parse: Final = lru_cache(maxsize=256)(json.loads)
"""Each batch and each claim reads the same texts."""


def read_plans(db: Sql) -> list[ScoringPlan]:
    """Return all plans, without their pending requests. The one that applies is the last."""
    rows = db.execute(
        """
        SELECT id, settings, since, replaced_by FROM scoring_plans
        ORDER BY CASE WHEN replaced_by IS NULL THEN 1 ELSE 0 END, since, id
        """
    ).fetchall()
    return [ScoringPlan(id=key, settings=_parse(text), since=since, replaced_by=by) for key, text, since, by in rows]


def count_pending(db: Sql) -> list[ScoringPlan]:
    """Return all plans as `read_plans` does, with the number of pending requests of each."""
    plans = read_plans(db)
    if not plans:
        return plans
    pending = dict(db.execute("SELECT plan, count(*) FROM traces WHERE state = 'pending' GROUP BY plan").fetchall())
    current = plans[-1].id
    pending[current] = pending.get(current, 0) + pending.pop(None, 0)
    return [plan.model_copy(update={"pending": pending.get(plan.id, 0)}) for plan in plans]


def plans_of_entries(db: Sql, entries: Iterable[Captured | SampledOut]) -> dict[str, str]:
    """Return the id of the plan of each request that has one. A later request with another plan makes this one apply."""
    ids: dict[str, str] = {}
    latest: dict[str, ScoringPlan] = {}
    for entry in entries:
        if isinstance(entry, Captured) and entry.plan is not None:
            plan = ScoringPlan.of_settings(entry.plan, since=entry.trace.started_at)
            ids[entry.trace.trace_id] = plan.id
            if plan.id not in latest or latest[plan.id].since < plan.since:
                latest[plan.id] = plan
    replaced: dict[str, str] = {}
    # In the same order in all transactions, so that they never wait in a circle.
    for _, plan in sorted(latest.items()):
        stored = {each.id: each for each in read_plans(db)}
        known = stored.get(plan.id)
        since = applies_since(stored.values(), plan)
        if known is None or since != known.since:
            apply_plan(db, plan.model_copy(update={"since": since}))
        if known is not None and known.replaced_by is not None:
            replaced[plan.id] = known.replaced_by
    return {trace_id: replaced.get(plan, plan) for trace_id, plan in ids.items()}


def applies_since(plans: Collection[ScoringPlan], plan: ScoringPlan) -> float:
    """Return since when a plan applies, of which a request from `plan.since` has arrived.

    It applies from then on, unless the current plan is later, or has all that it names and its models.
    """
    known = next((each for each in plans if each.id == plan.id), None)
    current = max((each for each in plans if each.replaced_by is None), key=attrgetter("since", "id"), default=None)
    if current is None or current is known or (known is not None and known.replaced_by is not None):
        return plan.since if known is None else known.since
    if plan.since > current.since and plan_differences(plan.settings, current.settings):
        return plan.since
    return min(plan.since, current.since - STEP_S) if known is None else known.since


def plans_of_worker(db: Sql, plan: str) -> list[str]:
    """Return the ids of the plans that a worker with this plan scores: its own, and those that lack only its models."""
    plans = {key: _parse(text) for key, text in db.execute("SELECT id, settings FROM scoring_plans")}
    if plan not in plans:
        return [plan]  # no request with it has arrived
    return [key for key, settings in plans.items() if not plan_differences(settings, plans[plan])]


def plan_differences(planned: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the values in a plan and in other settings that differ, by key. What a plan does not name does not differ."""
    unnamed = {key.partition(".")[0] for key, value in planned.items() if key.endswith(".url") and value is None}
    if "judge" in unnamed:
        unnamed.add("reader")  # without a reader, the judge's model reads
    keys = sorted(key for key in {*planned, *settings} if key.partition(".")[0] not in unnamed)
    if planned.get("scoring.metrics", "") is None:
        keys.remove("scoring.metrics")
    values = {key: (planned.get(key), settings.get(key)) for key in keys}
    return {key: pair for key, pair in values.items() if pair[0] != pair[1]}


def apply_plan(db: Sql, plan: ScoringPlan) -> None:
    """Add a plan, or store since when it applies. Requests without a plan keep the one that applied before."""
    before = db.execute(
        "SELECT id FROM scoring_plans WHERE replaced_by IS NULL ORDER BY since DESC, id DESC LIMIT 1"
    ).fetchone()
    db.execute(
        """
        INSERT INTO scoring_plans (id, settings, since) VALUES (?, ?, ?)
        ON CONFLICT (id) DO UPDATE SET since = excluded.since
        """,
        (plan.id, json.dumps(plan.settings, sort_keys=True), plan.since),
    )
    if before is not None and before[0] != plan.id:
        # Also if the new plan does not apply: they belong to the one that does.
        db.execute("UPDATE traces SET plan = ? WHERE state = 'pending' AND plan IS NULL", before)


_LATEST_S: Final = 7200.0
"""Longer than any pause between two attempts, in seconds."""


class Plan(Part):
    """What scores traces and receives outcomes, and what it may cost and has cost."""

    def set(self, metrics: Sequence[PlannedMetric], sinks: Sequence[str]) -> None:
        """Set the metrics that score every trace, and the sinks that receive every outcome.

        A plan applies to later traces, and setting the same plan again changes nothing. If a metric is added, finished
        traces stay finished and do not count in that metric's row of the ledger. A metric with a new version or another
        judge is a different metric. An added sink receives the outcomes stored from then on. A removed sink keeps its
        pending deliveries. Raise ConfigurationError if a metric name occurs twice. Raise StoreError if other workers
        use another plan.
        """
        with self._database.planning(metrics, sinks) as db:
            _write_plan(db, metrics, sinks, now=self._database.now())

    def metrics(self) -> list[PlannedMetric]:
        """Return the metrics of the plan, in their order."""
        with self._database.read() as db:
            return read_plan(db)

    def use(self, settings: Mapping[str, Any], delivery: Mapping[str, Any], *, replan: bool = False) -> str:
        """Store the plan of a worker, and return its id. A new or replaced one applies from now on.

        Requests of other plans that are pending keep their plan, and so do those that other applications capture.
        `settings` are as in `ScoringPlan`. `delivery` has the options of this worker that do not change scores, for
        `Ledger.last_worker`. `replan` replaces all other plans, also for pending requests and for those that arrive
        later.
        """
        with self._database.write() as db:
            plans = {plan.id: plan for plan in read_plans(db)}
            latest = max((plan.since for plan in plans.values()), default=0.0)
            plan = ScoringPlan.of_settings(settings, since=max(self._database.now(), latest + STEP_S))
            # A worker that only completes the requests of an earlier plan does not make it apply again.
            if replan or plan.id not in plans or plans[plan.id].replaced_by is not None:
                apply_plan(db, plan)
            db.execute("UPDATE scoring_plans SET replaced_by = NULL WHERE id = ?", (plan.id,))
            if replan:
                db.execute("UPDATE scoring_plans SET replaced_by = ? WHERE id <> ?", (plan.id, plan.id))
                db.execute("UPDATE traces SET plan = ? WHERE state = 'pending'", (plan.id,))
            save_meta(db, "last_worker", json.dumps({"plan": plan.id, **delivery}))
            return plan.id

    def add_spend(self, usage: Usage) -> None:
        """Add to what model calls have cost on the current day of UTC."""
        with self._database.write() as db:
            db.execute(
                """
                INSERT INTO spend (day, calls, input_tokens, output_tokens, usd, priced_calls, counted_calls)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (day) DO UPDATE SET
                    calls = spend.calls + excluded.calls,
                    input_tokens = spend.input_tokens + excluded.input_tokens,
                    output_tokens = spend.output_tokens + excluded.output_tokens,
                    usd = COALESCE(spend.usd + excluded.usd, spend.usd, excluded.usd),
                    priced_calls = spend.priced_calls + excluded.priced_calls,
                    counted_calls = spend.counted_calls + excluded.counted_calls
                """,
                (_day(self._database.now()), *(getattr(usage, name) for name in _SPENT)),
            )

    def spent_today(self) -> Usage:
        """Return what model calls have cost on the current day of UTC, over all workers."""
        with self._database.read() as db:
            return read_spend(db, now=self._database.now())

    def set_record(self, name: Literal["daily_budget"], values: Mapping[str, Any]) -> None:
        """Record what a worker is started with, for the ledger: limits of a day (calls, tokens, usd)."""
        with self._database.write() as db:
            save_meta(db, name, json.dumps(dict(values)))


_SPENT: Final = ("calls", "input_tokens", "output_tokens", "cost_usd", "priced_calls", "counted_calls")
"""Fields of a `Usage`, in the order of the columns of the table `spend`."""


def read_spend(db: Sql, *, now: float) -> Usage:
    """Return what model calls have cost on the current day of UTC."""
    row = db.execute(
        "SELECT calls, input_tokens, output_tokens, usd, priced_calls, counted_calls FROM spend WHERE day = ?",
        (_day(now),),
    ).fetchone()
    return Usage() if row is None else Usage(**dict(zip(_SPENT, row, strict=True)))


def _day(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d")


def read_plan(db: Sql) -> list[PlannedMetric]:
    """Return the planned metrics, in their order."""
    return [PlannedMetric(*row) for row in db.execute("SELECT name, version, judge_hash FROM plan ORDER BY position")]


def _write_plan(db: Sql, metrics: Sequence[PlannedMetric], sinks: Sequence[str], *, now: float) -> None:
    """Replace the plan. Metrics that are in both plans keep their counts."""
    twice = sorted(name for name, n in Counter(metric.name for metric in metrics).items() if n > 1)
    if twice:
        raise ConfigurationError(f"metrics {twice!r} are planned twice. Name each metric once.")
    rows = db.execute("SELECT name, version, judge_hash, finished_before FROM plan")
    finished_before = {PlannedMetric(*metric): n for *metric, n in rows}
    for metric in metrics:
        if metric not in finished_before:
            (n,) = db.execute(
                """
                SELECT count(*) FROM traces AS t
                WHERE t.state IN ('scored', 'not_applicable', 'failed') AND NOT EXISTS (
                    SELECT 1 FROM outcomes AS o
                    WHERE o.sample_id = t.trace_id AND o.metric = ? AND o.metric_version = ? AND o.judge_hash = ?
                )
                """,
                metric,
            ).fetchone()
            finished_before[metric] = n
    db.execute("DELETE FROM plan")
    db.executemany(
        "INSERT INTO plan (name, version, judge_hash, position, finished_before) VALUES (?, ?, ?, ?, ?)",
        [(*metric, position, finished_before[metric]) for position, metric in enumerate(metrics)],
    )
    set_sinks(db, sinks, now=now)
    # Retries and leases that are far in the future become due: the clock was put back since they were stored.
    latest = now + _LATEST_S
    db.execute("UPDATE outbox SET next_try = ? WHERE state = 'pending' AND next_try > ?", (now, latest))
    db.execute("UPDATE traces SET lease_until = ? WHERE state = 'pending' AND lease_until > ?", (now, latest))
