"""What goes into a store and comes out of it, besides traces and outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragstone.schema import Failure, NotApplicable, Score, Trace

__all__ = ["DeliveryState", "OutboxRow", "PlannedMetric", "ScoredTrace", "TraceReport", "TraceState"]

TraceState = Literal["pending", "scored", "not_applicable", "failed", "sampled_out"]
"""Where a trace stands; see `ragstone.schema.Ledger`."""

DeliveryState = Literal["pending", "sent", "skipped", "dead"]
"""Where one outcome stands on its way to one sink: `skipped` has no place there, `dead` is not tried again by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMetric:
    """A metric that every trace must have an outcome of before it counts as finished."""

    name: str
    version: str
    judge_hash: str = ""
    """Hash of the judge configuration; empty for a plain metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """The books of one outcome and one sink."""

    outcome_id: str
    trace_id: str
    metric: str
    sink: str
    state: DeliveryState
    attempts: int
    next_try: float
    """Unix seconds."""
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReport:
    """Everything a store knows of one trace, and in words why it was or was not scored."""

    trace_id: str
    state: TraceState
    reasons: tuple[str, ...]
    """Sentences for people."""
    trace: Trace | None
    """None for a trace that sampling left out: its text was never stored."""
    started_at: float
    """When the request started, Unix seconds."""
    received_at: float
    """When it reached the store, Unix seconds."""
    inclusion_probability: float
    attempts: int
    """How often a scorer has claimed it and not handed it back."""
    lease_owner: str | None
    lease_until: float | None
    """Unix seconds; None when nobody holds a lease."""
    outcomes: tuple[Score | NotApplicable | Failure, ...]
    outbox: tuple[OutboxRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredTrace:
    """A trace together with one score of it."""

    trace: Trace
    score: Score
