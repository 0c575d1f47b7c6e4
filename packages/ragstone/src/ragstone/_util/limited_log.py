"""Log messages that an outsider can cause as often as they like."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

_EVERY_S: Final = 60.0


class LimitedLog:
    """Logs each topic at most once a minute, with the number of messages that were left out since the last one."""

    def __init__(self, logger: logging.Logger, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._next: dict[str, float] = {}
        self._omitted: dict[str, int] = {}

    def log(self, level: int, topic: str, message: str, *, exc_info: BaseException | None = None) -> None:
        """Log a message without text from outside. Topics must not be from outside either, because each one is kept."""
        now = self._clock()
        if now < self._next.get(topic, now):
            self._omitted[topic] = self._omitted.get(topic, 0) + 1
            return
        self._next[topic] = now + _EVERY_S
        omitted = self._omitted.pop(topic, 0)
        more = f" ({omitted} more since the last such message)" if omitted else ""
        self._logger.log(level, "%s%s", message, more, exc_info=exc_info)
