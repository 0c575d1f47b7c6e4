"""The view model: what a user sees of results, as plain values. Every renderer shows the same model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from ragstone.stats import Estimate

__all__ = [
    "AnswerView",
    "CauseRow",
    "MetricRow",
    "PassageView",
    "Provenance",
    "QuestionRow",
    "ReportView",
    "ScoreView",
    "SliceRow",
    "SliceTable",
    "Span",
    "Stage",
    "Statement",
    "StatementKind",
]

Stage = Literal["answer", "support", "passages"]
"""What a metric rates: the answer against the reference, the answer against passages and question, or the passages."""

StatementKind = Literal["significant", "not_significant", "count", "action", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A sentence of the verdict, with the numbers in it."""

    text: str
    kind: StatementKind
    numbers: Mapping[str, float] = field(default_factory=dict)
    """The numbers of the sentence by name, unrounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """One metric over all samples."""

    name: str
    title: str
    question: str
    """What the metric asks, or an empty string if this installation does not know the metric."""
    stage: Stage
    low: float
    """Smallest possible value. Also applies to `high`: infinite if the metric is unbounded."""
    high: float
    neutral: float | None
    """The value without any effect, if the metric has one."""
    lower_is_better: bool
    estimate: Estimate | None
    """Mean and interval, or None without scores."""
    axis: tuple[float, float]
    """Ends of the axis: the metric's range, or for an unbounded metric the 1st and the 99th percentile of the scores."""
    histogram: tuple[int, ...]
    """Number of scores in each of 20 equal parts of the axis. Empty below 10 scores."""
    n_scored: int
    n_failed: int
    n_not_applicable: int
    bounds: tuple[float, float] | None
    """Lowest and highest possible mean, for any scores of the failed samples."""
    target: float | None
    """The value that the user wants to reach."""
    advice: str
    judges: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRow:
    """One cause of wrong answers, with the samples that it explains."""

    cause: str
    title: str
    next: str
    """What to do about it."""
    is_wrong: bool
    """Whether these answers are counted as wrong."""
    n: int
    share: Estimate | None
    """Share of all samples with an answer. None for samples that are not scored."""
    sample_ids: tuple[str, ...]
    """The samples, worst first, at most 200."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRow:
    """The answers with one value of a label."""

    value: str
    n: int
    """Judged answers with this value."""
    n_wrong: int
    share: Estimate
    """Share of wrong answers. All intervals of a label hold together with the confidence level of the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceTable:
    """The answers by the values of one label."""

    key: str
    rows: tuple[SliceRow, ...]
    """One row for each value, the largest share of wrong answers first."""
    n_without: int
    """Judged answers without this label, or with a value that is too rare for a row of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A part of an answer."""

    text: str
    unsupported: bool = False
    """Whether this part makes a claim that the passages do not support."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageView:
    """One passage of an answer, in prompt order."""

    position: int
    """1-based."""
    id: str | None
    text: str
    marks: tuple[Literal["relevant", "used", "distracting"], ...]
    label_source: str | None
    """Where the label "relevant" comes from, or None if the passage is not labeled."""
    p_answer: float | None
    """Probability that the reader answers from this passage alone, if it was measured."""
    p_answer_interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreView:
    """One outcome of an answer."""

    metric: str
    title: str
    outcome: Literal["score", "not_applicable", "failure"]
    value: float | None
    low: float | None
    """Ends of the interval of this value, if it has one."""
    high: float | None
    reason: str | None
    """Why the value is as it is, or why there is none."""
    reason_source: Literal["evidence", "judge", "failure"] | None
    is_low: bool
    """Whether the value is in the worse half of the metric's range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerView:
    """One answer with its evidence."""

    id: str
    query: str | None
    response: tuple[Span, ...] | None
    """The answer in parts. None if it is not known."""
    unsupported: tuple[str, ...]
    """Unsupported claims that do not correspond to a part of the answer."""
    reference: tuple[str, ...]
    passages: tuple[PassageView, ...] | None
    scores: tuple[ScoreView, ...]
    rating: float | None
    """Mean of the scores on a scale from 0 (worst) to 1 (best). None without scores of metrics with a range."""
    cause: str | None
    """The cause, or None if the answer is not wrong."""
    cause_title: str | None
    why: str
    """One sentence about the cause, with the evidence of this answer."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    time: float | None = None
    """Start of the request, Unix seconds. None for rows of a dataset."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return _plain_dict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRow:
    """One sample in the table of all questions."""

    id: str
    query: str | None
    cause: str | None
    rating: float | None
    """Mean of the scores on a scale from 0 (worst) to 1 (best)."""
    values: tuple[float | None, ...]
    """The score of each metric, in the order of `ReportView.metrics`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """How the numbers were made."""

    source: str
    judges: tuple[str, ...]
    is_baseline: bool
    """Whether the lexical baseline, which is not a judge, rated."""
    metric_versions: Mapping[str, tuple[str, ...]]
    """Versions by metric. Several if the outcomes come from several versions."""
    confidence_level: float
    n_calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    since: float | None
    """First and last start of a request, Unix seconds. None for datasets."""
    until: float | None
    is_weighted: bool
    """Whether requests were sampled with different probabilities, so that means are weighted."""
    version: str
    """Version of Ragstone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportView:
    """The results of one system."""

    title: str
    verdict: tuple[Statement, ...]
    next: Statement | None
    """What to work on first."""
    notices: tuple[Statement, ...]
    """What limits the statements above: a baseline judge, failures, few samples."""
    n_samples: int
    n_unscored: int
    """Samples without any score."""
    metrics: tuple[MetricRow, ...]
    causes: tuple[CauseRow, ...]
    signals: tuple[str, ...]
    """The signals that the causes are computed from, in words."""
    slices: tuple[SliceTable, ...]
    """Shares of wrong answers by label."""
    worst: tuple[AnswerView, ...]
    """The lowest answer of each cause in turn, the most frequent cause first."""
    provenance: Provenance
    questions: tuple[QuestionRow, ...] = ()
    """All samples, if they were asked for."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON. An infinite number becomes None."""
        return _plain_dict(self)


def _plain_dict(value: object) -> dict[str, Any]:
    plain = _plain(value)
    assert isinstance(plain, dict)  # noqa: S101  a dataclass
    return plain


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if abs(value) != float("inf") else None
    return value
