"""Outcome of a metric for a sample (`Score`, `NotApplicable` or `Failure`), and its delivery to a sink."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, TypeAdapter, model_validator

from ragstone.schema._base import Model, Record
from ragstone.schema._trace import Usage

_NAMESPACE = uuid.UUID("5f2e0a4c-7c41-5d0b-9a64-0d1c8f6b7e21").bytes

FailureKind = Literal[
    "unparseable",  # the judge replied twice without the requested number
    "truncated",  # the judge's reply reached its length limit
    "repeated",  # the judge's reply repeated itself until its length limit
    "prompt_truncated",  # the server cut the prompt without an error, so the judge did not read all of it
    "refused",  # the judge declined to answer (content filter, refusal)
    "timeout",  # no outcome before the deadline
    "unavailable",  # connection error, 429 or 5xx after all retries
    "rejected",  # 4xx: bad request, credentials, context length
    "unsupported",  # this judge does not support this kind of call
    "budget",  # the budget was reached before the call
    "bug",  # the metric raised an unexpected exception
    "application",  # the evaluated application raised an exception, was too slow, or did not return an answer
]


class Interval(Model):
    """An interval for a value, with its nominal confidence level and its method."""

    low: FiniteFloat
    high: FiniteFloat
    confidence_level: float = Field(default=0.95, gt=0, lt=1)
    method: str

    @model_validator(mode="after")
    def _ordered(self) -> Interval:
        if self.low > self.high:
            raise ValueError(f"an interval needs low <= high, got low={self.low!r} and high={self.high!r}")
        return self


@lru_cache(maxsize=2048)
def _id_of(key: tuple[str, ...]) -> str:
    # `uuid.uuid5`, without its object: reports compute the id of each stored outcome.
    digest = hashlib.sha1(_NAMESPACE + "\x1f".join(key).encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


AnswerMark = Literal[
    "abstains",  # the response declines to answer, by its wording
    "own_phrase",  # it does so with one of the user's own phrases (`answers.refusals`)
    "unanswerable",  # all references decline to answer
    "relevant",  # labels of the data say that a passage is relevant
    "irrelevant",  # labels of the data say that no passage is relevant
]


class MetricScale(Model):
    """Range and direction of a metric that is not part of Ragstone, so that its outcomes are read as they are meant."""

    low: FiniteFloat | None = None
    """Smallest possible value. None if it is unbounded."""
    high: FiniteFloat | None = None
    direction: Literal["higher", "lower"] = "higher"
    """Whether higher or lower values are better."""


class _OutcomeBase(Record):
    sample_id: str
    """Id of the sample. For a captured request this is the trace id."""
    fingerprint: str | None = Field(default=None, pattern="^[0-9a-f]{24}$")
    """`fingerprint` of the question and history of the sample. None if it has neither, or if its text was removed."""
    metric: str
    metric_version: str
    """Version that changes if the definition of the metric or its prompt changes."""
    scale: MetricScale | None = None
    """Range and direction of a user's metric. None for the metrics of Ragstone, whose names state them."""
    judge: str | None = None
    """Description of the judge ("lexical baseline", "llama-3-8b at http://..."), or None if no judge is used."""
    judge_hash: str = ""
    """Hash of the judge configuration, or an empty string if no judge is used."""
    prompt_hash: str | None = None
    answer: tuple[AnswerMark, ...] | None = None
    """What the texts of the sample say about its answer, so that its cause is known without them. None: unknown."""
    usage: Usage | None = None
    created_at: float | None = None
    """Unix seconds."""
    duration_s: float | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """`(sample_id, metric, metric_version, judge_hash)`. An outcome whose key is already stored is ignored."""
        return (self.sample_id, self.metric, self.metric_version, self.judge_hash)

    @property
    def id(self) -> str:
        """A UUID derived from `key`, so the same outcome has the same id on every machine and after every restart."""
        return _id_of(self.key)


class Score(_OutcomeBase):
    """A value of the metric for this sample."""

    outcome: Literal["score"] = "score"
    value: FiniteFloat
    interval: Interval | None = None
    """Uncertainty of this value, or None if it was not measured (for example with one judge reply)."""
    method: str
    """How the value was computed: "exact", "single_reply", "lexical", ..."""
    n: int = Field(default=1, ge=1)
    """Number of judge replies that the value is based on."""
    explanation: str | None = None
    details: dict[str, Any] = Field(default_factory=dict)
    raw: str | None = None
    """The judge's reply."""


class NotApplicable(_OutcomeBase):
    """The metric does not apply to this sample."""

    outcome: Literal["not_applicable"] = "not_applicable"
    reason: str
    missing: tuple[str, ...] = ()
    """Fields that the metric needs and the sample does not have."""


class Failure(_OutcomeBase):
    """The metric applies to this sample, but could not be computed."""

    outcome: Literal["failure"] = "failure"
    kind: FailureKind
    reason: str
    details: dict[str, Any] = Field(default_factory=dict)
    """Partial results (for example the passages with readable replies, or bounds)."""
    raw: str | None = None
    """The judge's reply, or None if it did not reply."""


Outcome = Annotated[Score | NotApplicable | Failure, Field(discriminator="outcome")]
"""Exactly one of `Score`, `NotApplicable`, `Failure`."""

outcome_adapter: TypeAdapter[Score | NotApplicable | Failure] = TypeAdapter(Outcome)
"""Validates and serializes an outcome of any of the three kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCause:
    """The step of the application that failed first for one answer, as far as its outcomes show it.

    No field quotes captured text.
    """

    name: str
    """Name of the cause, such as "missed_passage"."""
    title: str
    """The cause in words: "The model missed a relevant passage"."""
    why: str
    """Its evidence: "Passage 2 is relevant, and the model did not answer."."""
    next: str
    """What to work on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One outcome for one sink, with the ids that the sink needs to find the existing trace."""

    outcome: Score | NotApplicable | Failure
    trace_id: str
    run_id: str | None = None
    otel_trace_id: str | None = None
    otel_span_id: str | None = None
    otel_sampled: bool | None = None
    """False if the span of the request is not exported, so tracing tools do not have it. None if that is unknown."""
    session_id: str | None = None
    user_id: str | None = None
    app: str | None = None
    release: str | None = None
    environment: str | None = None
    name: str | None = None
    response_id: str | None = None
    """Id of the model's response with the answer."""
    requested_at: float | None = None
    """Start of the request, Unix seconds."""
    inclusion_probability: float = 1.0
    is_backfilled: bool = False
    """Whether a backfill computed it, long after the request."""
    attempts: int = 0
    """Number of previous delivery attempts."""
    since: float | None = None
    """When it was queued, Unix seconds. None if it does not come from a store."""
    cause: AnswerCause | None = None
    """Why the answer is wrong. Set on the last outcome of a request only, when all metrics have an outcome."""

    @property
    def id(self) -> str:
        """Id of the outcome."""
        return self.outcome.id


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmDelivery:
    """One event of an alarm for one destination."""

    id: str
    """Number of the alarm and event, such as "17:alarm". The same event has the same id after every restart."""
    event: str
    """"alarm", "follow_up" or "recovered"."""
    alarm: Mapping[str, Any]
    """The alarm as it is now: the object that `ragstone watch --json` prints."""
    text: str = ""
    """The alarm in lines of text."""
    attempts: int = 0
    """Number of previous delivery attempts."""
    since: float | None = None
    """When it was queued, Unix seconds."""
