"""`Store`, the Protocol of a database of traces, outcomes and deliveries, and the records that it takes and returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Protocol, Self

from ragstone.schema import Captured, Delivery, Dropped, Failure, Ledger, NotApplicable, SampledOut, Score, Trace

__all__ = [
    "DeliveryState",
    "MetricCounts",
    "OutboxRow",
    "PlannedMetric",
    "ScoredTrace",
    "Store",
    "TraceReport",
    "TraceState",
]

TraceState = Literal["pending", "scored", "not_applicable", "failed", "sampled_out"]
"""State of a trace; see `ragstone.schema.Ledger`."""

DeliveryState = Literal["pending", "sent", "skipped", "failed"]
"""State of a delivery. `skipped`: the sink does not store such outcomes. `failed`: it is not retried automatically."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMetric:
    """A metric that every trace must have an outcome of before it counts as finished."""

    name: str
    version: str
    judge_hash: str = ""
    """Hash of the judge configuration; empty for a plain metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """The state of one outcome's delivery to one sink."""

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
    """Everything a store knows about one trace, and why it was or was not scored."""

    trace_id: str
    state: TraceState
    reasons: tuple[str, ...]
    """Sentences for people."""
    trace: Trace | None
    """None if the trace was sampled out: its text was never stored."""
    started_at: float
    """When the request started, Unix seconds."""
    received_at: float
    """When it reached the store, Unix seconds."""
    inclusion_probability: float
    attempts: int
    """How often a worker claimed it and did not release it."""
    lease_owner: str | None
    lease_until: float | None
    """Unix seconds; None if the trace is not leased."""
    outcomes: tuple[Score | NotApplicable | Failure, ...]
    outbox: tuple[OutboxRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredTrace:
    """A trace together with one score of it."""

    trace: Trace
    score: Score


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCounts:
    """The outcomes of a planned metric, counted."""

    metric: str
    judge: str | None
    """The judge in words; None for a plain metric, or without an outcome."""
    values: Sequence[float]
    """The distinct pairs of a score's value and its trace's sampling probability: the values."""
    probabilities: Sequence[float]
    """The sampling probabilities of these pairs."""
    repeats: Sequence[int]
    """The number of scores with each pair."""
    n_failed: int
    n_not_applicable: int
    is_sampled: bool
    """Whether the traces behind these outcomes were kept with different probabilities."""


class Store(Protocol):
    """Takes traces in, leases them to workers, stores their outcomes and deliveries, and accounts for every trace.

    The Protocol is larger than our others because its promise is one: each method is one transaction, and its result
    survives the death of the process. All methods block. All raise `StoreError` if the store cannot do its work. Then
    nothing of that call is stored, and the next call may succeed.
    """

    def set_plan(self, metrics: Sequence[PlannedMetric], sinks: Sequence[str]) -> None:
        """Set the metrics that every trace gets and the sinks that every outcome goes to.

        Setting the same plan again changes nothing. A plan applies to what comes later: if a metric joins, finished
        traces stay finished and do not count in that metric's row of the ledger. A new version or another judge makes
        another metric. A sink that joins gets the outcomes stored from then on. A sink that leaves keeps its rows in
        the outbox.

        Raises:
            ConfigurationError: If a metric name occurs twice.
        """
        ...

    def planned_metrics(self) -> list[PlannedMetric]:
        """Return the metrics of the plan, in their order."""
        ...

    def segment_offsets(self) -> dict[str, int]:
        """Return the offset up to which each spool segment was taken in."""
        ...

    def ingest(self, segment: str, next_offset: int, entries: Sequence[Captured | SampledOut | Dropped]) -> int:
        """Take in a batch of a segment's entries and note, in the same transaction, that it was read to `next_offset`.

        A batch that does not lead beyond the noted offset was taken in before and changes nothing. A trace id that is
        already stored (from another segment) is counted in `duplicates` and otherwise ignored.

        Returns:
            The number of new traces, including sampled-out ones.
        """
        ...

    def forget_segment(self, name: str) -> None:
        """Delete the offset of a segment whose file was removed. Before that, its drops would be counted again.

        A power cut (not a killed process) can undo everything after the last `checkpoint`. Remove a segment's file only
        after a `checkpoint` that returned True.
        """
        ...

    def duplicates(self) -> int:
        """Return how many traces came in again and were ignored."""
        ...

    def claim(self, owner: str, limit: int, *, lease_s: float) -> list[Trace]:
        """Lease up to `limit` pending traces, in the order they came in, to a worker.

        Expired leases become available again. A trace that was claimed `max_attempts` times without being completed or
        released gets `Failure(kind="bug")` for every planned metric, because it seems to stop the workers.

        Args:
            owner: The worker.
            limit: The largest number of traces.
            lease_s: Lease duration in seconds.

        Raises:
            ConfigurationError: If `lease_s` is not positive.
        """
        ...

    def renew(self, owner: str, trace_ids: Sequence[str], lease_s: float) -> int:
        """Extend leases to `lease_s` seconds from now, and return how many of them the owner still had."""
        ...

    def release(self, owner: str) -> int:
        """End all leases of `owner` as if it had not claimed the traces, and return how many there were."""
        ...

    def release_all(self) -> int:
        """End all leases, and return how many there were.

        For the new owner of a store that is not shared: then no other worker can be scoring.
        """
        ...

    def complete(
        self, trace_id: str, outcomes: Sequence[Score | NotApplicable | Failure], *, owner: str | None = None
    ) -> bool:
        """Store the outcomes of a trace, its new state, and one outbox row for each outcome and sink.

        The trace is finished if every planned metric has an outcome. Otherwise it stays pending, and its lease ends if
        it belongs to `owner`. An outcome whose key is already stored is ignored: the first one counts.

        Returns:
            False, and nothing is stored, if the trace was not pending: another worker completed it after the lease
            expired, or it was sampled out.

        Raises:
            DataError: If the trace is not found, or an outcome is about another sample or cannot be written as JSON.
        """
        ...

    def ledger(self) -> Ledger:
        """Count all traces, and the traces of each planned metric, at this moment."""
        ...

    def explain(self, trace_id: str) -> TraceReport | None:
        """Return everything known about one trace, and why it was or was not scored; None if it never came in."""
        ...

    def trace(self, trace_id: str) -> Trace | None:
        """Return one trace; None if it never came in or was sampled out."""
        ...

    def traces(self, *, state: TraceState | None = None, since: float | None = None) -> Iterator[Trace]:
        """Yield traces in the order they came in.

        Args:
            state: Only traces in this state.
            since: Only traces whose request started then or later (Unix seconds).
        """
        ...

    def outcomes(
        self, *, metric: str | None = None, since: float | None = None, until: float | None = None
    ) -> Iterator[Score | NotApplicable | Failure]:
        """Yield outcomes in the order they were stored.

        Args:
            metric: Only outcomes of this metric.
            since: Only outcomes of requests that started then or later (Unix seconds).
            until: Only outcomes of requests that started before (Unix seconds).
        """
        ...

    def count_outcomes(self) -> list[MetricCounts]:
        """Count the outcomes of each planned metric, in the order of the plan.

        One pass over an index, which reads no text. Traces are looked up only if some were sampled.
        """
        ...

    def inclusion_probabilities(self, *, since: float | None = None, until: float | None = None) -> dict[str, float]:
        """Return the sampling probability of each kept trace, by trace id, if it is below 1; times as in `outcomes`."""
        ...

    def worst_scores(
        self, metric: str, n: int, *, direction: Literal["higher", "lower"] = "higher"
    ) -> list[ScoredTrace]:
        """Return the `n` worst scores of the planned version of a metric, worst first.

        Args:
            metric: The metric. If it is not planned, scores of all its versions count.
            n: The largest number of scores.
            direction: Which values are better.
        """
        ...

    def due_deliveries(self, sink: str, *, limit: int, now: float | None = None) -> list[Delivery]:
        """Return up to `limit` deliveries to `sink` that are due at `now` (Unix seconds; default: the clock's time)."""
        ...

    def mark_sent(self, sink: str, outcome_ids: Sequence[str]) -> None:
        """Mark these deliveries as sent."""
        ...

    def mark_retry(self, sink: str, outcome_ids: Sequence[str], *, next_try: float, error: str) -> None:
        """Note that these deliveries failed and are due again at `next_try` (Unix seconds)."""
        ...

    def mark_skipped(self, sink: str, outcome_ids: Sequence[str], *, reason: str) -> None:
        """Mark these deliveries as skipped: the sink does not store such outcomes."""
        ...

    def mark_failed(self, sink: str, outcome_ids: Sequence[str], *, error: str) -> None:
        """Mark these deliveries as failed for good, unless `requeue_deliveries` makes them pending again."""
        ...

    def requeue_deliveries(self, *, sink: str | None = None, state: DeliveryState = "failed") -> int:
        """Make deliveries of a state pending again, of one sink or of all, and return how many there were."""
        ...

    def deliveries(
        self, *, sink: str | None = None, state: DeliveryState | None = None, limit: int = 100
    ) -> list[OutboxRow]:
        """Return the state of single deliveries, oldest first."""
        ...

    def stop_sink(self, sink: str, *, reason: str) -> None:
        """Note why delivery to a sink is stopped. The next `set_plan` forgets it, so that a new worker tries again."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether several workers, also on several hosts, may score from this store at once."""
        ...

    def check_not_replaced(self) -> None:
        """Check that what is written still reaches this store.

        Raises:
            StoreError: If the file was removed or replaced while in use, or other workers have replaced the plan.
        """
        ...

    def checkpoint(self) -> bool:
        """Make everything stored so far safe from a power cut; False if a reader prevented it this time."""
        ...

    def close(self) -> None:
        """Close the store. Safe to call twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
