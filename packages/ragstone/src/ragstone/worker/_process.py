"""Scoring process: reads samples from standard input, and writes their outcomes to standard output.

It ends with its standard input, so also if its owner is killed. It does not keep state: the owner scores again what it did not
return.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from typing import Final

from ragstone._util.own_process import collect_garbage_rarely
from ragstone._util.signals import STOP_SIGNALS
from ragstone.errors import ConfigurationError, JudgeError
from ragstone.judges import Budget, CallContext, find_outage, is_any_endpoint_down, metered
from ragstone.schema import Usage
from ragstone.scoring import Scorer
from ragstone.worker._log_forward import forward_log
from ragstone.worker._messages import FromProcess, Grant, Log, Reply, Scoring, Start, ToProcess
from ragstone.worker._pickled import from_pickled
from ragstone.worker._setup import ScoringSetup
from ragstone.worker._spec import ScorerSpec

_STATE_S: Final = 1.0
"""Interval in which the state of endpoints is sent during an outage, in seconds."""


def main(first: bytes) -> None:
    """Run a scoring process.

    Args:
        first: The first line of standard input, a `Start`.
    """
    collect_garbage_rarely()
    # Ctrl-C and service managers signal all processes of a group. The owner decides when its processes end.
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    # What a metric prints must not be read as a message.
    messages = os.dup(1)
    os.dup2(2, 1)
    server = _Server(messages)
    try:
        start = Start.model_validate_json(first)
        setup = _open(start, server)
    except Exception as error:  # noqa: BLE001 - the owner shows it
        server.send(FromProcess(start_error=f"{type(error).__name__}: {error}"))
        sys.exit(1)
    with suppress(BrokenPipeError):
        asyncio.run(server.run(setup, start.judge_hashes))


def _open(start: Start, server: _Server) -> ScoringSetup:
    spec = from_pickled(start.spec)
    if not isinstance(spec, ScorerSpec):
        raise TypeError(f"a ScorerSpec is needed, got {spec!r}")
    budget = spec.find_budget() if start.has_budget else None
    return spec.open(budget=None if budget is None else server.budget(budget))


class _OwnersBudget(Budget):
    """The budget of the owner, which is asked before each call."""

    def __init__(self, server: _Server, limits: Budget) -> None:
        super().__init__(**limits.limits)
        self._server = server
        self._error: str | None = None
        self._asked: dict[int, asyncio.Future[Grant]] = {}
        self._n_asked = 0

    def check(self) -> None:
        if self._error is not None:
            raise JudgeError(self._error, kind="budget")

    async def acquire(self) -> None:
        self.check()
        self._n_asked += 1
        number = self._n_asked
        self._asked[number] = answer = asyncio.get_running_loop().create_future()
        self._server.send(FromProcess(ask=number))
        try:
            grant = await answer
        finally:
            del self._asked[number]
        self._error = grant.error
        self.check()

    def on_grant(self, grant: Grant) -> None:
        """Hand an answer of the owner to the call that waits for it."""
        answer = self._asked.get(grant.id)
        if answer is not None and not answer.done():
            answer.set_result(grant)

    def record(self, usage: Usage) -> None:
        super().record(usage)
        self._server.send(FromProcess(spent=usage))


class _Server(asyncio.Protocol):
    """Scores the samples of the owner, each in a task of its own.

    Args:
        messages: File descriptor of the pipe to the owner.
    """

    def __init__(self, messages: int) -> None:
        self._messages = messages
        self._buffer = bytearray()
        self._budget: _OwnersBudget | None = None
        self._scorers: dict[tuple[str, ...], Scorer] = {}
        self._contexts: dict[CallContext, contextvars.Context] = {}
        self._blocks: list[tuple[contextvars.Context, AbstractContextManager[None]]] = []
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._was_down = False

    def budget(self, limits: Budget) -> Budget:
        """Return the owner's budget, for the models of this process."""
        self._budget = _OwnersBudget(self, limits)
        return self._budget

    def send(self, message: FromProcess) -> None:
        """Write a line. It is complete for the owner even if several threads write."""
        line = message.model_dump_json().encode() + b"\n"
        while line:
            line = line[os.write(self._messages, line) :]

    async def run(self, setup: ScoringSetup, expected: Mapping[str, str]) -> None:
        """Score until standard input ends.

        Args:
            setup: Metrics and models.
            expected: As in `Start`.
        """
        loop = asyncio.get_running_loop()
        self._setup = setup
        self._ended = asyncio.Event()

        def send_log(level: int, text: str) -> None:
            loop.call_soon_threadsafe(self.send, FromProcess(log=Log(level=level, text=text)))

        forward_log(send_log)
        await loop.connect_read_pipe(lambda: self, os.fdopen(0, "rb", buffering=0))
        try:
            usage = await self._prepare(expected)
        except Exception as error:  # noqa: BLE001 - the owner shows it
            self.send(FromProcess(start_error=f"{type(error).__name__}: {error}"))
        else:
            self.send(FromProcess(is_ready=True, usage=usage))
        state = loop.create_task(self._report_outages())
        await self._ended.wait()
        tasks = [state, *self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for context, block in self._blocks:
            context.run(block.__exit__, None, None, None)
        await setup.aclose()

    async def _prepare(self, expected: Mapping[str, str]) -> Usage:
        """Prepare the models, and check that their outcomes are those that the owner has planned.

        Raises:
            ConfigurationError: If the models are others than those of the owner.
        """
        scorer = self._setup.scorer
        # If the judge is unavailable now, samples fail with this kind, and the owner scores them again.
        with suppress(JudgeError):
            await scorer.prepare()
            for planned in self._setup.planned_metrics():
                if planned.judge_hash != expected.get(planned.name, planned.judge_hash):
                    raise ConfigurationError(
                        f"the models of {planned.name} are others than those of the owner ({self._setup.judge.identity.name})"
                    )
        return scorer.usage

    # Called by the event loop ---------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if b"\n" not in data:
            return
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = rest
        for line in lines:
            try:
                self._on_message(ToProcess.model_validate_json(bytes(line)))
            except Exception:  # noqa: BLE001
                # The owner would wait for the reply. It scores the sample again in another process.
                traceback.print_exc()
                os._exit(1)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio passes it
        self._ended.set()

    def _on_message(self, message: ToProcess) -> None:
        if (scoring := message.score) is not None:
            work = self._score(scoring)
            # Samples of the same block share how long they wait for an outage.
            context = self._contexts.get(scoring.context)
            if context is None:
                context = self._contexts[scoring.context] = contextvars.copy_context()
                block = scoring.context.applied()
                context.run(block.__enter__)
                self._blocks.append((context, block))
            task = asyncio.get_running_loop().create_task(work, context=context.copy())
            self._tasks[scoring.id] = task
            task.add_done_callback(lambda _: self._tasks.pop(scoring.id))
        elif message.cancel is not None:
            if (canceled := self._tasks.get(message.cancel)) is not None:
                canceled.cancel()
        elif message.grant is not None and self._budget is not None:
            self._budget.on_grant(message.grant)

    async def _score(self, scoring: Scoring) -> None:
        with metered() as meter:
            try:
                outcomes = await self._scorer(scoring.metrics).score(scoring.sample)
            except asyncio.CancelledError:
                self._reply(Reply(id=scoring.id, usage=meter.total, outcomes=None))
                raise
            except Exception as error:  # noqa: BLE001 - the owner raises it
                failed = Reply(
                    id=scoring.id, usage=meter.total, outcomes=None, error=f"{type(error).__name__}: {error}"
                )
                self._reply(failed)
            else:
                self._reply(Reply(id=scoring.id, usage=meter.total, outcomes=outcomes))

    def _reply(self, reply: Reply) -> None:
        self._was_down = is_any_endpoint_down()
        self.send(FromProcess(reply=reply, is_down=self._was_down, outage=find_outage()))

    def _scorer(self, names: tuple[str, ...]) -> Scorer:
        scorer = self._scorers.get(names)
        if scorer is None:
            metrics = [metric for metric in self._setup.metrics if metric.card.name in names]
            scorer = self._scorers[names] = self._setup.scorer_of(metrics)
        return scorer

    async def _report_outages(self) -> None:
        """During an outage no sample may end, so that no reply shows its state."""
        while True:
            await asyncio.sleep(_STATE_S)
            is_down = is_any_endpoint_down()
            if is_down or self._was_down:
                self._was_down = is_down
                self.send(FromProcess(is_down=is_down, outage=find_outage()))
