"""The seam to destinations: `Sink` takes deliveries, at least once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ragstone.schema import Failure, NotApplicable, Score

__all__ = ["Delivery", "Sink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One outcome on its way out, with what a destination needs to attach it to the trace it already has."""

    outcome: Score | NotApplicable | Failure
    trace_id: str
    run_id: str | None = None
    otel_trace_id: str | None = None
    otel_span_id: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    name: str | None = None
    requested_at: float | None = None
    """When the request started, Unix seconds."""
    inclusion_probability: float = 1.0


@runtime_checkable
class Sink(Protocol):
    """A destination. Called by one task at a time; the same delivery may come twice (`outcome.id` is its key)."""

    @property
    def name(self) -> str:
        """Identifies the destination in the outbox: the same across restarts, without credentials."""
        ...

    async def write(self, batch: Sequence[Delivery]) -> None:
        """Deliver all of `batch` durably, or raise.

        Raises:
            SinkUnavailableError: Nothing is known to have arrived; the whole batch comes again later.
            SinkRejectedError: The destination will never take this batch (it is split to find the row at fault).
        """
        ...

    async def aclose(self) -> None:
        """Flush and let go. Safe to call twice."""
        ...
