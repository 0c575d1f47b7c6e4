"""The owner of a store at work: spool → store → scoring → sinks, until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ragstone.errors import SinkError, SinkRejectedError, SinkUnavailableError, SpoolError, StoreError
from ragstone.judges import Judge
from ragstone.metrics import Metric
from ragstone.schema import Failure, NotApplicable, Score, Trace, sample_from_trace
from ragstone.scoring import Scorer
from ragstone.sinks import Delivery, Sink
from ragstone.spool import SegmentState, SpoolReader
from ragstone.store import OutboxItem, PlannedMetric, SqliteStore
from ragstone.worker._parts import Parts, lease_s

__all__ = ["Worker", "spool_directory"]

logger = logging.getLogger("ragstone")

T = TypeVar("T")

_POLL_MIN_S = 0.02
_POLL_MAX_S = 0.5
_DRAIN_BATCH = 500
_SINK_BATCH = 200
_BACKOFF_MIN_S = 1.0
_BACKOFF_MAX_S = 600.0
_ATTEMPT_BITS = 10


def spool_directory(store: Path) -> Path:
    """Where the processes of an application leave captures for the owner of `store`."""
    return store.with_name(store.name + ".spool")


class Worker:
    """Drains the spool into the store, scores what is pending, and delivers outcomes to sinks.

    One worker owns a store at a time; `run` raises `StoreOwnedError` while another does. All state that matters is
    in the store, so a worker can be killed at any moment: the next one goes on where the store says.
    """

    def __init__(
        self,
        store: Path,
        *,
        metrics: Sequence[Metric],
        judge: Judge,
        sinks: Sequence[Sink] = (),
        concurrency: int = 16,
        trace_deadline_s: float = 120.0,
        outage_patience_s: float = 3600.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = store
        self._metrics = tuple(metrics)
        self._judge = judge
        self._sinks = tuple(sinks)
        self._concurrency = concurrency
        self._trace_deadline_s = trace_deadline_s
        self._lease_s = lease_s(trace_deadline_s)
        self._outage_patience_s = outage_patience_s
        self._clock = clock
        self._name = f"worker-{uuid.uuid4().hex[:12]}"
        self._stop = threading.Event()
        self._inode: tuple[int, int] | None = None
        self._wake: Callable[[], None] = lambda: None
        self._idle = False
        self._progress = 0
        self._troubles: dict[str, str] = {}
        """Steps of the machinery that fail at present (a full disk, a segment of a newer version), and with what."""

    def stop(self) -> None:
        """Ask `run` to return soon; from any thread, or a signal handler."""
        self._stop.set()
        self._wake()

    def wake(self) -> None:
        """Look for work now instead of at the next poll; from any thread."""
        self._wake()

    @property
    def idle(self) -> bool:
        """Whether, at the last look, nothing was spooled, pending or due for a sink."""
        return self._idle

    @property
    def looks(self) -> int:
        """How often the worker has looked for work; an `idle` is news once this has grown by two."""
        return self._progress

    async def run(self, *, until_idle: bool = False, on_owned: Callable[[], None] = lambda: None) -> None:
        """Work until `stop`, or until nothing is left to do.

        Args:
            until_idle: Return when nothing is spooled, pending or due.
            on_owned: Called once, when this worker has become the owner.

        Raises:
            StoreOwnedError: Another process owns the store.
            StoreError: The store cannot be used; or, with `until_idle`, something is left that cannot be read or stored.
            JudgeError: The judge cannot be reached; nothing was claimed.
            ConfigurationError: The judge cannot work as configured.
        """
        woken = self._wakeable()
        scorer = Scorer(
            self._metrics, self._judge, concurrency=self._concurrency, trace_deadline_s=self._trace_deadline_s
        )
        # Before anything is claimed: the judge's identity is part of every key, and while it cannot be reached at all
        # captures had better wait in the spool than fail one by one.
        if not await self._prepare(scorer, woken):
            return
        with SqliteStore.open(self._path, mode="own", clock=self._clock) as store:
            on_owned()
            store.release_all()
            store.set_plan(
                [
                    PlannedMetric(name=m.card.name, version=m.card.version, judge_hash=_judge_hash(scorer, m))
                    for m in self._metrics
                ],
                [s.name for s in self._sinks],
            )
            self._inode = _inode(self._path)
            await self._loop(store, scorer, woken, until_idle=until_idle)

    def _check_place(self) -> None:
        """Stop writing into a file that is no longer the store: what goes there would be lost with the last handle."""
        if _inode(self._path) != self._inode:
            msg = (
                f"the store {str(self._path)!r} was removed or replaced while in use; what is no longer in the spool went "
                "with it, and captures wait there until a worker opens the path again"
            )
            raise StoreError(msg)

    def _wakeable(self) -> asyncio.Event:
        """What `wake` and `stop` set in the running loop, whichever thread they are called on."""
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()

        def wake() -> None:
            # The loop may be closing, or closed, under a call from another thread; then there is nobody left to wake.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(woken.set)

        self._wake = wake
        return woken

    async def _prepare(self, scorer: Scorer, woken: asyncio.Event) -> bool:
        """Let the judge find out what it needs; False when told to stop before it had."""
        preparing = asyncio.create_task(scorer.prepare())
        preparing.add_done_callback(lambda _: woken.set())
        try:
            while not (preparing.done() or self._stop.is_set()):
                await woken.wait()
                woken.clear()
        finally:
            preparing.cancel()
            await asyncio.gather(preparing, return_exceptions=True)
        if preparing.cancelled():
            return False
        preparing.result()
        return True

    async def _loop(self, store: SqliteStore, scorer: Scorer, woken: asyncio.Event, *, until_idle: bool) -> None:
        reader = SpoolReader(spool_directory(self._path))
        parts = Parts(
            scorer,
            concurrency=self._concurrency,
            trace_deadline_s=self._trace_deadline_s,
            patience_s=self._outage_patience_s,
        )
        scoring: set[asyncio.Task[None]] = set()
        deliveries: dict[str, asyncio.Task[bool]] = {}
        wait_s = _POLL_MIN_S
        try:
            while not self._stop.is_set():
                woken.clear()
                self._check_place()
                moved = self._drain(reader, store)
                claimed = self._claim(store, parts.room(len(scoring)))
                for trace in claimed:
                    work = asyncio.create_task(self._score(trace, store, scorer, parts))
                    scoring.add(work)
                    work.add_done_callback(scoring.discard)
                    work.add_done_callback(lambda _: woken.set())
                delivered = self._deliveries(store, deliveries, woken)
                busy = bool(moved or claimed or scoring or delivered)
                self._idle = not busy and not self._troubles
                self._progress += 1
                if until_idle and not busy:
                    self._check_nothing_left()
                    break
                # Only new captures need polling for: whatever finishes here wakes the loop by itself.
                wait_s = _POLL_MIN_S if moved or claimed else min(2 * wait_s, _POLL_MAX_S)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), wait_s)
        finally:
            unfinished: list[asyncio.Task[Any]] = [*scoring, *deliveries.values()]
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
            with contextlib.suppress(StoreError):
                store.release(self._name)

    def _guarded(self, what: str, step: Callable[[], T], otherwise: T) -> T:
        """Run one step of the machinery; a full disk or a damaged segment must not end the worker."""
        try:
            result = step()
        except (StoreError, SpoolError, OSError) as error:
            words = f"{type(error).__name__}: {error}"
            if self._troubles.get(what) != words:
                # Once, and without a traceback: this repeats until somebody mends the disk.
                logger.error("ragstone worker cannot %s: %s; trying again", what, words)  # noqa: TRY400
            self._troubles[what] = words
            return otherwise
        self._troubles.pop(what, None)
        return result

    def _check_nothing_left(self) -> None:
        if self._troubles:
            what, words = next(iter(self._troubles.items()))
            msg = f"not everything could be done: cannot {what}: {words}"
            raise StoreError(msg)

    def _drain(self, reader: SpoolReader, store: SqliteStore) -> int:
        """Move what is spooled into the store; one segment that cannot be read does not hold back the others."""
        none: list[SegmentState] = []
        segments = self._guarded("list the spool", reader.segments, none)
        return sum(
            self._guarded(f"drain {s.name}", lambda name=s.name: self._drain_segment(name, reader, store), 0)  # type: ignore[misc]
            for s in segments
        )

    def _drain_segment(self, name: str, reader: SpoolReader, store: SqliteStore) -> int:
        """Move a batch; its entries and the new read position go into one transaction, so each entry arrives once."""
        offset = store.segment_offsets().get(name, 0)
        batch = reader.read(name, offset, max_entries=_DRAIN_BATCH)
        if batch.entries:
            store.ingest(name, batch.next_offset, batch.entries)
        elif batch.at_end and store.checkpoint():
            # Without the checkpoint a power cut could take back what was drained, and the file would be gone.
            reader.remove(name)
            store.forget_segment(name)
        return len(batch.entries)

    def _claim(self, store: SqliteStore, free: int) -> list[Trace]:
        if free <= 0:
            return []
        return self._guarded("claim traces", lambda: store.claim(self._name, free, lease_s=self._lease_s), [])

    def _hold(self, trace: Trace, store: SqliteStore) -> None:
        self._guarded("keep a lease", lambda: store.renew(self._name, [trace.trace_id], self._lease_s), 0)

    async def _score(self, trace: Trace, store: SqliteStore, scorer: Scorer, parts: Parts) -> None:
        reason = _why_not(trace)
        try:
            if reason is None:
                await parts.score(
                    sample_from_trace(trace),
                    hold=lambda: self._hold(trace, store),
                    keep=lambda outcomes, last: self._keep(trace, outcomes, store, last=last),
                )
            else:
                await self._keep(trace, scorer.not_applicable(trace.trace_id, reason), store, last=True)
        except Exception:
            # The lease runs out and the trace comes again; the store gives up on it after some attempts.
            logger.exception("ragstone worker: trace %s could not be finished", trace.trace_id)

    async def _keep(
        self, trace: Trace, outcomes: Sequence[Score | NotApplicable | Failure], store: SqliteStore, *, last: bool
    ) -> None:
        """Store outcomes; what was paid for is kept until the disk takes it."""
        # With the last ones the lease ends, which is ours; those before are nobody's who would give it back.
        owner = self._name if last else ""
        # False is an answer of `complete`, None is trouble.
        stored: bool | None = None
        while stored is None:
            stored = self._guarded(
                "store outcomes", lambda: store.complete(trace.trace_id, outcomes, owner=owner), None
            )
            if stored is None:
                await asyncio.sleep(_BACKOFF_MIN_S)

    def _deliveries(self, store: SqliteStore, running: dict[str, asyncio.Task[bool]], woken: asyncio.Event) -> bool:
        """Keep one delivery task a sink going while its outbox has something due; tell whether any is."""
        for sink in self._sinks:
            task = running.get(sink.name)
            if task is not None and not task.done():
                continue
            due = self._due(sink, store)
            if due:
                task = asyncio.create_task(self._deliver(sink, due, store))
                task.add_done_callback(lambda _: woken.set())
                running[sink.name] = task
        return any(not task.done() for task in running.values())

    def _due(self, sink: Sink, store: SqliteStore) -> list[OutboxItem]:
        return self._guarded(
            "read the outbox", lambda: store.outbox_due(sink.name, limit=_SINK_BATCH, now=self._clock()), []
        )

    async def _deliver(self, sink: Sink, items: list[OutboxItem], store: SqliteStore) -> bool:
        ids = [item.outcome.id for item in items]
        try:
            await sink.write([_delivery(item) for item in items])
        except SinkRejectedError as error:
            if len(items) > 1:
                # One row at fault must not hold back the others: each goes alone.
                for item in items:
                    await self._deliver(sink, [item], store)
            else:
                words = str(error)
                logger.error("ragstone sink %s refuses an outcome for good: %s", sink.name, words)  # noqa: TRY400
                self._guarded("note a delivery", lambda: store.outbox_dead(sink.name, ids, error=words), None)
            return False
        except Exception as error:  # noqa: BLE001 - a sink is foreign code; whatever it raises, the row stays due
            attempts = max(item.attempts for item in items)
            wait_s = min(_BACKOFF_MIN_S * 2 ** min(attempts, _ATTEMPT_BITS), _BACKOFF_MAX_S)
            if isinstance(error, SinkUnavailableError) and error.retry_after_s is not None:
                wait_s = max(wait_s, error.retry_after_s)
            level = logging.WARNING if isinstance(error, SinkError) else logging.ERROR
            if attempts == 0:
                logger.log(level, "ragstone sink %s: %s; trying again in %.0f s", sink.name, error, wait_s)
            words = f"{type(error).__name__}: {error}"
            self._guarded(
                "note a delivery",
                lambda: store.outbox_retry(sink.name, ids, next_try=self._clock() + wait_s, error=words),
                None,
            )
            return False
        self._guarded("note a delivery", lambda: store.outbox_sent(sink.name, ids), None)
        return True


def _judge_hash(scorer: Scorer, metric: Metric) -> str:
    identity = scorer.judged_by(metric)
    return "" if identity is None else identity.hash


def _inode(path: Path) -> tuple[int, int] | None:
    """Which file a path names at present; None when it names none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _why_not(trace: Trace) -> str | None:
    """Say why a trace is not scored; None when it is."""
    if trace.status != "ok":
        return f"the request ended as {trace.status!r}" + (f": {trace.error}" if trace.error else "")
    if trace.inner_errors:
        return f"something failed inside the request: {trace.inner_errors[0]}"
    if trace.response is None and trace.query is None:
        return "neither a question nor an answer was captured"
    return None


def _delivery(item: OutboxItem) -> Delivery:
    return Delivery(
        outcome=item.outcome,
        trace_id=item.trace_id,
        run_id=item.run_id,
        otel_trace_id=item.otel_trace_id,
        otel_span_id=item.otel_span_id,
        session_id=item.session_id,
        user_id=item.user_id,
        name=item.name,
        requested_at=item.requested_at,
        inclusion_probability=item.inclusion_probability,
    )
