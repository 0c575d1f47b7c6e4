"""`Store`, the Protocol of a durable home of traces and outcomes, and the records that go in and come out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Protocol, Self

from ragstone.schema import Captured, Delivery, Dropped, Failure, Ledger, NotApplicable, SampledOut, Score, Trace

__all__ = ["DeliveryState", "OutboxRow", "PlannedMetric", "ScoredTrace", "Store", "TraceReport", "TraceState"]

TraceState = Literal["pending", "scored", "not_applicable", "failed", "sampled_out"]
"""Where a trace stands; see `ragstone.schema.Ledger`."""

DeliveryState = Literal["pending", "sent", "skipped", "dead"]
"""Where one outcome stands on its way to one sink: `skipped` has no place there, `dead` is not tried again by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMetric:
    """A metric that every trace must have an outcome of before it counts as finished."""

    name: str
    version: str
    judge_hash: str = ""
    """Hash of the judge configuration; empty for a plain metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """The books of one outcome and one sink."""

    outcome_id: str
    trace_id: str
    metric: str
    sink: str
    state: DeliveryState
    attempts: int
    next_try: float
    """Unix seconds."""
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReport:
    """Everything a store knows of one trace, and in words why it was or was not scored."""

    trace_id: str
    state: TraceState
    reasons: tuple[str, ...]
    """Sentences for people."""
    trace: Trace | None
    """None for a trace that sampling left out: its text was never stored."""
    started_at: float
    """When the request started, Unix seconds."""
    received_at: float
    """When it reached the store, Unix seconds."""
    inclusion_probability: float
    attempts: int
    """How often a scorer has claimed it and not handed it back."""
    lease_owner: str | None
    lease_until: float | None
    """Unix seconds; None when nobody holds a lease."""
    outcomes: tuple[Score | NotApplicable | Failure, ...]
    outbox: tuple[OutboxRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredTrace:
    """A trace together with one score of it."""

    trace: Trace
    score: Score


class Store(Protocol):
    """Takes traces in, leases them to scorers, keeps their outcomes, and can account for every one of them.

    A store is larger than our other seams because its promise is one: each method is one transaction, and what a
    method has returned from survives the death of the process. All methods block; all raise `StoreError` when the
    store cannot do its work, and then nothing of that call is stored and the next call may succeed.
    """

    def set_plan(self, metrics: Sequence[PlannedMetric], sinks: Sequence[str]) -> None:
        """Say which metrics every trace gets and which sinks every outcome goes to. Saying it again changes nothing.

        A plan looks forward. Traces that are finished stay finished when a metric joins: they are left out of that
        metric's row in the ledger. A new version or another judge makes another metric. A sink that joins gets the
        outcomes stored from then on; one that leaves keeps its rows in the outbox.

        Raises:
            ConfigurationError: A metric name occurs twice.
        """
        ...

    def planned_metrics(self) -> list[PlannedMetric]:
        """The metrics of the plan, in their order."""
        ...

    def segment_offsets(self) -> dict[str, int]:
        """How far each spool segment has been taken in: the offset to read on from."""
        ...

    def ingest(self, segment: str, next_offset: int, entries: Sequence[Captured | SampledOut | Dropped]) -> int:
        """Take in a batch of `segment`'s entries, and in the same transaction note that it was read to `next_offset`.

        A batch that does not lead beyond the noted offset was taken in before and changes nothing. A trace id that
        is already here (from another segment) is counted in `duplicates` and otherwise ignored.

        Returns:
            How many traces are new, sampled-out ones included.
        """
        ...

    def forget_segment(self, name: str) -> None:
        """Drop the offset of a segment whose file is gone. Never before: its drops would be counted again.

        A power cut (not a killed process) can undo what came after the last `checkpoint`; remove a segment's file
        only after one that returned True.
        """
        ...

    def duplicates(self) -> int:
        """How many traces came in again and were ignored."""
        ...

    def claim(self, owner: str, limit: int, *, lease_s: float) -> list[Trace]:
        """Lease up to `limit` pending traces, in the order they came in, to `owner` for `lease_s` seconds.

        Traces whose lease has run out are pending again. One that was claimed too often without being completed or
        released ends as `Failure(kind="bug")` of every planned metric: it stops its scorers.

        Raises:
            ConfigurationError: `lease_s` is not positive.
        """
        ...

    def renew(self, owner: str, trace_ids: Sequence[str], lease_s: float) -> int:
        """Let leases run for `lease_s` seconds from now; how many were still the owner's."""
        ...

    def release(self, owner: str) -> int:
        """Hand back all traces leased to `owner`, as if it had not claimed them; how many."""
        ...

    def release_all(self) -> int:
        """End all leases; how many. For the new owner of a store that is not shared: nobody else can be scoring."""
        ...

    def complete(
        self, trace_id: str, outcomes: Sequence[Score | NotApplicable | Failure], *, owner: str | None = None
    ) -> bool:
        """Store the outcomes of a trace, its new state, and one outbox row for each outcome and sink.

        The trace is finished when every planned metric has an outcome; else it stays pending and its lease ends, if
        it is `owner`'s. An outcome whose key is already here is ignored: the first one counts.

        Returns:
            False, and nothing is stored, when the trace was finished already: the lease was lost and another scorer
            has completed it, or it was never to be scored.

        Raises:
            DataError: There is no such trace, an outcome is about another sample, or cannot be written as JSON.
        """
        ...

    def ledger(self) -> Ledger:
        """The books of this moment, for all traces and for each planned metric."""
        ...

    def explain(self, trace_id: str) -> TraceReport | None:
        """Everything known of one trace, and why it was or was not scored; None when it never came in."""
        ...

    def trace(self, trace_id: str) -> Trace | None:
        """One trace; None when it never came in or was sampled out."""
        ...

    def traces(self, *, state: TraceState | None = None, since: float | None = None) -> Iterator[Trace]:
        """Traces in the order they came in; `since`: those whose request started then or later (Unix seconds)."""
        ...

    def outcomes(
        self, *, metric: str | None = None, since: float | None = None, until: float | None = None
    ) -> Iterator[Score | NotApplicable | Failure]:
        """Outcomes in the order they were stored; of requests that started at `since` or later, and before `until`."""
        ...

    def inclusion(self, *, since: float | None = None, until: float | None = None) -> dict[str, float]:
        """With which probability sampling kept a trace, by trace id, of those where that is below 1; times as above."""
        ...

    def worst(self, metric: str, n: int, *, direction: Literal["higher", "lower"] = "higher") -> list[ScoredTrace]:
        """The `n` worst scores of a metric, worst first; `direction` says which way is better."""
        ...

    def outbox_due(self, sink: str, *, limit: int, now: float | None = None) -> list[Delivery]:
        """Up to `limit` deliveries to `sink` whose time has come at `now` (Unix seconds; default: the clock's)."""
        ...

    def outbox_sent(self, sink: str, outcome_ids: Sequence[str]) -> None:
        """Note that these outcomes have arrived."""
        ...

    def outbox_retry(self, sink: str, outcome_ids: Sequence[str], *, next_try: float, error: str) -> None:
        """Note that these outcomes did not arrive and come again at `next_try` (Unix seconds)."""
        ...

    def outbox_skipped(self, sink: str, outcome_ids: Sequence[str], *, reason: str) -> None:
        """Note that these outcomes have no place at this sink."""
        ...

    def outbox_dead(self, sink: str, outcome_ids: Sequence[str], *, error: str) -> None:
        """Note that these outcomes do not arrive, unless `outbox_again` puts them in line once more."""
        ...

    def outbox_again(self, *, sink: str | None = None, state: DeliveryState = "dead") -> int:
        """Put deliveries of a state in line once more, of one sink or of all; how many."""
        ...

    def outbox_rows(
        self, *, sink: str | None = None, state: DeliveryState | None = None, limit: int = 100
    ) -> list[OutboxRow]:
        """The books of single deliveries, oldest first."""
        ...

    def stop_sink(self, sink: str, *, reason: str) -> None:
        """Note why nothing is sent to a sink any more. The next `set_plan` forgets it: a new worker tries again."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether several workers, also of several hosts, may score from this store at once."""
        ...

    def check_place(self) -> None:
        """Make sure that what is written still goes where this store is.

        Raises:
            StoreError: The file was removed or replaced while in use.
        """
        ...

    def checkpoint(self) -> bool:
        """Make everything stored so far safe from a power cut; False when a reader was in the way this time."""
        ...

    def close(self) -> None:
        """Let go. Safe to call twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
