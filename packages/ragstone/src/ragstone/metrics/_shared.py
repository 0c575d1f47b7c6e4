"""Computations that several metrics of one sample share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

_work: ContextVar[dict[Hashable, asyncio.Future[Any]] | None] = ContextVar("ragstone_shared_work", default=None)


class share_work:  # noqa: N801 - used like a function
    """Share computations among the metrics of one sample, which run in this block."""

    def __enter__(self) -> None:
        self._work: dict[Hashable, asyncio.Future[Any]] = {}
        self._token = _work.set(self._work)

    def __exit__(self, *_: object) -> None:
        _work.reset(self._token)
        # An error refers to the frames that refer to the dict. Only the garbage collector would free them all.
        self._work.clear()


async def compute_once(key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return the result of `make()`, which runs once in a sample for a `key`: judge, task and texts.

    The first caller computes it, and its usage is recorded there. Other callers wait for the same result, or get it
    immediately. An error is raised in all callers. If the caller that computes is canceled, another one starts again.
    Outside `share_work()`, each call computes its own result.
    """
    work = _work.get()
    if work is None:
        return await make()
    future = work.get(key)
    # An error refers to this frame, which must not refer to it: only the garbage collector frees a circle.
    try:
        while future is not None and not future.cancelled():  # codespell:ignore
            if future.done():
                result: T = future.result()
                return result
            await asyncio.wait([future])  # unlike `asyncio.shield`, it does not log what it does not raise
            future = work.get(key)
        future = work[key] = asyncio.get_running_loop().create_future()
        try:
            result = await make()
        except asyncio.CancelledError:
            future.cancel()
            raise
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # so that asyncio does not log it if no other caller reads it
            raise
        future.set_result(result)
        return result
    finally:
        del future
