"""Plans: the settings with which requests are scored, and the requests that were captured with them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from ragstone.schema import Captured, SampledOut, ScoringPlan
from ragstone.store._sql import Sql

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
    current = max(
        (each for each in plans if each.replaced_by is None), key=lambda each: (each.since, each.id), default=None
    )
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
