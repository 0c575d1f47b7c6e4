"""The records that a store takes and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ragstone.schema import Delivery, Outcome, Trace

TraceState = Literal["pending", "scored", "not_applicable", "failed", "sampled_out"]
"""State of a trace (see `ragstone.schema.Ledger`)."""

DeliveryState = Literal["pending", "sent", "skipped", "failed"]
"""State of a delivery. `skipped`: the sink does not store such outcomes. `failed`: it is not retried automatically."""

DeliveryKind = Literal["outcome", "alarm"]
"""What is delivered."""

RequestLabel = Literal["session_id", "user_id", "app", "release", "environment"]
"""Labels of requests that have a column."""


class StorePosition(NamedTuple):
    """How much a store contains: it changes when requests or outcomes are added, and reading it is cheap."""

    traces: int
    """Sequence number of the last request."""
    outcomes: int
    """Sequence number of the last outcome."""


class StoredLabel(NamedTuple):
    """What a person says about the answer to a request."""

    trace_id: str
    author: str
    value: float | None
    """From 0 (wrong) to 1 (correct). None removes the label of this author."""
    labeled_at: float
    """Unix seconds."""
    correction: str | None = None
    """The correct answer, in the words of the author."""
    relevant: str | None = None
    """1-based positions of the relevant passages in JSON ("[1, 3]"). None if the author did not mark any."""


class StoredCase(NamedTuple):
    """A request that a file of cases contains."""

    path: str
    """Absolute path of the file."""
    trace_id: str


class StoredTrial(NamedTuple):
    """The result of a trial of repairs whose cases are requests of this store."""

    trial_id: str
    """Begins with the run that its cases are of, if they are of one, and a slash."""
    body: str
    """The result as JSON, without texts."""


class DrawnRequest(NamedTuple):
    """A request that could be drawn to be labeled."""

    trace_id: str
    probability: float
    """Probability that it is drawn, in any draw so far."""
    position: int | None
    """Place in the order in which drawn requests are labeled. None if it was not drawn."""


class RemovedText(NamedTuple):
    """A request whose text was removed."""

    trace_id: str
    started_at: float
    """Unix seconds."""
    labels: Mapping[str, str]
    """What is known of it besides its outcomes: status, name, session_id, user_id, app, release and environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedRequests:
    """What was erased, or would be."""

    requests: int = 0
    outcomes: int = 0
    labels: int = 0
    feedback: int = 0
    sent: Mapping[str, int] = field(default_factory=dict)
    """Number of these outcomes that each sink has received. They stay there."""
    since: float | None = None
    """When the first of the requests arrived, in Unix seconds."""

    def __add__(self, other: ErasedRequests) -> ErasedRequests:
        """Return the sum."""
        return ErasedRequests(
            requests=self.requests + other.requests,
            outcomes=self.outcomes + other.outcomes,
            labels=self.labels + other.labels,
            feedback=self.feedback + other.feedback,
            sent={sink: self.sent.get(sink, 0) + other.sent.get(sink, 0) for sink in sorted({*self.sent, *other.sent})},
            since=min((each for each in (self.since, other.since) if each is not None), default=None),
        )


class ExportedOutcome(NamedTuple):
    """An outcome with what is stored of its request."""

    delivery: Delivery
    slices: Mapping[str, str]
    """Values of tags, retriever and language, such as {"tag:topic": "billing"}."""
    trace: Trace | None
    """The request, if its text was asked for and is stored."""


class RetentionCounts(NamedTuple):
    """Requests that started before some time, or those that still have their text."""

    removable: int
    pending: int
    """Not scored yet."""
    undelivered: int
    """Scored, and an outcome waits for a sink of the plan."""
    labeled: int
    """Of texts: labeled by a person, drawn to be labeled, or a canary. Of requests: a canary."""
    labels: int
    """Labels of people that are removed with the removable ones."""


class BackfillCounts(NamedTuple):
    """Requests of a time, by whether a backfill of some metrics can score them."""

    unscored: int
    """Finished with a text, and without an outcome of at least one of the metrics."""
    scored: int
    """With outcomes of all these metrics, which can be failures."""
    removed: int
    """Without an outcome, and retention has removed the text."""
    pending: int
    """Not scored so far: the worker scores them with all metrics of its plan."""
    sampled_out: int
    """Not captured, because of sampling."""


