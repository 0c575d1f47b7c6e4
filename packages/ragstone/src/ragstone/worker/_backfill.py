"""Backfill: scores requests that were captured before a metric was added, behind live traffic and within a budget."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from ragstone._util.files import write_json
from ragstone.errors import ConfigurationError
from ragstone.schema import Failure, Outcome, Trace, Usage
from ragstone.store import PlannedMetric, Store, UnscoredTrace
from ragstone.worker import _times
from ragstone.worker._commit import Committer
from ragstone.worker._daily_budget import DailyBudget
from ragstone.worker._intake import StepErrors
from ragstone.worker._parts import MetricGroups
from ragstone.worker._setup import ScoringSetup

logger = logging.getLogger("ragstone")


_PAGE: Final = 100
"""Requests of one read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRequest:
    """What is to be scored, and what it may cost.

    Raises:
        ConfigurationError: If the share or the time is invalid, or US dollars are limited without prices.
    """

    metrics: Sequence[str]
    """Names of metrics."""
    since: float
    """Requests that started at this time or later, Unix seconds."""
    until: float
    """And before this time."""
    sample: float = 1.0
    """Share of the sessions to score, in (0, 1]."""
    calls: int | None = None
    """Maximum number of model calls. None: no limit. The last calls may exceed each limit by what is in flight."""
    tokens: int | None = None
    """Maximum number of input and output tokens together."""
    usd: float | None = None
    """Maximum cost in US dollars."""
    prices: tuple[float, float] | None = None
    """US dollars per million input and output tokens."""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        """Check the values."""
        if not 0 < self.sample <= 1:
            raise ConfigurationError(f"sample must be above 0 and at most 1, got {self.sample!r}")
        if not self.since < self.until:
            raise ConfigurationError("the start of a backfill must be before its end")
        if self.usd is not None and self.prices is None:
            raise ConfigurationError(
                "a budget in US dollars needs the prices of the model: --set judge.usd_per_million_tokens=INPUT,OUTPUT"
            )

    def limit_reached(self, usage: Usage) -> str | None:
        """Return which limit this usage reaches, or None."""
        spent: dict[str, float] = {"calls": usage.calls, "tokens": usage.input_tokens + usage.output_tokens}
        limits: dict[str, float | None] = {"calls": self.calls, "tokens": self.tokens}
        if self.prices is not None:
            price_in, price_out = self.prices
            spent["usd"] = (usage.input_tokens * price_in + usage.output_tokens * price_out) / 1e6
            limits["usd"] = self.usd
        for name, limit in limits.items():
            if limit is not None and spent[name] >= limit:
                return f"budget of {limit:g} {name}"
        return None


def request_backfill(folder: Path, request: BackfillRequest) -> None:
    """Leave a request for the worker that owns a store file.

    Args:
        folder: Folder with the requests of commands.
        request: The request.
    """
    write_json(folder / "backfill" / f"{request.id}.json", asdict(request))


