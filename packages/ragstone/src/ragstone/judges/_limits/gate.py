"""What one endpoint can take, shared by everything in this process that asks it: threads, event loops, models."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from ragstone._util.fork import after_fork_in_child
from ragstone.errors import ConfigurationError, JudgeUnavailableError
from ragstone.judges._limits.flow_control import CircuitBreaker, ConcurrencyWindow, TokenBucket

__all__ = ["ClientLimits", "EndpointLimiter", "Permit", "Waiter", "capacity_of"]

_CONCURRENCY: Final = 16
"""Requests in flight at most, where nobody says otherwise."""
_TICK_S: Final = 1.0
"""Loops that have requests waiting look after them so often, should the one that would wake them be gone."""
_TOGETHER_S: Final = 0.05
_REQUESTS_BURST_S: Final = 1.0
_TOKENS_BURST_S: Final = 10.0


@dataclass(frozen=True, eq=False, kw_only=True)
class ClientLimits:
    """What one user of an endpoint allows; in force for as long as somebody holds it. The smallest of each counts."""

    concurrency: int | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout_s: float = 60.0
    fail_fast_after_s: float = 30.0
    probe_s: float = 1.0
    """Seconds between two tries during an outage."""

    def __post_init__(self) -> None:
        if self.concurrency is not None and self.concurrency < 1:
            raise ConfigurationError(f"concurrency must be at least 1, got {self.concurrency!r}")
        for name in ("requests_per_minute", "tokens_per_minute"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise ConfigurationError(f"{name} must be above 0, or None for no limit, got {limit!r}")
        if not self.timeout_s > 0 or not self.fail_fast_after_s >= 0:
            raise ConfigurationError(
                "timeout_s must be above 0, fail_fast_after_s not below 0, got "
                f"timeout_s={self.timeout_s!r}, fail_fast_after_s={self.fail_fast_after_s!r}"
            )


@dataclass(slots=True, eq=False)
class Permit:
    """The right to send one request now. Ends with one of `EndpointLimiter`'s `answered`, `refused`, `failed`, `unused`."""

    loop: asyncio.AbstractEventLoop
    share: ClientLimits
    kind: int
    n_requests: int
    n_tokens: float
    sent_at: float
    n_rounds_refused: int
    """Pauses for refusals before it was sent, since the last reply."""
    probe: bool = False


@dataclass(slots=True, eq=False)
class Waiter:
    loop: asyncio.AbstractEventLoop
    share: ClientLimits
    kind: int
    n_requests: int
    n_tokens: float
    n_failures: int
    order: int
    future: asyncio.Future[Permit | Exception] = field(init=False)
    permit: Permit | None = None

    def __post_init__(self) -> None:
        self.future = self.loop.create_future()


_Parcel = tuple[Waiter, Permit | Exception]


