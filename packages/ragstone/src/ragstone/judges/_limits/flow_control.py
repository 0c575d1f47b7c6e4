"""What limits the requests to one endpoint: a concurrency window, budgets per minute, a circuit breaker."""

from __future__ import annotations

import math
import time
from typing import Final

__all__ = ["CircuitBreaker", "ConcurrencyWindow", "TokenBucket"]

_START: Final = 16
"""Requests at once before anything is known."""
_STRETCH_MAX: Final = 2.0
"""No growth while requests take this much longer than the fastest of their kind."""
_LATENCY_FLOOR_S: Final = 0.1
"""Differences below this are noise of this machine, and no sign of a queue at the endpoint."""
_NEAR_TIMEOUT: Final = 0.7
_SMOOTHING: Final = 0.2
_FORGETTING: Final = 0.005
"""How fast the fastest reply is forgotten: an endpoint may get slower for good."""
_KINDS_MAX: Final = 64
_GRACE_MIN_S: Final = 0.02
_CAUTION: Final = 0.98
"""Share of the budget that is used. At the whole of it, one request that travels faster than the one before it is
refused, and a refusal costs a second or more."""
_FAILURES: Final = 5
"""Failures in a row, with no answer between, that make an outage."""
_PROBE_GRACE_MIN_S: Final = 10.0
_PROBE_GRACE_FACTOR: Final = 4.0


class ConcurrencyWindow:
    """The number of requests in flight, and pauses; not thread-safe, and told the time.

    Doubles every round trip until the first trouble, then grows by one every round trip, while it is used to the full and
    replies do not slow down. Halves on overload. A refusal (429) stops everything for as long as the endpoint asked; then
    one request goes out, then another, then two, four, ... The next step needs no reply, only no refusal: refusals come
    at once, replies may take a minute.
    """

    def __init__(self) -> None:
        self.upper = _START
        """What the users allow."""
        self._limit = float(_START)
        self._doubling = True
        self._decreased_at = -math.inf
        self._stretch = 1.0
        self._fastest: dict[int, float] = {}
        self.latency_s: float | None = None
        """Seconds that replies take at present."""
        self._refusal_s = 0.0
        self._resume_at = -math.inf
        self._step: int | None = None
        """Which step after a pause this is."""
        self._step_left = 0
        self._next_step_at = -math.inf
        self.rounds_refused = 0
        """Pauses since the last reply."""

    @property
    def limit(self) -> int:
        """Requests that may be in flight at once."""
        return max(1, min(self.upper, int(self._limit)))

    @property
    def _used(self) -> float:
        return min(self._limit, float(self.upper))

    @property
    def refusal_s(self) -> float:
        """Seconds a refusal takes to arrive."""
        return self._refusal_s

    def wait_s(self, now: float) -> float:
        """Seconds until a request may go out, as far as pauses are concerned; 0 when it may now."""
        if now < self._resume_at:
            return self._resume_at - now
        if self._step is not None and not self._step_left:
            if now < self._next_step_at:
                return self._next_step_at - now
            self._begin(self._step + 1)
        return 0.0

    def paused_s(self, now: float) -> float:
        """Seconds left of the pause that the endpoint asked for."""
        return max(0.0, self._resume_at - now)

    def _begin(self, step: int) -> None:
        # One, then one more: where one a second may pass, half of two would be refused.
        self._step_left = 2 ** max(0, step - 1)
        self._step = step if self._step_left < self.limit or not step else None

    def sent(self, now: float) -> None:
        """Note that a request goes out."""
        if self._step is not None:
            self._step_left = max(0, self._step_left - 1)
            if not self._step_left:
                self._next_step_at = now + max(_GRACE_MIN_S, 2 * self._refusal_s)

    def answered(self, kind: int, sent_at: float, now: float, *, full: bool, timeout_s: float) -> None:
        """Learn from a reply.

        Args:
            kind: Tells requests apart that take differently long (by the length of reply they ask for).
            sent_at: When the request went out.
            now: When the reply came.
            full: Whether as many requests were in flight as may be.
            timeout_s: How long a reply may take.
        """
        latency_s = now - sent_at
        self.rounds_refused = 0
        if self._step is not None and not self._step_left and sent_at >= self._resume_at:
            self._next_step_at = now
        self.latency_s = _smoothed(self.latency_s, latency_s)
        stretch = max(0.0, latency_s - _LATENCY_FLOOR_S) / self._fastest_s(kind, latency_s)
        self._stretch += _SMOOTHING * (stretch - self._stretch)
        if sent_at <= self._decreased_at:
            return
        if self.latency_s > _NEAR_TIMEOUT * timeout_s:
            self._decrease(0.9 * self._used, now)
        elif full and self._stretch <= _STRETCH_MAX:
            self._limit = min(float(self.upper), self._used + (1.0 if self._doubling else 1 / self._used))

    def _fastest_s(self, kind: int, latency_s: float) -> float:
        known = self._fastest.get(kind)
        if known is None:
            if len(self._fastest) >= _KINDS_MAX:
                self._fastest.clear()
            known = latency_s
        self._fastest[kind] = fastest = max(1e-6, min(latency_s, known + _FORGETTING * (latency_s - known)))
        return fastest

    def overloaded(self, sent_at: float, now: float) -> None:
        """Learn from a time-out or a 503."""
        if sent_at > self._decreased_at:
            self._decrease(self._used / 2, now)

    def refused(self, sent_at: float, now: float, *, wait_s: float, n_admitted: int, told: bool) -> None:
        """Learn from a 429, and pause.

        Args:
            sent_at: When the request went out.
            now: When the refusal came.
            wait_s: Seconds to pause.
            n_admitted: Requests in flight that the endpoint is known to have let in.
            told: Whether the endpoint said how long to wait. Then it counts requests a minute rather than requests at
                once, and more than are in may be let in after the pause.
        """
        self._refusal_s = now - sent_at if not self._refusal_s else _smoothed(self._refusal_s, now - sent_at)
        if now >= self._resume_at:
            self.rounds_refused += 1
        self._resume_at = max(self._resume_at, now + wait_s)
        self._begin(0)
        if sent_at > self._decreased_at:
            # What it holds now it can hold; half of that would leave a limit of requests a minute unused.
            self._decrease(
                max(self._used / 2, min(self._used, 2.0 * n_admitted + 1 if told else float(n_admitted))), now
            )

    def restart(self) -> None:
        """Begin with few requests again, after an outage."""
        self._begin(0)

    def _decrease(self, limit: float, now: float) -> None:
        self._limit = max(1.0, limit)
        self._doubling = False
        self._decreased_at = now


def _smoothed(old: float | None, new: float) -> float:
    return new if old is None else old + _SMOOTHING * (new - old)


class TokenBucket:
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


class CircuitBreaker:
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

    def outage_duration_s(self, now: float) -> float:
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
        return max(_PROBE_GRACE_MIN_S, _PROBE_GRACE_FACTOR * (latency_s or 0.0))

    def message(self, now: float, fail_fast_after_s: float) -> str:
        """What to tell those who are turned away."""
        since = time.strftime("%H:%M:%S", time.localtime(self._since_unix))
        return (
            f"no answer since {since} ({self.outage_duration_s(now):.0f} s), last: {self.reason}; nothing more is sent but a "
            f"request now and then that finds out whether it is back (fail_fast_after_s={fail_fast_after_s:g})"
        )
