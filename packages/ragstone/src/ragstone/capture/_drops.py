"""Losses: counted by reason from any thread, reported once, logged now and then."""

from __future__ import annotations

import logging
import time
from typing import Final, Literal, get_args

from ragstone._util.tally import Tally

__all__ = ["DropReason", "Drops"]

_logger = logging.getLogger("ragstone")

DropReason = Literal[
    "queue_full",  # requests come in faster than they can be written
    "closed",  # the recorder was closed already
    "no_thread",  # the system does not give us a thread
    "invalid",  # the draft is not a trace
    "redaction_failed",  # the redactor raised; nothing unredacted is ever written
    "disk_full",  # the spool's disk, quota or size limit
    "spool_error",  # any other fault of the spool
    "deadline",  # still queued when `close` ran out of time
    "bug",  # ours
]

_LOG_EVERY_S: Final = 60.0


class Drops:
    """The losses of one process."""

    def __init__(self) -> None:
        self._tallies: dict[DropReason, Tally] = {reason: Tally() for reason in get_args(DropReason)}
        self._reported: dict[DropReason, int] = dict.fromkeys(self._tallies, 0)
        self._logged_at: dict[str, float] = {}

    def count(self, reason: DropReason) -> None:
        """Count one; safe wherever Python code can run."""
        self._tallies[reason].add()

    def counts(self) -> dict[str, int]:
        """How many so far by reason, those that happened."""
        return {reason: n for reason, tally in self._tallies.items() if (n := tally.value())}

    def unreported(self) -> dict[DropReason, int]:
        """What was counted and not yet marked by `reported`. For one thread."""
        return {reason: n for reason, tally in self._tallies.items() if (n := tally.value() - self._reported[reason])}

    def reported(self, losses: dict[DropReason, int]) -> None:
        """Mark losses, as `unreported` gave them, as told to the spool."""
        for reason, n in losses.items():
            self._reported[reason] += n

    def log(self, topic: str, message: str) -> None:
        """Log a warning, at most one a minute for each topic."""
        now = time.monotonic()
        if now - self._logged_at.get(topic, -_LOG_EVERY_S) >= _LOG_EVERY_S:
            self._logged_at[topic] = now
            _logger.warning("Ragstone capture: %s (dropped so far: %s)", message, self.counts() or "none")
