"""Deadline of a sample, extended by outages, or by all calls of models."""

from __future__ import annotations

import asyncio
from typing import Final

from ragstone.judges import OutageTimer, progress_at

SILENCE_S: Final = 120.0
"""Seconds without a call of a model, and without an outcome, after which a sample without a deadline fails."""


class SampleDeadline:
    """Deadline of all metrics of a sample, in seconds from now. An outage of an endpoint does not use it up.

    None ends the sample if nothing that could score it is under way in this process: a call of a model ends by its own
    timeout.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._started_at = asyncio.get_running_loop().time()
        self._outage = OutageTimer()

    def remaining_s(self) -> float:
        """Return the seconds until the deadline, for a `MovingTimeout`."""
        if self._seconds is None:
            at = max(self._started_at, progress_at()) + SILENCE_S
        else:
            at = self._started_at + self._seconds
        return at + self._outage.seconds() - asyncio.get_running_loop().time()
