"""Backfill: scores requests that were captured before a metric was added, within a budget."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from ragstone.schema import Failure, Outcome, Score, Trace, Usage
from ragstone.scoring import JudgedCounts
from ragstone.store import Store, UnscoredTrace
from ragstone.worker import _times
from ragstone.worker._commit import Committer
from ragstone.worker._daily_budget import DailyBudget
from ragstone.worker._intake import StepErrors
from ragstone.worker._parts import MetricGroups
from ragstone.worker._setup import ScoringSetup

logger = logging.getLogger("ragstone")


_PAGE: Final = 100
"""Requests of one read."""


class Backfill:
    """Scores the requests of a time that lack a metric of a setup, in this process, which may write to the store.

    The newest requests come first, so that an early end leaves the most recent weeks scored. The budget of the models
    ends it early, and the same backfill resumes.

    The scorer of `setup` is prepared. The requests started at `since` (Unix seconds) or later, and before `until`.
    `sample` is the share of the sessions to score, in (0, 1]. The backfill ends after an outage of the judge of
    `patience_s` seconds. `daily_budget` has limits of `calls`, `tokens` and `usd` of the day of UTC, over all processes
    of the store.
    """

    def __init__(
        self,
        store: Store,
        setup: ScoringSetup,
        *,
        since: float,
        until: float,
        sample: float = 1.0,
        patience_s: float = 3600.0,
        on_progress: Callable[[dict[str, Any]], None] = lambda _: None,
        should_stop: Callable[[], bool] = lambda: False,
        daily_budget: Mapping[str, float] | None = None,
    ) -> None:
        self._store, self._setup = store, setup
        self._since, self._until, self._sample = since, until, sample
        self._patience_s, self._on_progress, self._should_stop = patience_s, on_progress, should_stop
        self._planned = setup.planned_metrics()
        self._spend = DailyBudget(daily_budget or {}, errors=StepErrors())
        self._id = uuid.uuid4().hex
        self._parts: dict[tuple[str, ...], MetricGroups] = {}
        self._usage = Usage()
        self._n_done = self._n_failed = self._n_raised = 0
        self.judged = JudgedCounts()
        """Counts of the judged outcomes."""
        self.has_score = False
        self._why_stopped: str | None = None
        self._stopped = asyncio.Event()
        self._started_at = time.time()
        self._save_next = 0.0

    async def run(self) -> dict[str, Any]:
        """Score all requests that lack a metric, and return the last progress."""
        self._spend.update(self._store, now_too=True)
        committer = Committer(StepErrors(), self._store)
        try:
            return await self._run(committer)
        finally:
            await committer.aclose()
            self._spend.update(self._store, now_too=True)

    async def _run(self, committer: Committer) -> dict[str, Any]:
        tasks: set[asyncio.Task[None]] = set()
        read = partial(
            self._store.outcomes.unscored, self._planned, since=self._since, sample=self._sample, limit=_PAGE
        )
        before: tuple[float, int] | None = (math.nextafter(self._until, 0.0), 2**62)
        try:
            while before is not None and not self._ends():
                page = await committer.call(partial(read, before=before))
                before = page.before
                for item in page.traces:
                    await self._free_slot(tasks)
                    if self._ends():
                        break
                    task = asyncio.create_task(self._score(item, committer))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                await self._save(committer, "running")
            await self._free_slot(tasks, n=1)
            if self._n_raised:
                self._stop(f"{self._n_raised:,} requests could not be scored, the log has the errors")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return await self._save(committer, "done" if self._why_stopped is None else "stopped", now_too=True)

    def _ends(self) -> bool:
        if (reason := "it was interrupted" if self._should_stop() else self._spend.reached) is not None:
            self._stop(reason)
        return self._why_stopped is not None

    def _stop(self, reason: str) -> None:
        if self._why_stopped is None:
            self._why_stopped = reason
        self._stopped.set()

    async def _free_slot(self, tasks: set[asyncio.Task[None]], *, n: int | None = None) -> None:
        """Wait until fewer than `n` requests are scored, or until nothing will be answered."""
        blocked = asyncio.create_task(self._stopped.wait())
        try:
            while len(tasks) >= (self._setup.limits.concurrency if n is None else n) and not self._is_blocked:
                await asyncio.wait({*tasks, blocked} if not blocked.done() else tasks, return_when="FIRST_COMPLETED")
        finally:
            blocked.cancel()

    @property
    def _is_blocked(self) -> bool:
        """Whether requests wait for models that do not answer, so that they must be canceled."""
        return self._why_stopped is not None and any(parts.judge_is_down for parts in self._parts.values())

    async def _score(self, item: UnscoredTrace, committer: Committer) -> None:
        trace, has_all = item.trace, True

        async def store(outcomes: Sequence[Outcome], _: bool) -> None:  # noqa: FBT001 - whether they are the last ones
            nonlocal has_all
            paid = [o for o in outcomes if not (isinstance(o, Failure) and o.kind == "budget")]
            if len(paid) < len(outcomes):
                has_all = False
                self._stop("the budget of the models is reached")
            await self._add(trace, paid, committer)

        try:
            await self._groups(item.missing).score(trace, extend_lease=lambda: None, store_outcomes=store)
        except Exception:
            self._n_raised += 1
            logger.exception("ragstone backfill: trace %s could not be scored", trace.trace_id)
            return
        self._n_done += has_all
        await self._save(committer, "running")

    async def _add(self, trace: Trace, paid: Sequence[Outcome], committer: Committer) -> None:
        for outcome in paid:
            if outcome.usage is not None:
                self._usage += outcome.usage
        self._spend.check(paid)
        self._spend.update(self._store)
        self._n_failed += sum(isinstance(o, Failure) for o in paid)
        self.has_score = self.has_score or any(isinstance(o, Score) for o in paid)
        self.judged.add(paid)
        add = partial(self._store.outcomes.add_backfilled, trace.trace_id, paid, sample=self._sample)
        while await committer.run_step("store outcomes of a backfill", add, None) is None:  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(_times.STORE_RETRY_S)

    def _groups(self, missing: tuple[str, ...]) -> MetricGroups:
        """Return the groups of the metrics that a request lacks."""
        if missing not in self._parts:
            metrics = [metric for metric in self._setup.metrics if metric.card.name in missing]
            self._parts[missing] = MetricGroups(
                self._setup,
                patience_s=self._patience_s,
                spend=self._spend.spend,
                metrics=metrics,
                on_blocked=self._stop,
            )
        return self._parts[missing]

    async def _save(self, committer: Committer, state: str, *, now_too: bool = False) -> dict[str, Any]:
        """Record the progress, and return it."""
        outcomes = self._store.outcomes
        progress = {
            "id": self._id,
            "metrics": [[metric.name, metric.version, metric.judge_hash] for metric in self._planned],
            "since": self._since,
            "until": self._until,
            "sample": self._sample,
            "state": state,
            "reason": self._why_stopped,
            "started_at": self._started_at,
            "updated_at": time.time(),
            "n_done": self._n_done,
            "n_failed": self._n_failed,
            "n_left": None,
            "usage": self._usage.model_dump(exclude_none=True),
        }
        if now_too or time.monotonic() >= self._save_next:
            self._save_next = time.monotonic() + _times.BACKFILL_SAVE_S
            if state != "running":
                count = partial(outcomes.count_backfill, self._planned, since=self._since, until=self._until)
                counts = await committer.call(count)
                progress["n_left"] = counts.unscored
                progress["n_text_removed"] = counts.removed
            with contextlib.suppress(Exception) if state == "running" else contextlib.nullcontext():
                await committer.call(partial(outcomes.save_backfill, progress))
            self._on_progress(progress)
        return progress
