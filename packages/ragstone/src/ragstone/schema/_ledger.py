"""Ledger: the number of captured requests in each state."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ragstone.schema._base import Model
from ragstone.schema._trace import Usage


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
        """Whether `captured` equals the sum of the other columns."""
        return self.captured == (
            self.scored + self.sampled_out + self.not_applicable + self.failed + self.dropped + self.pending
        )


class DeliveryCounts(Model):
    """Deliveries to one sink. Each delivery is counted in exactly one of the first four fields."""

    pending: int = 0
    sent: int = 0
    skipped: int = 0
    """Outcomes that do not apply to this destination."""
    failed: int = 0
    """Outcomes that the destination rejected, or whose trace it did not have for a day.

    `ragstone deliveries` lists them and retries them.
    """
    oldest_pending_s: float | None = None
    """Age in seconds of the oldest pending outcome."""
    last_error: str | None = None
    """Error of the last attempt for the outcome that is next in the queue."""
    stopped: str | None = None
    """Reason why delivery is paused until the worker restarts, or None if it is not paused."""


class BrokerStatus(Model):
    """Entries of a message broker between applications and workers."""

    waiting: int = 0
    """Entries that no worker has received."""
    in_progress: int = 0
    """Entries that a worker has received, and not stored so far."""
    oldest_s: float | None = None
    """Age in seconds of the oldest entry that is not stored, or None without one."""
    set_aside: int = 0
    """Entries that were not stored because they are damaged, too large or of another version."""
    error: str | None = None
    """Why the broker cannot be used now, or None. The other fields are then those of the last answer."""


class IgnoredTraces(Model):
    """Recorded traces that are not requests, for one reason."""

    n: int
    example: str | None = None
    """Id or place of one of them."""


class DeclaredTool(Model):
    """Use of a tool that `retriever_tools` names."""

    captured: int = 0
    """Captured requests of applications that declare it."""
    called: int = 0
    """Captured requests that called it."""


class FeedbackCounts(Model):
    """Feedback of users, counted."""

    received: int = 0
    waiting: int = 0
    """Its request has not arrived, since less than a day."""
    unknown: int = 0
    """Its request has not arrived for a day: the id is wrong, or sampling skipped a request with another id."""


class Ledger(Model):
    """Request accounting of a store: for traces, and for each metric.

    A trace is `pending` until every metric has an outcome. Then it is `failed` if any metric failed, else `scored` if
    any metric has a score, else `not_applicable`. `captured` is counted separately when requests arrive. It is not the
    sum of the other columns, so a lost request is detected.
    """

    total: LedgerRow
    metrics: dict[str, LedgerRow] = Field(default_factory=dict)
    dropped_by_reason: dict[str, int] = Field(default_factory=dict)
    erased: dict[str, int] = Field(default_factory=dict)
    """Erased requests by the state that they had. They count as dropped."""
    erased_deliveries: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Deliveries of erased and expired requests that were sent, skipped or failed, by sink and state. `outbox` does not contain
    them."""
    oldest_pending_s: float | None = None
    """Age in seconds of the oldest pending trace."""
    outbox: dict[str, DeliveryCounts] = Field(default_factory=dict)
    """Delivery counts by sink name."""
    rules: dict[str, dict[str, int]] = Field(default_factory=dict)
    """By part (query, contexts, response), the number of captured traces by the rule that found it."""
    ignored: dict[str, IgnoredTraces] = Field(default_factory=dict)
    """Recorded traces that are not requests, by reason. They are not in `captured`."""
    doubts: dict[str, int] = Field(default_factory=dict)
    """Number of captured traces by doubt, see `Evidence`."""
    ended: dict[str, int] = Field(default_factory=dict)
    """Number of captured traces by `Trace.status`, of those that arrived since this is counted."""
    declared_tools: dict[str, DeclaredTool] = Field(default_factory=dict)
    """Use of declared tools, by name. A tool that is never called is probably misspelled."""
    feedback: FeedbackCounts = Field(default_factory=FeedbackCounts)
    spent_today: Usage = Field(default_factory=Usage)
    """What model calls have cost on the current day of UTC, over all workers."""
    daily_budget: dict[str, float] = Field(default_factory=dict)
    """Daily limits of the last worker: calls, tokens and usd."""
    scoring: dict[str, Any] = Field(default_factory=dict)
    """Options of commands that score as the last worker does, such as `{"metrics": "ccrs", "judge": "http://host/v1"}`.
    None: a value that an option has to name, because it is an object of Python, may be secret, or is unnamed."""
    unplanned_outcomes: int = 0
    """Outcomes of metrics, versions and judges with which the store is not scored now."""
    brokers: dict[str, BrokerStatus] = Field(default_factory=dict)
    """State of the message brokers that a worker reads, by URL without credentials. Empty in a ledger that is read without them."""
