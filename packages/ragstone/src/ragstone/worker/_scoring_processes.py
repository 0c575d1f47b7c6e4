"""Scoring in several processes, with one owner of the store, the sinks and the budget."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import Awaitable, Callable, Mapping, Sequence

from ragstone.errors import ConfigurationError, JudgeError, JudgeUnavailableError
from ragstone.judges import Budget, CallContext, Judge, record_usage, report_outage
from ragstone.metrics import Metric
from ragstone.schema import Outcome, Sample, Usage
from ragstone.scoring import Scorer
from ragstone.worker import _times
from ragstone.worker._child import Child, ChildError
from ragstone.worker._scoring_work import Reply, ScoringWork

logger = logging.getLogger("ragstone")


class ProcessScorer(Scorer):
    """A `Scorer` whose samples are scored in other processes.

    `prepare`, `judged_by` and reasons use the judge of this process. The processes have all `metrics`. `concurrency` is
    over all processes together.
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        judge: Judge,
        *,
        processes: ScoringProcesses,
        concurrency: int,
        deadline_s: float | None,
    ) -> None:
        super().__init__(metrics, judge, concurrency=concurrency, deadline_s=deadline_s)
        self._processes = processes
        self._names = tuple(metric.card.name for metric in metrics)

    async def prepare(self) -> None:
        """Prepare the models, and start the processes.

        Raise ConfigurationError if the judge cannot work as configured, or a process cannot use the metrics and models.
        Raise JudgeError if the judge is unavailable, or the processes cannot be started.
        """
        await super().prepare()
        await self._processes.start(self._judge_hashes(), on_usage=self._spend)

    def _judge_hashes(self) -> dict[str, str]:
        identities = ((metric.card.name, self.judged_by(metric)) for metric in self.metrics)
        return {name: "" if identity is None else identity.hash for name, identity in identities}

    async def score(self, sample: Sample) -> tuple[Outcome, ...]:
        """Score one sample with all metrics, in one of the processes."""
        try:
            outcomes = await self._processes.score(sample, self._names, on_usage=self._spend)
        except ChildError as error:
            reason = f"{_times.MAX_DEATHS} scoring processes ended while they scored this sample: {error}"
            return self.failures(sample, "bug", reason)
        # A process that could not reach the judge yet does not know its final identity.
        return tuple(
            outcome if outcome.judge_hash in ("", planned) else outcome.model_copy(update=self._judged_by(metric))
            for outcome, metric, planned in zip(outcomes, self.metrics, self._judge_hashes().values(), strict=True)
        )

    def _spend(self, usage: Usage) -> None:
        self._spent.total += usage


class ScoringProcesses:
    """Processes that score samples. They are started when they are first needed, and replaced if they end.

    A sample whose process ended is scored again in a process without other samples, so that one that ends each process
    does not fail others. Each spec has a part of the limits. Each call is counted against the one budget of all
    processes before it is sent.
    """

    def __init__(self, specs: Sequence[object], *, budget: Budget | None = None) -> None:
        self._slots = [_Slot(spec, budget) for spec in specs]
        self._alone = asyncio.Lock()
        self._reserved: _Slot | None = None
        self._n_sent = 0

    @property
    def pids(self) -> list[int | None]:
        """Process ids of the running processes."""
        return [slot.process.pid for slot in self._slots if slot.process is not None]

    async def start(self, judge_hashes: Mapping[str, str], *, on_usage: Callable[[Usage], None]) -> None:
        """Start all processes that do not run, and wait until they can score.

        They check the hashes of the identities of judges, by metric. `on_usage` gets the usage of the calls that have
        made a process ready. Raise ConfigurationError if a process cannot use the metrics and models. Raise JudgeError
        if a process cannot be started.
        """
        for slot in self._slots:
            slot.judge_hashes, slot.on_usage = dict(judge_hashes), on_usage
        # All have started or failed before an error is raised, so that none is left behind.
        for process in await asyncio.gather(*(slot.running() for slot in self._slots), return_exceptions=True):
            if isinstance(process, BaseException):
                raise process

    async def score(
        self, sample: Sample, metrics: tuple[str, ...], *, on_usage: Callable[[Usage], None]
    ) -> tuple[Outcome, ...]:
        """Score one sample. `on_usage` gets the usage of its calls, also if the caller is canceled.

        Raise ChildError if several processes ended while they scored the sample. Raise JudgeError if no process can be
        started.
        """
        self._n_sent += 1
        values = self._n_sent, sample.model_dump_json(), metrics, CallContext.current()

        async def score_in(process: _Process) -> Reply:
            return await process.score(*values, on_usage=on_usage)

        try:
            reply = await score_in(await self._least_busy().running())
        except ChildError:
            reply = await self._score_alone(score_in)
        record_usage(reply.usage)
        if reply.outcomes is None:
            raise RuntimeError(f"a sample could not be scored in another process: {reply.error}")
        return reply.outcomes

    async def _score_alone(self, score_in: Callable[[_Process], Awaitable[Reply]]) -> Reply:
        """Score a sample whose process has ended, in other ones that score nothing else."""
        for n_deaths in range(1, _times.MAX_DEATHS):
            async with self._alone:
                self._reserved = slot = self._least_busy()
                try:
                    await (await slot.running()).is_free.wait()
                    return await score_in(await slot.running())
                except ChildError:
                    if n_deaths == _times.MAX_DEATHS - 1:
                        raise
                finally:
                    self._reserved = None
        raise AssertionError

    def _least_busy(self) -> _Slot:
        return min((slot for slot in self._slots if slot is not self._reserved), key=lambda slot: slot.n_in_work)

    async def aclose(self) -> None:
        """End all processes. Samples in work are not returned."""
        await asyncio.gather(*(slot.aclose() for slot in self._slots))


