"""Telling an endpoint that is down from one that failed once."""

from __future__ import annotations

import time
from typing import Final

__all__ = ["Breaker"]

_FAILURES: Final = 5
"""Failures in a row, with no answer between, that make an outage."""
_GRACE_MIN_S: Final = 10.0
_GRACE_FACTOR: Final = 4.0


class Breaker:
    """Knows since when an endpoint has answered nobody; not thread-safe, and told the time."""

    def __init__(self) -> None:
        self._streak = 0
        self._since = 0.0
        self._since_unix = 0.0
        self.reason = ""
        """What the last failure was."""
        self.kind = "unavailable"
        self.probing_since: float | None = None
        """When the request that finds out went out; None when there is none."""
        self.next_probe_at = 0.0

    @property
    def open(self) -> bool:
        """Whether the endpoint seems to be down."""
        return self._streak >= _FAILURES

    def lasted_s(self, now: float) -> float:
        """Seconds since the first failure; 0 when there is no outage."""
        return now - self._since if self.open else 0.0

    def failed(self, now: float, *, reason: str, kind: str, probe: bool, probe_s: float) -> None:
        """Note a failure; the next probe goes out `probe_s` after that of a probe."""
        was_open = self.open
        if not self._streak:
            self._since = now
            self._since_unix = time.time()
        self._streak += 1
        self.reason, self.kind = reason, kind
        if probe:
            self.probing_since = None
        if probe or not was_open:
            self.next_probe_at = now + probe_s

    def answered(self) -> bool:
        """Note that the endpoint said something, if only no. Returns whether this ends an outage."""
        ends = self.open
        self._streak = 0
        self.probing_since = None
        return ends

    def grace_s(self, latency_s: float | None) -> float:
        """Seconds for which a probe that is under way is worth waiting for."""
        return max(_GRACE_MIN_S, _GRACE_FACTOR * (latency_s or 0.0))

    def message(self, now: float, outage_s: float) -> str:
        """What to tell those who are turned away."""
        since = time.strftime("%H:%M:%S", time.localtime(self._since_unix))
        return (
            f"no answer since {since} ({self.lasted_s(now):.0f} s), last: {self.reason}; nothing more is sent but a "
            f"request now and then that finds out whether it is back (outage_s={outage_s:g})"
        )
