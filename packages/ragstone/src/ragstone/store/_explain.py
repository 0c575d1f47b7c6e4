"""Sentences that explain why a trace was or was not scored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from ragstone.schema import Failure, NotApplicable, Outcome, Score
from ragstone.store._types import PlannedMetric, TraceReport


def explain_state(
    report: TraceReport, plan: Sequence[PlannedMetric], *, max_attempts: int, now: float
) -> Iterator[str]:
    """Yield sentences that explain why a trace was or was not scored."""
    if report.state == "sampled_out":
        yield (f"Not sampled. The sampling probability of such a request is {report.inclusion_probability:g}.")
        return
    if report.state == "pending":
        yield _waiting(report, max_attempts=max_attempts, now=now)
    if report.text_removed_at is not None:
        yield f"Its text was removed by retention on {datetime.fromtimestamp(report.text_removed_at, UTC):%Y-%m-%d}."
    yield from map(_sentence, report.outcomes)
    if report.backfilled:
        yield f"Backfilled, so not evidence for an alarm: {', '.join(report.backfilled)}."
    keys = {outcome.key[1:] for outcome in report.outcomes}
    missing = [m.name for m in plan if m not in keys]
    if missing:
        why = "No outcome yet" if report.state == "pending" else "Finished before these metrics were planned"
        yield f"{why}: {', '.join(missing)}."
    elif not report.outcomes and report.state != "pending":
        yield "Finished without outcomes: no metric was planned."


def _waiting(report: TraceReport, *, max_attempts: int, now: float) -> str:
    if report.lease_until is not None and report.lease_until > now:
        return (
            f"Being scored by {report.lease_owner!r} (attempt {report.attempts} of {max_attempts}). Its lease expires "
            f"in {report.lease_until - now:.1f} s."
        )
    waiting = f"Waiting for a worker for {max(now - report.received_at, 0):.1f} s"
    if report.attempts == 0:
        return f"{waiting}, not claimed so far."
    end = "not leased now" if report.lease_owner is None else f"the lease of {report.lease_owner!r} expired"
    return f"{waiting}, claimed {report.attempts} of at most {max_attempts} times, {end}."


def _sentence(outcome: Outcome) -> str:
    by = f" by {outcome.judge}" if outcome.judge else ""
    match outcome:
        case Score():
            why = f" Reason: {outcome.explanation}" if outcome.explanation else ""
            return f"{outcome.metric}: {outcome.value:.4g}{by} ({outcome.method}, n={outcome.n}).{why}"
        case NotApplicable():
            return f"{outcome.metric}: not applicable: {outcome.reason}"
        case Failure():
            return f"{outcome.metric}: failed{by} ({outcome.kind}): {outcome.reason}"
