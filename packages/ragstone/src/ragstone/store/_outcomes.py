"""What goes back: outcomes, the state they give a trace, and their places in the outbox."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from ragstone.errors import DataError
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.store._bodies import to_body
from ragstone.store._records import TraceState
from ragstone.store._sql import Sql

__all__ = ["FIND", "complete"]


FIND: Final = "SELECT state, lease_owner FROM traces WHERE trace_id = ?"


def complete(
    db: Sql,
    trace_id: str,
    outcomes: Sequence[Score | NotApplicable | Failure],
    *,
    owner: str | None,
    now: float,
    find: str = FIND,
) -> bool:
    """Store outcomes of a pending trace; False, and nothing stored, when it is finished already.

    `find` looks the trace up; where others may finish it at the same time, with a lock.
    """
    row = db.execute(find, (trace_id,)).fetchone()
    if row is None:
        raise DataError(f"the store has no trace {trace_id!r}. Only traces that came in can be completed.")
    state, lease_owner = row
    if state != "pending":
        return False
    known = {key for (key,) in db.execute("SELECT outcome_id FROM outcomes WHERE sample_id = ?", (trace_id,))}
    new = _new(outcomes, known, trace_id=trace_id)
    _insert(db, new, now=now)
    state = _state(db, trace_id)
    ends = state != "pending" or owner is None or owner == lease_owner
    # Outcomes of a former plan alone make a trace partial too: harmless, the ledger looks at it more closely.
    partial = state == "pending" and bool(known or new)
    db.execute(
        f"UPDATE traces SET state = ?, partial = ?{_NO_LEASE if ends else ''} WHERE trace_id = ?",  # noqa: S608
        (state, int(partial), trace_id),
    )
    return True


_NO_LEASE: Final = ", lease_owner = NULL, lease_until = 0"


def _new(
    outcomes: Sequence[Score | NotApplicable | Failure], known: AbstractSet[str], *, trace_id: str
) -> dict[str, Score | NotApplicable | Failure]:
    """The outcomes that are not here yet, by id; the first of each key counts."""
    new: dict[str, Score | NotApplicable | Failure] = {}
    for outcome in outcomes:
        if outcome.sample_id != trace_id:
            raise DataError(
                f"an outcome of {outcome.metric!r} is about sample {outcome.sample_id!r} and was given for trace "
                f"{trace_id!r}. The sample of a captured trace has the trace's id."
            )
        outcome_id = outcome.id
        if outcome_id not in known:
            new.setdefault(outcome_id, outcome)
    return new


def _insert(db: Sql, new: Mapping[str, Score | NotApplicable | Failure], *, now: float) -> None:
    # All rows of a table together: a database on the network is asked once for each table, not for each row.
    db.executemany(
        """
        INSERT INTO outcomes (outcome_id, sample_id, metric, metric_version, judge_hash, kind, value, stored_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        """,
        [
            (key, *outcome.key, outcome.outcome, outcome.value if isinstance(outcome, Score) else None, now)
            for key, outcome in new.items()
        ],
    )
    db.executemany(
        "INSERT INTO outcome_bodies (seq, body) SELECT seq, ? FROM outcomes WHERE outcome_id = ?",
        [(to_body(outcome), key) for key, outcome in new.items()],
    )
    db.executemany(
        "INSERT INTO outbox (outcome_id, sink, since, next_try) SELECT ?, name, ?, ? FROM sinks ORDER BY name",
        [(key, now, now) for key in new],
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
