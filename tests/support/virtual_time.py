"""Event loops whose time is virtual: a wait takes no real time, however long it is, and no test depends on a fast machine.

All loops of the process share one clock, so a client and a fake server in another thread agree on the time. The clock
advances to the next timer if no loop has anything to do and no data arrives for a moment.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

from ragstone.judges import _model
from ragstone.judges._limits import gate
from ragstone.worker._parts import JudgeOutage

__all__ = ["VirtualClock", "virtual_time"]

_MOMENT_S = 0.001
"""Real seconds without data on the sockets of a loop after which it looks whether all loops are idle."""


class VirtualClock:
    """The time of all virtual loops of a test."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 1_000.0
        self._deadlines: dict[selectors.BaseSelector, float] = {}
        """The next timer of each loop that waits."""
        self._n_busy = 0
        """Loops that run and do not wait, and their work in other threads."""

    def time(self) -> float:
        """Seconds since an arbitrary moment."""
        return self._now

    def add_busy(self, number: int) -> None:
        """Note that work begins (1) or ends (-1), during which the time stands still."""
        with self._lock:
            self._n_busy += number

    def wait(self, selector: selectors.BaseSelector, timeout_s: float) -> list[Any]:
        """Wait until a socket of this loop has data, or the clock reaches the deadline."""
        deadline = self._now + timeout_s
        with self._lock:
            self._deadlines[selector] = deadline
            self._n_busy -= 1
        try:
            while self._now < deadline:
                if events := selector.select(_MOMENT_S):
                    return events
                self._advance()
        finally:
            with self._lock:
                self._n_busy += 1
                del self._deadlines[selector]
        return []

    def _advance(self) -> None:
        with self._lock:
            # A thread that the system has not scheduled yet may still have data to read.
            if self._n_busy or any(selector.select(0) for selector in self._deadlines):
                return
            next_timer = min(self._deadlines.values())
            if next_timer < math.inf:
                self._now = max(self._now, next_timer)


class _VirtualSelector(selectors.BaseSelector):
    """A selector whose timeouts are in virtual seconds."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._real = selectors.DefaultSelector()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is not None and timeout <= 0:
            return self._real.select(0)
        return self._real.select(0) or self._clock.wait(self._real, math.inf if timeout is None else timeout)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(_VirtualSelector(clock))
        self._virtual_clock = clock

    def time(self) -> float:
        return self._virtual_clock.time()

    def run_forever(self) -> None:
        self._virtual_clock.add_busy(1)
        try:
            super().run_forever()
        finally:
            self._virtual_clock.add_busy(-1)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        self._virtual_clock.add_busy(1)
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(lambda _: self._virtual_clock.add_busy(-1))
        return future

    async def shutdown_default_executor(self, *timeout: Any) -> None:
        """Wait for the threads. Python 3.13 waits with a timer, which must not advance the time before they have ended."""
        self._virtual_clock.add_busy(1)
        try:
            await super().shutdown_default_executor(*timeout)
        finally:
            self._virtual_clock.add_busy(-1)


class _Policy(asyncio.DefaultEventLoopPolicy):
    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._virtual_clock = clock

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return _VirtualLoop(self._virtual_clock)


@contextmanager
def virtual_time() -> Iterator[VirtualClock]:
    """Give all event loops that are made in this block virtual time, and the limits of endpoints the same clock."""
    clock = VirtualClock()
    policy = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(_Policy(clock))
    try:
        with (
            mock.patch.dict(gate.EndpointLimiter.__init__.__kwdefaults__, clock=clock.time),
            # A limiter of an earlier test may not have been collected yet, and its clock stands still.
            mock.patch.object(gate, "_registry", gate._Registry()),
            mock.patch.object(_model, "_ended_at", [0.0]),
            mock.patch.dict(JudgeOutage.__init__.__kwdefaults__, clock=clock.time),
        ):
            yield clock
    finally:
        asyncio.set_event_loop_policy(policy)
