"""Storage of outcomes: groups of completed traces in one transaction."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragstone.errors import DataError
from ragstone.schema import Failure, Outcome, Score
from ragstone.store._bodies import Body, to_body
from ragstone.store._counters import add_to_counters, add_to_outcome_counts, state_counter
from ragstone.store._database import Database, Lock
from ragstone.store._open_sessions import queue_outcomes
from ragstone.store._plan import read_plan
from ragstone.store._sql import Sql, marks, pages
from ragstone.store._types import Completion, PlannedMetric, TraceState


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCompletion:
    """A completion that was checked and serialized, so that it cannot fail in the transaction of its group."""

    trace_id: str
    owner: str | None
    outcomes: Mapping[str, tuple[Outcome, Body]]
    """The outcomes and their bodies, by id."""


def prepare(completion: Completion) -> PreparedCompletion | DataError:
    """Check and serialize the outcomes of a trace. Returns the error, so that it does not end a group."""
    trace_id = completion.trace_id
    outcomes: dict[str, tuple[Outcome, Body]] = {}
    for outcome in completion.outcomes:
        if outcome.sample_id != trace_id:
            return DataError(
                f"an outcome of {outcome.metric!r} has the sample id {outcome.sample_id!r}, not the trace id {trace_id!r}. "
                "Use the trace id as the id of the sample."
            )
        if isinstance(outcome, Score) and not math.isfinite(outcome.value):
            return DataError(
                f"the score of {outcome.metric!r} for the trace {trace_id!r} is {outcome.value!r}. Scores must be "
                "finite. Return a Failure if a metric cannot compute a score."
            )
        try:
            outcomes.setdefault(outcome.id, (outcome, to_body(outcome)))
        except DataError as error:
            return error
    return PreparedCompletion(trace_id=trace_id, owner=completion.owner, outcomes=outcomes)


def store_completions(db: Sql, database: Database, completions: Sequence[PreparedCompletion]) -> list[bool | DataError]:
    """Store a group of completions, one statement per table. Several of one trace count in their order."""
    plan = read_plan(db)
    traces = {
        trace.trace_id: trace
        for trace in read_completed(db, {each.trace_id for each in completions}, lock=database.lock_completed)
    }
    for trace_id, outcome_id, *key, kind in read_known(db, [i for i, t in traces.items() if t.state == "pending"]):
        traces[trace_id].known[outcome_id] = ((key[0], key[1], key[2]), kind)
    results: list[bool | DataError] = []
    new: dict[str, tuple[Outcome, Body]] = {}
    for completion in completions:
        trace = traces.get(completion.trace_id)
        if trace is None:
            results.append(
                DataError(f"trace {completion.trace_id!r} is not in the store. Only stored traces can be completed.")
            )
            continue
        if trace.state != "pending":
            results.append(False)
            continue
        for outcome_id, (outcome, body) in completion.outcomes.items():
            if outcome_id not in trace.known:
                trace.known[outcome_id] = (outcome.key[1:], outcome.outcome)
                new[outcome_id] = (outcome, body)
        trace.complete(plan, owner=completion.owner)
        results.append(True)
    insert_outcomes(db, database, new)
    save_states(db, traces.values())
    return results


@dataclass(slots=True, kw_only=True)
class CompletedTrace:
    """A trace of the group, as it is after the completions so far."""

    trace_id: str
    state: TraceState
    lease: tuple[str | None, float]
    """Owner and end of its lease."""
    known: dict[str, tuple[tuple[str, str, str], str]]
    """Metric, version and judge hash, and the kind of each stored outcome, by id."""
    is_changed: bool = False

    def complete(self, plan: Sequence[PlannedMetric], *, owner: str | None) -> None:
        """Set the state by the rule of `ragstone.schema.Ledger`, and end the lease."""
        kinds = dict(self.known.values())
        planned = {kinds.get(metric) for metric in plan}
        if None not in planned:
            self.state = "failed" if "failure" in planned else "scored" if "score" in planned else "not_applicable"
        if self.state != "pending" or owner is None or owner == self.lease[0]:
            self.lease = (None, 0.0)
        self.is_changed = True


def save_states(db: Sql, traces: Collection[CompletedTrace]) -> None:
    """Store the state and the lease of the changed traces, which were pending, and count them."""
    changed = [trace for trace in traces if trace.is_changed]
    ended = Counter(state_counter(trace.state) for trace in changed if trace.state != "pending")
    add_to_counters(db, ended | {state_counter("pending"): -ended.total()})
    db.executemany(
        "UPDATE traces SET state = ?, partial = ?, lease_owner = ?, lease_until = ? WHERE trace_id = ?",
        [
            (trace.state, int(trace.state == "pending" and bool(trace.known)), *trace.lease, trace.trace_id)
            for trace in changed
        ],
    )


def read_completed(db: Sql, trace_ids: set[str], *, lock: str) -> Iterator[CompletedTrace]:
    # All workers lock traces in the order of their ids, so that overlapping groups wait for each other and never in a
    # circle.
    for ids in pages(sorted(trace_ids)):
        rows = db.execute(
            f"""
            SELECT trace_id, state, lease_owner, lease_until FROM traces WHERE trace_id IN ({marks(ids)}) ORDER BY trace_id {lock}
            """,  # noqa: S608 - placeholders and a constant lock
            ids,
        )
        for trace_id, state, lease_owner, lease_until in rows.fetchall():
            yield CompletedTrace(trace_id=trace_id, state=state, lease=(lease_owner, lease_until), known={})


def read_keys(db: Sql, trace_ids: Sequence[str]) -> dict[str, set[tuple[str, str, str]]]:
    """Return metric, version and judge hash of the outcomes of some traces, by trace."""
    keys: dict[str, set[tuple[str, str, str]]] = {}
    for trace_id, _, metric, version, judge_hash, _ in read_known(db, trace_ids):
        keys.setdefault(trace_id, set()).add((metric, version, judge_hash))
    return keys


def read_known(db: Sql, trace_ids: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for ids in pages(trace_ids):
        yield from db.execute(
            f"""
            SELECT sample_id, outcome_id, metric, metric_version, judge_hash, kind FROM outcomes
            WHERE sample_id IN ({marks(ids)})
            """,  # noqa: S608 - placeholders
            ids,
        )


def insert_outcomes(
    db: Sql, database: Database, new: Mapping[str, tuple[Outcome, Body]], *, backfilled: float | None = None
) -> None:
    """Insert outcomes that are not stored, count them, and queue them for the monitoring. They are pending for the sinks.

    `backfilled` is the share of the requests that a backfill scores. None if they were scored when they arrived.
    """
    if not new:
        return
    database.lock(db, Lock.ORDER)
    now = database.now()
    rows: list[tuple[Any, ...]] = [
        (key, *outcome.key, outcome.outcome, outcome.value if isinstance(outcome, Score) else None)
        for key, (outcome, _) in new.items()
    ]
    # All rows of a table together, so that a database on the network needs one round trip per table, not per row.
    db.executemany(
        """
        INSERT INTO outcomes (outcome_id, sample_id, metric, metric_version, judge_hash, kind, value, stored_at, backfilled)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        [(*row, now, backfilled) for row in rows],
    )
    db.executemany(
        "INSERT INTO outcome_bodies (seq, body) SELECT seq, ? FROM outcomes WHERE outcome_id = ?",
        [(body, key) for key, (_, body) in new.items()],
    )
    watched = [
        (*row[1:5], row[6])
        for row, (outcome, _) in zip(rows, new.values(), strict=True)
        if isinstance(outcome, Score) or (isinstance(outcome, Failure) and outcome.kind != "budget")
    ]
    queue_outcomes(db, watched, backfilled=backfilled is not None)
    add_to_outcome_counts(db, [(row[2:6], row[6]) for row in rows])
