"""The log of a process that its owner writes, in the owner's format."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress


class _Forward(logging.Handler):
    def __init__(self, send: Callable[[int, str], object]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(RuntimeError, OSError):  # the event loop is closed, or the owner has ended
            self._send(record.levelno, self.format(record))


def forward_log(send: Callable[[int, str], object]) -> None:
    """Send the log of Ragstone to the owner of this process, instead of writing it.

    Args:
        send: Called with the level and the text of each entry, from any thread.
    """
    logger = logging.getLogger("ragstone")
    logger.addHandler(_Forward(send))
    logger.propagate = False
