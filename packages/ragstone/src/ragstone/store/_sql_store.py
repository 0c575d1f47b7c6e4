"""`SqlStore`: the store over SQL, whichever database runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Literal, Protocol, Self

from ragstone.schema import Captured, Delivery, Dropped, Failure, Ledger, NotApplicable, SampledOut, Score, Trace
from ragstone.store import _explain, _intake, _leases, _ledger, _outbox, _outcomes, _plan, _reading
from ragstone.store._bodies import to_outcome, to_trace
from ragstone.store._protocol import Store
from ragstone.store._records import (
    DeliveryState,
    OutboxRow,
    PlannedMetric,
    ScoredTrace,
    TraceReport,
    TraceState,
)
from ragstone.store._sql import Sql

__all__ = ["SqlStore", "Transactions"]


class Transactions(Protocol):
    """A database whose every use is one transaction; both raise `StoreError`."""

    def write(self) -> AbstractContextManager[Sql]:
        """Run a block: all of it is stored, or, when anything raises, nothing."""
        ...

    def read(self) -> AbstractContextManager[Sql]:
        """Run a block on one consistent snapshot."""
        ...


class SqlStore(Store):
    """What is the same in every database. `Store` says what the methods promise.

    Args:
        database: Where the tables are.
        clock: Unix seconds.
        max_attempts: How often a trace may be claimed in vain before it is given up.
    """

    def __init__(self, database: Transactions, *, clock: Callable[[], float], max_attempts: int) -> None:
        self._transactions = database
        self._clock = clock
        self._max_attempts = max_attempts

    def set_plan(self, metrics: Sequence[PlannedMetric], sinks: Sequence[str]) -> None:
        """Say which metrics every trace gets and which sinks every outcome goes to."""
        with self._transactions.write() as db:
            _plan.set_plan(db, metrics, sinks)

    def planned_metrics(self) -> list[PlannedMetric]:
        """The metrics of the plan."""
        with self._transactions.read() as db:
            return _plan.planned_metrics(db)

    def segment_offsets(self) -> dict[str, int]:
        """How far each spool segment has been taken in."""
        with self._transactions.read() as db:
            return _intake.segment_offsets(db)

    def ingest(self, segment: str, next_offset: int, entries: Sequence[Captured | SampledOut | Dropped]) -> int:
        """Take in a batch of a segment's entries together with the offset it leads to."""
        with self._transactions.write() as db:
            return _intake.ingest(db, segment, next_offset, entries, now=self._clock())

    def forget_segment(self, name: str) -> None:
        """Drop the offset of a segment whose file is gone."""
        with self._transactions.write() as db:
            db.execute("DELETE FROM segments WHERE name = ?", (name,))

    def duplicates(self) -> int:
        """How many traces came in again and were ignored."""
        with self._transactions.read() as db:
            return _intake.counter(db, "duplicates")

    def claim(self, owner: str, limit: int, *, lease_s: float) -> list[Trace]:
        """Lease up to `limit` pending traces to `owner`."""
        with self._transactions.write() as db:
            return _leases.claim(db, owner, limit, lease_s=lease_s, max_attempts=self._max_attempts, now=self._clock())

    def renew(self, owner: str, trace_ids: Sequence[str], lease_s: float) -> int:
        """Let leases run for `lease_s` seconds from now."""
        with self._transactions.write() as db:
            return _leases.renew(db, owner, trace_ids, lease_s=lease_s, now=self._clock())

    def release(self, owner: str) -> int:
        """Hand back all traces leased to `owner`."""
        with self._transactions.write() as db:
            return _leases.release(db, owner)

    def release_all(self) -> int:
        """End all leases."""
        with self._transactions.write() as db:
            return _leases.release_all(db)

    def complete(
        self, trace_id: str, outcomes: Sequence[Score | NotApplicable | Failure], *, owner: str | None = None
    ) -> bool:
        """Store the outcomes of a trace; False when it was finished already."""
        with self._transactions.write() as db:
            return _outcomes.complete(db, trace_id, outcomes, owner=owner, now=self._clock())

    def ledger(self) -> Ledger:
        """The books of this moment."""
        with self._transactions.read() as db:
            return _ledger.ledger(db, now=self._clock())

    def explain(self, trace_id: str) -> TraceReport | None:
        """Everything known of one trace, and why it was or was not scored."""
        with self._transactions.read() as db:
            return _explain.explain(db, trace_id, max_attempts=self._max_attempts, now=self._clock())

    def trace(self, trace_id: str) -> Trace | None:
        """One trace."""
        with self._transactions.read() as db:
            body = _reading.trace_body(db, trace_id)
        return None if body is None else to_trace(body)

    def traces(self, *, state: TraceState | None = None, since: float | None = None) -> Iterator[Trace]:
        """Traces in the order they came in."""
        after = -1
        while True:
            with self._transactions.read() as db:
                page = _reading.trace_page(db, after=after, state=state, since=since)
            if not page:
                return
            for after, body in page:  # noqa: B007 - the next page goes on from there
                yield to_trace(body)

    def outcomes(
        self, *, metric: str | None = None, since: float | None = None, until: float | None = None
    ) -> Iterator[Score | NotApplicable | Failure]:
        """Outcomes in the order they were stored."""
        after = -1
        while True:
            with self._transactions.read() as db:
                page = _reading.outcome_page(db, after=after, metric=metric, since=since, until=until)
            if not page:
                return
            for after, body in page:  # noqa: B007 - the next page goes on from there
                yield to_outcome(body)

    def inclusion(self, *, since: float | None = None, until: float | None = None) -> dict[str, float]:
        """With which probability sampling kept a trace, of those where that is below 1."""
        with self._transactions.read() as db:
            return _reading.inclusion(db, since=since, until=until)

    def worst(self, metric: str, n: int, *, direction: Literal["higher", "lower"] = "higher") -> list[ScoredTrace]:
        """The `n` worst scores of a metric, worst first."""
        with self._transactions.read() as db:
            return _reading.worst(db, metric, n, direction=direction)

    def outbox_due(self, sink: str, *, limit: int, now: float | None = None) -> list[Delivery]:
        """Deliveries to `sink` whose time has come."""
        with self._transactions.read() as db:
            return _outbox.due(db, sink, limit=limit, now=self._clock() if now is None else now)

    def outbox_sent(self, sink: str, outcome_ids: Sequence[str]) -> None:
        """Note that these outcomes have arrived."""
        with self._transactions.write() as db:
            _outbox.mark_sent(db, sink, outcome_ids)

    def outbox_retry(self, sink: str, outcome_ids: Sequence[str], *, next_try: float, error: str) -> None:
        """Note that these outcomes come again at `next_try`."""
        with self._transactions.write() as db:
            _outbox.mark_retry(db, sink, outcome_ids, next_try=next_try, error=error)

    def outbox_skipped(self, sink: str, outcome_ids: Sequence[str], *, reason: str) -> None:
        """Note that these outcomes have no place at this sink."""
        with self._transactions.write() as db:
            _outbox.mark_skipped(db, sink, outcome_ids, reason=reason)

    def outbox_dead(self, sink: str, outcome_ids: Sequence[str], *, error: str) -> None:
        """Note that these outcomes do not arrive."""
        with self._transactions.write() as db:
            _outbox.mark_dead(db, sink, outcome_ids, error=error)

    def outbox_again(self, *, sink: str | None = None, state: DeliveryState = "dead") -> int:
        """Put deliveries of a state in line once more."""
        with self._transactions.write() as db:
            return _outbox.again(db, sink=sink, state=state, now=self._clock())

    def outbox_rows(
        self, *, sink: str | None = None, state: DeliveryState | None = None, limit: int = 100
    ) -> list[OutboxRow]:
        """The books of single deliveries, oldest first."""
        with self._transactions.read() as db:
            return _outbox.rows(db, sink=sink, state=state, limit=max(limit, 0))

    def stop_sink(self, sink: str, *, reason: str) -> None:
        """Note why nothing is sent to a sink any more."""
        with self._transactions.write() as db:
            _outbox.stop(db, sink, reason=reason)

    def close(self) -> None:
        """Let go of the database."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
