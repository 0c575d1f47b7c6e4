"""The books: where every captured request ended up."""

from __future__ import annotations

from pydantic import Field

from ragstone.schema._base import Model

__all__ = ["DeliveryCounts", "Ledger", "LedgerRow"]


class LedgerRow(Model):
    """`captured = scored + sampled_out + not_applicable + failed + dropped + pending`."""

    captured: int = 0
    scored: int = 0
    sampled_out: int = 0
    not_applicable: int = 0
    failed: int = 0
    dropped: int = 0
    pending: int = 0

    @property
    def balanced(self) -> bool:
        """Whether the books add up."""
        return self.captured == (
            self.scored + self.sampled_out + self.not_applicable + self.failed + self.dropped + self.pending
        )


class DeliveryCounts(Model):
    """Where the outcomes for one sink stand: each is in exactly one of the first four."""

    pending: int = 0
    sent: int = 0
    skipped: int = 0
    """Outcomes that have no place at this destination."""
    failed: int = 0
    """Refused for good, or without their trace for a day; `ragstone deliveries` lists them and sends them again."""
    oldest_pending_s: float | None = None
    """Age in seconds of the oldest outcome that has not arrived."""
    last_error: str | None = None
    """Why the delivery that comes next did not arrive last time."""
    stopped: str | None = None
    """Why nothing is sent until the worker starts again; None while deliveries go on."""


class Ledger(Model):
    """The ledger of a store: of traces, and of each metric.

    A trace is `pending` until every metric has an outcome; then `failed` if any metric failed, else `scored` if any
    metric has a score, else `not_applicable`. `captured` is counted on its own where requests come in, not added up
    from the other columns, so that a loss shows.
    """

    total: LedgerRow
    metrics: dict[str, LedgerRow] = Field(default_factory=dict)
    dropped_by_reason: dict[str, int] = Field(default_factory=dict)
    oldest_pending_s: float | None = None
    """Age in seconds of the oldest pending trace."""
    outbox: dict[str, DeliveryCounts] = Field(default_factory=dict)
    """By the name of the sink."""
