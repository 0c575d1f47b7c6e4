"""The time of a process that runs for long, and times that users write."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from ragstone.errors import ConfigurationError

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


def parse_time(text: str) -> float:
    """Return an ISO date in UTC, or a time before now such as -7d, in Unix seconds."""
    if match := re.fullmatch(r"-(\d+(?:\.\d+)?)([dhm])", text):
        return time.time() - float(match[1]) * {"d": 86400, "h": 3600, "m": 60}[match[2]]
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"invalid time {text!r}. Write an ISO date (2026-11-01, 2026-11-01T12:00) or a time before now "
            "(-7d, -12h, -30m)."
        ) from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
