"""The seam to destinations: `Sink` takes deliveries, at least once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from ragstone.errors import SinkError
from ragstone.schema import Delivery, Ledger

__all__ = ["Sink", "WatchingSink"]


@runtime_checkable
class Sink(Protocol):
    """A destination. Called by one task at a time; the same delivery may come twice (`outcome.id` is its key)."""

    @property
    def name(self) -> str:
        """Identifies the destination in the outbox: the same across restarts, without credentials."""
        ...

    async def write(self, batch: Sequence[Delivery]) -> Mapping[str, SinkError] | None:
        """Deliver `batch` durably.

        Returns:
            What did not arrive, by `outcome.id`, with the error that says what becomes of it: `SinkUnavailableError` (it
            comes again), `SinkTargetMissingError` (it comes again for a day), `SinkRejectedError` (never),
            `SinkNoTargetError` (there is no place for it here). None, or nothing in it: all have arrived.

        Raises:
            SinkUnavailableError: Nothing is known to have arrived; the whole batch comes again later.
            SinkRejectedError: The destination will never take this batch (it is split to find the row at fault).
            SinkDeniedError: The credentials are refused; nothing is sent until the worker starts again.
        """
        ...

    async def aclose(self) -> None:
        """Flush and let go. Safe to call twice."""
        ...


@runtime_checkable
class WatchingSink(Sink, Protocol):
    """A sink that also shows how the whole pipeline is doing."""

    def watch(self, ledger: Ledger) -> None:
        """Take the books of this moment; called every few seconds by the owner of the store."""
        ...
