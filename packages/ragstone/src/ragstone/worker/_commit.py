"""Use of a store outside the event loop: one thread for all calls, and outcomes stored in groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from ragstone.errors import StoreError
from ragstone.store import Completion, Store
from ragstone.worker._intake import StepErrors
from ragstone.worker._store_calls import StoreCalls

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
        calls: The thread. By default a new one.
    """

    def __init__(self, store: Store, errors: StepErrors, calls: StoreCalls | None = None) -> None:
        self.store = store
        self.errors = errors
        self._calls = calls or StoreCalls("ragstone-store")
        self._waiting: list[tuple[Completion, asyncio.Future[bool]]] = []
        self._limit = _MAX_GROUP
        self._commits: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def call(self, step: Callable[[], T]) -> T:
        """Run a step on the thread, after all earlier ones. If the caller is canceled, the step still runs.

        Raises:
            StoreSilentError: If the worker has to end before.
        """
        return await self._calls.call(step)

    async def run_step(self, name: str, step: Callable[[], T], otherwise: T) -> T:
        """Run a step as `StepErrors.run_step` does."""
        return await self.call(lambda: self.errors.run_step(name, step, otherwise))

    def start_step(self, name: str, step: Callable[[], object]) -> None:
        """Run a step whose result does not matter, without waiting for it."""
        self._calls.start(lambda: self.errors.run_step(name, step, None))

    async def complete(self, completion: Completion) -> bool:
        """Store the outcomes of a trace, with retries until the disk accepts them. See `Outcomes.complete`.

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
        self._calls.shutdown()

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
            return self.store.outcomes.complete_many([completion for completion, _ in group])
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - a bug, which each trace reports
            return [error] * len(group)
