"""Limiter of one endpoint, shared by all threads, event loops and models of this process that use it."""

from __future__ import annotations

import asyncio
import hashlib
import math
import threading
import time
import weakref
from bisect import insort
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from typing import Final
from urllib.parse import urlsplit

from ragstone._util.fork import after_fork_in_child
from ragstone._util.variables import assigned
from ragstone.errors import JudgeUnavailableError
from ragstone.judges._limits.flow_control import CircuitBreaker, ConcurrencyWindow, FailedAttempt, Replies, TokenBucket

DEFAULT_CONCURRENT_REQUESTS: Final = 16
"""Default maximum number of concurrent requests."""
_TICK_S: Final = 1.0
"""Interval at which event loops check their waiting requests, in case the event that should wake them is lost."""
_PASSES: Final = 64
"""How many later requests may be sent before one that waits for requests with other log-probabilities."""
_TOGETHER_S: Final = 0.05
_REQUESTS_BURST_S: Final = 1.0
_TOKENS_BURST_S: Final = 10.0


@dataclass(frozen=True, eq=False, kw_only=True)
class ClientLimits:
    """Limits of one user of an endpoint, which apply as long as the object exists. The smallest of each applies."""

    concurrency: int | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout_s: float = 60.0
    max_outage_s: float = 30.0
    probe_s: float = 1.0
    """Seconds between two probes during an outage."""
    max_retries: int = 4
    max_wait_s: float = 600.0
    backoff_s: float = 0.5


class _Patience:
    """Limit of `wait_for_outages`. An outage that began earlier counts from the first request of the block."""

    def __init__(self, max_outage_s: float) -> None:
        self.max_outage_s = max_outage_s
        self._first_used: weakref.WeakKeyDictionary[EndpointLimiter, float] = weakref.WeakKeyDictionary()

    def since(self, limiter: EndpointLimiter, now: float) -> float:
        """Return when the first request of the block asked for a permission of this limiter."""
        return self._first_used.setdefault(limiter, now)


_patience: Final[ContextVar[_Patience | None]] = ContextVar("ragstone_outage_patience", default=None)
"""Limit of `wait_for_outages`, which replaces that of each user."""


@dataclass(slots=True, eq=False)
class Permit:
    """Permission to send one request. `answered`, `refused`, `failed` or `cancel` of `EndpointLimiter` ends it."""

    request: Waiter
    sent_at: float
    n_rounds_refused: int
    """Pauses after refusals since the last reply, when the request was sent."""
    n_in_flight: int
    """Number of requests in flight when it was sent, with it."""
    n_replies: int
    """Number of replies of the endpoint when it was sent."""
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
    max_outage_s: float
    waits_since: float
    """Outages that began earlier count from this time."""
    reads: str | None
    """Which log-probabilities it requests: of tokens by "id", of the "top" tokens, or none."""
    future: asyncio.Future[Permit | Exception] = field(init=False)
    permit: Permit | None = None

    def __post_init__(self) -> None:
        self.future = self.loop.create_future()


_Parcel = tuple[Waiter, Permit | Exception]


