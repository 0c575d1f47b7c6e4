"""A warning if scoring takes much of the processor time of a server that serves requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

logger = logging.getLogger("ragstone")

_INTERVAL_S: Final = 60.0
_MAX_SHARE: Final = 0.2
"""Share of a core that scoring may use next to an application, before a warning."""


class LoadWarning:
    """Warns once if the thread that scores uses more than 20% of a core for a minute.

    Args:
        is_server: Whether this process serves requests.
        command: Returns the command of a worker that scores instead.
        wall: Returns monotonic seconds.
        cpu: Returns the processor time of the thread, in seconds.
    """

    def __init__(
        self,
        is_server: Callable[[], bool],
        command: Callable[[], str],
        *,
        wall: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._is_server, self._command, self._wall, self._cpu = is_server, command, wall, cpu
        self._is_logged = False

    async def watch(self) -> None:
        """Measure each minute, until canceled or until the warning is logged."""
        wall, cpu = self._wall(), self._cpu()
        while not self._is_logged:
            await asyncio.sleep(_INTERVAL_S)
            now, used = self._wall(), self._cpu()
            share = (used - cpu) / max(now - wall, 1e-9)
            wall, cpu = now, used
            if share > _MAX_SHARE and self._is_server():
                self._is_logged = True
                logger.warning(
                    "scoring used %.0f%% of a core of this application in the last minute. A process of its own takes it off "
                    "the application: set scoring='process', or scoring='none' and run: %s",
                    100 * share,
                    self._command(),
                )
