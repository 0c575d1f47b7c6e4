"""`WorkerProcess`: a worker in a process of its own, which ends with the process that has started it."""

from __future__ import annotations

import asyncio
import os
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ragstone.sinks import Sink
from ragstone.worker import _times
from ragstone.worker._child import Child, Owner
from ragstone.worker._spec import ScorerSpec, check_picklable

if TYPE_CHECKING:
    from ragstone.worker._worker import Worker

_NICE: Final = 5


@dataclass(frozen=True, slots=True)
class WorkerWork:
    """A worker for another process.

    `plan` is that of the application's setup, in which a model without a name has none. `options` are for `Worker`.
    Raise ConfigurationError if a value cannot be pickled.
    """

    store: str
    spec: ScorerSpec
    plan: dict[str, Any]
    sinks: Sequence[str | Sink]
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name, value in [*(("sinks", sink) for sink in self.sinks), *self.options.items()]:
            remedy = "Give sinks as names, such as 'jsonl:PATH', or set scoring='thread'"
            check_picklable(name, value, "a worker process", remedy=remedy)

    async def run(self, owner: Owner) -> None:
        """Run the worker, in its process."""
        from ragstone.worker._worker import Worker

        with suppress(OSError):
            os.nice(_NICE)
        async with self.spec.open(sinks=self.sinks) as setup:
            setup.plan = self.plan
            worker = Worker(self.store, setup, **self.options)
            serving = asyncio.create_task(_Questions(owner, worker).serve())
            await worker.run(on_owned=lambda: owner.send("owned"))
            serving.cancel()


class _Questions:
    """Answers the questions of the owner, and stops the worker when the owner says so or has ended."""

    def __init__(self, owner: Owner, worker: Worker) -> None:
        self._owner = owner
        self._worker = worker

    async def serve(self) -> None:
        await self._owner.serve(self)
        self._worker.stop()

    def on_question(self, number: int) -> None:
        self._worker.wake()
        n_polls = self._worker.poll_count  # before `idle`, which is then of this poll or of a later one
        self._owner.send("answer", number, n_polls, self._worker.idle, self._worker.is_blocked)


class _Answer(NamedTuple):
    """The state of a worker at its answer to a question."""

    question: int = 0
    n_polls: int = 0
    is_idle: bool = False
    is_blocked: bool = False


class WorkerProcess(Child):
    """A worker in a process of its own. It has the attributes of a `Worker` that `Monitor` uses.

    It hands its work back and ends when its owner ends, so also after `kill -9` of this process. It has a lower priority.
    """

    end_s = _times.WORKER_END_S

    def __init__(self, work: WorkerWork) -> None:
        super().__init__()
        self._work = pickle.dumps(work)
        self._asked_at = 0.0
        self._numbers = count(1)
        self._answer = _Answer()

    @property
    def is_blocked(self) -> bool:
        """Whether requests waited for an unavailable judge, reader or disk at the last answer of the process."""
        return self._answer.is_blocked

    async def run(self, on_owned: Callable[[], None]) -> None:
        """Start the process, and return when it has ended.

        `on_owned` is called once, when the process has become the owner of the store. Raise ChildError if it cannot be
        started on this machine, or was killed. Otherwise raise the error of the worker.
        """
        self.on_owned = on_owned
        await self.start(self._work)
        await self.ended.wait()
        if self.error is not None:
            raise self.error
        if not self.is_stopped:
            raise self.end_error()

    def wake(self) -> None:
        """Poll for work now, and ask for the state of the worker."""
        if time.monotonic() - self._asked_at >= _times.ASK_S:
            self._ask()

    def idle_check(self) -> Callable[[], bool]:
        """Return a function that says whether everything that is spooled now is scored and delivered."""
        question = self._ask()
        target: int | None = None

        def is_idle() -> bool:
            nonlocal target
            self.wake()
            answer = self._answer
            if target is None and answer.question >= question:
                # An earlier answer has a number of polls from any time before now.
                target = answer.n_polls + 2
            return target is not None and answer.n_polls >= target and answer.is_idle

        return is_idle

    def on_answer(self, *values: Any) -> None:
        """Note the state of the worker."""
        self._answer = _Answer(*values)

    def _ask(self) -> int:
        """Ask for the state of the worker, and return the number of the question."""
        self._asked_at = time.monotonic()
        question = next(self._numbers)
        self.send_soon("question", question)
        return question
