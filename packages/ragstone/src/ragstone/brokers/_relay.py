"""Publication of a spool: segments go to a message broker, in the background of an application."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ragstone._util.filelock import FileLock
from ragstone.brokers._protocol import Broker
from ragstone.errors import BrokerError, ConfigurationError, SpoolError
from ragstone.spool import SpoolReader

logger = logging.getLogger("ragstone")

_BATCH: Final = 200
_POLL_MIN_S: Final = 0.05
_POLL_MAX_S: Final = 0.5
_RETRY_MIN_S: Final = 0.5
_RETRY_MAX_S: Final = 30.0


class BrokerRelay:
    """Publishes the segments of a spool to a message broker, and removes those that are published completely.

    While the broker is unavailable or refused, requests stay in the spool. One relay at a time publishes a spool:
    others, of other processes of this host, wait for the lock of the spool. The directory does not have to exist yet.
    `make_broker` is called on the thread that uses the broker.
    """

    def __init__(self, directory: Path, make_broker: Callable[[], Broker]) -> None:
        self.directory = directory
        self._make_broker = make_broker
        self._reader = SpoolReader(directory)
        self._lock = FileLock(directory.with_name(f"{directory.name}.lock"))
        self._positions: dict[str, int] = {}
        self._ended_at: dict[str, float] = {}
        """When each segment was found to be published completely, on the monotonic clock."""
        self.error: str | None = None
        """Why nothing can be published at present, or None."""

    def run(self, closing: threading.Event) -> None:
        """Publish until `closing` is set, and then what is in the spool, unless there is an error."""
        broker = self._make_broker()
        pause_s = retry_s = 0.0
        try:
            while True:
                ends = closing.is_set()
                moved = self._try(broker)
                if moved is None:
                    pause_s = retry_s = min(max(2 * retry_s, _RETRY_MIN_S), _RETRY_MAX_S)
                else:
                    retry_s = 0.0
                    pause_s = 0.0 if moved else min(max(2 * pause_s, _POLL_MIN_S), _POLL_MAX_S)
                if ends and not moved:
                    return
                closing.wait(pause_s)
        finally:
            self._lock.release()
            broker.close()

    def _try(self, broker: Broker) -> int | None:
        """Publish a batch of each segment. Return None after an error, which is logged if it is new."""
        try:
            if not self.directory.is_dir() or not self._lock.acquire():
                return 0
            moved = self.publish(broker)
        except (BrokerError, ConfigurationError, SpoolError, OSError) as error:
            if str(error) != self.error:
                # The message says what to do. A traceback would not help.
                logger.error("ragstone cannot publish, and tries again. Requests stay in the spool: %s", error)  # noqa: TRY400
            self.error = str(error)
            self._positions.clear()
            return None
        if self.error is not None:
            logger.warning("ragstone publishes again")
            self.error = None
        return moved

    def publish(self, broker: Broker) -> int:
        """Publish a batch of each segment, and return the number of entries.

        Raise BrokerError if the broker cannot be used now. Raise ConfigurationError if the broker is refused. Raise
        SpoolError if the spool cannot be read.
        """
        segments = [segment.name for segment in self._reader.segments()]
        for gone in self._positions.keys() - set(segments):
            del self._positions[gone]
            self._ended_at.pop(gone, None)
        return sum(self._publish_batch(name, broker) for name in segments)

    def _publish_batch(self, name: str, broker: Broker) -> int:
        offset = self._positions.get(name)
        if offset is None:
            offset = self._positions[name] = broker.position(name)
        batch = self._reader.read_lines(name, offset, max_entries=_BATCH)
        if batch.entries:
            self._positions[name] = broker.publish(name, offset, batch.next_offset, batch.entries)
            self._ended_at.pop(name, None)
        elif batch.at_end:
            self._remove(name, offset, broker)
        return len(batch.entries)

    def _remove(self, name: str, offset: int, broker: Broker) -> None:
        """Remove a segment that is published completely, when the broker has not forgotten it in a crash."""
        ended_at = self._ended_at.setdefault(name, time.monotonic())
        if time.monotonic() - ended_at < broker.settle_s:
            return
        position = broker.position(name)
        if position != offset:
            self._positions[name] = position
            return
        self._reader.remove(name)
        broker.forget(name)

    def count_unsent(self) -> int:
        """Return the number of entries in the spool that are not published.

        Raise BrokerError if the broker cannot be used now. Raise ConfigurationError if the broker is refused. Raise
        SpoolError if the spool cannot be read.
        """
        names = [segment.name for segment in self._reader.segments()]
        if not names:
            return 0
        broker = self._make_broker()
        try:
            return sum(self._count_after(name, broker.position(name)) for name in names)
        finally:
            broker.close()

    def count_spooled(self) -> int:
        """Return the number of entries in the spool, also of those that are published, without the broker.

        Raise SpoolError if the spool cannot be read.
        """
        return sum(self._count_after(segment.name, 0) for segment in self._reader.segments())

    def _count_after(self, name: str, offset: int) -> int:
        n = 0
        while (batch := self._reader.read_lines(name, offset)).entries:
            n += len(batch.entries)
            offset = batch.next_offset
        return n
