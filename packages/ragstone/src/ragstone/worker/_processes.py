"""Scoring in several processes, with one owner of the store, the sinks and the budget."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from ragstone.errors import ConfigurationError, JudgeError, JudgeUnavailableError
from ragstone.judges import Budget, CallContext, Judge, forget_outage, record_usage, report_outage
from ragstone.metrics import Metric
from ragstone.schema import Failure, NotApplicable, Sample, Score, Usage
from ragstone.scoring import Scorer
from ragstone.worker._messages import BOOTSTRAP, FromProcess, Grant, Reply, Scoring, Start, ToProcess
from ragstone.worker._pickled import to_pickled

logger = logging.getLogger("ragstone")

_MAX_DEATHS: Final = 3
"""Number of processes that may end while they score a sample, before the sample fails."""
_MAX_STARTS: Final = 4
_START_S: Final = 60.0
"""Longest time until a new process can score, in seconds."""
_END_S: Final = 5.0
"""Time in which a process ends after its standard input has, in seconds."""


class ProcessScorer(Scorer):
    """A `Scorer` whose samples are scored in other processes.

    `prepare`, `judged_by` and reasons use the judge of this process.

    Args:
        metrics: Metrics, all of which the processes have.
        judge: The judge of this process.
        processes: The processes.
        concurrency: As for `Scorer`, over all processes together.
        deadline_s: As for `Scorer`.
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

        Raises:
            ConfigurationError: If the judge cannot work as configured, or a process cannot use the metrics and models.
            JudgeError: If the judge is unavailable, or the processes cannot be started.
        """
        await super().prepare()
        await self._processes.start(self._judge_hashes(), on_usage=self._spend)

    def _judge_hashes(self) -> dict[str, str]:
        identities = ((metric.card.name, self.judged_by(metric)) for metric in self.metrics)
        return {name: "" if identity is None else identity.hash for name, identity in identities}

    async def score(self, sample: Sample) -> tuple[Score | NotApplicable | Failure, ...]:
        """Score one sample with all metrics, in one of the processes."""
        try:
            outcomes = await self._processes.score(sample, self._names, on_usage=self._spend)
        except _EndedError as error:
            reason = f"{_MAX_DEATHS} scoring processes ended while they scored this sample: {error}"
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
    does not fail others.

    Args:
        specs: One `ScorerSpec` for each process, with its part of the limits.
        budget: The budget of all processes together, which each call is counted against before it is sent.
    """

    def __init__(self, specs: Sequence[object], *, budget: Budget | None = None) -> None:
        self._slots = [_Slot(to_pickled(spec), budget) for spec in specs]
        self._alone = asyncio.Lock()
        self._reserved: _Slot | None = None
        self._n_sent = 0

    @property
    def pids(self) -> list[int]:
        """Process ids of the running processes."""
        return [slot.process.pid for slot in self._slots if slot.process is not None]

    async def start(self, judge_hashes: Mapping[str, str], *, on_usage: Callable[[Usage], None]) -> None:
        """Start all processes that do not run, and wait until they can score.

        Args:
            judge_hashes: Hashes of the identities of judges, by metric, which the processes check.
            on_usage: Called with the usage of the calls that have made a process ready.

        Raises:
            ConfigurationError: If a process cannot use the metrics and models.
            JudgeError: If a process cannot be started.
        """
        for slot in self._slots:
            slot.judge_hashes, slot.on_usage = dict(judge_hashes), on_usage
        async with asyncio.TaskGroup() as group:
            starts = [group.create_task(_outcome(slot.running())) for slot in self._slots]
        for start in starts:
            if (error := start.result()) is not None:
                raise error

    async def score(
        self, sample: Sample, metrics: tuple[str, ...], *, on_usage: Callable[[Usage], None]
    ) -> tuple[Score | NotApplicable | Failure, ...]:
        """Score one sample.

        Args:
            sample: The sample.
            metrics: Names of the metrics.
            on_usage: Called with the usage of the calls for the sample, also if the caller is canceled.

        Raises:
            _EndedError: If several processes ended while they scored the sample.
            JudgeError: If no process can be started.
        """
        self._n_sent += 1
        scoring = Scoring(id=self._n_sent, sample=sample, metrics=metrics, context=CallContext.current())
        line = _line(ToProcess(score=scoring))
        for n_deaths in range(_MAX_DEATHS):
            try:
                if n_deaths == 0:
                    process = await self._least_busy().running()
                    reply = await process.score(scoring.id, line, on_usage)
                else:
                    reply = await self._score_alone(scoring.id, line, on_usage)
            except _EndedError:
                if n_deaths == _MAX_DEATHS - 1:
                    raise
                continue
            record_usage(reply.usage)
            if reply.outcomes is None:
                raise RuntimeError(f"a sample could not be scored in another process: {reply.error}")
            return reply.outcomes
        raise AssertionError

    async def _score_alone(self, number: int, line: bytes, on_usage: Callable[[Usage], None]) -> Reply:
        async with self._alone:
            self._reserved = slot = self._least_busy()
            try:
                process = await slot.running()
                await process.is_free.wait()
                if process.has_ended:
                    process = await slot.running()
                return await process.score(number, line, on_usage)
            finally:
                self._reserved = None

    def _least_busy(self) -> _Slot:
        return min((slot for slot in self._slots if slot is not self._reserved), key=lambda slot: slot.n_in_work)

    async def aclose(self) -> None:
        """End all processes. Samples in work are not returned."""
        await asyncio.gather(*(slot.aclose() for slot in self._slots))