class StoredFeedback(NamedTuple):
    """What a user said about an answer."""

    value: float
    """From 0 (bad) to 1 (good)."""
    comment: str | None
    given_at: float
    """Unix seconds."""


class UnscoredTrace(NamedTuple):
    """A finished request without outcomes of some metrics."""

    trace: Trace
    missing: tuple[str, ...]
    """Names of the metrics."""


class UnscoredPage(NamedTuple):
    """A part of the requests that a backfill scores."""

    traces: list[UnscoredTrace]
    before: tuple[float, int] | None
    """Where the next page begins, or None after the last one."""


class PlannedMetric(NamedTuple):
    """A metric that must have an outcome for every trace before the trace is finished."""

    name: str
    version: str
    judge_hash: str = ""
    """Hash of the judge configuration, or an empty string if no judge is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """Outcomes of one trace that are stored together."""

    trace_id: str
    outcomes: Sequence[Outcome]
    owner: str | None = None
    """The worker whose lease ends. None ends any lease, and another name none."""


class Claims(list[Trace]):
    """The traces that a worker has leased."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, set[tuple[str, str, str]]] = {}
        """Metric, version and judge hash of the outcomes that a trace has already, by its id."""


class OutboxRow(NamedTuple):
    """The state of the delivery of one outcome or alarm to one sink."""

    kind: DeliveryKind
    item_id: str
    """Id of the outcome or the alarm."""
    trace_id: str | None
    """Trace of the outcome. None for an alarm."""
    metric: str | None
    """Metric of the outcome. None for an alarm."""
    sink: str
    state: DeliveryState
    attempts: int
    next_try: float
    """Unix seconds."""
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReport:
    """All stored data about one trace, and why it was or was not scored."""

    trace_id: str
    state: TraceState
    reasons: tuple[str, ...]
    """Explanations in sentences."""
    trace: Trace | None
    """None if the trace was sampled out (its text is never stored), or if its text was removed."""
    text_removed_at: float | None
    """When its text was removed (Unix seconds), or None."""
    started_at: float
    """Start of the request, Unix seconds."""
    received_at: float
    """Arrival in the store, Unix seconds."""
    inclusion_probability: float
    attempts: int
    """Number of times that a worker claimed it and did not release it."""
    lease_owner: str | None
    lease_until: float | None
    """Unix seconds, or None if the trace is not leased."""
    outcomes: tuple[Outcome, ...]
    backfilled: tuple[str, ...]
    """Metrics of the outcomes that were added by a backfill."""
    feedback: tuple[StoredFeedback, ...]
    """What users said about the answer, oldest first."""


class DamagedRow(NamedTuple):
    """A row that is not as it was written."""

    table: str
    problem: str
    """What is wrong, with the id of the row. Does not quote texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreVerification:
    """Result of the verification of all rows of a store."""

    checked: Mapping[str, int]
    """Number of rows that were read, by table."""
    damaged: Mapping[str, int]
    """Number of damaged rows, by table."""
    rows: Sequence[DamagedRow]
    """The first 1,000 damaged rows."""
    counters: Sequence[str]
    """Counters that differ from the rows that they count."""
    file: Sequence[str]
    """What the database itself finds wrong with its file."""

    @property
    def n_problems(self) -> int:
        """Number of damaged rows, wrong counters and problems of the file."""
        return sum(self.damaged.values()) + len(self.counters) + len(self.file)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.n_problems == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """A trace with its outcomes."""

    state: TraceState
    started_at: float
    """Start of the request, Unix seconds."""
    trace: Trace | None
    """None if the trace was sampled out (its text is never stored), or if its text was removed."""
    outcomes: tuple[Outcome, ...]
    """In the order in which they were stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCounts:
    """The outcomes of a planned metric, counted."""

    metric: str
    judge: str | None
    """Description of the judge, or None if no judge is used or no outcome is stored."""
    values: Sequence[float]
    """Values of the scores. Each distinct pair of a score and the sampling probability of its trace occurs once."""
    probabilities: Sequence[float]
    """The sampling probabilities of these pairs."""
    repeats: Sequence[int]
    """The number of scores with each pair."""
    n_failed: int
    n_not_applicable: int
    is_sampled: bool
    """Whether the traces of these outcomes have different sampling probabilities."""
    trace_ids: Sequence[str] = ()
    """The trace of each score. Empty unless outcomes are counted by trace: each score then occurs once."""