class _Slot:
    """Place of one process: its part of the limits, and the process that has it now."""

    def __init__(self, spec: object, budget: Budget | None) -> None:
        self._spec = spec
        self._budget = budget
        self._starting = asyncio.Lock()
        self.process: _Process | None = None
        self.judge_hashes: dict[str, str] = {}
        self.on_usage: Callable[[Usage], None] = lambda _: None
        self._n_waiting = 0
        self._is_closed = False

    @property
    def n_in_work(self) -> int:
        return self._n_waiting + (0 if self.process is None else self.process.n_in_work)

    async def running(self) -> _Process:
        """Return the process. If it does not run, start it, with several attempts.

        Raise ConfigurationError if the process cannot use the metrics and models. Raise JudgeUnavailableError if it
        cannot be started.
        """
        self._n_waiting += 1
        try:
            async with self._starting:
                for attempt in range(_times.MAX_STARTS):
                    if self.process is None or self.process.ended.is_set():
                        self.process = _Process(self._budget, self.on_usage)
                    try:
                        async with asyncio.timeout(_times.START_S):
                            return await self._started(self.process)
                    except (ChildError, TimeoutError) as error:
                        await self.process.aclose()
                        if attempt == _times.MAX_STARTS - 1:
                            raise JudgeUnavailableError(
                                f"a scoring process cannot be started ({str(error) or 'timeout'}). Standard error may "
                                "have the cause. Check the memory of this machine, or set fewer processes"
                            ) from None
                    await asyncio.sleep(2.0**attempt)
            raise AssertionError
        finally:
            self._n_waiting -= 1

    async def _started(self, process: _Process) -> _Process:
        if self._is_closed:
            raise JudgeUnavailableError("the scoring processes were closed")
        if process.pid is None:
            await process.start(pickle.dumps(ScoringWork(self._spec, self.judge_hashes, self._budget is not None)))
        await asyncio.shield(process.ready)
        return process

    async def aclose(self) -> None:
        self._is_closed = True
        if self.process is not None:
            await self.process.aclose()


class _Process(Child):
    """A scoring process."""

    end_s = _times.SCORING_END_S

    def __init__(self, budget: Budget | None, on_usage: Callable[[Usage], None]) -> None:
        super().__init__()
        self._budget = budget
        self._on_usage = on_usage
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_free = asyncio.Event()
        """Whether no sample is in work. Also set if the process has ended."""
        self.is_free.set()
        self._calls: dict[int, tuple[asyncio.Future[Reply], Callable[[Usage], None]]] = {}

    @property
    def n_in_work(self) -> int:
        return len(self._calls)

    async def score(self, number: int, *values: object, on_usage: Callable[[Usage], None]) -> Reply:
        """Send a sample, and return its reply. Raise ChildError if the process ends before."""
        if self.ended.is_set():
            raise self.end_error()
        self.send("score", number, *values)
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._calls[number] = answer, on_usage
        self.is_free.clear()
        try:
            return await answer
        except asyncio.CancelledError:
            # The reply still comes, with the usage of the calls until then.
            if number in self._calls:
                self.send("cancel", number)
            raise

    # Called by the process ------------------------------------------------------------------------------------------

    def on_ready(self, usage: Usage) -> None:
        self._on_usage(usage)
        self.ready.set_result(None)

    def on_reply(self, number: int, reply: Reply) -> None:
        known = self._calls.pop(number, None)
        if not self._calls:
            self.is_free.set()
        if known is None:
            return
        answer, on_usage = known
        on_usage(reply.usage)
        if not answer.done():
            answer.set_result(reply)

    def on_ask(self, number: int) -> None:
        error: str | None = None
        try:
            if self._budget is not None:
                self._budget.begin()
        except JudgeError as reached:
            error = str(reached)
        self.send("grant", number, error)

    def on_unsent(self) -> None:
        if self._budget is not None:
            self._budget.take_back()

    def on_spent(self, usage: Usage) -> None:
        if self._budget is not None:
            self._budget.record(usage)

    def on_state(self, is_down: bool, outage: tuple[float, float] | None) -> None:  # noqa: FBT001
        report_outage(self, is_down=is_down, outage=outage)

    def on_failed(self, kind: str, text: str) -> None:
        error = ConfigurationError(f"a scoring process cannot use the metrics and models: {kind}: {text}")
        if not self._cannot_start(error):
            logger.error("ragstone: the scoring process %s failed: %s: %s", self.pid, kind, text)

    def on_end(self) -> None:
        report_outage(self, is_down=False, outage=None)
        error = self.end_error()
        self._cannot_start(error)
        calls, self._calls = self._calls, {}
        if calls:
            logger.warning("ragstone: scoring %s, its %d samples are scored again", error, len(calls))
        for answer, _ in calls.values():
            if not answer.done():
                answer.set_exception(error)
        self.is_free.set()

    def _cannot_start(self, error: Exception) -> bool:
        """Return whether the process could not score yet."""
        if self.ready.done():
            return False
        self.ready.set_exception(error)
        self.ready.exception()  # retrieved, because the starter may have given up
        return True
