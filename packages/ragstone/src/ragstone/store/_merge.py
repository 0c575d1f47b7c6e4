"""Merging: requests with outcomes that another store or a batch job has computed."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from ragstone.errors import DataError
from ragstone.schema import Captured
from ragstone.store._completion import (
    CompletedTrace,
    PreparedCompletion,
    insert_outcomes,
    prepare,
    read_completed,
    read_known,
    read_plan,
    save_states,
    state_of_kinds,
)
from ragstone.store._records import Completion, MergeCounts, MergedRequest
from ragstone.store._sql import Sql, SqlStore
from ragstone.store._traces import insert_entries

_SCORED_THERE = 1.0
"""Share of the requests that the other place scored, as a backfill does."""


class SqlMerge(SqlStore):
    """The method of a store that merges requests with outcomes."""

    @override
    def merge(self, requests: Sequence[MergedRequest]) -> MergeCounts:
        # Checked and serialized before the transaction, as completions are.
        prepared = [_prepared(request) for request in requests]
        with self._database.write() as db:
            now = self._clock()
            self._order_feedback(db, is_new=False)
            traces = {request.trace.trace_id: request.trace for request in requests if request.trace is not None}
            n_traces = len(traces)
            for known in read_completed(db, set(traces), lock=""):
                del traces[known.trace_id]
            n_known = n_traces - len(traces)
            insert_entries(db, [Captured(trace=trace) for trace in traces.values()], now=now)
            return self._add(
                db, requests, prepared, MergeCounts(traces=n_traces - n_known, known_traces=n_known), now=now
            )

    def _add(
        self,
        db: Sql,
        requests: Sequence[MergedRequest],
        prepared: Sequence[PreparedCompletion],
        counts: MergeCounts,
        *,
        now: float,
    ) -> MergeCounts:
        stored = {
            trace.trace_id: trace
            for trace in read_completed(db, {each.trace_id for each in requests}, lock=self._lock_completed)
        }
        for trace_id, outcome_id, metric, version, judge_hash, kind in read_known(db, list(stored)):
            stored[trace_id].known[outcome_id] = ((metric, version, judge_hash), kind)
        plan = [(metric.name, metric.version, metric.judge_hash) for metric in read_plan(db)]
        new = {}
        n_known = 0
        unscored: list[tuple[str, str, str]] = []
        added: list[tuple[str, str, str]] = []
        for request, outcomes in zip(requests, prepared, strict=True):
            trace = stored.get(request.trace_id)
            if trace is None or trace.state == "sampled_out":
                raise DataError(_unknown(request.trace_id, trace))
            was_pending = trace.state == "pending"
            for outcome_id, (outcome, body) in outcomes.outcomes.items():
                if outcome_id in trace.known:
                    n_known += 1
                    continue
                trace.known[outcome_id] = (outcome.key[1:], outcome.outcome)
                new[outcome_id] = (outcome, body)
                if not was_pending:
                    added.append(outcome.key[1:])
            if was_pending and outcomes.outcomes:
                trace.complete(plan, owner="")
                if trace.state == "pending" and request.is_finished:
                    kinds = dict(trace.known.values())
                    trace.state = state_of_kinds(set(kinds.values()))
                    trace.lease = (None, 0.0)
                    unscored += [metric for metric in plan if metric not in kinds]
        insert_outcomes(db, new, now=now, order=self._order_outcomes, backfilled=_SCORED_THERE)
        save_states(db, stored.values())
        # Finished requests without a planned metric do not count in its row of the ledger.
        for change, keys in ((1, unscored), (-1, added)):
            db.executemany(
                """
                UPDATE plan SET finished_before = finished_before + ?
                WHERE name = ? AND version = ? AND judge_hash = ? AND finished_before + ? >= 0
                """,
                [(change, *key, change) for key in keys],
            )
        return counts._replace(outcomes=len(new), known_outcomes=n_known)


def _prepared(request: MergedRequest) -> PreparedCompletion:
    prepared = prepare(Completion(trace_id=request.trace_id, outcomes=request.outcomes))
    if isinstance(prepared, DataError):
        raise prepared
    return prepared


def _unknown(trace_id: str, trace: CompletedTrace | None) -> str:
    if trace is None:
        return (
            f"the request {trace_id!r} is neither in the store nor among the merged requests. Merge its trace as well."
        )
    return (
        f"the store did not sample the request {trace_id!r}, so its outcomes cannot be added. Merge into another store."
    )
