"""`Store`, the Protocol of a database of traces, outcomes and deliveries.

One Protocol, most of it docstrings, so the file is not split although it has more than 600 lines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from ragstone.errors import DataError
from ragstone.schema import (
    AlarmDelivery,
    Captured,
    Delivery,
    Dropped,
    Failure,
    Feedback,
    Ignored,
    Ledger,
    NotApplicable,
    SampledOut,
    Score,
    Trace,
    TraceOutline,
    Usage,
)
from ragstone.store._records import (
    BackfillCounts,
    Claims,
    Completion,
    CountDifference,
    DeliveryKind,
    DeliveryState,
    DrawnRequest,
    ErasedRequests,
    ExportedOutcome,
    MetricCounts,
    OutboxRow,
    PlannedMetric,
    RemovedText,
    RequestLabel,
    RetentionCounts,
    StoredAnswer,
    StoredLabel,
    StorePosition,
    StoreVerification,
    TraceReport,
    TraceState,
    UnscoredPage,
)
from ragstone.store._watched import WatchTables


class Store(Protocol):
    """Stores traces, leases them to workers, stores their outcomes and deliveries, and accounts for every trace.

    Each method is one transaction, and its result survives the end of the process. All methods block. All raise
    `StoreError` if the store cannot be used. Then nothing of that call is stored, and the next call may succeed.
    """

    def set_plan(self, metrics: Sequence[PlannedMetric], sinks: Sequence[str]) -> None:
        """Set the metrics that score every trace, and the sinks that receive every outcome.

        A plan applies to later traces, and setting the same plan again changes nothing. If a metric is added, finished
        traces stay finished and do not count in that metric's row of the ledger. A metric with a new version or another
        judge is a different metric. An added sink receives the outcomes stored from then on. A removed sink keeps its
        pending deliveries.

        Raises:
            ConfigurationError: If a metric name occurs twice.
        """
        ...

    def planned_metrics(self) -> list[PlannedMetric]:
        """Return the metrics of the plan, in their order."""
        ...

    def identity(self) -> str:
        """Return the random id of this store. The first call creates it. A copy of a store has the same id."""
        ...

    def segment_offsets(self) -> dict[str, int]:
        """Return the offset up to which each spool segment is stored."""
        ...

    def ingest(
        self, segment: str, next_offset: int, entries: Sequence[Captured | SampledOut | Feedback | Dropped | Ignored]
    ) -> int:
        """Store a batch of a segment's entries, and in the same transaction the new offset of the segment.

        A batch that does not exceed the stored offset was stored before and is ignored. A trace id that is already
        stored (from another segment) is counted in `duplicates` and otherwise ignored.

        Returns:
            The number of new traces, including sampled-out ones.
        """
        ...

    def forget_segment(self, name: str) -> None:
        """Delete the offset of a segment whose file was removed. Do not call it earlier: its drops would count again.

        A power loss (unlike a killed process) can undo everything after the last `checkpoint`. Remove the file of a
        segment only after a `checkpoint` that returned True.
        """
        ...

    def duplicates(self) -> int:
        """Return the number of traces that arrived again and were ignored."""
        ...

    def claim(self, owner: str, limit: int, *, lease_s: float, plan: str | None = None, whole: bool = False) -> Claims:
        """Lease up to `limit` pending traces to a worker, in order of arrival.

        Expired leases become available again. A trace that was claimed `max_attempts` times without being completed, released
        or renewed with `waiting` gets `Failure(kind="bug")` for every planned metric, because it probably makes the workers crash.

        Args:
            owner: Name of the worker.
            limit: Maximum number of traces.
            lease_s: Lease duration in seconds.
            plan: Id of the worker's plan. Only requests without a plan, of this plan, or of a plan that lacks only models
                are leased. None leases all.
            whole: Lease only requests without any outcome.

        Raises:
            ConfigurationError: If `lease_s` is not positive.
        """
        ...

    def renew(self, owner: str, trace_ids: Sequence[str], lease_s: float, *, waiting: bool = False) -> int:
        """Extend leases to `lease_s` seconds from now, and return the number of leases that the owner still had.

        Args:
            owner: Name of the worker.
            trace_ids: Ids of traces.
            lease_s: Lease duration in seconds.
            waiting: Whether an attempt to score the traces has ended, and the next one waits for a model. Then they do not make
                workers crash, and earlier claims do not count toward `max_attempts`.

        Raises:
            ConfigurationError: If `lease_s` is not positive.
        """
        ...

    def release(self, owner: str) -> int:
        """End all leases of `owner` as if it had not claimed the traces, and return their number."""
        ...

    def release_all(self) -> int:
        """End all leases, and return their number.

        Used by the new owner of a store that is not shared, because no other worker can be scoring then.
        """
        ...

    def has_other_leases(self, owner: str, *, received_by: float) -> bool:
        """Return whether pending traces are leased to others than `owner`, also to workers that were killed.

        They are neither available nor finished. Leases that have expired count until a worker claims the traces.

        Args:
            owner: Name of the worker.
            received_by: Unix seconds. Traces that the store received later do not count, so that a caller who waits does not
                wait for all that other workers have yet to score.
        """
        ...

    def complete(
        self, trace_id: str, outcomes: Sequence[Score | NotApplicable | Failure], *, owner: str | None = None
    ) -> bool:
        """Store the outcomes of a trace, which are then pending for each sink, and its new state.

        The trace is finished if every planned metric has an outcome. Otherwise it stays pending, and its lease ends if
        it belongs to `owner`. An outcome whose key is already stored is ignored.

        Returns:
            False, and nothing is stored, if the trace was not pending: another worker completed it after the lease
            expired, or it was sampled out.

        Raises:
            DataError: If the trace is not found, or an outcome has another sample id or cannot be written as JSON.
        """
        ...

    def complete_many(self, completions: Sequence[Completion]) -> list[bool | DataError]:
        """Store the outcomes of several traces in one transaction, each as `complete` does, in their order.

        An invalid completion does not prevent the others.

        Returns:
            For each completion what `complete` returns, or the `DataError` that it raises.
        """
        ...

    def ledger(self) -> Ledger:
        """Return the numbers of traces, in total and of each planned metric, in one consistent snapshot.

        It reads counters, so its cost does not depend on the number of traces.
        """
        ...

    def recount(self) -> list[CountDifference]:
        """Compare the counters of the ledger with the rows that they count, and return the differences."""
        ...

    def verify(self) -> StoreVerification:
        """Read all rows, and compare them with their checksums, with each other and with the counters.

        A worker may run. The rows are read in pages, so memory does not grow with the store.
        """
        ...

    def explain(self, trace_id: str) -> TraceReport | None:
        """Return all stored data about one trace, and why it was or was not scored. None if it is not found."""
        ...

    def answers(self, trace_ids: Sequence[str]) -> dict[str, StoredAnswer]:
        """Return traces with their outcomes, by id. An id that is not found is missing.

        Raises:
            StoreCorruptError: If one of them cannot be read.
        """
        ...

    def trace(self, trace_id: str) -> Trace | None:
        """Return one trace, or None if it is not found, was sampled out or its text was removed."""
        ...

    def known(self, trace_ids: Sequence[str]) -> dict[str, Trace]:
        """Return what `trace` returns for each of these ids, without those for which it returns None."""
        ...

    def position(self) -> StorePosition:
        """Return how much the store contains."""
        ...

    def traces(
        self,
        *,
        state: TraceState | None = None,
        since: float | None = None,
        after: StorePosition | None = None,
        upto: StorePosition | None = None,
    ) -> Iterator[Trace]:
        """Yield traces in order of arrival, without those whose text was removed.

        Args:
            state: If given, only traces in this state.
            since: If given, only traces whose request started at this time or later (Unix seconds).
            after: If given, only traces that were stored after this position. In a shared store, transactions may end in
                another order than they began, so a trace may be missed.
            upto: If given, only traces that were stored up to this position.
        """
        ...

    def trace_outlines(
        self, *, since: float | None = None, after: StorePosition | None = None, upto: StorePosition | None = None
    ) -> Iterator[TraceOutline]:
        """Yield the outlines of traces in order of arrival, without those whose text was removed.

        The arguments are those of `traces`. Only the fields of an outline are validated.
        """
        ...

    def outcomes(
        self,
        *,
        metric: str | None = None,
        since: float | None = None,
        until: float | None = None,
        after: StorePosition | None = None,
        upto: StorePosition | None = None,
    ) -> Iterator[Score | NotApplicable | Failure]:
        """Yield outcomes in the order they were stored.

        Args:
            metric: If given, only outcomes of this metric.
            since: If given, only outcomes of requests that started at this time or later (Unix seconds).
            until: If given, only outcomes of requests that started before this time (Unix seconds).
            after: If given, only outcomes that were stored after this position, with the limit described in `traces`.
            upto: If given, only outcomes that were stored up to this position.
        """
        ...

    def count_outcomes(self, *, by_trace: bool = False) -> list[MetricCounts]:
        """Count the outcomes of each planned metric, in the order of the plan.

        Reads an index only, without any text, and the table of outcomes if `by_trace`. Traces are read only if some were
        sampled.

        Args:
            by_trace: Whether the result names the trace of each score.
        """
        ...

    def inclusion_probabilities(self, *, since: float | None = None, until: float | None = None) -> dict[str, float]:
        """Return the sampling probabilities below 1, by trace id. `since` and `until` select as in `outcomes`."""
        ...

    def request_labels(
        self,
        key: RequestLabel,
        *,
        since: float | None = None,
        until: float | None = None,
    ) -> dict[str, str]:
        """Return the value of a label of requests that have one, by trace id. `since` and `until` select as in `outcomes`."""
        ...

    def labels(self) -> list[StoredLabel]:
        """Return the labels of people, oldest first. The value of each is a number."""
        ...

    def save_labels(self, labels: Sequence[StoredLabel]) -> None:
        """Insert or replace the labels of a request by an author. A reader of a file can do this, and of a database not."""
        ...

    def drawn_requests(self) -> list[DrawnRequest]:
        """Return the requests that could be drawn to be labeled: those that were, in their order, then the others."""
        ...

    def save_draw(self, requests: Sequence[DrawnRequest]) -> None:
        """Insert or replace requests that could be drawn. Who may do this is described in `save_labels`."""
        ...

    def remove_texts(self, *, before: float, limit: int = 100) -> int:
        """Remove the texts of up to `limit` requests that started before a time, and return their number.

        Removed are the captured trace, and the explanations, the judge's replies and all texts in the details of its
        outcomes. The values, intervals and other numbers of the outcomes stay. Kept is the text of a request that is
        pending, or labeled, or has an outcome that waits for a sink of the plan. A delivery that is retried later by
        `requeue_deliveries` does not have texts.

        Args:
            before: Unix seconds.
            limit: Maximum number of requests, so that other transactions do not wait long.
        """
        ...

    def remove_requests(self, *, before: float, limit: int = 100, dry_run: bool = False) -> int:
        """Remove up to `limit` requests that started before a time, with all that is stored about them, and return their number.

        The ledger counts them as dropped, with the reason "expired". Kept are requests that are pending, or labeled, or
        have an outcome that waits for a sink of the plan, as by `remove_texts`. Values of closed sessions stay in streams.

        Args:
            before: Unix seconds.
            limit: Maximum number of requests, at most 100.
            dry_run: Only count, without the limit.
        """
        ...

    def forget_unknown_feedback(self, *, limit: int = 100) -> int:
        """Remove up to `limit` entries of old feedback about unknown requests, and return their number."""
        ...

    def forget_sampled_out(self, *, before: float, limit: int = 1_000) -> int:
        """Remove the ids of requests that were sampled out and arrived before a time. They stay counted.

        A request that arrives again after that is counted again. Kept are those with feedback. The search ends at the first
        request that is newer, or that feedback may still select.

        Args:
            before: Unix seconds.
            limit: Maximum number of requests, so that other transactions do not wait long.

        Returns:
            The number of requests that were considered. Less than `limit`: no others are old enough.
        """
        ...

    def count_texts(self, *, before: float) -> RetentionCounts:
        """Count the requests that started before a time (Unix seconds) and have a text, by why it is kept."""
        ...

    def removed_texts(self, *, since: float | None = None, until: float | None = None) -> Iterator[RemovedText]:
        """Yield the requests whose text was removed, in order of arrival. `since` and `until` select as in `outcomes`."""
        ...

    def find_requests(
        self, *, users: Collection[str] = (), sessions: Collection[str] = (), ids: Collection[str] = ()
    ) -> list[str]:
        """Return the trace ids of the requests of these users, of these sessions, and with these ids, in order of arrival.

        Args:
            users: Ids of users, or their hashes, as they are stored.
            sessions: Ids of sessions, or their hashes.
            ids: Trace ids, of Ragstone or OpenTelemetry.
        """
        ...

    def erase(self, trace_ids: Sequence[str], *, dry_run: bool = False) -> ErasedRequests:
        """Remove requests with all that is stored about them: texts, outcomes, deliveries, labels, feedback and canaries.

        Up to 100 requests are removed in one transaction. The ledger counts them as dropped, with the reason "erased". Values
        of closed sessions stay in streams, without what identifies them. What sinks have received stays there. Hashes of the ids
        are kept: a request that arrives again is a duplicate.

        Args:
            trace_ids: The requests. Ids that are not stored are ignored.
            dry_run: Only count.
        """
        ...

    def find_erased(self, trace_ids: Collection[str]) -> set[str]:
        """Return those of some ids whose requests were erased. Such a request is not stored again."""
        ...

    def forget_erased(self, trace_ids: Collection[str]) -> None:
        """Let requests that were erased be stored again."""
        ...

    def exported(
        self,
        *,
        since: float | None = None,
        until: float | None = None,
        include_text: bool = False,
        damaged: list[str] | None = None,
    ) -> Iterator[ExportedOutcome]:
        """Yield all outcomes with their requests, in the order they were stored. `since` and `until` select as in `outcomes`.

        Args:
            since: Earliest start of a request,
            until: and the time before which it starts, in Unix seconds.
            include_text: Also read the requests.
            damaged: Gets a message for each row that is damaged, and left out. None: the first one raises an error.

        Raises:
            StoreCorruptError: If rows cannot be read.
        """
        ...

    def add_spend(self, usage: Usage) -> None:
        """Add to what model calls have cost on the current day of UTC."""
        ...

    def spent_today(self) -> Usage:
        """Return what model calls have cost on the current day of UTC, over all workers."""
        ...

    def set_record(self, name: Literal["daily_budget"], values: Mapping[str, Any]) -> None:
        """Record what a worker is started with, for the ledger: limits of a day (calls, tokens, usd)."""
        ...

    def use_plan(self, settings: Mapping[str, Any], delivery: Mapping[str, Any], *, replan: bool = False) -> str:
        """Store the plan of a worker, and return its id. A new or replaced one applies from now on.

        Requests of other plans that are pending keep their plan, and so do those that other applications capture.

        Args:
            settings: Settings of a worker, as in `ScoringPlan`.
            delivery: Options of this worker that do not change scores, for `Ledger.last_worker`.
            replan: Replace all other plans, also for pending requests and for those that arrive later.
        """
        ...

    def count_backfill(self, metrics: Sequence[PlannedMetric], *, since: float, until: float) -> BackfillCounts:
        """Count the requests that started between two times (Unix seconds), by whether they have these metrics."""
        ...

    def unscored(
        self,
        metrics: Sequence[PlannedMetric],
        *,
        since: float,
        before: tuple[float, int],
        sample: float = 1.0,
        limit: int = 100,
    ) -> UnscoredPage:
        """Return finished requests that have a text and lack an outcome of at least one of these metrics, newest first.

        Args:
            metrics: The metrics.
            since: Only requests that started at this time or later (Unix seconds),
            before: and before this place: the start time and a sequence number, from the page before.
            sample: Share of the sessions, in (0, 1]. It depends on the session alone which of them are returned.
            limit: Number of requests to look at.
        """
        ...

    def add_backfilled(
        self, trace_id: str, outcomes: Sequence[Score | NotApplicable | Failure], *, sample: float = 1.0
    ) -> int:
        """Add outcomes to a finished request, and return how many were not stored before.

        They are delivered like others, and belong to baselines, but are not evidence for an alarm. The state of the request
        stays as it is.

        Args:
            trace_id: The request.
            outcomes: Its new outcomes.
            sample: Share of the sessions that this backfill scores.

        Raises:
            DataError: If the request is not found, is pending or was sampled out.
        """
        ...

    def save_backfill(self, progress: Mapping[str, Any]) -> None:
        """Insert or replace the progress of a backfill, by its `id`. It has `metrics`, `since`, `state` and `started_at`."""
        ...

    def backfills(self) -> list[dict[str, Any]]:
        """Return the progress of all backfills, oldest first."""
        ...

    def deliver_again(self, sink: str, *, since: float, until: float) -> int:
        """Queue stored outcomes for a sink of the plan that did not receive them, and return their number.

        Args:
            sink: Name of the sink.
            since: Outcomes of requests that started at this time or later (Unix seconds),
            until: and before this time.
        """
        ...

    def shrink(self) -> None:
        """Give the space of removed texts back to the disk. A server does this on its own.

        A file is written again, which needs as much free disk space. Without it, later requests use the space.
        """
        ...

    def due_deliveries(self, sink: str, *, limit: int, now: float | None = None) -> list[Delivery]:
        """Return up to `limit` deliveries to `sink` that are due at `now` (Unix seconds, default: the current time)."""
        ...

    def mark_sent(self, sink: str, ids: Sequence[str], *, kind: DeliveryKind = "outcome") -> None:
        """Mark these deliveries as sent."""
        ...

    def mark_retry(
        self, sink: str, ids: Sequence[str], *, next_try: float, error: str, kind: DeliveryKind = "outcome"
    ) -> None:
        """Record that these deliveries failed, and are due again at `next_try` (Unix seconds)."""
        ...

    def mark_skipped(self, sink: str, ids: Sequence[str], *, reason: str, kind: DeliveryKind = "outcome") -> None:
        """Mark these deliveries as skipped, because the sink does not store such outcomes."""
        ...

    def mark_failed(self, sink: str, ids: Sequence[str], *, error: str, kind: DeliveryKind = "outcome") -> None:
        """Mark these deliveries as failed. They are not retried, except after `requeue_deliveries`."""
        ...

    def requeue_deliveries(self, *, sink: str | None = None, state: DeliveryState = "failed") -> int:
        """Make deliveries in a state pending again, for one sink or all, and return their number."""
        ...

    def deliveries(
        self, *, sink: str | None = None, state: DeliveryState | None = None, limit: int = 100
    ) -> list[OutboxRow]:
        """Return the state of single deliveries, oldest first."""
        ...

    def watching(self, *, notify: Sequence[str] = ()) -> AbstractContextManager[WatchTables | None]:
        """Run a block in one transaction that may change streams and alarms. None if another worker does this now.

        Args:
            notify: Names of the sinks that receive alarms.
        """
        ...

    def watched(self) -> AbstractContextManager[WatchTables]:
        """Run a block that reads streams and alarms in one snapshot."""
        ...

    def due_alarms(self, sink: str, *, limit: int, now: float | None = None) -> list[AlarmDelivery]:
        """Return up to `limit` deliveries of alarms to `sink` that are due at `now` (Unix seconds, default: the current time)."""
        ...

    def stop_sink(self, sink: str, *, reason: str) -> None:
        """Record why delivery to a sink is paused. The next `set_plan` deletes the reason, so a new worker retries."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether several workers, also on several hosts, may score traces of this store concurrently."""
        ...

    def check_not_replaced(self) -> None:
        """Check that writes still reach this store.

        Raises:
            StoreError: If the file was removed or replaced while in use, or other workers have replaced the plan.
        """
        ...

    def checkpoint(self) -> bool:
        """Make everything stored so far survive a power loss. Return False if a reader prevented it this time."""
        ...

    def close(self) -> None:
        """Close the store. Further calls have no effect."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