class EndpointLimiter:
    """Decides who may send when. Safe to use from any thread with a running event loop.

    Requests go out in the order in which they came, across loops. Whatever ends a wait (cancellation, a closed loop)
    frees the place. After a fork the child begins anew.

    Args:
        clock: Seconds that only grow, the same for all threads.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shares: weakref.WeakSet[ClientLimits] = weakref.WeakSet()
        self._stale = False
        self._begin()
        after_fork_in_child(self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._waiters: list[Waiter] = []
        self._in_flight: set[Permit] = set()
        self._timers: dict[asyncio.AbstractEventLoop, tuple[float, asyncio.TimerHandle]] = {}
        self._n_arrived = 0
        self._abandoned: deque[Permit | Waiter] = deque()
        self.window = ConcurrencyWindow()
        self.breaker = CircuitBreaker()
        self._requests = TokenBucket(burst_s=_REQUESTS_BURST_S)
        self._tokens = TokenBucket(burst_s=_TOKENS_BURST_S)
        self._stale = True

    def join(self, share: ClientLimits) -> None:
        """Let a user's limits count from now on, for as long as it lives."""
        # The callback may come at any moment, also under the lock: it must not want the lock.
        weakref.finalize(share, _mark_stale, weakref.ref(self)).atexit = False
        with self._lock:
            self._shares.add(share)
            self._stale = True

    @property
    def in_flight(self) -> int:
        """Requests that are on their way."""
        return len(self._in_flight)

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return len(self._waiters)

    @property
    def counts_tokens(self) -> bool:
        """Whether there is a budget of tokens, and so whether requests need an estimate."""
        return any(share.tokens_per_minute is not None for share in self._shares)

    async def acquire(
        self,
        share: ClientLimits,
        *,
        kind: int = 0,
        n_requests: int = 1,
        n_tokens: float = 0.0,
        n_failures: int = 0,
        order: int | None = None,
    ) -> Permit:
        """Wait for the right to send one request.

        Args:
            share: Who asks; has joined.
            kind: Tells requests apart that take differently long.
            n_requests: What counts against the requests a minute; 0 for what is no inference.
            n_tokens: What it is estimated to take of the tokens a minute.
            n_failures: How often this request has failed; one that has not is the better probe.
            order: Its place in the queue, from `arrive`; None is the end.

        Raises:
            JudgeUnavailableError: The endpoint has been down for longer than the share's `fail_fast_after_s`.
        """
        loop = asyncio.get_running_loop()
        now = self._clock()
        with self._lock:
            if order is None:
                self._n_arrived += 1
                order = self._n_arrived
            waiter = Waiter(loop, share, kind, n_requests, n_tokens, n_failures, order)
            at = len(self._waiters)
            while at and self._waiters[at - 1].order > waiter.order:
                at -= 1
            self._waiters.insert(at, waiter)
            parcels, next_s = self._dispatch(now)
        self._hand_out(parcels, next_s)
        try:
            given = await waiter.future
        except asyncio.CancelledError:
            self._withdraw(waiter)
            raise
        except GeneratorExit:
            self.discard(waiter)
            raise
        if isinstance(given, Permit):
            return given
        raise given

    def enqueue(self) -> int:
        """A place in the queue, for a request that may have to queue several times."""
        with self._lock:
            self._n_arrived += 1
            return self._n_arrived

    def _withdraw(self, waiter: Waiter) -> None:
        with self._lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            permit = waiter.permit
        if permit is not None:
            self.cancel(permit)
        else:
            self._dispatch_and_hand_out()

    def discard(self, what: Permit | Waiter) -> None:
        """Give up what a coroutine held that is collected as garbage: at any moment, so also while the lock is held."""
        self._abandoned.append(what)

    # How requests end ---------------------------------------------------------------------------------------------

    def answered(self, permit: Permit, *, n_tokens: float | None = None, learn: bool = True) -> None:
        """The endpoint replied.

        Args:
            permit: What was sent.
            n_tokens: Tokens it took, where the reply says so.
            learn: Whether the time it took says anything: a refusal of the request itself comes at once.
        """
        with self._lock:
            now = self._clock()
            full = len(self._in_flight) >= self.window.limit
            self._in_flight.discard(permit)
            if self.breaker.answered():
                self.window.restart()
            if learn:
                self.window.answered(permit.kind, permit.sent_at, now, full=full, timeout_s=permit.share.timeout_s)
            if n_tokens is not None:
                self._tokens.take(n_tokens - permit.n_tokens, now)
        self._dispatch_and_hand_out()

    def refused(self, permit: Permit, *, wait_s: float, told: bool) -> None:
        """The endpoint said 429: nobody sends for `wait_s` seconds (`told`: because it said so)."""
        with self._lock:
            now = self._clock()
            self._in_flight.discard(permit)
            if self.breaker.answered():
                self.window.restart()
            # What was sent a refusal's time earlier would have been refused by now.
            entered_by = permit.sent_at - self.window.refusal_s
            n_admitted = sum(other.sent_at < entered_by for other in self._in_flight)
            self.window.refused(permit.sent_at, now, wait_s=wait_s, n_admitted=n_admitted, told=told)
            self._tokens.take(-permit.n_tokens, now)
        self._dispatch_and_hand_out()

    def failed(
        self,
        permit: Permit,
        *,
        reason: str,
        kind: Literal["timeout", "unavailable", "unparseable"],
        overload: bool,
    ) -> None:
        """Nothing usable came back; `overload`: because it had too much to do."""
        with self._lock:
            now = self._clock()
            self._in_flight.discard(permit)
            # Another answer may have ended the outage since.
            probe = permit.probe and self.breaker.probing_since == permit.sent_at
            self.breaker.failed(now, reason=reason, kind=kind, probe=probe, probe_s=permit.share.probe_s)
            if overload:
                self.window.overloaded(permit.sent_at, now)
        self._dispatch_and_hand_out()

    def cancel(self, permit: Permit, *, sent: bool = False) -> None:
        """It was given up, before or after it was `sent`."""
        with self._lock:
            now = self._clock()
            self._drop(permit, now, sent=sent)
        self._dispatch_and_hand_out()

    def _drop(self, permit: Permit, now: float, *, sent: bool) -> None:
        if permit not in self._in_flight:
            return
        self._in_flight.discard(permit)
        if permit.probe and self.breaker.probing_since == permit.sent_at:
            self.breaker.probing_since = None
            self.breaker.next_probe_at = now
        if not sent:
            self._requests.take(-permit.n_requests, now)
            self._tokens.take(-permit.n_tokens, now)

    def is_down(self, share: ClientLimits) -> bool:
        """Whether the endpoint has been down for longer than a share allows."""
        return self.breaker.open and self.breaker.outage_duration_s(self._clock()) >= share.fail_fast_after_s

    def pause_s(self) -> float:
        """Seconds for which the endpoint wants to be left alone."""
        return self.window.paused_s(self._clock())

    # Who may send -------------------------------------------------------------------------------------------------

    def _dispatch(self, now: float) -> tuple[list[_Parcel], float | None]:
        """Give permits to those whose turn it is; under the lock.

        Returns:
            What to hand out, and the seconds until there may be more to do, None when nobody waits.
        """
        if self._stale:
            self._update_limits(now)
        while self._abandoned:
            what = self._abandoned.popleft()
            if isinstance(what, Waiter):
                self._waiters = [waiter for waiter in self._waiters if waiter is not what]
            permit = what.permit if isinstance(what, Waiter) else what
            if permit is not None:
                self._drop(permit, now, sent=True)
        parcels: list[_Parcel] = []
        next_s: float | None = None
        while self._waiters:
            if self.breaker.open:
                next_s = self._dispatch_outage(now, parcels)
                break
            waiter = self._waiters[0]
            next_s = self._wait_s(waiter, now)
            if next_s > 0:
                break
            parcels.append((waiter, self._admit(waiter, now)))
        return parcels, next_s if self._waiters else None

    def _wait_s(self, waiter: Waiter, now: float) -> float:
        if len(self._in_flight) >= self.window.limit:
            return _TICK_S
        return (
            self.window.wait_s(now)
            or self._requests.wait_s(waiter.n_requests, now)
            or self._tokens.wait_s(waiter.n_tokens, now)
        )

    def _dispatch_outage(self, now: float, parcels: list[_Parcel]) -> float:
        """One request at a time tries; when it has taken too long already, the others are turned away."""
        breaker = self.breaker
        probing = breaker.probing_since
        if probing is None and now >= breaker.next_probe_at and not self.window.paused_s(now):
            # One that has failed before may be at fault itself.
            waiter = min(self._waiters, key=lambda w: (w.n_failures, w.order))
            permit = self._admit(waiter, now)
            permit.probe = True
            breaker.probing_since = probing = now
            parcels.append((waiter, permit))
        outage_duration_s = breaker.outage_duration_s(now)
        until_probe_s = max(breaker.next_probe_at - now, self.window.paused_s(now))
        # The requests of one sample come within milliseconds, and should all meet the same fate.
        worth_waiting = (
            until_probe_s < _TOGETHER_S if probing is None else now - probing < breaker.grace_s(self.window.latency_s)
        )
        for waiter in list(self._waiters):
            if outage_duration_s >= waiter.share.fail_fast_after_s and not worth_waiting:
                self._waiters.remove(waiter)
                message = breaker.message(now, waiter.share.fail_fast_after_s)
                parcels.append((waiter, JudgeUnavailableError(message, kind=breaker.kind)))
        return _TICK_S if probing is not None else max(0.001, until_probe_s)

    def _admit(self, waiter: Waiter, now: float) -> Permit:
        self._waiters.remove(waiter)
        permit = Permit(
            waiter.loop, waiter.share, waiter.kind, waiter.n_requests, waiter.n_tokens, now, self.window.rounds_refused
        )
        waiter.permit = permit
        self._in_flight.add(permit)
        self.window.sent(now)
        self._requests.take(waiter.n_requests, now)
        self._tokens.take(waiter.n_tokens, now)
        return permit

    def _update_limits(self, now: float) -> None:
        """Find the limits that are in force."""
        self._stale = False
        shares = list(self._shares)
        given = [share.concurrency for share in shares if share.concurrency is not None]
        self.window.upper = min(given, default=_CONCURRENCY)
        for bucket, limits in (
            (self._requests, [share.requests_per_minute for share in shares]),
            (self._tokens, [share.tokens_per_minute for share in shares]),
        ):
            bucket.set(min((limit for limit in limits if limit is not None), default=None), now)

    # Across loops -------------------------------------------------------------------------------------------------

    def _dispatch_and_hand_out(self) -> None:
        with self._lock:
            parcels, next_s = self._dispatch(self._clock())
        self._hand_out(parcels, next_s)

    def _hand_out(self, parcels: list[_Parcel], next_s: float | None) -> None:
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        for waiter, given in parcels:
            if waiter.loop is here:
                _deliver(waiter.future, given)
                continue
            try:
                waiter.loop.call_soon_threadsafe(_deliver, waiter.future, given)
            except RuntimeError:
                # Closed with its task unfinished; the next tick frees the place.
                continue
        if next_s is not None and here is not None:
            self._wake_in(here, min(next_s, _TICK_S))

    def _wake_in(self, loop: asyncio.AbstractEventLoop, delay_s: float) -> None:
        # Only this loop's thread reads and writes its own timer.
        due = self._clock() + delay_s
        known = self._timers.get(loop)
        if known is not None:
            if known[0] <= due:
                return
            known[1].cancel()
        self._timers[loop] = (due, loop.call_later(delay_s, self._tick, loop))

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timers.pop(loop, None)
        with self._lock:
            now = self._clock()
            for permit in [permit for permit in self._in_flight if permit.loop.is_closed()]:
                self._drop(permit, now, sent=True)
            self._waiters = [waiter for waiter in self._waiters if not waiter.loop.is_closed()]
            for closed in [other for other in list(self._timers) if other.is_closed()]:
                del self._timers[closed]
            parcels, next_s = self._dispatch(now)
        self._hand_out(parcels, next_s)


def _deliver(future: asyncio.Future[Permit | Exception], given: Permit | Exception) -> None:
    # A cancelled waiter gives its permit back itself.
    if not future.done():
        future.set_result(given)


def _mark_stale(reference: weakref.ref[EndpointLimiter]) -> None:
    capacity = reference()
    if capacity is not None:
        capacity._stale = True  # noqa: SLF001  our own


class _Registry:
    """The capacities of this process, each for as long as somebody uses it."""

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[tuple[str, str], EndpointLimiter] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        after_fork_in_child(self._after_fork)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()

    def get(self, key: tuple[str, str]) -> EndpointLimiter:
        with self._lock:
            capacity = self._known.get(key)
            if capacity is None:
                self._known[key] = capacity = EndpointLimiter()
            return capacity


_registry: Final = _Registry()


def capacity_of(base_url: str, api_key: str | None) -> EndpointLimiter:
    """The capacity of an endpoint: the same for everybody in this process who asks it with the same key."""
    parts = urlsplit(base_url)
    where = f"{parts.scheme}://{parts.netloc.lower()}{parts.path}"
    return _registry.get((where, hashlib.sha256((api_key or "").encode()).hexdigest()))
