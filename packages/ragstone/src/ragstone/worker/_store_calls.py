"""Calls to a store outside the event loop, which end when a stopped worker cannot wait longer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ragstone._util.daemon_thread import DaemonThread
from ragstone._util.fork import NoFork
from ragstone.errors import StoreError

T = TypeVar("T")


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

        Raises:
            StoreSilentError: If `give_up` was called before the step ended.
        """
        given_up = self._end()
        if given_up.done():
            raise StoreSilentError("the store did not answer in time")
        running = self._start(step)
        ending: list[asyncio.Future[Any]] = [running, given_up]
        await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            running.cancel()
            raise StoreSilentError("the store did not answer in time")
        return running.result()

    def start(self, step: Callable[[], object]) -> None:
        """Run a step after all earlier ones, without waiting for it."""
        self._start(step)

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

    def _start(self, step: Callable[[], T]) -> asyncio.Future[T]:
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
