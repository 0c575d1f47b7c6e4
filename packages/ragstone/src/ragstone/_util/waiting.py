"""Waiting for a server: a timeout whose end can move later, and the header that requests a pause."""

from __future__ import annotations

import asyncio
import email.utils
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final

_ROUNDING_S: Final = 0.001
_MAX_PAUSE_S: Final = 86_400.0
"""Longest wait that is reported. Nothing waits that long."""


@dataclass(slots=True)
class MovingTimeout:
    """Raise TimeoutError when `remaining_s` returns 0 or less. It is called when the time that it returned is over.

    Several tasks may be inside at once. All end then, and they share a timer. A class, because a generator costs more
    than what a metric of a fast judge does.
    """

    remaining_s: Callable[[], float]
    _limits: dict[asyncio.Task[Any] | None, asyncio.Timeout] = field(init=False, default_factory=dict)
    _timer: asyncio.TimerHandle | None = field(init=False, default=None)

    async def __aenter__(self) -> asyncio.Timeout:
        self._limits[asyncio.current_task()] = limit = await asyncio.timeout(None).__aenter__()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, self.remaining_s()), self._check)
        return limit

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        limit = self._limits.pop(asyncio.current_task())
        if self._timer is not None and not self._limits:
            self._timer.cancel()
            self._timer = None
        await limit.__aexit__(exc_type, exc, traceback)

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        if (left_s := self.remaining_s()) > _ROUNDING_S:
            self._timer = loop.call_later(left_s, self._check)
            return
        for limit in self._limits.values():
            limit.reschedule(loop.time())


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
