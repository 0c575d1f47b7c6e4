"""An executor with one daemon thread, for calls that may never return."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, TypeVar

from typing_extensions import override

from ragstone._util.fork import after_fork_in_child

T = TypeVar("T")


class DaemonThread(Executor):
    """One thread that does not prevent the end of the interpreter, unlike those of `ThreadPoolExecutor`.

    If threads cannot be started anymore because the interpreter ends, calls run directly.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._reset()
        after_fork_in_child(self._reset)

    def _reset(self) -> None:
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

        if self._thread is None:
            thread = threading.Thread(target=_run, args=(self._steps,), name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                run()
                return future
            self._thread = thread
        self._steps.put(run)
        return future

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the thread after all earlier calls, without waiting for them. A later call starts a new one."""
        steps, started = self._steps, self._thread is not None
        self._reset()
        if started:
            steps.put(None)


def _run(steps: SimpleQueue[Callable[[], None] | None]) -> None:
    while (step := steps.get()) is not None:
        step()
