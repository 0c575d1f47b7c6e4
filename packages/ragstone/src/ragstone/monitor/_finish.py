"""Waiting at the end of a program until all requests are scored."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, Literal

State = Literal["done", "scoring", "unavailable", "not_owner"]
"""State of scoring. "unavailable": the judge is unavailable or the store cannot be used."""

_PAUSE_S: Final = 0.02
_UNAVAILABLE_S: Final = 2.0
"""Seconds in the state "unavailable" after which waiting ends. Calls to a judge were already retried before."""
_SHOW_S: Final = 0.5


def is_script() -> bool:
    """Return whether this is the main thread of a program that does not handle SIGTERM.

    A program that handles SIGTERM is a server, which must stop quickly.
    """
    return threading.current_thread() is threading.main_thread() and not is_server()


def is_server() -> bool:
    """Return whether this program handles SIGTERM, as servers do."""
    return signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, None)


def pauses(
    look: Callable[[], State], *, timeout_s: float, clock: Callable[[], float] = time.monotonic
) -> Iterator[float]:
    """Yield the pauses between checks, in seconds, as long as waiting can help.

    Args:
        look: Returns the state of scoring.
        timeout_s: Maximum seconds to wait.
        clock: A monotonic clock, in seconds.
    """
    end = clock() + timeout_s
    unavailable_since: float | None = None
    while (now := clock()) < end:
        state = look()
        if state in ("done", "not_owner"):
            return
        if state == "scoring":
            unavailable_since = None
        elif unavailable_since is None:
            unavailable_since = now
        elif now - unavailable_since >= _UNAVAILABLE_S:
            return
        yield _PAUSE_S


class Progress:
    """Shows the number of pending requests on a terminal. Without a terminal, it writes nothing.

    Args:
        count: Returns the number of pending requests, or None if unknown.
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, count: Callable[[], int | None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._count = count
        self._clock = clock
        # A dumb terminal cannot overwrite a line.
        self._on_terminal = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._next = clock() + _SHOW_S
        self._written = False

    def show(self) -> None:
        """Write the number, at most twice a second."""
        if not self._on_terminal or self._clock() < self._next:
            return
        self._next = self._clock() + _SHOW_S
        n = self._count()
        if n is not None:
            self._write(f"\rragstone: scoring, {n} pending (Ctrl-C ends the wait)\x1b[K")
            self._written = True

    def clear(self) -> None:
        """Remove the line."""
        if self._written:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):  # the terminal was closed
            self._on_terminal = self._written = False
