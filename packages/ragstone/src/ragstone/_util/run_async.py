"""Runner of coroutines for synchronous code, with or without a running event loop."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
_P = ParamSpec("_P")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result.

    Without a running event loop this is `asyncio.run`. Inside one (a notebook, for example) the coroutine runs in a
    separate thread with an event loop of its own, while the calling thread waits: the running loop is not patched. The
    coroutine sees the caller's context variables in both cases. An interrupt (Ctrl-C) cancels the coroutine, waits
    until its cleanup is done, and is then raised. A second interrupt does not wait.

    Examples:
        >>> async def double(number: int) -> int:
        ...     return 2 * number
        >>> run_async(double(21))
        42
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return _run_in_thread(work)


def synchronous(function: Callable[_P, Coroutine[Any, Any, T]], *, name: str) -> Callable[_P, T]:
    """Return the synchronous form of an asynchronous function, with the same arguments and errors (see `run_async`)."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> T:
        return run_async(function(*args, **kwargs))

    call.__name__ = call.__qualname__ = name
    return call


def _run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    started: Future[Callable[[], object]] = Future()  # the result is a function that cancels the work
    finished: Future[T] = Future()

    async def cancellable() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.create_task(work)
        started.set_result(lambda: loop.call_soon_threadsafe(task.cancel))
        return await task

    def target() -> None:
        try:
            finished.set_result(asyncio.run(cancellable()))
        except BaseException as error:  # noqa: BLE001 - raised in the calling thread below
            finished.set_exception(error)

    # A daemon: after a second interrupt, the process can exit although the work has not ended.
    thread = threading.Thread(target=copy_context().run, args=(target,), name="ragstone-run-async", daemon=True)
    try:
        try:
            thread.start()
        except RuntimeError as error:  # the process cannot start another thread
            work.close()
            finished.set_exception(error)
        return finished.result()
    except BaseException:
        if not finished.done():  # a signal handler raised in this thread while it waited
            either: list[Future[Any]] = [started, finished]
            wait(either, return_when=FIRST_COMPLETED)
            if started.done():
                with suppress(RuntimeError):  # the loop has closed in the meantime
                    started.result()()
            wait([finished])
        raise