class EndpointLimiter:
    """Decides which request is sent when. Thread-safe, for any thread with a running event loop.

    Requests are sent in order of arrival, across event loops. If a wait ends in any other way (cancellation, a closed
    event loop), its place is freed. After a fork the child starts with a new state.
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
        self._replies = Replies()
        self._abandoned: deque[Permit | Waiter] = deque()
        self.window = ConcurrencyWindow()
        self.breaker = CircuitBreaker()
        self._max_outage_s = 0.0
        """Limit of the latest request."""
        self._outage_s = 0.0
        self._outage_mark: float | None = None
        """Time until which `_outage_s` is counted, or None if no request waits for an unavailable endpoint."""
        self._requests = TokenBucket(burst_s=_REQUESTS_BURST_S)
        self._tokens = TokenBucket(burst_s=_TOKENS_BURST_S)
        self._stale = True

    def join(self, share: ClientLimits) -> None:
        """Apply a user's limits from now on, as long as the object exists."""
        # The callback may run at any moment, also while the lock is held, so it must not take the lock.
        weakref.finalize(share, _mark_stale, weakref.ref(self)).atexit = False
        with self._lock:
            self._shares.add(share)
            self._stale = True

    @property
    def in_flight(self) -> int:
        """Number of requests in flight."""
        return len(self._in_flight)

    @property
    def waiting(self) -> int:
        """Number of waiting requests."""
        return len(self._waiters)

    @property
    def counts_tokens(self) -> bool:
        """Whether there is a limit on tokens, so that requests need an estimate."""
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
        reads: str | None = None,
    ) -> Permit:
        """Wait for the permission to send one request.

        The caller has joined `share`. `kind` is a group of requests with similar latency. `n_requests` (0 without
        inference) and `n_tokens` (an estimate) count against limits per minute. A request without failures is preferred
        as probe. `order` is its place in the queue, from `enqueue`, and None the end. Requests with different `reads`
        (None: no log-probabilities) are not sent at the same time. Raise JudgeUnavailableError if the endpoint has been
        unavailable for longer than `max_outage_s` of the share, or of `wait_for_outages`.
        """
        loop = asyncio.get_running_loop()
        now = self._clock()
        order = self.enqueue() if order is None else order
        with self._lock:
            limit_s, since = self._limit_of(share, now)
            self._max_outage_s = limit_s or self._max_outage_s
            waiter = Waiter(loop, share, kind, n_requests, n_tokens, n_failures, order, limit_s, since, reads)
            insort(self._waiters, waiter, key=lambda waiting: waiting.order)
            parcels, next_s = self._dispatch(now)
        self._hand_out(parcels, next_s)
        try:
            result = await waiter.future
        except asyncio.CancelledError:
            self._withdraw(waiter)
            raise
        except GeneratorExit:
            self.discard(waiter)
            raise
        if isinstance(result, Permit):
            return result
        raise result

    def enqueue(self) -> int:
        """Return a place in the queue, for a request that may have to wait several times."""
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
        """Free the place of a coroutine that is garbage-collected, which may happen while the lock is held."""
        self._abandoned.append(what)

    # How requests end ---------------------------------------------------------------------------------------------

    def answered(self, permit: Permit, *, n_tokens: float | None = None, learn: bool = True) -> None:
        """Record a reply of the endpoint.

        `n_tokens` are reported by the reply. `learn` uses the latency: a refusal of the request arrives immediately.
        """
        with self._lock:
            now = self._clock()
            full = len(self._in_flight) >= self.window.limit
            self._in_flight.discard(permit)
            self._replies.add(now)
            if learn:
                self.window.answered(permit.request.kind, permit.sent_at, now, full=full, in_flight=permit.n_in_flight)
            if self.breaker.answered(sent_at=permit.sent_at):
                self.window.restart(is_blocked=self.breaker.silent)
            if n_tokens is not None:
                self._tokens.take(n_tokens - permit.request.n_tokens, now)
        self._dispatch_and_hand_out()

    def refused(self, permit: Permit, *, wait_s: float, wait_requested: bool) -> None:
        """Record a 429, and pause all requests for `wait_s` seconds (`wait_requested`: as the endpoint requested)."""
        with self._lock:
            now = self._clock()
            self._in_flight.discard(permit)
            if self.breaker.answered(sent_at=permit.sent_at):
                self.window.restart()
            self._replies.add(now)
            # A request sent one refusal time earlier would have been refused by now.
            entered_by = permit.sent_at - self.window.refusal_s
            n_admitted = sum(other.sent_at < entered_by for other in self._in_flight)
            self.window.refused(
                permit.sent_at, now, wait_s=wait_s, n_admitted=n_admitted, wait_requested=wait_requested
            )
            self._tokens.take(-permit.request.n_tokens, now)
        self._dispatch_and_hand_out()

    def failed(self, permit: Permit, failure: FailedAttempt) -> None:
        """Record that no usable reply arrived."""
        silent = failure.silent
        with self._lock:
            now = self._clock()
            self._in_flight.discard(permit)
            if failure.replied:
                self._replies.add(now)
            # Another reply may have ended the outage in the meantime.
            probe = permit.probe and self.breaker.probing_since == permit.sent_at
            answers = silent and self._replies.at > max(permit.sent_at, now - 0.9 * permit.request.share.timeout_s)
            probe_s, limit = permit.request.share.probe_s, self.window.limit
            self.breaker.failed(now, failure, probe=probe, probe_s=probe_s, limit=limit, answers=answers)
            if failure.overload or silent:
                self.window.overloaded(permit.sent_at, now, is_blocked=silent and not answers)
        self._dispatch_and_hand_out()

    def cancel(self, permit: Permit, *, sent: bool = False) -> None:
        """Record that a request was given up, before or after it was `sent`."""
        with self._lock:
            self._drop(permit, self._clock(), sent=sent)
        self._dispatch_and_hand_out()

    def _drop(self, permit: Permit, now: float, *, sent: bool) -> None:
        if permit not in self._in_flight:
            return
        self._in_flight.discard(permit)
        if permit.probe and self.breaker.probing_since == permit.sent_at:
            self.breaker.probing_since = None
            self.breaker.next_probe_at = now
        if not sent:
            self._requests.take(-permit.request.n_requests, now)
            self._tokens.take(-permit.request.n_tokens, now)

    def remaining_s(self, permit: Permit) -> float:
        """Return the seconds until a request times out."""
        in_flight = max(permit.n_in_flight, len(self._in_flight))
        since = self._replies.waits_since(permit.sent_at, n_before=permit.n_replies, in_flight=in_flight)
        return since + permit.request.share.timeout_s - self._clock()

    def is_down(self, share: ClientLimits) -> bool:
        """Return whether the endpoint has been unavailable for longer than the limit of a share."""
        now = self._clock()
        limit_s, since = self._limit_of(share, now)
        return self.breaker.open and min(self.breaker.outage_duration_s(now), now - since) >= limit_s

    def _limit_of(self, share: ClientLimits, now: float) -> tuple[float, float]:
        """Return the limit of outages for a request, and the time from which they count."""
        patience = _patience.get()
        return (
            (share.max_outage_s, -math.inf) if patience is None else (patience.max_outage_s, patience.since(self, now))
        )

    def outage_s(self) -> float:
        """Return the seconds so far in which the endpoint was unavailable while requests waited for it."""
        with self._lock:
            return self._outage_s + (0.0 if self._outage_mark is None else self._clock() - self._outage_mark)

    def current_outage(self) -> tuple[float, float] | None:
        """Return the duration of the current outage and its limit in seconds, or None if no request waits for one."""
        with self._lock:
            if self._outage_mark is None:
                return None
            return self.breaker.outage_duration_s(self._clock()), self._max_outage_s

    def pause_s(self) -> float:
        """Return the remaining seconds of the pause that the endpoint requested."""
        return self.window.paused_s(self._clock())

    # Order of requests --------------------------------------------------------------------------------------------

    def _dispatch(self, now: float) -> tuple[list[_Parcel], float | None]:
        """Give permits to the next waiting requests. Call it with the lock held.

        Return results to deliver, and the seconds until the next check (None if no request waits).
        """
        if self._outage_mark is not None:
            self._outage_s += now - self._outage_mark
        parcels, next_s = self._admit_waiters(now)
        self._outage_mark = now if self.breaker.open and (self._waiters or self._in_flight) else None
        return parcels, next_s

    def _admit_waiters(self, now: float) -> tuple[list[_Parcel], float | None]:
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
            waiter = self._next_waiter()
            next_s = _TICK_S if waiter is None else self._wait_s(waiter, now)
            if waiter is None or next_s > 0:
                break
            parcels.append((waiter, self._admit(waiter, now)))
        return parcels, next_s if self._waiters else None

    def _next_waiter(self) -> Waiter | None:
        """Return the first waiter that reads the log-probabilities that the requests in flight read, or none.

        vLLM fills a batch with the log-probabilities of one request (vllm-project/vllm#51789): if it has tokens by id,
        the others get values of wrong tokens.
        """
        first = self._waiters[0]
        read = next((permit.request.reads for permit in self._in_flight if permit.request.reads), first.reads)
        for waiter in islice(self._waiters, _PASSES):
            if waiter.order > first.order + _PASSES:
                break
            if read is None or waiter.reads in (None, read):
                return waiter
        return None

    def _wait_s(self, waiter: Waiter, now: float) -> float:
        if len(self._in_flight) >= self.window.limit:
            return _TICK_S
        return (
            self.window.wait_s(now)
            or self._requests.wait_s(waiter.n_requests, now)
            or self._tokens.wait_s(waiter.n_tokens, now)
        )

    def _dispatch_outage(self, now: float, parcels: list[_Parcel]) -> float:
        """Send one probe at a time. If the outage is too long already, the other requests fail."""
        breaker = self.breaker
        probing = breaker.probing_since
        if probing is None and now >= breaker.next_probe_at and not self.window.paused_s(now):
            # A request that has failed before may itself be the cause.
            waiter = min(self._waiters, key=lambda w: (w.n_failures, w.order))
            permit = self._admit(waiter, now)
            permit.probe = True
            breaker.probing_since = probing = now
            parcels.append((waiter, permit))
        outage_duration_s = breaker.outage_duration_s(now)
        until_probe_s = max(breaker.next_probe_at - now, self.window.paused_s(now))
        # The requests of one sample arrive within milliseconds, and should have the same result.
        worth_waiting = (
            until_probe_s < _TOGETHER_S if probing is None else now - probing < breaker.grace_s(self.window.latency_s)
        )
        for waiter in list(self._waiters):
            if min(outage_duration_s, now - waiter.waits_since) >= waiter.max_outage_s and not worth_waiting:
                self._waiters.remove(waiter)
                message = breaker.message(now, waiter.max_outage_s)
                parcels.append((waiter, JudgeUnavailableError(message, kind=breaker.kind)))
        return _TICK_S if probing is not None else max(0.001, until_probe_s)

    def _admit(self, waiter: Waiter, now: float) -> Permit:
        self._waiters.remove(waiter)
        permit = Permit(waiter, now, self.window.rounds_refused, len(self._in_flight) + 1, self._replies.n)
        waiter.permit = permit
        self._in_flight.add(permit)
        self.window.sent(now)
        self._requests.take(waiter.n_requests, now)
        self._tokens.take(waiter.n_tokens, now)
        return permit

    def _update_limits(self, now: float) -> None:
        """Update the limits that apply."""
        self._stale = False
        shares = list(self._shares)
        limits = [share.concurrency for share in shares if share.concurrency is not None]
        self.window.upper = min(limits, default=DEFAULT_CONCURRENT_REQUESTS)
        for bucket, per_minute in (
            (self._requests, [share.requests_per_minute for share in shares]),
            (self._tokens, [share.tokens_per_minute for share in shares]),
        ):
            bucket.set(min((limit for limit in per_minute if limit is not None), default=None), now)

    # Across event loops -------------------------------------------------------------------------------------------

    def _dispatch_and_hand_out(self) -> None:
        with self._lock:
            parcels, next_s = self._dispatch(self._clock())
        self._hand_out(parcels, next_s)

    def _hand_out(self, parcels: list[_Parcel], next_s: float | None) -> None:
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        for waiter, result in parcels:
            if waiter.loop is here:
                _deliver(waiter.future, result)
            else:
                # If the event loop was closed with an unfinished task, the next tick frees the place.
                with suppress(RuntimeError):
                    waiter.loop.call_soon_threadsafe(_deliver, waiter.future, result)
        if next_s is not None and here is not None:
            self._wake_in(here, min(next_s, _TICK_S))

    def _wake_in(self, loop: asyncio.AbstractEventLoop, delay_s: float) -> None:
        # Only the thread of this event loop reads and writes its timer.
        due = self._clock() + delay_s
        if (known := self._timers.get(loop)) is not None:
            if known[0] <= due:
                return
            known[1].cancel()
        self._timers[loop] = (due, loop.call_later(delay_s, self._tick, loop))

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timers.pop(loop, None)
        with self._lock:
            now = self._clock()
            for permit in [permit for permit in self._in_flight if permit.request.loop.is_closed()]:
                self._drop(permit, now, sent=True)
            self._waiters = [waiter for waiter in self._waiters if not waiter.loop.is_closed()]
            for closed in [other for other in list(self._timers) if other.is_closed()]:
                del self._timers[closed]
            parcels, next_s = self._dispatch(now)
        self._hand_out(parcels, next_s)


