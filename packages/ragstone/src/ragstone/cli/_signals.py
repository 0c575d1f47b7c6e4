"""SIGINT (Ctrl-C), SIGTERM and SIGHUP: the same interruption for all commands, without a traceback at any time."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from ragstone._util.signals import STOP_SIGNALS, handle_signals, set_handlers

_INTERRUPTED: Final = 130
"""`ExitCode.INTERRUPTED`, which is not imported yet."""
_KEEP_IGNORED: Final = frozenset(STOP_SIGNALS) - {signal.SIGTERM}
"""A shell makes processes in the background ignore Ctrl-C, and `nohup` ignores SIGHUP."""


@contextmanager
def end_at_once() -> Iterator[None]:
    """End the process at once on a signal in the block, which imports modules: nothing can be lost.

    An exception within the import of a compiled module has a traceback, or becomes another error.
    """
    with handle_signals(dict.fromkeys(STOP_SIGNALS, _end), keep_ignored=_KEEP_IGNORED):
        yield


@contextmanager
def interruptible() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as Ctrl-C in the block. Commands that stop in another way set their own handlers within it."""
    with handle_signals(dict.fromkeys(STOP_SIGNALS[1:], _interrupt), keep_ignored=_KEEP_IGNORED):
        yield


@contextmanager
def until_exit() -> Iterator[None]:
    """End the process with exit code 130 and without a traceback on a signal in the block, and while Python shuts down after it.

    Hooks of `atexit` can be interrupted. What follows them ends soon in any case, and ignores signals.
    """
    atexit.register(_ignore)  # the first hook runs last
    # Blocked instead of ignored, so that event loops handle the interruption by the other signals: a loop sets its
    # handler, which `_interrupt` calls, only in the place of this one.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
    set_handlers(dict.fromkeys(STOP_SIGNALS[1:], _interrupt), keep_ignored=_KEEP_IGNORED)
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    finally:
        set_handlers(dict.fromkeys(STOP_SIGNALS, _end), keep_ignored=_KEEP_IGNORED)


def _ignore() -> None:
    for number in STOP_SIGNALS:
        with suppress(ValueError):
            signal.signal(number, signal.SIG_IGN)


def _end(_number: int, _frame: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, b"ragstone: interrupted.\n")
    os._exit(_INTERRUPTED)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        # That of a running event loop cancels its work instead of leaving it.
        handler(signal.SIGINT, frame)
    else:
        raise KeyboardInterrupt
