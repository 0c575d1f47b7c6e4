"""Use of a store outside the event loop: one thread for all calls, and outcomes stored in groups."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from ragstone._util.daemon_thread import DaemonThread
from ragstone._util.fork import NoFork
from ragstone._util.waiting import wait_up_to
from ragstone.errors import StoreError
from ragstone.store import Completion, Store
from ragstone.worker import _times
from ragstone.worker._intake import StepErrors

T = TypeVar("T")

_MAX_GROUP: Final = 256
"""Maximum number of completions in one transaction."""


class StoreSilentError(StoreError):
    """The store did not answer until the worker had to end."""


class StoreCalls:
    """Runs calls one after another on a thread, so that the event loop never waits for a disk or a network.

    A call that never returns prevents neither `give_up` nor the end of the process.
    """

    def __init__(self, name: str) -> None:
        self._thread = DaemonThread(name)
        self._no_fork = NoFork()
        self._given_up: asyncio.Future[None] | None = None
        """Has a result after `give_up`. Made in the loop."""
        self._since: float | None = None

    @property
    def waiting_s(self) -> float:
        """Seconds since the current call began, or 0 without one."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    async def call(self, step: Callable[[], T]) -> T:
        """Run a step after all earlier ones. If the caller is canceled, the step still runs.

        Raise StoreSilentError if `give_up` was called before the step ended.
        """
        given_up = self._end()
        if given_up.done():
            raise StoreSilentError("the store did not answer in time")
        running = self.start(step)
        ending: list[asyncio.Future[Any]] = [running, given_up]
        await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            running.cancel()
            raise StoreSilentError("the store did not answer in time")
        return running.result()

    def give_up(self) -> None:
        """End the current call and all later ones with an error. The steps that were started may still run."""
        if not self._end().done():
            self._end().set_result(None)

    def shutdown(self) -> None:
        """End the thread after all steps."""
        self._thread.shutdown()

    def _end(self) -> asyncio.Future[None]:
        if self._given_up is None:
            self._given_up = asyncio.get_running_loop().create_future()
        return self._given_up

    def start(self, step: Callable[[], T]) -> asyncio.Future[T]:
        """Run a step after all earlier ones, without waiting for it."""

        def timed() -> T:
            self._since = time.monotonic()
            try:
                with self._no_fork:  # SQLite has locks of the process
                    return step()
            finally:
                self._since = None

        running = asyncio.get_running_loop().run_in_executor(self._thread, timed)
        # A caller that was canceled does not read the error.
        running.add_done_callback(lambda done: done.cancelled() or done.exception())  # codespell:ignore
        return running


class Committer(StoreCalls):
    """The calls of a worker to its store.

    While a group of completions is stored, the next one gathers, without a timer: the slower the store, the larger the
    groups. If the store fails, the group is kept and stored later. The store may be set later. No other code may use it
    while the worker runs, except trace sources.
    """

    def __init__(self, errors: StepErrors, store: Store | None = None) -> None:
        super().__init__("ragstone-store")
        self.errors = errors
        if store is not None:
            self.store = store
        self._waiting: list[tuple[Completion, asyncio.Future[bool]]] = []
        self._limit = _MAX_GROUP
        self._commits: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def run_step(self, name: str, step: Callable[[], T], otherwise: T) -> T:
        """Run a step as `StepErrors.run_step` does."""
        return await self.call(partial(self.errors.run_step, name, step, otherwise))

    async def complete(self, completion: Completion) -> bool:
        """Store the outcomes of a trace, with retries until the disk accepts them. See `Outcomes.complete_many`.

        Raise DataError if the completion is invalid.
        """
        stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((completion, stored))
        if self._commits is None or self._commits.done():
            self._commits = asyncio.create_task(self._commit())
        return await stored

    async def flush(self) -> None:
        """Store what waits, if the store accepts it now."""
        self._closing.set()
        if self._commits is not None:
            await self._commits

    async def aclose(self) -> None:
        """End the thread after all steps."""
        await self.flush()
        await self.call(lambda: None)
        self.shutdown()

    async def _commit(self) -> None:
        while self._waiting:
            results = await self.run_step("store outcomes", self._store_group, None)
            if results is None:
                # Smaller groups, then other ones: a completion that the store rejects must not stop the others.
                if self._limit == 1:
                    self._waiting.append(self._waiting.pop(0))
                self._limit = max(1, min(self._limit, len(self._waiting)) // 2)
                if self._closing.is_set():
                    return
                await wait_up_to(_times.STORE_RETRY_S, self._closing.wait())
                continue
            self._limit = _MAX_GROUP
            done, self._waiting[: len(results)] = self._waiting[: len(results)], []
            for (_, stored), result in zip(done, results, strict=True):
                if stored.done():
                    continue  # its trace was canceled
                if isinstance(result, Exception):
                    stored.set_exception(result)
                else:
                    stored.set_result(result)

    def _store_group(self) -> Sequence[bool | Exception]:
        # Read here and not before, so that what arrives while other steps run joins the group.
        group = self._waiting[: self._limit]
        try:
            return self.store.outcomes.complete_many([completion for completion, _ in group])
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - a bug, which each trace reports
            return [error] * len(group)
