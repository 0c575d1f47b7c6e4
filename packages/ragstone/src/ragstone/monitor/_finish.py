"""Waiting at the end of a program until all requests are scored."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, Literal

State = Literal["done", "scoring", "unavailable", "not_owner"]
"""State of scoring. "unavailable": the judge is unavailable or the store cannot be used."""

_PAUSE_S: Final = 0.02
_UNAVAILABLE_S: Final = 2.0
"""Seconds in the state "unavailable" after which waiting ends. Calls to a judge were already retried before."""


def is_script() -> bool:
    """Return whether this is the main thread of a program that does not handle SIGTERM.

    A program that handles SIGTERM is a server, which must stop quickly.
    """
    handles_sigterm = signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, None)
    return threading.current_thread() is threading.main_thread() and not handles_sigterm


def pauses(
    look: Callable[[], State], *, timeout_s: float, clock: Callable[[], float] = time.monotonic
) -> Iterator[float]:
    """Yield the pauses between looks at the state of scoring, in seconds, as long as waiting can help."""
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
