"""The worker loop: spool → store → scoring → sinks.

One class, whose steps share the state of one loop, so the file is not split although it has more than 600 lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ragstone._util.clock import steady_time
from ragstone._util.waiting import wait_up_to
from ragstone.errors import JudgeError, StoreError, StoreOwnedError
from ragstone.schema import Failure, Ledger, Outcome, ScoringPlan, Trace
from ragstone.settings import Retention, Watch
from ragstone.sinks import StatusSink, StreamStatus
from ragstone.store import Claims, Completion, PlannedMetric, Store, is_database_url, open_store, plan_differences
from ragstone.worker import _times
from ragstone.worker._commit import Committer, StoreCalls, StoreSilentError
from ragstone.worker._daily_budget import DailyBudget
from ragstone.worker._delivery import Dispatcher, sink_dispatcher
from ragstone.worker._health import WorkerState
from ragstone.worker._hints import describe_pending
from ragstone.worker._intake import (
    BrokerSource,
    SpoolTraceSource,
    StepErrors,
    TraceSource,
    claim_spool,
    spool_directory,
)
from ragstone.worker._parts import UNANSWERED, MetricGroups
from ragstone.worker._retention import RetentionStep
from ragstone.worker._setup import ScoringSetup
from ragstone.worker._watching import StreamWatcher, requests_folder

logger = logging.getLogger("ragstone")

_MAX_CLAIM_FACTOR = 4
"""How many times its free slots a worker claims, at most, if all claimed traces have ended before the next claim."""


class Worker:
    """Drains the spool into the store, scores pending traces, and delivers outcomes to sinks.

    One worker at a time owns a store file, and `run` raises `StoreOwnedError` if another one does. A database can have
    several workers. All state is in the store: if the worker is killed, the next worker resumes from there.

    Args:
        store: Path of a store file, or URL of a database.
        setup: Metrics, judge, sinks and limits. The caller closes it.
        intakes: Trace sources in addition to the store's spool.
        max_outage_s: Seconds of an outage of the judge after which a worker that runs until it is idle returns. Another
            worker logs an error. In both cases all traces stay pending.
        ends_at_cap: Return when the budget is reached, and keep unscored traces pending for the next worker. Otherwise
            their metrics fail.
        stop_early: Pause a group of metrics if its models fail systematically: no score, and 20 failures over 10 traces
            with kind "rejected" or "truncated". Its traces stay pending. A worker that runs until it is idle returns then.
        watch: How scores are watched for alarms. Default: all defaults, without notifications.
        daily_budget: Limits of what model calls may cost on each day of UTC, over all workers of the store: `calls`,
            `tokens` and `usd`. When one is reached, requests stay pending until the next day.
        retention: Ages from which texts of requests, and requests, are removed. None keeps them.
        replan: Replace the plans of the store by that of `setup`. Otherwise requests of other plans stay pending.
        clock: Returns the current time in Unix seconds.

    Raises:
        ConfigurationError: If `watch` has a target or a destination that is invalid.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        setup: ScoringSetup,
        *,
        intakes: Sequence[TraceSource] = (),
        max_outage_s: float = 3600.0,
        ends_at_cap: bool = False,
        stop_early: bool = True,
        watch: Watch | None = None,
        retention: Retention | None = None,
        daily_budget: Mapping[str, float] | None = None,
        replan: bool = False,
        clock: Callable[[], float] = steady_time,
    ) -> None:
        self._store = store
        self._spool = SpoolTraceSource(claim_spool(store))
        self._intakes = tuple(intakes)
        self._setup = setup
        self._scorer = setup.scorer if setup.missing is None else setup.scorer_of(setup.scorable)
        self._lease_s = _times.FILE_LEASE_S
        self._outage_patience_s = max_outage_s
        self._ends_at_cap = ends_at_cap
        self._stop_early = stop_early
        self._replan = replan
        self._plan: str | None = None
        """Id of the plan in the store."""
        # A daily budget is exceeded by the traces that are claimed when it is reached.
        self._max_claim_factor = 1 if daily_budget else _MAX_CLAIM_FACTOR
        self.budget_exhausted = False
        """Whether the budget prevented calls."""
        self.stopped_early: str | None = None
        """Why a worker that runs until it is idle has returned with traces pending, or None."""
        self.on_outcomes: Callable[[Trace, Sequence[Outcome], bool], None] | None = None
        """Called with a trace, outcomes of it that were stored, and whether they are its last ones."""
        self.status_sinks = [sink for sink in setup.sinks if isinstance(sink, StatusSink)]
        """They get the ledger every few seconds, and the watched streams after each fold and every minute."""
        self._clock = clock
        self._name = f"worker-{uuid.uuid4().hex[:12]}"
        self._stop = threading.Event()
        self._wake: Callable[[], None] = lambda: None
        self._models_error: str | None = None
        """Why the models cannot be used, before the first trace is scored."""
        self._owns_store = False
        self._polled_at = time.monotonic()
        self.idle = False
        """Whether nothing was spooled, pending or due at the last poll."""
        self._calls: tuple[StoreCalls, ...] = ()
        """Those that use the store while `run` runs."""
        self._is_awaited = False
        """Whether a caller has waited for this worker since the last poll."""
        self._awaited_since = clock()
        """Unix seconds. Requests that the store received until then, from this worker or before a caller waited, are
        waited for even if another worker has leased them."""
        self.poll_count = 0
        """Number of polls. `idle` is up to date after this has increased by two."""
        self._errors = StepErrors()
        self._watcher = StreamWatcher(
            store,
            setup.metrics,
            Watch() if watch is None else watch,
            requests=requests_folder(spool_directory(store)),
            errors=self._errors,
            clock=clock,
        )
        self._retention = RetentionStep(retention or Retention(), errors=self._errors, clock=clock)
        self._daily_budget = DailyBudget(daily_budget or {}, errors=self._errors)
        self._parts: MetricGroups | None = None
        self._watch_next = 0.0
        self._plans_next = 0.0
        self._other_plans: set[str] = set()
        """Plans whose pending requests are in the log."""
        self._streams_next = 0.0
        self._in_work: set[str] = set()
        self._renew_next = 0.0

    def stop(self) -> None:
        """Ask `run` to return soon. Can be called from any thread or signal handler."""
        self._stop.set()
        self._wake()

    def wake(self) -> None:
        """Poll for work now, for a caller that waits until everything is scored. Can be called from any thread.

        Failures are final without further requests that could show whether the judge works.
        """
        self._is_awaited = True
        self._wake()

    def idle_check(self) -> Callable[[], bool]:
        """Return a function that says whether everything that is spooled now is scored and delivered."""
        # The current poll may have begun before now. The second poll from now begins after it.
        target = self.poll_count + 2
        self._awaited_since = self._clock()

        def is_idle() -> bool:
            self.wake()
            return self.poll_count >= target and self.idle

        return is_idle

    @property
    def is_blocked(self) -> bool:
        """Whether requests wait for an unavailable judge, reader or disk."""
        return (
            self._models_error is not None
            or bool(self._errors)
            or self.over_daily_budget is not None
            or (self._parts is not None and self._parts.judge_is_down)
        )

    @property
    def outage(self) -> tuple[float, float] | None:
        """Duration of the judge's or reader's current outage and its limit in seconds, or None without one."""
        return None if self._parts is None else self._parts.outage

    @property
    def state(self) -> WorkerState:
        """What the worker is doing, for health checks."""
        judge_error = self._models_error
        if judge_error is None and self._parts is not None and self._parts.judge_is_down:
            judge_error = "judge or reader is unavailable or fails systematically. The log has the reason"
        waiting_s = max((calls.waiting_s for calls in self._calls), default=0.0)
        errors = self._errors.current
        if waiting_s > _times.SILENT_S and self._errors.outage is None:
            errors = (f"the store has not answered for {waiting_s:.0f} s", *errors)
        return WorkerState(
            owns_store=self._owns_store,
            # Restarting the worker does not help if the store does not answer.
            since_poll_s=max(0.0, time.monotonic() - self._polled_at - waiting_s),
            store_errors=errors,
            judge_error=judge_error,
            over_daily_budget=self.over_daily_budget,
        )

    @property
    def over_daily_budget(self) -> str | None:
        """Why requests stay pending until the next day of UTC, or None."""
        return self._daily_budget.reached

    async def run(
        self, *, until_idle: bool = False, on_owned: Callable[[], None] = lambda: None, patience_s: float = 0.0
    ) -> None:
        """Run until `stop` is called, or until nothing is left to do.

        If a model is not named, only metrics that need no model are scored, in short turns, so that a worker with the
        models can use the store between them. `on_owned` is called when this worker has become the owner, which it tries
        for `patience_s` seconds if another process owns the store. Raise StoreOwnedError if it still does.

        Raise StoreError if the store cannot be used, or with `until_idle`, if entries cannot be read or stored. Raise
        JudgeError if the judge rejects the first request, or for a replay if it is unavailable: no trace was claimed.
        Raise ConfigurationError if the judge's configuration is invalid.
        """
        if self._setup.missing is None or (is_database_url(self._store) and not self._setup.scorable):
            await self._run(until_idle=until_idle, on_owned=on_owned, patience_s=patience_s)
            return
        while True:
            before, paused_at = self._spool_sizes(), time.monotonic()
            await self._run(until_idle=True, on_owned=on_owned, patience_s=patience_s)
            while not (self._stop.is_set() or self._is_awaited):
                paused_s = time.monotonic() - paused_at
                if paused_s > _times.STREAMS_S or (paused_s > _times.TURN_S and self._spool_sizes() != before):
                    break
                await asyncio.sleep(_times.TURN_S / 10)
            if self._stop.is_set() or not self._setup.scorable:
                return

    def _spool_sizes(self) -> dict[str, int]:
        """Return the sizes of the files of the spool, which differ if requests were captured."""
        with contextlib.suppress(OSError), os.scandir(spool_directory(self._store)) as entries:
            return {entry.name: entry.stat().st_size for entry in entries}
        return {}

    async def _run(self, *, until_idle: bool, on_owned: Callable[[], None], patience_s: float) -> None:
        committer, intake_calls = self._calls = Committer(self._errors), StoreCalls("ragstone-intake")
        woken = self._make_wake_event()
        self._polled_at = time.monotonic()
        try:
            store = committer.store = await self._open(committer, patience_s)
            on_owned()
            self._owns_store = True
            try:
                lacks_models = self._setup.missing is not None
                if lacks_models and not self._setup.scorable:
                    # A store file exists now, and is released at once for a worker with the models.
                    if store.is_shared:
                        await self._drain(committer, intake_calls, woken, until=lambda: False)
                    return
                use_plan = partial(store.plan.use, self._setup.plan, self._setup.delivery)
                if lacks_models:
                    # The plan came with the requests. That of a worker with models stays the current one.
                    self._plan = ScoringPlan.of_settings(self._setup.plan, since=0.0).id
                elif not self._replan:
                    self._plan = await committer.call(use_plan)
                if store.is_shared:
                    self._lease_s = _times.SHARED_LEASE_S
                else:
                    await committer.call(store.leases.release_all)
                # No trace is claimed before the judge has answered, because its identity is part of every key.
                if not await self._drain_until_prepared(committer, intake_calls, woken, until_idle=until_idle):
                    return
                sinks = [sink.name for sink in self._setup.sinks]
                # A worker that completes the requests of an earlier plan gives the metrics of the current one back.
                current = await committer.call(partial(self._metrics_of_current_plan, store))
                set_plan = partial(committer.call, lambda: store.plan.set(self._plan_metrics(store), sinks))
                try:
                    await self._try(set_plan, StoreError, 0 if lacks_models else max(patience_s, 2 * _times.TURN_S))
                except StoreError:
                    if not lacks_models:
                        raise
                    # A worker with models uses the database, and scores all metrics.
                    end = time.monotonic() + _times.TURN_S
                    await self._drain(committer, intake_calls, woken, until=lambda: time.monotonic() >= end)
                    return
                if self._replan:
                    # Nothing is replaced before the models have answered and the store has accepted the metrics.
                    self._plan = await committer.call(partial(use_plan, replan=True))
                await committer.call(lambda: self._daily_budget.start(store))
                try:
                    await self._loop(committer, intake_calls, woken, until_idle=until_idle)
                finally:
                    if current:
                        with contextlib.suppress(StoreError):
                            await committer.call(lambda: store.plan.set(current, sinks))
            finally:
                self._owns_store = False
                try:
                    await committer.flush()
                finally:
                    committer.start(store.close)
                await committer.aclose()
        except StoreSilentError:
            logger.warning(
                "the store did not answer within %.0f s after the worker was stopped. The next worker scores again "
                "what could not be stored.",
                _times.STOP_S,
            )
        finally:
            committer.shutdown()
            intake_calls.shutdown()
            self._calls = ()

    def _metrics_of_current_plan(self, store: Store) -> list[PlannedMetric]:
        """Return the metrics of the store if its current plan is another one than that of this worker."""
        if self._plan is None or self._setup.missing is not None:
            return []
        return store.plan.metrics() if plan_differences(store.ledger().plans[-1].settings, self._setup.plan) else []

    def _plan_metrics(self, store: Store) -> list[PlannedMetric]:
        """Return the metrics. If a model is not named, the judged ones have the judge that the store knows."""
        metrics = self._setup.planned_metrics()
        if self._setup.missing is None:
            return metrics
        known = {(metric.name, metric.version): metric for metric in store.plan.metrics()}
        return [known.get((m.name, m.version), m) if m.judge_hash else m for m in metrics]

    async def _try(self, step: Callable[[], Awaitable[None]], error: type[StoreError], patience_s: float) -> None:
        """Repeat a step that another worker prevents for the length of a turn."""
        end = time.monotonic() + patience_s
        while True:
            try:
                await step()
            except error:
                if self._stop.is_set() or time.monotonic() >= end:
                    raise
                await asyncio.sleep(_times.POLL_MIN_S)
            else:
                return

    async def _open(self, calls: StoreCalls, patience_s: float) -> Store:
        """Open the store on its thread. If this worker has to end before, the thread closes it again."""
        opened: list[Store] = []
        add = partial(calls.call, lambda: opened.append(open_store(self._store, mode="own", clock=self._clock)))
        try:
            await self._try(add, StoreOwnedError, patience_s)
        except BaseException:

            def close() -> None:
                for store in opened:
                    store.close()

            calls.start(close)
            raise
        return opened[0]

    def _make_wake_event(self) -> asyncio.Event:
        """Create the event that `wake` and `stop` set in the running loop, from any thread.

        Some time after `stop`, it gives up calls to the store.
        """
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        ending: list[asyncio.TimerHandle] = []

        def give_up() -> None:
            for calls in self._calls:
                calls.give_up()

        def on_wake() -> None:
            woken.set()
            if self._stop.is_set() and not ending:
                ending.append(loop.call_later(_times.STOP_S, give_up))

        def wake() -> None:
            # The loop may be closing or closed during a call from another thread. Then nothing waits for the event.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(on_wake)

        self._wake = wake
        if self._stop.is_set():
            on_wake()
        return woken

    async def _drain_until_prepared(
        self, committer: Committer, intake_calls: StoreCalls, woken: asyncio.Event, *, until_idle: bool
    ) -> bool:
        """Move spooled traces into the store until the models answer. Return False if the worker was stopped before."""
        loop = asyncio.get_running_loop()
        since, pause_s = loop.time(), _times.PREPARE_MIN_S
        try:
            while True:
                preparing = asyncio.create_task(self._scorer.prepare())
                preparing.add_done_callback(lambda _: woken.set())
                try:
                    await self._drain(committer, intake_calls, woken, until=preparing.done)
                finally:
                    preparing.cancel()
                    await asyncio.gather(preparing, return_exceptions=True)
                if preparing.cancelled():  # codespell:ignore
                    return False
                error = preparing.exception()
                if error is None:
                    if self._models_error is not None:
                        logger.warning("the judge is available again, scoring starts")
                    return True
                if not isinstance(error, JudgeError) or error.kind not in UNANSWERED or self._ends_at_cap:
                    raise error
                if self._models_error is None:
                    logger.error("the judge is unavailable, requests stay pending until it answers: %s", error)
                self._models_error = str(error)
                if until_idle and loop.time() - since >= self._outage_patience_s:
                    self.stopped_early = f"the judge is unavailable: {error}"
                    return False
                retry = asyncio.create_task(asyncio.sleep(pause_s))
                try:
                    await self._drain(committer, intake_calls, woken, until=retry.done)
                finally:
                    retry.cancel()
                pause_s = min(2 * pause_s, _times.PREPARE_MAX_S)
        finally:
            self._models_error = None

    async def _drain(
        self, committer: Committer, intake_calls: StoreCalls, woken: asyncio.Event, *, until: Callable[[], bool]
    ) -> None:
        """Move spooled traces into the store until a condition holds or the worker is stopped."""
        while not (self._stop.is_set() or until()):
            woken.clear()
            self._polled_at = time.monotonic()
            moved = await self._transfer(committer.store, intake_calls)
            turn = await committer.call(lambda: self._drain_turn(committer.store))
            self._publish(turn)
            await wait_up_to(0 if moved or turn.moved else _times.POLL_MAX_S, woken.wait())

    async def _loop(
        self, committer: Committer, intake_calls: StoreCalls, woken: asyncio.Event, *, until_idle: bool
    ) -> None:
        dispatchers: list[Dispatcher[Any]] = [
            *(sink_dispatcher(sink, committer, clock=self._clock) for sink in self._setup.sinks),
            *self._watcher.dispatchers(committer),
        ]
        self._parts = parts = MetricGroups(
            self._setup,
            patience_s=self._outage_patience_s,
            spend=self._daily_budget.spend,
            metrics=self._setup.scorable,
            holds=self._stop_early,
            on_blocked=self._end_early if until_idle else None,
        )
        scoring: set[asyncio.Task[None]] = set()
        deliveries: dict[Dispatcher[Any], asyncio.Task[None]] = {}

        def end(work: asyncio.Task[Any]) -> None:
            scoring.discard(work)
            woken.set()

        wait_s = _times.POLL_MIN_S
        factor, is_full = 1, False
        lacks_models = self._setup.missing is not None
        ends_at = time.monotonic() + _times.TURN_S if lacks_models and until_idle else math.inf
        try:
            while not self._stop.is_set():
                woken.clear()
                self._polled_at = time.monotonic()
                if self.stopped_early is not None:
                    break
                ending = (self._ends_at_cap and self.budget_exhausted) or time.monotonic() >= ends_at
                transferred = 0 if ending else await self._transfer(committer.store, intake_calls)
                # If scoring is faster than the store, each transaction takes more traces.
                factor = min(2 * factor, self._max_claim_factor) if is_full and not scoring else 1
                free = parts.free_slots(len(scoring)) * factor
                waiting = [each for each in dispatchers if each not in deliveries]
                # What ends during the turn has results that the turn may not have seen.
                had_work = bool(scoring or deliveries)
                turn = await committer.call(partial(self._turn, committer.store, free, waiting, ending=ending))
                moved = transferred + turn.moved
                if moved:
                    self._awaited_since = self._clock()
                known = turn.claimed.known
                works = [self._score(trace, committer, parts, known.get(trace.trace_id, ())) for trace in turn.claimed]
                if not (ending or turn.over_budget or lacks_models):
                    canaries = self._watcher.start_canaries(self._setup, spend=self._daily_budget.spend)
                    works += [] if canaries is None else [canaries]
                for work in map(asyncio.create_task, works):
                    scoring.add(work)
                    work.add_done_callback(end)
                for dispatcher, items in turn.due:
                    deliveries[dispatcher] = task = asyncio.create_task(dispatcher.deliver(items))
                    task.add_done_callback(lambda _, ended=dispatcher: deliveries.pop(ended))  # type: ignore[misc]
                    task.add_done_callback(end)
                self._publish(turn)
                is_full = len(turn.claimed) >= free
                is_new, may_come = bool(moved or turn.claimed), any(i.may_have_more for i in self._intakes)
                busy = bool(is_new or had_work or scoring or deliveries or turn.is_leased_to_others or may_come)
                self.idle = not busy and not self._errors
                self.poll_count += 1
                ends, self._is_awaited = until_idle or self._is_awaited, False
                if ends and not (is_new or may_come):
                    parts.release_held()
                if until_idle and not (busy or turn.folded or turn.pruning):
                    # Sessions may have closed since the last turn, and an alarm is delivered before the end.
                    last = _Turn()
                    await committer.call(partial(self._watch, committer.store, last, now_too=True))
                    self._publish(last)
                    if last.folded:
                        continue
                    self._errors.raise_first()
                    break
                if ending and not (had_work or scoring or deliveries):
                    break
                # Polling is needed only for new captures, because finished tasks wake the loop.
                wait_s = _times.POLL_MIN_S if is_new or turn.pruning else min(2 * wait_s, _times.POLL_MAX_S)
                await wait_up_to(wait_s, woken.wait())
        finally:
            unfinished: list[asyncio.Task[Any]] = [*scoring, *deliveries.values()]
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
            await self._watcher.aclose()
            await committer.flush()
            await committer.call(lambda: self._daily_budget.update(committer.store, now_too=True))
            with contextlib.suppress(StoreError):
                await committer.call(lambda: committer.store.leases.release(self._name))

    async def _transfer(self, store: Store, calls: StoreCalls) -> int:
        """Move a batch from each trace source, and return how many entries. They may be slow, so they have a thread."""
        going = (source for source in self._intakes if source.may_have_more or isinstance(source, BrokerSource))
        moves = [partial(source.transfer_batch, store, self._errors) for source in going]
        return sum([await calls.call(move) for move in moves])

    def _drain_turn(self, store: Store) -> _Turn:
        """Move a batch from the spool. Runs on the store's thread."""
        store.check_not_replaced()
        turn = _Turn(moved=self._spool.transfer_batch(store, self._errors))
        self._read_ledger(store, turn)
        return turn

    def _turn(self, store: Store, free: int, dispatchers: Sequence[Dispatcher[Any]], *, ending: bool) -> _Turn:
        """Do what is due in the store: move, claim, watch and remove, and read what is to be delivered and published.

        Runs on the store's thread, all of it in one step. Up to `free` more traces may be scored. `dispatchers` wait
        for work. When `ending`, the worker neither moves nor claims traces anymore.
        """
        store.check_not_replaced()
        if time.monotonic() >= self._renew_next:
            # A slow model takes any time, and other workers see that this one is running.
            self._renew_next = time.monotonic() + self._lease_s / 3
            renew = partial(store.leases.renew, self._name, sorted(self._in_work), self._lease_s)
            self._errors.run_step("renew leases", renew, 0)
        self._daily_budget.update(store)
        turn = _Turn(over_budget=self._daily_budget.reached is not None)
        if not ending:
            turn.moved = self._spool.transfer_batch(store, self._errors)
            if not turn.over_budget and free > 0:
                # At least a quarter of the slots, so that one claim serves several traces. They wait if there is none.
                limit, whole = max(free, self._setup.limits.concurrency // 4), self._setup.missing is not None
                claim = partial(store.leases.claim, self._name, limit, lease_s=self._lease_s, plan=self._plan)
                turn.claimed = self._errors.run_step("claim traces", partial(claim, whole=whole), Claims())
        if store.is_shared and not (ending or turn.over_budget or turn.moved or turn.claimed):
            # A killed worker keeps its leases until they expire. Until then, this worker has not seen all work.
            has_others = partial(store.leases.has_others, self._name, received_by=self._awaited_since)
            turn.is_leased_to_others = self._errors.run_step("read leases", has_others, otherwise=True)
        self._watch(store, turn)
        turn.pruning = self._retention.update(store, is_idle=not turn.moved)
        turn.due = [(each, items) for each in dispatchers if (items := each.due())]
        self._read_ledger(store, turn)
        self._warn_of_other_plans(store)
        return turn

    def _warn_of_other_plans(self, store: Store) -> None:
        """Log once for each other plan that requests of it are pending, which this worker leaves alone."""
        if time.monotonic() < self._plans_next:
            return
        self._plans_next = time.monotonic() + _times.PLANS_S if self._setup.missing is None else math.inf
        ledger = self._errors.run_step("read the ledger", store.ledger, None)
        others = {
            plan.id
            for plan in (() if ledger is None else ledger.plans)
            if plan.id not in self._other_plans and plan_differences(plan.settings, self._setup.plan)
        }
        if ledger is not None and others:
            sentences = describe_pending(self._store, ledger)
            for plan in sorted(others & sentences.keys()):
                self._other_plans.add(plan)
                logger.warning("ragstone worker: %s", sentences[plan])

    def _end_early(self, reason: str) -> None:
        self.stopped_early = reason
        self._wake()

    def _extend_lease(self, trace: Trace, committer: Committer) -> None:
        renew = partial(committer.store.leases.renew, self._name, [trace.trace_id], self._lease_s, waiting=True)
        committer.start(partial(self._errors.run_step, "renew a lease", renew, 0))

    async def _score(
        self, trace: Trace, committer: Committer, parts: MetricGroups, known: Collection[tuple[str, str, str]]
    ) -> None:
        self._in_work.add(trace.trace_id)
        try:
            await parts.score(
                trace,
                known=known,
                extend_lease=partial(self._extend_lease, trace, committer),
                store_outcomes=partial(self._store_outcomes, trace, committer),
            )
        except Exception:
            # The lease expires and the trace is retried. The store marks it as failed after several attempts.
            about = {"trace_id": trace.trace_id, "app": trace.app}
            logger.exception("ragstone worker: trace %s could not be scored", trace.trace_id, extra=about)
        finally:
            self._in_work.discard(trace.trace_id)

    async def _store_outcomes(
        self,
        trace: Trace,
        committer: Committer,
        outcomes: Sequence[Outcome],
        last: bool,  # noqa: FBT001
    ) -> None:
        """Store outcomes, together with those of other traces."""
        paid = [o for o in outcomes if not (isinstance(o, Failure) and o.kind == "budget")]
        if len(paid) < len(outcomes):
            self.budget_exhausted = True
            if self._ends_at_cap:
                # This worker keeps the lease until it releases all, so that the trace does not count as failed.
                outcomes, last = paid, False
        if self._daily_budget.limits:
            self._daily_budget.check(paid)
        # The last outcomes end this worker's lease. Earlier ones are stored without an owner, so the lease continues.
        owner = self._name if last else ""
        is_stored = await committer.complete(Completion(trace_id=trace.trace_id, outcomes=outcomes, owner=owner))
        if is_stored and self.on_outcomes is not None:
            self.on_outcomes(trace, outcomes, last)

    def _watch(self, store: Store, turn: _Turn, *, now_too: bool = False) -> None:
        """Fold closed sessions, and read the streams if any changed or a minute has passed, and they are published."""
        turn.folded = self._watcher.update(store, now_too=now_too)
        # Also without a fold: an alarm outlives a restart, and in a shared store another worker may have folded.
        if self.status_sinks and (turn.folded or time.monotonic() >= self._streams_next):
            self._streams_next = time.monotonic() + _times.STREAMS_S
            none: list[StreamStatus] = []
            turn.streams = self._errors.run_step("read the streams", lambda: self._watcher.statuses(store), none)

    def _read_ledger(self, store: Store, turn: _Turn) -> None:
        """Read the ledger every few seconds, if it is published."""
        if self.status_sinks and time.monotonic() >= self._watch_next:
            self._watch_next = time.monotonic() + _times.LEDGER_S
            turn.ledger = self._errors.run_step("read the ledger", store.ledger, None)
            brokers = {source.name: source.status for source in self._intakes if isinstance(source, BrokerSource)}
            if turn.ledger is not None and brokers:
                turn.ledger = turn.ledger.model_copy(update={"brokers": brokers})

    def _publish(self, turn: _Turn) -> None:
        """Publish the ledger and the streams, if they were read."""
        for sink in self.status_sinks:
            if turn.ledger is not None:
                sink.update_status(turn.ledger)
            if turn.streams is not None:
                sink.update_streams(turn.streams)


@dataclass(slots=True, kw_only=True)
class _Turn:
    """What one turn found in the store."""

    moved: int = 0
    """Entries moved from the spool."""
    claimed: Claims = field(default_factory=Claims)
    over_budget: bool = False
    """Whether requests stay pending until the next day."""
    is_leased_to_others: bool = False
    """Whether other workers have pending requests. They may have been killed."""
    folded: bool = False
    """Whether any stream changed."""
    pruning: bool = False
    """Whether there may be more old texts."""
    due: list[tuple[Any, list[Any]]] = field(default_factory=list)
    """Dispatchers and their next batches."""
    ledger: Ledger | None = None
    streams: list[StreamStatus] | None = None
