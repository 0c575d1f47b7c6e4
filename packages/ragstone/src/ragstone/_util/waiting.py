"""Waiting for a server: a timeout whose end can move later, and the header that requests a pause."""

from __future__ import annotations

import asyncio
import email.utils
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self, cast

_ROUNDING_S: Final = 0.001
_MAX_PAUSE_S: Final = 86_400.0
"""Longest wait that is reported. Nothing waits that long."""


_current_task: Final = cast("Callable[[], asyncio.Task[Any]]", asyncio.current_task)


@dataclass(slots=True)
class MovingTimeout:
    """Raise TimeoutError when `remaining_s` returns 0 or less. It is called when the time that it returned is over.

    Several tasks may be inside at once. All end then, and they share a timer.
    """

    remaining_s: Callable[[], float]
    _n_canceled: dict[asyncio.Task[Any], int] = field(init=False, default_factory=dict)
    """The tasks inside, each with the cancellations that it had before."""
    _ended: set[asyncio.Task[Any]] = field(init=False, default_factory=set)
    _timer: asyncio.TimerHandle | None = field(init=False, default=None)

    @property
    def expired(self) -> bool:
        """Whether the time of the current task was over."""
        return _current_task() in self._ended

    def __enter__(self) -> Self:
        task = _current_task()
        self._ended.discard(task)
        self._n_canceled[task] = task.cancelling()  # codespell:ignore
        if self._timer is None:
            self._timer = task.get_loop().call_later(max(0.0, self.remaining_s()), self._check)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        task = _current_task()
        n_before = self._n_canceled.pop(task)
        if self._timer is not None and not self._n_canceled:
            self._timer.cancel()
            self._timer = None
        # Another cancellation at the same time wins.
        if task in self._ended and task.uncancel() <= n_before and exc_type is asyncio.CancelledError:
            raise TimeoutError from exc

    def _check(self) -> None:
        self._timer = None
        if (left_s := self.remaining_s()) > _ROUNDING_S:
            self._timer = asyncio.get_running_loop().call_later(left_s, self._check)
            return
        for task in self._n_canceled.keys() - self._ended:
            self._ended.add(task)
            task.cancel()


async def wait_up_to(seconds: float, end: Awaitable[object]) -> bool:
    """Return whether an end came in time. `wait_for` of Python 3.11 loses a cancellation that comes with the end."""
    try:
        async with asyncio.timeout(seconds):
            await end
    except TimeoutError:
        return False
    return True


def retry_after_s(headers: Mapping[str, str], *, clock: Callable[[], float] = time.time) -> float | None:
    """Return the number of seconds after which a server accepts requests again.

    Reads `retry-after-ms`, and `retry-after` in seconds or as an HTTP date. None if absent or invalid, at most a day.
    """
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        if re.fullmatch(r"\s*\d+(?:\.\d+)?\s*", value):
            return min(float(value) * unit_s, _MAX_PAUSE_S)
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        return min(max(0.0, date.timestamp() - clock()), _MAX_PAUSE_S)
    except (ValueError, OverflowError):
        return None
