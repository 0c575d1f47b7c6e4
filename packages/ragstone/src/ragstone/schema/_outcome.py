"""What a metric says of a sample (`Score`, `NotApplicable` or `Failure`), and its delivery to a sink."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, TypeAdapter, model_validator

from ragstone.schema._base import Model, Record
from ragstone.schema._trace import Usage

__all__ = [
    "Delivery",
    "Failure",
    "FailureKind",
    "Interval",
    "NotApplicable",
    "Outcome",
    "Score",
    "outcome_adapter",
]

_NAMESPACE = uuid.UUID("5f2e0a4c-7c41-5d0b-9a64-0d1c8f6b7e21")

FailureKind = Literal[
    "unparseable",  # the judge answered, twice, with something that is not the number asked for
    "truncated",  # the judge's answer hit its length limit
    "refused",  # the judge declined to answer (content filter, refusal)
    "timeout",  # no answer within the deadline
    "unavailable",  # connection, 429 or 5xx, still after all retries
    "rejected",  # 4xx: bad request, credentials, context length
    "unsupported",  # this judge cannot answer this kind of question
    "budget",  # the spend cap was reached before this was asked
    "bug",  # a metric raised something it should not have
]


class Interval(Model):
    """An interval for a value, with its nominal level and how it was made."""

    low: FiniteFloat
    high: FiniteFloat
    confidence_level: float = Field(default=0.95, gt=0, lt=1)
    method: str

    @model_validator(mode="after")
    def _ordered(self) -> Interval:
        if self.low > self.high:
            raise ValueError(f"an interval needs low <= high, got low={self.low!r} and high={self.high!r}")
        return self


class _OutcomeBase(Record):
    sample_id: str
    """The id of the sample; for captured requests the trace id."""
    metric: str
    metric_version: str
    """Changes when the metric's definition or its prompt changes."""
    judge: str | None = None
    """The judge in words ("lexical baseline", "llama-3-8b at http://..."); None for a plain metric."""
    judge_hash: str = ""
    """Hash of the judge configuration; empty for a plain metric."""
    prompt_hash: str | None = None
    usage: Usage | None = None
    created_at: float | None = None
    """Unix seconds."""
    duration_s: float | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """`(sample_id, metric, metric_version, judge_hash)`: writing the same key twice changes nothing."""
        return (self.sample_id, self.metric, self.metric_version, self.judge_hash)

    @property
    def id(self) -> str:
        """A UUID made from `key`: the same outcome has the same id everywhere and after every restart."""
        return str(uuid.uuid5(_NAMESPACE, "\x1f".join(self.key)))


class Score(_OutcomeBase):
    """The metric has a value."""

    outcome: Literal["score"] = "score"
    value: FiniteFloat
    interval: Interval | None = None
    """The uncertainty of this one value; None where it was not measured (a single judge reply)."""
    method: str
    """How the value came about: "exact", "single_reply", "lexical", ..."""
    n: int = Field(default=1, ge=1)
    """Judge replies the value rests on."""
    explanation: str | None = None
    details: dict[str, Any] = Field(default_factory=dict)
    raw: str | None = None
    """What the judge replied."""


class NotApplicable(_OutcomeBase):
    """The metric has no meaning for this sample."""

    outcome: Literal["not_applicable"] = "not_applicable"
    reason: str
    missing: tuple[str, ...] = ()
    """Fields of the sample the metric needs and did not find."""


class Failure(_OutcomeBase):
    """The metric has a meaning for this sample, and we failed to find its value."""

    outcome: Literal["failure"] = "failure"
    kind: FailureKind
    reason: str
    details: dict[str, Any] = Field(default_factory=dict)
    """What was found out all the same (the passages that could be read, bounds)."""
    raw: str | None = None
    """What the judge replied, if it replied."""


Outcome = Annotated[Score | NotApplicable | Failure, Field(discriminator="outcome")]
"""Exactly one of `Score`, `NotApplicable`, `Failure`."""

outcome_adapter: TypeAdapter[Score | NotApplicable | Failure] = TypeAdapter(Outcome)
"""Validates and serialises an outcome of any of the three kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One outcome for one sink, with the ids that a sink needs to find the trace it already has."""

    outcome: Score | NotApplicable | Failure
    trace_id: str
    run_id: str | None = None
    otel_trace_id: str | None = None
    otel_span_id: str | None = None
    otel_sampled: bool | None = None
    """False if the request's own span was not exported: tracing tools do not have it. None if that is not known."""
    session_id: str | None = None
    user_id: str | None = None
    name: str | None = None
    requested_at: float | None = None
    """When the request started, Unix seconds."""
    inclusion_probability: float = 1.0
    attempts: int = 0
    """How often this delivery was tried before."""
    since: float | None = None
    """When it was queued, Unix seconds. None if it does not come from a store."""
