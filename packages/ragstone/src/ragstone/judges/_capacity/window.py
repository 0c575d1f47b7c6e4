"""How many requests an endpoint takes at once, learned from how it answers."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["Window"]

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


class Window:
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
