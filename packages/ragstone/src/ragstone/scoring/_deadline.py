"""Deadline of a sample, extended by outages."""

from __future__ import annotations

import asyncio
import contextlib

from ragstone.judges import OutageTimer

__all__ = ["SampleDeadline"]

_MIN_WAIT_S = 0.05


class SampleDeadline:
    """Deadline of all metrics of a sample. Time in which an endpoint is unavailable does not use it up.

    Args:
        seconds: Time from now.
    """

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time() + seconds
        self._outage = OutageTimer()
        self._is_over = False
        self._timeouts: list[asyncio.Timeout] = []
        self._timer = self._loop.call_at(self._at, self._check)

    def timeout(self) -> asyncio.Timeout:
        """Return an asynchronous context manager that raises TimeoutError at the deadline, as `asyncio.timeout` does."""
        timeout = asyncio.timeout_at(self._loop.time() if self._is_over else None)
        self._timeouts.append(timeout)
        return timeout

    def close(self) -> None:
        """End the deadline. Timeouts do not fire afterwards."""
        self._timer.cancel()

    def _check(self) -> None:
        now = self._loop.time()
        if (at := self._at + self._outage.seconds()) > now:
            self._timer = self._loop.call_at(max(at, now + _MIN_WAIT_S), self._check)
            return
        self._is_over = True
        for timeout in self._timeouts:
            # A finished one cannot be changed.
            with contextlib.suppress(RuntimeError):
                timeout.reschedule(now)
