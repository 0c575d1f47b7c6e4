"""The time of a process that runs for long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_BOOT: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


def _elapsed() -> float:
    # Unlike the monotonic clock, it also counts the time of a suspended machine.
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


class SteadyClock:
    """Unix seconds that do not go back: a clock that is put back must not delay retries and leases by the same time.

    A clock that is put forward is followed. `elapsed` returns seconds since any moment, which do not go back.
    """

    def __init__(self, wall: Callable[[], float] = time.time, elapsed: Callable[[], float] = _elapsed) -> None:
        self._wall, self._elapsed = wall, elapsed
        self._offset = wall() - elapsed()

    def __call__(self) -> float:
        """Return the current time."""
        elapsed = self._elapsed()
        self._offset = max(self._offset, self._wall() - elapsed)
        return elapsed + self._offset


steady_time: Final = SteadyClock()
"""The clock of this process."""
