"""The records that the part `watch` of a store takes and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

StreamKind = Literal["score", "failures"]
"""What a stream watches: the scores of a metric, or the share of its outcomes that are failures."""


FEEDBACK_STREAM: Final = ("feedback", "1", "")
"""Metric, version and judge of the stream of feedback."""

_REPEATED_S: Final = 86_400.0


class StreamKey(NamedTuple):
    """Identity of a stream. A new version of the metric or another judge is another stream."""

    app: str
    metric: str
    version: str
    judge_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedOutcome:
    """One outcome that waits for the end of its session."""

    key: StreamKey
    trace_id: str
    session: str
    """Session id, or the trace id of a request without one."""
    requested_at: float
    """Unix seconds."""
    value: float | None
    """Score in the metric's unit, or None for a failure."""
    probability: float = 1.0
    """Sampling probability, in (0, 1]."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Values of the fields by which alarms are sliced."""
    is_backfilled: bool = False
    """Whether it was scored by a backfill, and so is for baselines only."""
    pending_at: float | None = None
    """First request of its session that is pending (Unix seconds), or None. Only what closes before it is closed."""
    seq: int = 0
    """Number of the row in the queue."""


class UnitAmounts(NamedTuple):
    """What a baseline is learned from: the numbers of a `Unit`."""

    closed_at: float
    value: float | None
    weight: float
    failed_weight: float
    p_min: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One closed session in one stream."""

    session: str
    closed_at: float
    """End of the session: its last request plus the gap. Unix seconds."""
    value: float | None
    """Weighted mean of its scores, in the metric's unit. None if all outcomes are failures."""
    weight: float
    """Sum of 1 / probability over the scores."""
    failed_weight: float = 0.0
    """The same over the failures."""
    p_min: float = 1.0
    """Smallest sampling probability of its requests."""
    gap_s: float | None = None
    """Time since the last unit of the same session, or None if it did not have one within 28 days."""
    worst_trace: str = ""
    """Id of the trace with the lowest score (highest, if lower values are better)."""
    worst_value: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_repeated(self) -> bool:
        """Whether the session had a unit within the last 24 hours. Such a unit counts in means but is not evidence."""
        return self.gap_s is not None and self.gap_s < _REPEATED_S

    @property
    def failed_share(self) -> float:
        """Weighted share of failures."""
        return self.failed_weight / (self.weight + self.failed_weight)

    @property
    def amounts(self) -> UnitAmounts:
        """The numbers from which a baseline is learned."""
        return UnitAmounts(self.closed_at, self.value, self.weight, self.failed_weight, self.p_min)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRow:
    """The stored state of one stream."""

    key: StreamKey
    kind: StreamKind
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRow:
    """A stored alarm."""

    number: int
    """Number from 1, in the order of alarms."""
    state: str
    """"open", "recovered" or "accepted"."""
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedBackfill:
    """A backfill from which streams can learn their baselines."""

    id: str
    since: float
    """Start of the time that it scored, Unix seconds."""
    keys: Sequence[StreamKey]
    """Streams of its metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryScore:
    """One score of a canary, a request that is scored again every day."""

    key: StreamKey
    """Metric and judge. The application is empty."""
    trace_id: str
    scored_at: float
    """Time of the round, Unix seconds."""
    value: float
    """In [0, 1]."""
