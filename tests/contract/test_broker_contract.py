"""The broker in memory, which other tests use, promises what the real ones do (`tests/servers`)."""

from __future__ import annotations

import pytest

from broker_contract import BrokerContract
from memory_broker import MemoryBroker, MemoryQueue


class TestMemoryBroker(BrokerContract):
    """A broker in memory."""

    @pytest.fixture
    def connect(self):
        """Connections to one queue."""
        queue = MemoryQueue()
        return lambda: MemoryBroker(queue)
