"""A value that is found out once, whoever asks first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

__all__ = ["Once"]

T = TypeVar("T")


class Once(Generic[T]):
    """Finds a value when it is first asked for; those who ask meanwhile wait for it, on each event loop.

    What is raised while finding is the asker's, and the next one tries again.
    """

    def __init__(self, find: Callable[[], Awaitable[T]]) -> None:
        self._find = find
        self._found: list[T] = []
        # A lock belongs to the loop it was first waited for on.
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    async def get(self) -> T:
        """The value."""
        if not self._found:
            async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                if not self._found:
                    self._found.append(await self._find())
        return self._found[0]
