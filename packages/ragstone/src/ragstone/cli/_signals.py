"""Ctrl-C and SIGTERM: the same interruption for all commands, without a traceback at any time."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

__all__ = ["end_at_once", "interruptible"]

_INTERRUPTED: Final = 130
"""`ExitCode.INTERRUPTED`, which is not imported yet."""


@contextmanager
def end_at_once() -> Iterator[None]:
    """End the process at once on Ctrl-C or SIGTERM in the block, which imports modules: nothing can be lost.

    An exception within the import of a compiled module has a traceback, or becomes another error.
    """
    with _handle({signal.SIGINT: _end, signal.SIGTERM: _end}):
        yield


@contextmanager
def interruptible() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C in the block. Commands that stop in another way set their own handlers within it."""
    with _handle({signal.SIGTERM: _interrupt}):
        yield


def _end(_number: int, _frame: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, b"ragstone: interrupted.\n")
    os._exit(_INTERRUPTED)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    if callable(signal.getsignal(signal.SIGINT)):
        # The handler of a running event loop cancels its work instead of leaving it.
        signal.raise_signal(signal.SIGINT)
    else:
        # A shell makes processes in the background ignore Ctrl-C.
        raise KeyboardInterrupt


@contextmanager
def _handle(handlers: Mapping[signal.Signals, Callable[[int, FrameType | None], None]]) -> Iterator[None]:
    before = {}
    for number, handler in handlers.items():
        current = signal.getsignal(number)
        if number == signal.SIGINT and current is signal.SIG_IGN:
            continue
        # Python allows signal handlers only in the main thread.
        with suppress(ValueError):
            signal.signal(number, handler)
            before[number] = current
    try:
        yield
    finally:
        for number, earlier in before.items():
            with suppress(ValueError, TypeError):
                signal.signal(number, earlier)