def wait_for_outages(max_outage_s: float) -> AbstractContextManager[object]:
    """Let all requests that are sent in this block wait for unavailable endpoints for up to `max_outage_s` seconds."""
    return assigned(_patience, _Patience(max_outage_s))


def current_patience_s() -> float | None:
    """Return the limit of the block of `wait_for_outages` that the caller is inside of, in seconds, otherwise None."""
    patience = _patience.get()
    return None if patience is None else patience.max_outage_s


class OutageTimer:
    """Seconds since its creation in which requests of this process waited for an unavailable endpoint."""

    def __init__(self) -> None:
        self._before = {limiter: limiter.outage_s() for limiter in _registry.all()}

    def seconds(self) -> float:
        """Return the seconds of the endpoint with the longest outage."""
        return max((limiter.outage_s() - self._before.get(limiter, 0.0) for limiter in _registry.all()), default=0.0)


def report_outage(process: object, *, is_down: bool, outage: tuple[float, float] | None) -> None:
    """Record the state of the endpoints that another process uses. One that ends reports that none is down."""
    _elsewhere.pop(process, None)
    if is_down or outage is not None:
        _elsewhere[process] = (is_down, outage)


def find_outage() -> tuple[float, float] | None:
    """Return the duration of the longest current outage and its limit in seconds, or None if no request waits for one."""
    here = (limiter.current_outage() for limiter in _registry.all())
    elsewhere = (outage for _, outage in list(_elsewhere.values()))
    return max((outage for outage in (*here, *elsewhere) if outage is not None), default=None)


