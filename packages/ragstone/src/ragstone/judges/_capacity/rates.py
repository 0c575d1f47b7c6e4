"""Budgets of so many a minute: a bucket that fills steadily and holds a few seconds' worth."""

from __future__ import annotations

from typing import Final

__all__ = ["Bucket"]

_CAUTION: Final = 0.98
"""Share of the budget that is used. At the whole of it, one request that travels faster than the one before it is
refused, and a refusal costs a second or more."""


class Bucket:
    """Holds up to `burst_s` seconds' worth of a budget; not thread-safe.

    Args:
        burst_s: Seconds' worth that may go out at once after a quiet time; one whole unit may in any case.
    """

    __slots__ = ("_at", "_burst", "_burst_s", "_level", "_rate", "per_minute")

    def __init__(self, *, burst_s: float) -> None:
        self._burst_s = burst_s
        self.per_minute: float | None = None
        """The budget; None is no limit."""
        self._rate = self._burst = self._level = self._at = 0.0

    def set(self, per_minute: float | None, now: float) -> None:
        """Change the budget; what was taken stays taken."""
        if per_minute == self.per_minute:
            return
        was_open = self.per_minute is None
        if not was_open:
            self._fill(now)
        self.per_minute = per_minute
        if per_minute is not None:
            self._rate = per_minute / 60 * _CAUTION
            self._burst = max(1.0, per_minute / 60 * self._burst_s)
            self._level = self._burst if was_open else min(self._level, self._burst)
            self._at = now

    def wait_s(self, cost: float, now: float) -> float:
        """Seconds until `cost` may be taken; 0 when it may now. What costs more than fits waits until all is full."""
        if self.per_minute is None:
            return 0.0
        self._fill(now)
        # Rounding must not make a wait of zero seconds.
        missing = min(cost, self._burst) - self._level
        return missing / self._rate if missing > 1e-9 else 0.0

    def take(self, cost: float, now: float) -> None:
        """Take `cost`, also what is not there: then others wait the longer."""
        if self.per_minute is not None:
            self._fill(now)
            self._level -= cost

    def _fill(self, now: float) -> None:
        self._level = min(self._burst, self._level + max(0.0, now - self._at) * self._rate)
        self._at = now
