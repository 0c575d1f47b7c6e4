"""Turns of requests of one kind: the first one goes alone, so that the others use what it learned."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Final

from ragstone._util.waiting import MovingTimeout
from ragstone.judges._model import PerLoop, replied_at

_PATIENCE_S: Final = 120.0
"""Maximum wait for one request after a reply to any other: a slow server may refuse parameters only after a queue."""


class FirstOfKind:
    """Lets one request of each kind go first, until a request of this kind was accepted.

    Without this, each of many concurrent requests would be refused for the same reasons.
    """

    def __init__(self) -> None:
        self._settled: set[Hashable] = set()
        self._leading: PerLoop[dict[Hashable, asyncio.Event]] = PerLoop(dict)

    def settle(self, kind: Hashable) -> None:
        """Let all requests of a kind go without waiting, because the endpoint has accepted one."""
        self._settled.add(kind)

    def is_settled(self, kind: Hashable) -> bool:
        """Return whether the endpoint has accepted a request of a kind."""
        return kind in self._settled

    def reset(self) -> None:
        """Forget which kinds were accepted."""
        self._settled.clear()

    @asynccontextmanager
    async def turn(self, kind: Hashable) -> AsyncIterator[None]:
        """Wait while another request of an unsettled kind is under way, until no model replies for 120 seconds."""
        loop = asyncio.get_running_loop()
        begun_at = loop.time()
        leading = self._leading.get()
        while kind not in self._settled and (other := leading.get(kind)) is not None:
            try:
                with MovingTimeout(lambda: max(begun_at, replied_at()) + _PATIENCE_S - loop.time()):
                    await other.wait()
            except TimeoutError:
                break
        if kind in self._settled or kind in leading:
            yield
            return
        done = leading[kind] = asyncio.Event()
        try:
            yield
        finally:
            del leading[kind]
            done.set()
