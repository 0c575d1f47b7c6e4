"""Computations that several metrics of one sample share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

_work: ContextVar[dict[Hashable, asyncio.Task[Any]] | None] = ContextVar("ragstone_shared_work", default=None)


class share_work:  # noqa: N801 - used like a function
    """Share computations among the metrics of one sample, which run in this block.

    Computations that are unfinished at the end of the block are canceled.
    """

    async def __aenter__(self) -> None:
        self._work: dict[Hashable, asyncio.Task[Any]] = {}
        self._token = _work.set(self._work)

    async def __aexit__(self, *_: object) -> None:
        _work.reset(self._token)
        unfinished = [
            t
            for t in self._work.values()
            if t.cancel() or t.cancelled() or t.exception()  # codespell:ignore
        ]
        # The context of each task refers to the dict. Only the garbage collector would free them all.
        self._work.clear()
        if unfinished:
            await asyncio.gather(*unfinished, return_exceptions=True)


async def compute_once(key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return the result of `make()`, which runs once per `key` in a sample.

    The first caller starts the computation and its usage is recorded there. Other callers wait for the same result, or
    get it immediately. An error is raised in all callers. If a waiting caller is canceled, the computation continues
    for the others. Outside `share_work()`, each call computes its own result.

    Args:
        key: Everything that the result depends on: judge, task and texts.
        make: Function that computes the result.
    """
    work = _work.get()
    if work is None:
        return await make()
    if key not in work:
        work[key] = asyncio.create_task(make())
    task = work[key]
    if not task.done():
        # `asyncio.shield` would log errors that occur after the only waiting caller was canceled. `wait` costs more.
        done = asyncio.get_running_loop().create_future()
        task.add_done_callback(lambda _: None if done.cancelled() else done.set_result(None))  # codespell:ignore
        await done
    try:
        result: T = task.result()
        return result
    finally:
        # An error refers to this frame, which would refer to it: only the garbage collector frees a circle.
        del task
