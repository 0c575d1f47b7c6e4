"""What goes back: outcomes, the state they give a trace, and their places in the outbox."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragstone.errors import DataError
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.store._bodies import to_body
from ragstone.store._records import TraceState
from ragstone.store._sql import Sql

__all__ = ["complete"]


def complete(
    db: Sql,
    trace_id: str,
    outcomes: Sequence[Score | NotApplicable | Failure],
    *,
    owner: str | None,
    now: float,
) -> bool:
    """Store outcomes of a pending trace; False, and nothing stored, when it is finished already."""
    row = db.execute("SELECT state, lease_owner FROM traces WHERE trace_id = ?", (trace_id,)).fetchone()
    if row is None:
        raise DataError(f"the store has no trace {trace_id!r}. Only traces that came in can be completed.")
    state, lease_owner = row
    if state != "pending":
        return False
    for outcome in outcomes:
        _insert(db, outcome, trace_id=trace_id, now=now)
    state = _state(db, trace_id)
    if state != "pending" or owner is None or owner == lease_owner:
        db.execute("UPDATE traces SET lease_owner = NULL, lease_until = 0 WHERE trace_id = ?", (trace_id,))
    # Outcomes of a former plan alone make a trace partial too: harmless, the ledger looks at it more closely.
    partial = state == "pending" and _has_outcomes(db, trace_id)
    db.execute("UPDATE traces SET state = ?, partial = ? WHERE trace_id = ?", (state, int(partial), trace_id))
    return True


def _insert(db: Sql, outcome: Score | NotApplicable | Failure, *, trace_id: str, now: float) -> None:
    if outcome.sample_id != trace_id:
        raise DataError(
            f"an outcome of {outcome.metric!r} is about sample {outcome.sample_id!r} and was given for trace "
            f"{trace_id!r}. The sample of a captured trace has the trace's id."
        )
    outcome_id = outcome.id
    cursor = db.execute(
        """
        INSERT INTO outcomes (outcome_id, sample_id, metric, metric_version, judge_hash, kind, value, stored_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (sample_id, metric, metric_version, judge_hash) DO NOTHING
        """,
        (
            outcome_id,
            *outcome.key,
            outcome.outcome,
            outcome.value if isinstance(outcome, Score) else None,
            now,
        ),
    )
    if cursor.rowcount == 0:
        return
    db.execute(
        "INSERT INTO outcome_bodies (seq, body) SELECT seq, ? FROM outcomes WHERE outcome_id = ?",
        (to_body(outcome), outcome_id),
    )
    db.execute(
        "INSERT INTO outbox (outcome_id, sink, since, next_try) SELECT ?, name, ?, ? FROM sinks ORDER BY name",
        (outcome_id, now, now),
    )


def _state(db: Sql, trace_id: str) -> TraceState:
    """The rule of `ragstone.schema.Ledger`, over the planned metrics."""
    return _state_of(
        kind
        for (kind,) in db.execute(
            """
            SELECT o.kind FROM plan AS p LEFT JOIN outcomes AS o
            ON o.sample_id = ? AND o.metric = p.name AND o.metric_version = p.version AND o.judge_hash = p.judge_hash
            """,
            (trace_id,),
        )
    )


def _state_of(kinds: Iterable[str | None]) -> TraceState:
    found = set(kinds)
    if None in found:
        return "pending"
    if "failure" in found:
        return "failed"
    return "scored" if "score" in found else "not_applicable"


def _has_outcomes(db: Sql, trace_id: str) -> bool:
    return db.execute("SELECT 1 FROM outcomes WHERE sample_id = ? LIMIT 1", (trace_id,)).fetchone() is not None