def find_outage_reason() -> str:
    """Return the last error of the endpoint with the longest outage in this process, or an empty text without one."""
    outages = ((limiter.current_outage(), limiter.breaker.reason) for limiter in _registry.all())
    return max(((outage[0], reason) for outage, reason in outages if outage is not None), default=(0.0, ""))[1]


def is_any_endpoint_down() -> bool:
    """Return whether an endpoint that is in use did not answer the latest requests."""
    return any(limiter.breaker.open for limiter in _registry.all()) or any(
        down for down, _ in list(_elsewhere.values())
    )


def _deliver(future: asyncio.Future[Permit | Exception], result: Permit | Exception) -> None:
    # A canceled waiter returns its permit itself.
    if not future.done():
        future.set_result(result)


def _mark_stale(reference: weakref.ref[EndpointLimiter]) -> None:
    if (limiter := reference()) is not None:
        limiter._stale = True  # noqa: SLF001  same module


class _Registry:
    """Limiters of this process, each kept as long as it is used."""

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[tuple[str, str], EndpointLimiter] = weakref.WeakValueDictionary()
        self._renew_lock()
        after_fork_in_child(self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def all(self) -> list[EndpointLimiter]:
        with self._lock:
            # `values` guards its iteration, which costs more than all of the rest.
            return [limiter for known in self._known.valuerefs() if (limiter := known()) is not None]

    def get(self, key: tuple[str, str]) -> EndpointLimiter:
        with self._lock:
            if (limiter := self._known.get(key)) is None:
                self._known[key] = limiter = EndpointLimiter()
            return limiter


_registry: Final = _Registry()
_elsewhere: Final[dict[object, tuple[bool, tuple[float, float] | None]]] = {}
"""State of the endpoints in other processes that score for this one: whether one is down, and the longest outage."""


def capacity_of(base_url: str, api_key: str | None) -> EndpointLimiter:
    """Return the limiter of an endpoint, which all users in this process with the same key share."""
    parts = urlsplit(base_url)
    endpoint = f"{parts.scheme}://{parts.netloc.lower()}{parts.path}"
    return _registry.get((endpoint, hashlib.sha256((api_key or "").encode()).hexdigest()))