async def run_backfill(
    store: Store,
    setup: ScoringSetup,
    request: BackfillRequest,
    *,
    patience_s: float = 3600.0,
    clock: Callable[[], float] = time.time,
    on_progress: Callable[[dict[str, Any]], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
    daily_budget: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Run a backfill in this process, which may write to the store, and return its last progress.

    `setup` is used after the scorer's `prepare`. A judge that is unavailable for `patience_s` ends the backfill, and
    `should_stop` ends it early. `on_progress` gets the progress from time to time. `daily_budget` limits `calls`,
    `tokens` and `usd` of the day of UTC, over all processes of the store.
    """
    backfill = _Backfill(request, setup, concurrency=setup.limits.concurrency, patience_s=patience_s, clock=clock)
    backfill.on_progress = on_progress
    spend = DailyBudget(daily_budget or {}, errors=StepErrors())
    spend.update(store, now_too=True)
    backfill.why_stop = lambda: "it was interrupted" if should_stop() else spend.reached

    def record(outcomes: Sequence[Outcome]) -> None:
        spend.record(outcomes)
        spend.update(store)

    backfill.record = record
    committer = Committer(StepErrors(), store)
    try:
        return await backfill.run(committer)
    finally:
        await committer.aclose()
        spend.update(store, now_too=True)


class BackfillQueue:
    """Runs the backfills that commands request from a running worker, one after another.

    A backfill uses a quarter of the worker's concurrency, and waits while captured requests wait. The file of a request
    is removed when its backfill ends, so that the next worker resumes after a kill. `requests` is the folder with the
    requests of commands. A judge that is unavailable for `patience_s` ends a backfill. `record` is called with outcomes
    that may have cost something.
    """

    def __init__(
        self,
        setup: ScoringSetup,
        *,
        requests: Path,
        patience_s: float,
        record: Callable[[Sequence[Outcome]], None],
        clock: Callable[[], float],
    ) -> None:
        self._record = record
        self._setup, self._folder, self._patience_s = setup, requests / "backfill", patience_s
        self._clock = clock
        self._task: asyncio.Task[dict[str, Any]] | None = None
        self._path: Path | None = None
        self._may_start = asyncio.Event()
        self._next = 0.0

    def update(self, committer: Committer, *, is_busy: bool, woken: asyncio.Event) -> bool:
        """Start a backfill, or pause it if `is_busy`, and return whether one runs. `woken` is set when it ends."""
        (self._may_start.clear if is_busy else self._may_start.set)()
        if self._task is not None:
            if not self._task.done():
                return True
            self._end(self._task)
        if self._task is None and time.monotonic() >= self._next:
            self._next = time.monotonic() + _times.BACKFILL_LOOK_S
            self._task = self._start(committer)
            if self._task is not None:
                self._task.add_done_callback(lambda _: woken.set())
        return self._task is not None

    def _start(self, committer: Committer) -> asyncio.Task[dict[str, Any]] | None:
        for path in sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []:
            try:
                values = json.loads(path.read_text(encoding="utf-8"))
                if values["prices"] is not None:
                    values["prices"] = tuple(values["prices"])
                request = BackfillRequest(**values)
                backfill = _Backfill(
                    request,
                    self._setup,
                    concurrency=max(self._setup.limits.concurrency // 4, 1),
                    patience_s=self._patience_s,
                    clock=self._clock,
                )
            except (ValueError, TypeError, KeyError, ConfigurationError) as error:
                logger.error("ragstone backfill: the request %s is removed: %s", path.name, error)  # noqa: TRY400
                path.unlink(missing_ok=True)
                continue
            backfill.wait_turn, backfill.record = self._may_start.wait, self._record
            self._path = path
            return asyncio.create_task(backfill.run(committer))
        return None

    def _end(self, task: asyncio.Task[dict[str, Any]]) -> None:
        self._task, self._next = None, 0.0
        if (error := task.exception()) is not None:
            logger.error("ragstone backfill: ended by an error", exc_info=error)
        else:
            progress = task.result()
            logger.info("ragstone backfill: %s, %d requests scored", progress["state"], progress["n_done"])
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    async def aclose(self) -> None:
        """Stop a running backfill. Its request stays for the next worker."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class _Backfill:
    """One backfill: newest requests first, so that an early end leaves the most recent weeks scored.

    Raises:
        ConfigurationError: If the setup does not have a metric of the request.
    """

    def __init__(
        self,
        request: BackfillRequest,
        setup: ScoringSetup,
        *,
        concurrency: int,
        patience_s: float,
        clock: Callable[[], float],
    ) -> None:
        planned = {metric.name: metric for metric in setup.planned_metrics()}
        if unknown := [name for name in request.metrics if name not in planned]:
            raise ConfigurationError(
                f"{', '.join(unknown)} cannot be backfilled by a process that scores {', '.join(planned)}."
            )
        self._request, self._setup = request, setup
        self._planned: list[PlannedMetric] = [planned[name] for name in request.metrics]
        self._concurrency, self._patience_s = concurrency, patience_s
        self._clock = clock
        self._parts: dict[tuple[str, ...], MetricGroups] = {}
        self._usage = Usage()
        self._n_done = self._n_failed = 0
        self._why_stopped: str | None = None
        self._stopped = asyncio.Event()
        self._started_at = clock()
        self._save_next = 0.0
        self.wait_turn: Callable[[], Awaitable[object]] = lambda: asyncio.sleep(0)
        """Waits until captured requests do not wait."""
        self.on_progress: Callable[[dict[str, Any]], None] = lambda _: None
        self.why_stop: Callable[[], str | None] = lambda: None
        """Returns why to end early, or None."""
        self.record: Callable[[Sequence[Outcome]], None] = lambda _: None
        """Called with outcomes that may have cost something."""

    async def run(self, committer: Committer) -> dict[str, Any]:
        """Score all requests that lack a metric, and return the last progress."""
        tasks: set[asyncio.Task[None]] = set()
        before: tuple[float, int] | None = (math.nextafter(self._request.until, 0.0), 2**62)
        try:
            while before is not None and not self._ends():
                read = partial(
                    committer.store.outcomes.unscored,
                    self._planned,
                    since=self._request.since,
                    before=before,
                    sample=self._request.sample,
                    limit=_PAGE,
                )
                page = await committer.call(read)
                before = page.before
                for item in page.traces:
                    await self.wait_turn()
                    await self._free_slot(tasks)
                    if self._ends():
                        break
                    task = asyncio.create_task(self._score(item, committer))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                await self._save(committer, "running")
            await self._free_slot(tasks, n=1)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return await self._save(committer, "done" if self._why_stopped is None else "stopped", now_too=True)

    def _ends(self) -> bool:
        reached = self._request.limit_reached(self._usage)
        if reached is not None:
            self._stop(f"the {reached} is reached")
        elif (reason := self.why_stop()) is not None:
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
            while len(tasks) >= (self._concurrency if n is None else n) and not self._is_blocked:
                await asyncio.wait({*tasks, blocked} if not blocked.done() else tasks, return_when="FIRST_COMPLETED")
        finally:
            blocked.cancel()

    @property
    def _is_blocked(self) -> bool:
        """Whether requests wait for models that do not answer, so that they must be canceled."""
        return self._why_stopped is not None and any(parts.judge_is_down for parts in self._parts.values())

    async def _score(self, item: UnscoredTrace, committer: Committer) -> None:
        trace = item.trace
        try:
            await self._groups(item.missing).score(
                trace,
                extend_lease=lambda: None,
                store_outcomes=lambda outcomes, _: self._store(trace, outcomes, committer),
            )
        except Exception:
            logger.exception("ragstone backfill: trace %s could not be scored", trace.trace_id)
            return
        self._n_done += 1
        await self._save(committer, "running")

    async def _store(self, trace: Trace, outcomes: Sequence[Outcome], committer: Committer) -> None:
        paid = [o for o in outcomes if not (isinstance(o, Failure) and o.kind == "budget")]
        if len(paid) < len(outcomes):
            self._stop("the budget of the models is reached")
        for outcome in paid:
            if outcome.usage is not None:
                self._usage += outcome.usage
        self.record(paid)
        self._n_failed += sum(isinstance(o, Failure) for o in paid)
        n: int | None = None
        while n is None:
            n = await committer.run_step(
                "store outcomes of a backfill",
                lambda: committer.store.outcomes.add_backfilled(trace.trace_id, paid, sample=self._request.sample),
                None,
            )
            if n is None:
                await asyncio.sleep(_times.STORE_RETRY_S)

    def _groups(self, missing: tuple[str, ...]) -> MetricGroups:
        """Return the groups of the metrics that a request lacks."""
        if missing not in self._parts:
            metrics = [metric for metric in self._setup.metrics if metric.card.name in missing]
            self._parts[missing] = MetricGroups(
                self._setup, patience_s=self._patience_s, metrics=metrics, on_blocked=self._stop
            )
        return self._parts[missing]

    async def _save(self, committer: Committer, state: str, *, now_too: bool = False) -> dict[str, Any]:
        """Record the progress, and return it."""
        request, usage, store = self._request, self._usage, committer.store
        progress = {
            "id": request.id,
            "metrics": [[metric.name, metric.version, metric.judge_hash] for metric in self._planned],
            "since": request.since,
            "until": request.until,
            "sample": request.sample,
            "state": state,
            "reason": self._why_stopped,
            "started_at": self._started_at,
            "updated_at": self._clock(),
            "n_done": self._n_done,
            "n_failed": self._n_failed,
            "n_left": None,
            "usage": usage.model_dump(exclude_none=True),
        }
        if now_too or time.monotonic() >= self._save_next:
            self._save_next = time.monotonic() + _times.BACKFILL_SAVE_S
            if state != "running":
                count = partial(store.outcomes.count_backfill, self._planned, since=request.since, until=request.until)
                counts = await committer.call(count)
                progress["n_left"] = counts.unscored
                progress["n_text_removed"] = counts.removed
            with contextlib.suppress(Exception) if state == "running" else contextlib.nullcontext():
                await committer.call(partial(store.outcomes.save_backfill, progress))
            self.on_progress(progress)
        return progress
