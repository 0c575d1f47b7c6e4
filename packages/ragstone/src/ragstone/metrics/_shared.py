"""Work that several metrics of one sample need, done once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

__all__ = ["compute_once", "share_work"]

T = TypeVar("T")

_work: ContextVar[dict[Hashable, asyncio.Task[Any]] | None] = ContextVar("ragstone_shared_work", default=None)


@asynccontextmanager
async def share_work() -> AsyncIterator[None]:
    """Share work among the tasks of this block: the metrics of one sample. What is unfinished at its end is cancelled."""
    token = _work.set({})
    try:
        yield
    finally:
        tasks = list((_work.get() or {}).values())
        _work.reset(token)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def compute_once(key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
    """The result of `make()`, which the first to ask for `key` sets going; the others wait for it, or find it.

    What it raises, it raises for all who asked. The one who was first has it on the bill. Who is cancelled while waiting
    takes nothing from the others. Outside `sharing()` each call makes its own.

    Args:
        key: Everything that the result depends on: the judge, what is asked, the texts.
        make: Finds the result.
    """
    work = _work.get()
    if work is None:
        return await make()
    if key not in work:
        work[key] = asyncio.create_task(_awaited(make))
    task = work[key]
    # Waiting, where a shield would report what goes wrong after its only waiter has left.
    await asyncio.wait((task,))
    result: T = task.result()
    return result


async def _awaited(make: Callable[[], Awaitable[T]]) -> T:
    return await make()
