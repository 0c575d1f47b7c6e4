"""Ledger: the number of captured requests in each state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Self

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

    `ragstone store deliveries` lists them and retries them.
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


class ScoringPlan(Model):
    """Settings with which an application or a worker scores requests."""

    id: str
    """Hash of the settings."""
    settings: dict[str, Any]
    """Values by key of the configuration, such as `{"scoring.metrics": ["ccrs"], "judge.url": "http://host/v1"}`. A
    text that begins with `object:` or `secret:` stands for a value that is not stored. None: a model that is needed, or
    metrics, and not named."""
    since: float
    """Unix seconds of the first request or worker with these settings, since another plan applied."""
    replaced_by: str | None = None
    """Id of the plan that applies to its requests instead."""
    pending: int = 0
    """Pending requests of this plan. Those without a plan count for the one that applies."""

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any], *, since: float) -> Self:
        """Make a plan of settings."""
        text = json.dumps(settings, sort_keys=True)
        return cls(id=hashlib.sha256(text.encode()).hexdigest()[:8], settings=dict(settings), since=since)


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
    """Deliveries of erased and expired requests that were sent, skipped or failed, by sink and state. `outbox` does not
    contain them."""
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
    plans: tuple[ScoringPlan, ...] = ()
    """Plans of the requests. Replaced ones are first, and the last one applies now."""
    last_worker: dict[str, Any] = Field(default_factory=dict)
    """Id of the last worker's plan (`plan`), and its options that do not change scores (`sink`, `reasons`)."""
    other_outcomes: dict[str, int] = Field(default_factory=dict)
    """By name of the judge, the number of outcomes of metrics, versions and judges with which the store is not scored
    now."""
    brokers: dict[str, BrokerStatus] = Field(default_factory=dict)
    """State of the message brokers that a worker reads, by URL without credentials. Empty in a ledger that is read
    without them."""

    @property
    def removed(self) -> dict[str, int]:
        """Requests that were erased or have expired, by these reasons. They count as dropped."""
        return {reason: n for reason in ("erased", "expired") if (n := self.dropped_by_reason.get(reason))}

    @property
    def lost(self) -> int:
        """Requests that were dropped for other reasons."""
        return self.total.dropped - sum(self.removed.values())
