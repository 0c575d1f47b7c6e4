"""Use of a store outside the event loop: one thread for all calls, and outcomes stored in groups."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from typing_extensions import override

from ragstone.errors import StoreError
from ragstone.store import Completion, Store
from ragstone.worker._intake import StepErrors

__all__ = ["Committer"]

T = TypeVar("T")

_RETRY_S: Final = 1.0
_MAX_GROUP: Final = 256
"""Maximum number of completions in one transaction."""


class Committer:
    """Runs the calls of a worker to its store on one thread, so that the event loop never waits for a disk or a network.

    While a group of completions is stored, the next one gathers, without a timer: the slower the store, the larger the
    groups. If the store fails, the group is kept and stored later.

    Args:
        store: The store. No other code may use it while the worker runs, except trace sources.
        errors: Collects errors of the store.
    """

    def __init__(self, store: Store, errors: StepErrors) -> None:
        self.store = store
        self.errors = errors
        self._thread = _StoreThread()
        self._waiting: list[tuple[Completion, asyncio.Future[bool]]] = []
        self._limit = _MAX_GROUP
        self._commits: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def call(self, step: Callable[[], T]) -> T:
        """Run a step on the thread, after all earlier ones. If the caller is canceled, the step still runs."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, step))

    async def run_step(self, name: str, step: Callable[[], T], otherwise: T) -> T:
        """Run a step as `StepErrors.run_step` does."""
        return await self.call(lambda: self.errors.run_step(name, step, otherwise))

    def start_step(self, name: str, step: Callable[[], object]) -> None:
        """Run a step whose result does not matter, without waiting for it."""
        asyncio.get_running_loop().run_in_executor(self._thread, lambda: self.errors.run_step(name, step, None))

    async def complete(self, completion: Completion) -> bool:
        """Store the outcomes of a trace, with retries until the disk accepts them. See `Store.complete`.

        Raises:
            DataError: If the completion is invalid.
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
        self._thread.shutdown()

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
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), _RETRY_S)
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
            return self.store.complete_many([completion for completion, _ in group])
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - a bug, which each trace reports
            return [error] * len(group)


class _StoreThread(Executor):
    """One thread that does not prevent the end of the interpreter, unlike those of `ThreadPoolExecutor`.

    If threads cannot be started anymore because the interpreter ends, calls run directly.
    """

    def __init__(self) -> None:
        self._steps: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    @override
    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                future.set_exception(error)

        if self._is_running():
            self._steps.put(run)
        else:
            run()
        return future

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if self._thread is not None:
            self._steps.put(None)

    def _is_running(self) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="ragstone-store", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return True

    def _run(self) -> None:
        while (step := self._steps.get()) is not None:
            step()
