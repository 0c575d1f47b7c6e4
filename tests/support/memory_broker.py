"""A message broker in memory, for tests of what uses one. `tests/contract/test_broker_contract.py` holds it to the real ones."""

from __future__ import annotations

import itertools

from ragstone.brokers._protocol import Message
from ragstone.errors import BrokerError, ConfigurationError
from ragstone.schema import BrokerStatus


class MemoryQueue:
    """What the server of a broker keeps."""

    def __init__(self):
        self.entries: dict[str, bytes | None] = {}
        self.owner_of: dict[str, str] = {}
        """Worker of each entry that is in progress."""
        self.positions: dict[str, int] = {}
        self.aside: list[tuple[bytes | None, str]] = []
        self.store: str | None = None
        self.refused: str | None = None
        """Why the broker may lose entries."""
        self.is_away = False
        self.max_entries = 10**9
        self.keys = map(str, itertools.count(1))

    def add(self, data):
        """Add an entry as anybody could."""
        self.entries[next(self.keys)] = data


class MemoryBroker:
    """A connection to a `MemoryQueue`."""

    name = "memory://queue"
    settle_s = 0.0

    def __init__(self, queue):
        self._queue = queue
        self._worker = f"w{next(queue.keys)}"

    def check(self):
        """Raise if the broker is away or refused."""
        if self._queue.is_away:
            raise BrokerError("memory://queue cannot be used: it is away")
        if self._queue.refused:
            raise ConfigurationError(self._queue.refused)

    def position(self, segment):
        """See `Broker`."""
        self.check()
        return self._queue.positions.get(segment, 0)

    def publish(self, segment, offset, next_offset, lines):
        """See `Broker`."""
        self.check()
        at = self._queue.positions.get(segment, 0)
        if at != offset:
            return at
        if len(self._queue.entries) >= self._queue.max_entries:
            raise BrokerError("memory://queue is full")
        for line in lines:
            self._queue.add(line)
        self._queue.positions[segment] = next_offset
        return next_offset

    def forget(self, segment):
        """See `Broker`."""
        self.check()
        self._queue.positions.pop(segment, None)

    def join(self, store_id):
        """See `Broker`."""
        self.check()
        self._queue.store = self._queue.store or store_id
        if self._queue.store != store_id:
            raise ConfigurationError("the entries of memory://queue belong to another store")

    def receive(self, limit, *, again):
        """See `Broker`."""
        self.check()
        queue = self._queue
        wanted = self._worker if again else None
        keys = [key for key in queue.entries if queue.owner_of.get(key) == wanted][:limit]
        queue.owner_of |= dict.fromkeys(keys, self._worker)
        return [Message(key=key, data=queue.entries[key]) for key in keys]

    def acknowledge(self, messages):
        """See `Broker`."""
        self.check()
        for message in messages:
            self._queue.entries.pop(message.key, None)
            self._queue.owner_of.pop(message.key, None)

    def set_aside(self, message, reason):
        """See `Broker`."""
        self.acknowledge([message])
        self._queue.aside.append((message.data, reason))
        return True

    def status(self):
        """See `Broker`."""
        self.check()
        n, held = len(self._queue.entries), len(self._queue.owner_of)
        return BrokerStatus(
            waiting=n - held, in_progress=held, oldest_s=1.0 if n else None, set_aside=len(self._queue.aside)
        )

    def close(self):
        """See `Broker`."""
