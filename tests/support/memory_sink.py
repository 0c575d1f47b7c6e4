"""A sink whose deliveries a test reads."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.sinks import Delivery


class MemorySink:
    """A sink that stores deliveries in memory.

    Attributes:
        deliveries: All deliveries in order, including repeated ones.
        closed: Whether `aclose` was called.

    Examples:
        ```python
        sink = MemorySink()
        Monitor(sinks=[sink])
        ```
    """

    def __init__(self, name: str = "memory") -> None:
        self._name = name
        self.deliveries: list[Delivery] = []
        self.closed = False

    @property
    def name(self) -> str:
        """Name of the sink in the outbox."""
        return self._name

    @property
    def by_id(self) -> dict[str, Delivery]:
        """The last delivery of each outcome by outcome id, which is what an idempotent destination contains."""
        return {delivery.outcome.id: delivery for delivery in self.deliveries}

    async def write(self, batch: Sequence[Delivery]) -> None:
        """Store the batch."""
        self.deliveries.extend(batch)

    async def aclose(self) -> None:
        """Set `closed`. The deliveries stay available."""
        self.closed = True
