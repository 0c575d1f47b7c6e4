"""The work of a scoring process: scores the samples of its owner, without a state of its own."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from ragstone.errors import ConfigurationError, JudgeError
from ragstone.judges import Budget, CallContext, find_outage, is_any_endpoint_down, metered
from ragstone.schema import Outcome, Sample, Usage
from ragstone.scoring import Scorer
from ragstone.worker import _times
from ragstone.worker._child import Owner


class Reply(NamedTuple):
    """What became of a sample."""

    usage: Usage
    """All calls for the sample, also failed and canceled ones."""
    outcomes: tuple[Outcome, ...] | None
    """None if the sample was canceled, or could not be scored."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ScoringWork:
    """Scores samples until the owner stops the process.

    The spec has the part of the limits that this process has. `judge_hashes` are those of the identities of judges, by
    metric, which are part of the plan of the store. With `has_budget`, the owner must be asked for each call.
    """

    spec: Any
    judge_hashes: Mapping[str, str]
    has_budget: bool

    async def run(self, owner: Owner) -> None:
        limits = self.spec.find_budget() if self.has_budget else None
        budget = None if limits is None else _OwnersBudget(owner, limits)
        async with self.spec.open(budget=budget) as setup:
            await _Server(owner, setup, budget).run(self.judge_hashes)


class _OwnersBudget(Budget):
    """The budget of the owner, which is asked before each call."""

    def __init__(self, owner: Owner, limits: Budget) -> None:
        super().__init__(**limits.limits)
        self._owner = owner
        self._error: str | None = None
        self._asked: dict[int, asyncio.Future[str | None]] = {}
        self._n_asked = 0

    def check(self) -> None:
        if self._error is not None:
            raise JudgeError(self._error, kind="budget")

    async def acquire(self) -> None:
        self.check()
        self._n_asked += 1
        number = self._n_asked
        self._asked[number] = answer = asyncio.get_running_loop().create_future()
        self._owner.send("ask", number)
        try:
            self._error = await answer
        finally:
            del self._asked[number]
        self.check()

    def answer(self, number: int, error: str | None) -> None:
        """Hand an answer of the owner to the call that waits for it."""
        asked = self._asked.get(number)
        if asked is not None and not asked.done():
            asked.set_result(error)

    def take_back(self) -> None:
        self._owner.send("unsent")

    def record(self, usage: Usage) -> None:
        super().record(usage)
        self._owner.send("spent", usage)


class _Server:
    """Scores each sample in a task of its own, with a `ScoringSetup`. The owner calls the methods that begin with `on_`."""

    def __init__(self, owner: Owner, setup: Any, budget: _OwnersBudget | None) -> None:
        self._owner = owner
        self._setup = setup
        self._budget = budget
        self._scorers: dict[tuple[str, ...], Scorer] = {}
        self._contexts: dict[CallContext, contextvars.Context] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._state: tuple[bool, tuple[float, float] | None] = (False, None)

    async def run(self, judge_hashes: Mapping[str, str]) -> None:
        """Score until the owner stops this process. `judge_hashes` are as in `ScoringWork`."""
        serving = asyncio.create_task(self._owner.serve(self))  # models that are prepared ask for the budget
        with ExitStack() as self._blocks:
            self._owner.send("ready", await self._prepare(judge_hashes))
            state = asyncio.create_task(self._report_outages())
            await serving
            tasks = [state, *self._tasks.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _prepare(self, judge_hashes: Mapping[str, str]) -> Usage:
        """Prepare the models, and check that their outcomes are those that the owner has planned.

        Raise ConfigurationError if the models are others than those of the owner.
        """
        scorer: Scorer = self._setup.scorer
        # If the judge is unavailable now, samples fail with this kind, and the owner scores them again.
        with suppress(JudgeError):
            await scorer.prepare()
            for planned in self._setup.planned_metrics():
                if planned.judge_hash != judge_hashes.get(planned.name, planned.judge_hash):
                    judge = self._setup.judge.identity.name
                    text = f"the models of {planned.name} are others than those of the owner ({judge})"
                    raise ConfigurationError(text)
        return scorer.usage

    def on_score(self, number: int, sample: str, metrics: tuple[str, ...], settings: CallContext) -> None:
        """Begin to score a sample, which is JSON: its metadata may have objects of any class."""
        # Samples of the same block share how long they wait for an outage.
        context = self._contexts.get(settings)
        if context is None:
            context = self._contexts[settings] = contextvars.copy_context()
            block = settings.applied()
            context.run(block.__enter__)
            self._blocks.callback(context.run, block.__exit__, None, None, None)
        work = self._score(number, sample, metrics)
        self._tasks[number] = task = asyncio.get_running_loop().create_task(work, context=context.copy())
        task.add_done_callback(lambda _: self._tasks.pop(number))

    def on_cancel(self, number: int) -> None:
        """Cancel a sample that is no longer needed."""
        if (task := self._tasks.get(number)) is not None:
            task.cancel()

    def on_grant(self, number: int, error: str | None) -> None:
        """Take the answer of the owner to a question of the budget: None, or why the call must not be made."""
        if self._budget is not None:
            self._budget.answer(number, error)

    async def _score(self, number: int, sample: str, metrics: tuple[str, ...]) -> None:
        with metered() as meter:
            try:
                outcomes = await self._scorer(metrics).score(Sample.model_validate_json(sample))
                self._reply(number, Reply(meter.total, outcomes))
            except asyncio.CancelledError:
                self._reply(number, Reply(meter.total, None))
                raise
            except Exception as error:  # noqa: BLE001 - the owner raises it
                self._reply(number, Reply(meter.total, None, f"{type(error).__name__}: {error}"))

    def _reply(self, number: int, reply: Reply) -> None:
        self._send_state()
        self._owner.send("reply", number, reply)

    def _send_state(self) -> None:
        state = is_any_endpoint_down(), find_outage()
        if state != self._state or state[1] is not None:
            self._state = state
            self._owner.send("state", *state)

    def _scorer(self, names: tuple[str, ...]) -> Scorer:
        if names not in self._scorers:
            metrics = [metric for metric in self._setup.metrics if metric.card.name in names]
            self._scorers[names] = self._setup.scorer_of(metrics)
        return self._scorers[names]

    async def _report_outages(self) -> None:
        """During an outage no sample may end, so that no reply shows its state."""
        while True:
            await asyncio.sleep(_times.STATE_S)
            self._send_state()
