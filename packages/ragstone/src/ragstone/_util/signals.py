"""The signals that ask a process to stop: SIGINT, SIGTERM and SIGHUP."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

STOP_SIGNALS: Final[tuple[signal.Signals, ...]] = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""A terminal that is closed sends SIGHUP. Windows does not have it."""

_HANGUP: Final = frozenset(STOP_SIGNALS[2:])


Handlers = Mapping[signal.Signals, Callable[[int, FrameType | None], object]]


def set_handlers(
    handlers: Handlers, *, keep_ignored: AbstractSet[signal.Signals] = _HANGUP
) -> dict[signal.Signals, object]:
    """Like `handle_signals`, until the process ends. Return what handled the signals before."""
    before: dict[signal.Signals, object] = {}
    for number, handler in handlers.items():
        current = signal.getsignal(number)
        if number in keep_ignored and current is signal.SIG_IGN:
            continue
        with suppress(ValueError):
            signal.signal(number, handler)
            before[number] = current
            if number not in keep_ignored and hasattr(signal, "pthread_sigmask"):
                # A command that a shell has started in the background blocks SIGINT.
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    return before


@contextmanager
def handle_signals(handlers: Handlers, *, keep_ignored: AbstractSet[signal.Signals] = _HANGUP) -> Iterator[None]:
    """Handle signals in the block. Outside of the main thread, do nothing, because Python does not allow it there.

    Signals in `keep_ignored` stay ignored if they are, such as SIGHUP for a process that `nohup` has started.
    """
    before = set_handlers(handlers, keep_ignored=keep_ignored)
    try:
        yield
    finally:
        for number, earlier in before.items():
            with suppress(ValueError, TypeError):
                signal.signal(number, earlier)  # type: ignore[arg-type]


@contextmanager
def stopped_by_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], object]) -> Iterator[None]:
    """Call a function in the running event loop when a signal asks this process to stop, in the block.

    Unlike `loop.add_signal_handler`, it restores the earlier handlers. Otherwise, a signal after the loop would end the
    process at once.
    """
    with handle_signals(dict.fromkeys(STOP_SIGNALS, lambda *_: loop.call_soon_threadsafe(stop))):
        yield
