"""A timeout whose end can move later while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

_ROUNDING_S: Final = 0.001


@dataclass(slots=True)
class MovingTimeout:
    """Raise TimeoutError when `remaining_s` returns 0 or less. It is called when the time that it returned is over.

    A class, because a generator costs more than what a metric of a fast judge does.
    """

    remaining_s: Callable[[], float]
    _limit: asyncio.Timeout = field(init=False)
    _timer: asyncio.TimerHandle = field(init=False)

    async def __aenter__(self) -> asyncio.Timeout:
        self._limit = limit = await asyncio.timeout(None).__aenter__()
        self._timer = asyncio.get_running_loop().call_later(max(0.0, self.remaining_s()), self._check)
        return limit

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        await self._limit.__aexit__(exc_type, exc, traceback)

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        if (left_s := self.remaining_s()) > _ROUNDING_S:
            self._timer = loop.call_later(left_s, self._check)
        else:
            self._limit.reschedule(loop.time())