class _EndedError(Exception):
    """A process ended before it returned a sample."""


async def _outcome(start: Any) -> Exception | None:
    try:
        await start
    except (ConfigurationError, JudgeError) as error:
        return error
    return None


class _Slot:
    """Place of one process: its part of the limits, and the process that has it now."""

    def __init__(self, spec: str, budget: Budget | None) -> None:
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

        Raises:
            ConfigurationError: If the process cannot use the metrics and models.
            JudgeUnavailableError: If it cannot be started.
        """
        self._n_waiting += 1
        try:
            async with self._starting:
                for attempt in range(_MAX_STARTS):
                    if self.process is not None and not self.process.has_ended:
                        return self.process
                    self.process = process = await self._start()
                    try:
                        async with asyncio.timeout(_START_S):
                            self.on_usage(await process.ready)
                    except (_EndedError, TimeoutError) as error:
                        await process.aclose()
                        if attempt == _MAX_STARTS - 1:
                            raise JudgeUnavailableError(
                                f"a scoring process cannot be started ({str(error) or 'timeout'}). Standard error may have the "
                                "cause. Check the memory of this machine, or set fewer processes"
                            ) from None
                        await asyncio.sleep(2.0**attempt)
            raise AssertionError
        finally:
            self._n_waiting -= 1

    async def _start(self) -> _Process:
        if self._is_closed:
            raise JudgeUnavailableError("the scoring processes were closed")
        loop = asyncio.get_running_loop()
        budget = self._budget
        transport, process = await loop.subprocess_exec(
            lambda: _Process(budget), sys.executable, "-P", "-c", BOOTSTRAP, stderr=None, env=_environment()
        )
        start = Start(
            path=list(sys.path), spec=self._spec, judge_hashes=self.judge_hashes, has_budget=budget is not None
        )
        process.begin(transport, start)
        return process

    async def aclose(self) -> None:
        self._is_closed = True
        if self.process is not None:
            await self.process.aclose()


def _environment() -> dict[str, str]:
    # A program that is started inside of a debugger or a profiler is not debugged itself.
    return {name: value for name, value in os.environ.items() if name != "PYTHONINSPECT"}


def _line(message: Start | ToProcess) -> bytes:
    return message.model_dump_json().encode() + b"\n"


class _Process(asyncio.SubprocessProtocol):
    """The pipes of one process."""

    def __init__(self, budget: Budget | None) -> None:
        self._budget = budget
        self._buffer = bytearray()
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[Usage] = loop.create_future()
        self._end = asyncio.Event()
        self.is_free = asyncio.Event()
        """Whether no sample is in work. Also set if the process has ended."""
        self.is_free.set()
        self._calls: dict[int, tuple[asyncio.Future[Reply], Callable[[Usage], None]]] = {}
        self._transport: asyncio.SubprocessTransport | None = None
        self._input: Any = None
        self.pid = 0

    @property
    def n_in_work(self) -> int:
        return len(self._calls)

    @property
    def has_ended(self) -> bool:
        return self._end.is_set()

    def begin(self, transport: asyncio.SubprocessTransport, start: Start) -> None:
        """Send the first line."""
        self._transport = transport
        self._input = transport.get_pipe_transport(0)
        self.pid = transport.get_pid()
        self._input.write(_line(start))

    async def score(self, number: int, line: bytes, on_usage: Callable[[Usage], None]) -> Reply:
        """Send a sample, and return its reply.

        Raises:
            _EndedError: If the process ends before.
        """
        if self.has_ended:
            raise self._ended_error()
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._calls[number] = answer, on_usage
        self.is_free.clear()
        self._input.write(line)
        try:
            return await answer
        except asyncio.CancelledError:
            # The reply still comes, with the usage of the calls until then.
            if number in self._calls:
                self._send(ToProcess(cancel=number))
            raise

    async def aclose(self) -> None:
        """End the process."""
        if self._transport is None or self.has_ended:
            return
        self._input.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._end.wait(), _END_S)
        if not self.has_ended:
            self._kill()
            await self._end.wait()

    def _kill(self) -> None:
        if self._transport is not None:
            with suppress(ProcessLookupError):
                self._transport.kill()

    def _send(self, message: ToProcess) -> None:
        self._input.write(_line(message))

    # Called by the event loop ---------------------------------------------------------------------------------------

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002 - asyncio passes it
        self._buffer += data
        if b"\n" not in data:
            return
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            try:
                message = FromProcess.model_validate_json(bytes(line))
            except ValueError:
                logger.exception("ragstone: a scoring process wrote an invalid message, and is replaced")
                self._kill()
                return
            self._on_message(message)

    def process_exited(self) -> None:
        # The last lines may not have been read yet. A program that the process started may keep the pipe open.
        asyncio.get_running_loop().call_later(1.0, self.connection_lost, None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio passes it
        if self.has_ended:
            return
        self._end.set()
        forget_outage(self)
        error = self._ended_error()
        if self._transport is not None:
            self._transport.close()
        if not self.ready.done():
            self.ready.set_exception(error)
            self.ready.exception()  # retrieved, because the starter may have given up
        calls, self._calls = self._calls, {}
        if calls:
            logger.warning("ragstone: scoring %s, its %d samples are scored again", error, len(calls))
        for answer, _ in calls.values():
            if not answer.done():
                answer.set_exception(error)
        self.is_free.set()

    def _ended_error(self) -> _EndedError:
        code = None if self._transport is None else self._transport.get_returncode()
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return _EndedError(f"process {self.pid} ended ({how})")

    def _on_message(self, message: FromProcess) -> None:
        if (reply := message.reply) is not None:
            report_outage(self, is_down=message.is_down, outage=message.outage)
            self._on_reply(reply)
        elif message.ask is not None:
            self._on_ask(message.ask)
        elif message.spent is not None:
            if self._budget is not None:
                self._budget.record(message.spent)
        elif message.log is not None:
            logger.log(message.log.level, "%s", message.log.text)
        elif message.is_ready:
            if not self.ready.done():
                self.ready.set_result(message.usage or Usage())
        elif message.start_error is not None:
            if not self.ready.done():
                self.ready.set_exception(
                    ConfigurationError(f"a scoring process cannot use the metrics and models: {message.start_error}")
                )
        else:
            report_outage(self, is_down=message.is_down, outage=message.outage)

    def _on_reply(self, reply: Reply) -> None:
        known = self._calls.pop(reply.id, None)
        if not self._calls:
            self.is_free.set()
        if known is None:
            return
        answer, on_usage = known
        on_usage(reply.usage)
        if not answer.done():
            answer.set_result(reply)

    def _on_ask(self, number: int) -> None:
        error: str | None = None
        try:
            if self._budget is not None:
                self._budget.begin()
        except JudgeError as reached:
            error = str(reached)
        self._send(ToProcess(grant=Grant(id=number, error=error)))
