"""Flow control for one endpoint: concurrency window, replies, token buckets for limits per minute, circuit breaker."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Final, Literal

_START: Final = 16
"""Initial number of concurrent requests."""
_QUEUED: Final = 0.8
"""Requests in flight only wait for each other if their latency increases by this share of their own increase."""
_QUEUE_MIN: Final = 2
"""A queue at the endpoint does not decrease the window below this: one request is processed, and one waits."""
_LATENCY_FLOOR_S: Final = 0.1
"""Smaller latency differences are local noise, not a queue at the endpoint."""
_ROUNDS: Final = 8
"""How many times as many other requests as are in flight may be answered before one."""
_SMOOTHING: Final = 0.2
_LEVEL_SMOOTHING: Final = 0.05
_LEVEL_REPLIES: Final = 8
"""Number of replies after which the latency of a level is compared."""
_GRACE_MIN_S: Final = 0.02
_CAUTION: Final = 0.98
"""Share of the rate limit that is used. Without this margin, a request with a shorter travel time than its predecessor
would be refused, which costs a second or more."""
_MAX_DEBT_S: Final = 120.0
"""Longest wait that the use of one request causes, because its tokens are a number that the endpoint reports."""
_FAILURES: Final = 5
"""Number of consecutive failures that count as an outage."""
_SILENT_MIN: Final = 2
"""The same for requests that received nothing, if fewer of them may be in flight."""
_PROBE_SHARE: Final = 0.02
_PROBE_GRACE_MIN_S: Final = 10.0
_PROBE_GRACE_FACTOR: Final = 4.0


@dataclass(slots=True)
class _Level:
    """Means over the requests that were sent while about the same number was in flight."""

    n_replies: int = 0
    in_flight: float = 0.0
    latency_s: float = 0.0

    def add(self, in_flight: int, latency_s: float) -> None:
        self.n_replies += 1
        weight = max(1 / self.n_replies, _LEVEL_SMOOTHING)
        self.in_flight += weight * (in_flight - self.in_flight)
        self.latency_s += weight * (latency_s - self.latency_s)

    def is_queue(self, fewer: _Level) -> bool:
        """Return whether requests only wait longer than with about half as many in flight."""
        ratio = self.in_flight / fewer.in_flight
        longest_s = fewer.latency_s * (1 + _QUEUED * (ratio - 1)) + _LATENCY_FLOOR_S
        return self.n_replies >= _LEVEL_REPLIES and ratio >= 1.5 and self.latency_s > longest_s


class ConcurrencyWindow:
    """Number of concurrent requests, and pauses. Not thread-safe. The caller passes the time.

    The window doubles in every round trip until the first problem. Then it grows by one per round trip, as long as it
    is fully used. It halves on overload, and if the latency increases in proportion to the requests in flight: they
    wait for each other, and half of them have the same throughput. After a refusal (429) nothing is sent for the
    time that the endpoint requested. Then one request is sent, then another, then two, four, ... The next step does not
    wait for replies, which may take a minute, only for the time in which a refusal would arrive.
    """

    def __init__(self) -> None:
        self.upper = _START
        """Configured maximum."""
        self._limit = float(_START)
        self._doubling = True
        self._decreased_at = -math.inf
        self._levels: dict[tuple[int, int], _Level] = {}
        self.latency_s: float | None = None
        """Current latency of replies in seconds."""
        self.refusal_s = 0.0
        """Time in seconds after which a refusal arrives."""
        self._resume_at = -math.inf
        self._step: int | None = None
        """Number of the current step after a pause."""
        self._step_left = 0
        self._next_step_at = -math.inf
        self.rounds_refused = 0
        """Number of pauses since the last reply."""

    @property
    def limit(self) -> int:
        """Maximum number of concurrent requests."""
        return max(1, min(self.upper, int(self._limit)))

    @property
    def _used(self) -> float:
        return min(self._limit, float(self.upper))

    def wait_s(self, now: float) -> float:
        """Return the seconds until a request may be sent as far as pauses are concerned (0: now)."""
        if now < self._resume_at:
            return self._resume_at - now
        if self._step is not None and not self._step_left:
            if now < self._next_step_at:
                return self._next_step_at - now
            self._begin(self._step + 1)
        return 0.0

    def paused_s(self, now: float) -> float:
        """Return the remaining seconds of the pause that the endpoint requested."""
        return max(0.0, self._resume_at - now)

    def _begin(self, step: int) -> None:
        # One request, then one more: if one per second is allowed, half of two would be refused.
        self._step_left = 2 ** max(0, step - 1)
        self._step = step if self._step_left < self.limit or not step else None

    def sent(self, now: float) -> None:
        """Record that a request is sent."""
        if self._step is not None:
            self._step_left = max(0, self._step_left - 1)
            if not self._step_left:
                self._next_step_at = now + max(_GRACE_MIN_S, 2 * self.refusal_s)

    def answered(self, kind: int, sent_at: float, now: float, *, full: bool, in_flight: int) -> None:
        """Adapt to a reply that arrived at `now`.

        `kind` is a group of requests with similar latency (by the maximum length of the reply). `full` says whether the
        maximum number of requests was in flight, `in_flight` how many were when it was sent, with it.
        """
        latency_s = now - sent_at
        self.rounds_refused = 0
        if self._step is not None and not self._step_left and sent_at >= self._resume_at:
            self._next_step_at = now
        self.latency_s = _smoothed(self.latency_s, latency_s)
        number = in_flight.bit_length()
        level = self._levels.setdefault((kind, number), _Level())
        level.add(in_flight, latency_s)
        if not full or sent_at <= self._decreased_at:
            return
        fewer = self._levels.get((kind, number - 1))
        if fewer is not None and self._used > _QUEUE_MIN and level.is_queue(fewer):
            # The next comparison is with new replies, because the endpoint may change.
            level.n_replies = 0
            self._decrease(max(float(_QUEUE_MIN), self._used / 2), now)
        else:
            self._limit = min(float(self.upper), self._used + (1.0 if self._doubling else 1 / self._used))

    def overloaded(self, sent_at: float, now: float, *, is_blocked: bool = False) -> None:
        """Adapt to a timeout or a 503. If nothing is answered, one request may block the others (`is_blocked`)."""
        if sent_at > self._decreased_at:
            self._decrease(1.0 if is_blocked else self._used / 2, now)

    def refused(self, sent_at: float, now: float, *, wait_s: float, n_admitted: int, wait_requested: bool) -> None:
        """Adapt to a 429 that arrived at `now`, and pause for `wait_s` seconds.

        `n_admitted` requests in flight have been accepted. An endpoint that requested the pause limits requests per
        minute rather than concurrent requests, and may accept more of them after the pause.
        """
        self.refusal_s = now - sent_at if not self.refusal_s else _smoothed(self.refusal_s, now - sent_at)
        if now >= self._resume_at:
            self.rounds_refused += 1
        self._resume_at = max(self._resume_at, now + wait_s)
        self._begin(0)
        if sent_at > self._decreased_at:
            # The endpoint can process the accepted requests. Half of them would not use a limit per minute fully.
            admitted = 2.0 * n_admitted + 1 if wait_requested else float(n_admitted)
            self._decrease(max(self._used / 2, min(self._used, admitted)), now)

    def restart(self, *, is_blocked: bool = False) -> None:
        """Start with few requests again, after an outage. If one may have blocked the others, wait for its reply."""
        self._begin(0)
        if is_blocked:
            self._limit, self._doubling = 1.0, True

    def _decrease(self, limit: float, now: float) -> None:
        self._limit = max(1.0, limit)
        self._doubling = False
        self._decreased_at = now


class Replies:
    """Number of replies of an endpoint, which shows if a request without a reply may be in a queue."""

    def __init__(self) -> None:
        self.n = 0
        self.at = -math.inf
        """When the last one arrived."""

    def add(self, now: float) -> None:
        self.n += 1
        self.at = now

    def waits_since(self, sent_at: float, *, n_before: int, in_flight: int) -> float:
        """Return when a timeout starts: with the last reply, unless too many arrived since `n_before`."""
        return max(sent_at, self.at) if self.n - n_before <= _ROUNDS * in_flight else sent_at


def _smoothed(old: float | None, new: float) -> float:
    return new if old is None else old + _SMOOTHING * (new - old)


class TokenBucket:
    """Token bucket with up to `burst_s` seconds' worth (at least one unit) of a limit per minute. Not thread-safe."""

    def __init__(self, *, burst_s: float) -> None:
        self._burst_s = burst_s
        self.per_minute: float | None = None
        """Limit per minute, or None for no limit."""
        self._rate = self._burst = self._level = self._at = 0.0

    def set(self, per_minute: float | None, now: float) -> None:
        """Change the limit. Earlier use still counts."""
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
        """Return the seconds until `cost` is available (0: now). If it exceeds the bucket, a full bucket is enough."""
        if self.per_minute is None:
            return 0.0
        self._fill(now)
        # Rounding must not cause a wait of zero seconds.
        missing = min(cost, self._burst) - self._level
        return missing / self._rate if missing > 1e-9 else 0.0

    def take(self, cost: float, now: float) -> None:
        """Use `cost`, even if it is not available. Later requests then wait longer."""
        if self.per_minute is not None:
            self._fill(now)
            self._level = max(self._level - cost, min(self._level, -self._rate * _MAX_DEBT_S))

    def _fill(self, now: float) -> None:
        self._level = min(self._burst, self._level + max(0.0, now - self._at) * self._rate)
        self._at = now


