"""The owner of a store at work: spool → store → scoring → sinks, until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from ragstone.errors import StoreError
from ragstone.schema import Failure, NotApplicable, Score, Trace, sample_from_trace
from ragstone.sinks import StatusSink
from ragstone.store import PlannedMetric, Store, open_store
from ragstone.worker._delivery import SinkDispatcher
from ragstone.worker._intake import SpoolTraceSource, StepErrors, TraceSource, get_skip_reason, spool_directory
from ragstone.worker._parts import SHARED_LEASE_S, MetricGroups, lease_s
from ragstone.worker._setup import ScoringSetup

__all__ = ["Worker"]

logger = logging.getLogger("ragstone")

_POLL_MIN_S = 0.02
_POLL_MAX_S = 0.5
_STORE_RETRY_S = 1.0
_WATCH_S = 5.0


class Worker:
    """Drains the spool into the store, scores what is pending, and delivers outcomes to sinks.

    One worker owns a store file at a time; `run` raises `StoreOwnedError` while another does. A database may have many.
    All state that matters is in the store, so a worker can be killed at any moment: the next one goes on where the store
    says.

    Args:
        store: Path of a store file, or URL of a database.
        setup: Metrics, judge, sinks and limits. The caller closes it.
        intakes: What traces come from besides the spool of this store.
        max_outage_s: Seconds for which a trace waits for a judge that answers nobody.
        ends_at_cap: Return when a spend cap is reached, and leave what it kept from being asked to the next worker; else
            that has failed.
        clock: Unix seconds.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        setup: ScoringSetup,
        *,
        intakes: Sequence[TraceSource] = (),
        max_outage_s: float = 3600.0,
        ends_at_cap: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._spool = SpoolTraceSource(spool_directory(store))
        self._intakes = tuple(intakes)
        self._setup = setup
        self._lease_s = lease_s(setup.deadline_s)
        self._outage_patience_s = max_outage_s
        self._ends_at_cap = ends_at_cap
        self.budget_exhausted = False
        """Whether a spend cap kept something from being asked."""
        self.on_outcomes: Callable[[Sequence[Score | NotApplicable | Failure], bool], None] | None = None
        """Called with outcomes that were stored, and with whether they are the last ones of their trace."""
        self._clock = clock
        self._name = f"worker-{uuid.uuid4().hex[:12]}"
        self._stop = threading.Event()
        self._wake: Callable[[], None] = lambda: None
        self._idle = False
        self._progress = 0
        self._troubles = StepErrors()
        self._parts: MetricGroups | None = None
        self._watch_next = 0.0
        self._in_work: set[str] = set()
        self._renew_next = 0.0

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
    def is_blocked(self) -> bool:
        """Whether requests wait because a judge, a reader or the disk is unavailable at present."""
        return bool(self._troubles) or (self._parts is not None and self._parts.judge_is_down)

    @property
    def poll_count(self) -> int:
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
        # Before anything is claimed: the judge's identity is part of every key, and while it cannot be reached at all
        # captures had better wait in the spool than fail one by one.
        if not await self._prepare(woken):
            return
        with open_store(self._store, mode="own", clock=self._clock) as store:
            on_owned()
            if store.is_shared:
                self._lease_s = SHARED_LEASE_S
            else:
                store.release_all()
            store.set_plan(self._planned_metrics(), [sink.name for sink in self._setup.sinks])
            await self._loop(store, woken, until_idle=until_idle)

    def _planned_metrics(self) -> list[PlannedMetric]:
        """The metrics by which every trace is scored, with the judge's identity, which `prepare` makes final."""
        scorer = self._setup.scorer
        planned: list[PlannedMetric] = []
        for metric in scorer.metrics:
            identity = scorer.judged_by(metric)
            judge_hash = "" if identity is None else identity.hash
            planned.append(PlannedMetric(name=metric.card.name, version=metric.card.version, judge_hash=judge_hash))
        return planned

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

    async def _prepare(self, woken: asyncio.Event) -> bool:
        """Let the judge find out what it needs; False when told to stop before it had."""
        preparing = asyncio.create_task(self._setup.scorer.prepare())
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

    async def _loop(self, store: Store, woken: asyncio.Event, *, until_idle: bool) -> None:
        outlets = [SinkDispatcher(sink, self._troubles, clock=self._clock) for sink in self._setup.sinks]
        self._parts = parts = MetricGroups(self._setup, patience_s=self._outage_patience_s)
        scoring: set[asyncio.Task[None]] = set()
        deliveries: dict[str, asyncio.Task[None]] = {}
        wait_s = _POLL_MIN_S
        try:
            while not self._stop.is_set():
                woken.clear()
                store.check_not_replaced()
                self._renew(store)
                ending = self._ends_at_cap and self.budget_exhausted
                moved = 0 if ending else await self._ingest_batches(store)
                claimed = [] if ending else self._claim(store, parts.free_slots(len(scoring)))
                for trace in claimed:
                    work = asyncio.create_task(self._score(trace, store, parts))
                    scoring.add(work)
                    work.add_done_callback(scoring.discard)
                    work.add_done_callback(lambda _: woken.set())
                delivered = self._deliveries(store, outlets, deliveries, woken)
                self._update_status_sinks(store)
                busy = bool(moved or claimed or scoring or delivered or any(i.may_have_more for i in self._intakes))
                self._idle = not busy and not self._troubles
                self._progress += 1
                if until_idle and not busy:
                    self._troubles.raise_first()
                    break
                if ending and not scoring and not delivered:
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

    async def _ingest_batches(self, store: Store) -> int:
        """Move a batch from the spool and from each intake; reading somebody's files is slow, so off the loop."""
        # Not on a thread: when the interpreter ends there are no more of them, and there are captures to be taken in.
        moved = self._spool.transfer_batch(store, self._troubles)
        for intake in self._intakes:
            moved += await asyncio.to_thread(intake.transfer_batch, store, self._troubles)
        return moved

    def _claim(self, store: Store, free: int) -> list[Trace]:
        if free <= 0:
            return []
        return self._troubles.run_step("claim traces", lambda: store.claim(self._name, free, lease_s=self._lease_s), [])

    def _renew(self, store: Store) -> None:
        """Show other workers that this one lives."""
        if store.is_shared and time.monotonic() >= self._renew_next:
            self._renew_next = time.monotonic() + self._lease_s / 3
            held = sorted(self._in_work)
            self._troubles.run_step("keep leases", lambda: store.renew(self._name, held, self._lease_s), 0)

    def _extend_lease(self, trace: Trace, store: Store) -> None:
        self._troubles.run_step("keep a lease", lambda: store.renew(self._name, [trace.trace_id], self._lease_s), 0)

    async def _score(self, trace: Trace, store: Store, parts: MetricGroups) -> None:
        reason = get_skip_reason(trace)
        self._in_work.add(trace.trace_id)
        try:
            if reason is None:
                await parts.score(
                    sample_from_trace(trace),
                    extend_lease=lambda: self._extend_lease(trace, store),
                    store_outcomes=lambda outcomes, last: self._store_outcomes(trace, outcomes, store, last=last),
                )
            else:
                outcomes = self._setup.scorer.not_applicable(trace.trace_id, reason)
                await self._store_outcomes(trace, outcomes, store, last=True)
        except Exception:
            # The lease runs out and the trace comes again; the store gives up on it after some attempts.
            logger.exception("ragstone worker: trace %s could not be finished", trace.trace_id)
        finally:
            self._in_work.discard(trace.trace_id)

    async def _store_outcomes(
        self, trace: Trace, outcomes: Sequence[Score | NotApplicable | Failure], store: Store, *, last: bool
    ) -> None:
        """Store outcomes; what was paid for is kept until the disk takes it."""
        paid = [o for o in outcomes if not (isinstance(o, Failure) and o.kind == "budget")]
        if len(paid) < len(outcomes):
            self.budget_exhausted = True
            if self._ends_at_cap:
                # The lease stays ours until all are handed back, as of who has not failed.
                outcomes, last = paid, False
        # With the last ones the lease ends, which is ours; those before are nobody's who would give it back.
        owner = self._name if last else ""
        # False is an answer of `complete`, None is trouble.
        stored: bool | None = None
        while stored is None:
            stored = self._troubles.run_step(
                "store outcomes", lambda: store.complete(trace.trace_id, outcomes, owner=owner), None
            )
            if stored is None:
                await asyncio.sleep(_STORE_RETRY_S)
        if self.on_outcomes is not None:
            self.on_outcomes(outcomes, last)

    def _deliveries(
        self,
        store: Store,
        outlets: Sequence[SinkDispatcher],
        running: dict[str, asyncio.Task[None]],
        woken: asyncio.Event,
    ) -> bool:
        """Keep one delivery task a sink going while its outbox has something due; tell whether any is."""
        for outlet in outlets:
            task = running.get(outlet.sink.name)
            if task is not None and not task.done():
                continue
            due = outlet.due(store)
            if due:
                task = asyncio.create_task(outlet.deliver(due, store))
                task.add_done_callback(lambda _: woken.set())
                running[outlet.sink.name] = task
        return any(not task.done() for task in running.values())

    def _update_status_sinks(self, store: Store) -> None:
        """Show the books to the sinks that ask for them."""
        watching = [sink for sink in self._setup.sinks if isinstance(sink, StatusSink)]
        if not watching or time.monotonic() < self._watch_next:
            return
        self._watch_next = time.monotonic() + _WATCH_S
        ledger = self._troubles.run_step("make up the books", store.ledger, None)
        if ledger is not None:
            for sink in watching:
                sink.update_status(ledger)
