"""Records of the monitoring in a store, and the Protocol of one transaction over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol

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


class WatchTables(Protocol):
    """One transaction over the queue, the units, the streams and the alarms of a store."""

    def closed_outcomes(
        self, *, now: float, gap_s: float, max_s: float, limit: int | None = None
    ) -> list[WatchedOutcome]:
        """Return the queued outcomes up to a time of sessions that have a closed part.

        Outcomes of requests that are pending, or that came after a pending request of their session, are left out.

        Args:
            now: Unix seconds.
            gap_s: A session is closed this long after its last request,
            max_s: or this long after its first one.
            limit: Maximum number of outcomes. None: all.
        """
        ...

    def queue_time(self, n: int, *, after: float | None = None) -> float | None:
        """Return the time of the request (Unix seconds) after the first `n` queued outcomes, or None without one.

        Args:
            n: Number of outcomes, in the order of their requests.
            after: Count only outcomes of requests after this time.
        """
        ...

    def ended_backfills(self) -> list[EndedBackfill]:
        """Return the backfills that have ended and from which streams have not learned so far."""
        ...

    def mark_learned(self, backfill: str) -> None:
        """Record that streams have learned from a backfill, by its id."""
        ...

    def remove_outcomes(self, seqs: Sequence[int]) -> None:
        """Delete outcomes from the queue."""
        ...

    def last_units(self, sessions: Iterable[str], *, since: float) -> dict[tuple[StreamKey, str], float]:
        """Return when these sessions had their last unit since a time, by stream and session."""
        ...

    def add_units(self, units: Sequence[tuple[StreamKey, Unit]]) -> None:
        """Store units."""
        ...

    def units(self, key: StreamKey, *, since: float, until: float) -> list[Unit]:
        """Return the units of a stream that closed from one time up to and including another, in that order."""
        ...

    def unit_amounts(
        self, key: StreamKey, since: float, until: float, *, limit: int | None = None
    ) -> list[UnitAmounts]:
        """Return the numbers of the same units, or of the first ones: a baseline may have hundreds of thousands."""
        ...

    def streams(self) -> list[StreamRow]:
        """Return all streams."""
        ...

    def save_stream(self, row: StreamRow) -> None:
        """Insert or replace a stream."""
        ...

    def budget(self) -> Mapping[str, Any] | None:
        """Return the state of the alarm budget, or None before the first unit."""
        ...

    def save_budget(self, state: Mapping[str, Any]) -> None:
        """Store the state of the alarm budget."""
        ...

    def alarms(self) -> list[AlarmRow]:
        """Return all alarms, oldest first."""
        ...

    def save_alarm(self, row: AlarmRow, *, event: str | None = None) -> None:
        """Insert or replace an alarm.

        Args:
            row: The alarm.
            event: If given, queue a delivery of this event to every destination of alarms.
        """
        ...

    def canaries(self) -> list[str]:
        """Return the canaries whose text is stored."""
        ...

    def suitable_canaries(self, n: int, *, since: float) -> list[str]:
        """Return at most `n` scored requests since a time whose text is stored, selected by a hash."""
        ...

    def set_canaries(self, trace_ids: Sequence[str], *, now: float) -> None:
        """Replace the canaries. Retention keeps the texts of these, and no longer those of earlier ones."""
        ...

    def canary_status(self) -> Mapping[str, Any] | None:
        """Return what `save_canary_status` stored."""
        ...

    def save_canary_status(self, status: Mapping[str, Any]) -> None:
        """Store when the last round of canaries started, and its results."""
        ...

    def add_canary_scores(self, scores: Sequence[CanaryScore], *, keep_since: float) -> None:
        """Store the scores of a round, and delete those before a time."""
        ...

    def canary_scores(self, key: StreamKey) -> list[CanaryScore]:
        """Return all scores of canaries for a metric and judge, oldest first."""
        ...
