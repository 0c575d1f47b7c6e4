"""A timeout whose end can move later while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

_ROUNDING_S: Final = 0.001


@asynccontextmanager
async def moving_timeout(remaining_s: Callable[[], float]) -> AsyncIterator[asyncio.Timeout]:
    """Raise TimeoutError when `remaining_s` returns 0 or less. It is called when the time that it returned is over."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def check() -> None:
        nonlocal timer
        if (left_s := remaining_s()) > _ROUNDING_S:
            timer = loop.call_later(left_s, check)
        else:
            limit.reschedule(loop.time())

    async with asyncio.timeout(None) as limit:
        timer = loop.call_later(max(0.0, remaining_s()), check)
        try:
            yield limit
        finally:
            timer.cancel()
