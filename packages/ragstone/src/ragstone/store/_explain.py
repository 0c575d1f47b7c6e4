"""One trace's whole story, and in words why it was or was not scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragstone.schema import Failure, NotApplicable, Score
from ragstone.store import _outbox
from ragstone.store._bodies import to_outcome, to_trace
from ragstone.store._plan import planned_metrics
from ragstone.store._reading import trace_body
from ragstone.store._records import TraceReport
from ragstone.store._sql import Sql

__all__ = ["explain"]


def explain(db: Sql, trace_id: str, *, max_attempts: int, now: float) -> TraceReport | None:
    """Everything the store knows of a trace; None when it never came in."""
    row = db.execute(
        """
        SELECT state, started_at, received_at, inclusion_probability, attempts, lease_owner, lease_until
        FROM traces WHERE trace_id = ?
        """,
        (trace_id,),
    ).fetchone()
    if row is None:
        return None
    state, started_at, received_at, inclusion_probability, attempts, lease_owner, lease_until = row
    outcomes = tuple(_outcomes(db, trace_id))
    if state == "sampled_out":
        reasons = [f"Left out by sampling, which kept a request like this with probability {inclusion_probability:g}."]
    elif state == "pending":
        waiting = _waiting(attempts, lease_owner, lease_until, received_at, max_attempts=max_attempts, now=now)
        reasons = [waiting, *map(_in_words, outcomes), *_missing(db, outcomes, "No outcome yet")]
    else:
        reasons = [*map(_in_words, outcomes), *_missing(db, outcomes, "Finished before these metrics were planned")]
        if not reasons:
            reasons = ["Finished without outcomes: no metric was planned."]
    body = trace_body(db, trace_id)
    return TraceReport(
        trace_id=trace_id,
        state=state,
        reasons=tuple(reasons),
        trace=None if body is None else to_trace(body),
        started_at=started_at,
        received_at=received_at,
        inclusion_probability=inclusion_probability,
        attempts=attempts,
        lease_owner=lease_owner,
        lease_until=lease_until if lease_owner is not None else None,
        outcomes=outcomes,
        outbox=tuple(_outbox.rows(db, trace_id=trace_id)),
    )


def _waiting(
    attempts: int, owner: str | None, lease_until: float, received_at: float, *, max_attempts: int, now: float
) -> str:
    if owner is not None and lease_until > now:
        return (
            f"Being scored by {owner!r} (attempt {attempts} of {max_attempts}); its lease runs for another "
            f"{lease_until - now:.1f} s."
        )
    waiting = f"Waiting for a scorer for {max(now - received_at, 0):.1f} s"
    if attempts == 0:
        return f"{waiting}; not claimed so far."
    end = f"the lease of {owner!r} ran out" if owner is not None else "no lease is held"
    return f"{waiting}; claimed {attempts} of at most {max_attempts} times, {end}."


def _in_words(outcome: Score | NotApplicable | Failure) -> str:
    by = f" by {outcome.judge}" if outcome.judge else ""
    match outcome:
        case Score():
            return f"{outcome.metric}: {outcome.value:.4g}{by} ({outcome.method}, n={outcome.n})."
        case NotApplicable():
            return f"{outcome.metric}: not applicable: {outcome.reason}"
        case Failure():
            return f"{outcome.metric}: failed{by} ({outcome.kind}): {outcome.reason}"


def _missing(db: Sql, outcomes: Sequence[Score | NotApplicable | Failure], what: str) -> Iterator[str]:
    found = {outcome.key[1:] for outcome in outcomes}
    names = [m.name for m in planned_metrics(db) if (m.name, m.version, m.judge_hash) not in found]
    if names:
        yield f"{what}: {', '.join(names)}."


def _outcomes(db: Sql, trace_id: str) -> Iterator[Score | NotApplicable | Failure]:
    for (body,) in db.execute(
        "SELECT b.body FROM outcomes AS o JOIN outcome_bodies AS b USING (seq) WHERE o.sample_id = ? ORDER BY o.seq",
        (trace_id,),
    ):
        yield to_outcome(body)