@dataclass(slots=True)
class FailedAttempt:
    """A failed attempt that may succeed if repeated."""

    reason: str
    kind: Literal["timeout", "unavailable", "unparseable"] = "unavailable"
    retry_after_s: float | None = None
    rate_limited: bool = False
    overload: bool = False
    unreachable: bool = False
    """Whether no server answered, so that another request would have failed as well."""
    silent: bool = False
    """Whether nothing arrived for some time, which may also be a queue."""
    status: int = 0
    """HTTP status, or 0 without one."""
    text: str = ""
    """Complete text of the endpoint. It may contain secrets and must not be shown."""

    @property
    def replied(self) -> bool:
        """Whether the server replied, which shows that a slow endpoint processes its queue."""
        return self.status > 0 or self.kind == "unparseable"

    @property
    def may_refuse(self) -> bool:
        """Whether the reason may be a part of the request, and not the load, a limit or the key."""
        if self.status in (504, 529) or self.retry_after_s is not None or self.silent:
            return False
        return self.unreachable or self.kind == "unparseable" or self.status == 200 or self.status >= 500


class CircuitBreaker:
    """Detects outages of an endpoint. Not thread-safe. The caller passes the time."""

    def __init__(self) -> None:
        self._streak = 0
        self._enough = _FAILURES
        self._since = 0.0
        self._since_unix = 0.0
        self.reason = ""
        """Error of the last failure."""
        self.kind = "unavailable"
        self.silent = False
        """Whether the last request that failed received nothing."""
        self.probing_since: float | None = None
        """When the current probe was sent, or None without one."""
        self.next_probe_at = 0.0

    @property
    def open(self) -> bool:
        """Whether the endpoint seems to be unavailable."""
        return self._streak >= self._enough

    def outage_duration_s(self, now: float) -> float:
        """Return the seconds since the first failure, or 0 without an outage."""
        return now - self._since if self.open else 0.0

    def failed(
        self, now: float, failure: FailedAttempt, *, probe: bool, probe_s: float, limit: int = 0, answers: bool = False
    ) -> None:
        """Record a failure. The next probe is due at least `probe_s` after a failed probe.

        Requests without a reply are an outage if as many as can be in flight (`limit`) fail, unless it `answers` others.
        """
        was_open = self.open
        if not self._streak:
            self._since = now
            self._since_unix = time.time()
        self.silent = failure.silent
        if failure.silent:
            self._enough = min(self._enough, max(_SILENT_MIN, limit))
        if was_open or not answers:
            self._streak += 1
        else:
            self._streak = min(self._streak + 1, self._enough - 1)
        self.reason, self.kind = failure.reason, failure.kind
        if probe:
            self.probing_since = None
        if probe or not was_open:
            # Less often in a long outage. A restart is noticed after at most 2% of its duration.
            self.next_probe_at = now + max(probe_s, _PROBE_SHARE * self.outage_duration_s(now))

    def answered(self, *, sent_at: float) -> bool:
        """Record a reply, including refusals. Return whether it ends an outage."""
        ends = self.open
        if not ends and self._streak and sent_at <= self._since and not self.silent:
            # The server was available when it received the request. That does not show that it still is.
            return False
        self._streak, self._enough = 0, _FAILURES
        self.probing_since = None
        return ends

    def grace_s(self, latency_s: float | None) -> float:
        """Return the seconds to wait for a probe that is in flight."""
        return max(_PROBE_GRACE_MIN_S, _PROBE_GRACE_FACTOR * (latency_s or 0.0))

    def message(self, now: float, max_outage_s: float) -> str:
        """Return the message for requests that fail during the outage."""
        since = time.strftime("%H:%M:%S", time.localtime(self._since_unix))
        return (
            f"no reply since {since} ({self.outage_duration_s(now):.0f} s, the limit is {max_outage_s:g} s), last "
            f"error: {self.reason}. Only a probe is sent now and then until the endpoint replies"
        )
