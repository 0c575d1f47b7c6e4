"""The view model: what a user sees of results, as plain values. Every renderer shows the same model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from ragstone.schema import Usage
from ragstone.stats import Estimate

Stage = Literal["answer", "support", "passages"]
"""What a metric rates: the answer against the reference, the answer against passages and question, or the passages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A sentence of the verdict, with the numbers in it."""

    text: str
    kind: Literal["significant", "not_significant", "count", "action", "warning"]
    numbers: Mapping[str, float] = field(default_factory=dict)
    """The numbers of the sentence by name, unrounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemEstimate:
    """The mean of one system on one metric."""

    system: str
    estimate: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference of one system from another on one metric, as `compare` computes it."""

    system: str
    other: str
    metric: str
    title: str
    lower_is_better: bool
    width: float
    """Width of the metric's range. Infinite if it is unbounded."""
    difference: float | None
    """Mean of the system minus that of the other, in the metric's own units. None without a common score."""
    low: float | None
    """Ends of the interval. The intervals of all differences of a comparison hold together. None if untestable."""
    high: float | None
    size: str
    """Difference and interval in words: "+23.8 points [16.1, 31.4]"."""
    p_value: float | None
    """P-value, adjusted for everything that is tested together. None if untestable."""
    p: str
    """The same in words: "p = 0.03"."""
    better: str | None
    """The significantly better system, or None without a significant difference."""
    n: int
    """Number of samples with a score of both. Unpaired: the scored samples of both together."""
    n_up: int
    """Number of samples with a higher score than in the other system. 0, like the next, if unpaired."""
    n_down: int
    doubt: str
    """Whether failed samples could reverse the finding, in words. Empty if not."""
    is_exploratory: bool
    """Whether another metric was named to decide."""

    @property
    def finding(self) -> Literal["better", "worse", "not significant"]:
        """Whether the system is significantly better or worse than the other one."""
        if self.better is None:
            return "not significant"
        return "better" if self.better == self.system else "worse"


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
    """Ends of the axis: the metric's range, or for an unbounded metric the 1st and the 99th percentile of the
    scores."""
    histogram: tuple[int, ...]
    """Number of scores in each of 20 equal parts of the axis. Empty below 10 scores."""
    histogram_low: tuple[int, ...]
    """The same of the scores that are not good. 0 for a metric without a threshold."""
    histogram_unknown: tuple[int, ...]
    """The same of the scores without the value that decides."""
    rule: str
    """Which scores are good, in words, if another value than the score decides. Otherwise empty."""
    n_undecided: int
    """Scores without the value that decides. They have no color."""
    n_scored: int
    n_failed: int
    failure_kinds: Mapping[str, int]
    """Number of failures by kind."""
    n_not_applicable: int
    bounds: tuple[float, float] | None
    """Lowest and highest possible mean, for any scores of the failed samples."""
    target: float | None
    """The value that the user wants to reach."""
    advice: str
    judges: tuple[str, ...]
    change: Difference | None = None
    """Difference from the baseline, if there is one."""
    others: tuple[SystemEstimate, ...] = ()
    """Means of the other systems of a comparison."""


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
    n_before: int | None
    """Number of answers of the baseline with this cause. None without a baseline."""
    share_before: Estimate | None
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
    value: float | None = None
    low: float | None = None
    """Ends of the interval of this value, if it has one."""
    high: float | None = None
    reason: str | None
    """Why the value is as it is, or why there is none."""
    reason_source: Literal["evidence", "judge", "failure"] | None
    is_low: bool | None
    """Whether the score is not good, by the value that decides. None if that value is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """One step of a request: a retrieval, the model, or all of it."""

    name: str
    about: str
    """What the step did, in words."""
    duration: str
    """How long it took. "unknown" if that was not captured."""
    tokens: str
    """Tokens of its models. Empty for a step without a model."""


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
    """One sentence about the cause, with the evidence of this answer. Without a cause, about its low scores."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    time: float | None = None
    """Start of the request, Unix seconds. None for rows of a dataset."""
    history: tuple[str, ...] = ()
    """Earlier messages of the conversation, each with its speaker."""
    steps: tuple[StepView, ...] = ()
    """What the application did for the answer. Empty for rows of a dataset."""

    @property
    def name(self) -> str:
        """The question, or the id if the question is not known."""
        return self.query or self.id

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dict(_plain(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedAnswer:
    """A question whose answer is better or worse than that of the baseline."""

    id: str
    query: str | None
    before: float | None
    """Score of the baseline on the metric of the list, or None without one."""
    after: float | None
    cause_before: str | None
    """Cause of the baseline's wrong answer, or None if it is not wrong."""
    cause_after: str | None
    title_before: str | None
    """Titles of the causes."""
    title_after: str | None
    why: str
    """What is known about the answer now, in one sentence."""

    def reason(self, name: str) -> str:
        """Return why the answer is wrong now, in the list "Lost", or why it was wrong before."""
        return (self.why or self.title_after if name == "Lost" else self.title_before) or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseFlow:
    """Questions with one cause in the baseline and another, or the same, in the reported system."""

    before: str | None
    """None if the answer was not wrong."""
    after: str | None
    title_before: str
    title_after: str
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesView:
    """What changed against a baseline."""

    system: str
    baseline: str
    systems: tuple[str, ...]
    """All compared systems, the reported one first and the baseline last."""
    paired: bool
    """Whether the systems answered the same questions."""
    differences: tuple[Difference, ...]
    """Of each system from the baseline, the reported system first."""
    metric: str
    """The metric whose scores are listed with changed answers."""
    metric_title: str
    means: tuple[SystemEstimate, ...]
    """Means of all systems on that metric, the reported one first."""
    n_common: int
    """Number of questions that all systems answered. 0 if unpaired."""
    gained: tuple[ChangedAnswer, ...]
    """The largest gains: answers that were wrong and are not. Without a judgment of wrong answers, answers whose score
    improved by at least half of the metric's range."""
    lost: tuple[ChangedAnswer, ...]
    gained_ids: tuple[str, ...]
    """All gained and lost questions, the largest change first."""
    lost_ids: tuple[str, ...]
    flow: tuple[CauseFlow, ...]
    """Causes before and now of the questions that are judged in both, the largest number first. Questions that are not
    wrong in both are left out."""
    statements: tuple[Statement, ...]
    """What was gained and lost, and what was wrong before, in sentences."""
    method: str
    """How intervals and findings were computed."""

    @property
    def lists(self) -> tuple[tuple[str, tuple[ChangedAnswer, ...], int], ...]:
        """The lost and the gained questions: the title, the largest changes, and the number of all."""
        return ("Lost", self.lost, len(self.lost_ids)), ("Gained", self.gained, len(self.gained_ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemScores:
    """The scores of one system on one metric of a comparison."""

    system: str
    estimate: Estimate | None
    n_scored: int
    n_failed: int
    n_not_applicable: int
    quantiles: tuple[float, ...]
    """The 5th, 25th, 50th, 75th and 95th percentile of the scores. Empty below 5 scores."""
    beats: tuple[int, ...]
    """Numbers of the systems that it is significantly better than."""
    loses: tuple[int, ...]
    """Numbers of the systems that are significantly better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMetric:
    """One metric of a comparison."""

    name: str
    title: str
    lower_is_better: bool
    is_exploratory: bool
    """Whether another metric was named to decide."""
    axis: tuple[float, float]
    """Ends of the axis: the metric's range, or those of the percentiles if it is unbounded."""
    systems: tuple[SystemScores, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentRow:
    """What the application needed for an answer: the median, over the answers of which it is known."""

    name: Literal["latency_s", "tokens", "cost_usd"]
    estimate: Estimate | None
    """Median and interval, in seconds, tokens or US dollars. None if nothing is known."""
    total: float | None
    """Sum of the known tokens or costs, over all calls. None if only the first call for each answer is known."""
    n: int
    """Number of samples, known or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run of a store of runs."""

    name: str
    time: float
    """Unix seconds."""
    means: Mapping[str, Estimate | None]
    """The mean of each metric of the run."""
    spent: tuple[SpentRow, ...]
    """What the application needed. Empty if nothing is known."""
    change: str
    """What changed since the run before, so that scores before and after are not comparable. Empty if nothing did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialView:
    """The newest trial of repairs (`ragstone repair`) of these requests."""

    statement: Statement
    """What it shows, or why it says nothing about the scores of the report."""
    about: str
    """What was asked again, when, and how it was judged, in sentences."""
    table: tuple[tuple[str, ...], ...]
    """What each intervention corrects, headings first. Empty if the trial says nothing about the scores."""
    result: Mapping[str, Any]
    """The result of `ragstone repair`, or only its application, judge, date and numbers if it says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """The results of several systems."""

    systems: tuple[str, ...]
    n_samples: Mapping[str, int]
    n_common: int
    """Number of samples that every system has. 0 if the comparison is not paired."""
    verdict: tuple[str, ...]
    """Lines of text: whether stated hypotheses are supported, and then the most important differences first."""
    gate: tuple[tuple[str, ...], ...]
    """The head of a gate, and its metrics: state, metric, system, measured value, verdict. Empty without a gate."""
    metrics: tuple[ComparedMetric, ...]
    differences: tuple[Difference, ...]
    """Of all compared pairs, whose intervals hold together."""
    changes: tuple[ChangesView, ...]
    """What changed in the first systems against the baseline, or the first system."""
    answers: Mapping[str, Mapping[str, AnswerView]]
    """Answers to the shown questions, by system and id."""
    causes: Mapping[str, tuple[CauseRow, ...]]
    """Causes of wrong answers by system."""
    usage: Mapping[str, Usage]
    """What the judge needed, by system."""
    spent: Mapping[str, tuple[SpentRow, ...]]
    """What the application needed, by system. Empty if nothing is known."""
    cheapest: tuple[str, ...]
    """Sentences about the cheapest and the fastest system that is not worse."""
    method: str
    notes: tuple[str, ...]
    version: str
    """Version of Ragstone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """The mean of a metric in one part of the time."""

    since: float
    """First and last request of the part, Unix seconds."""
    until: float
    estimate: Estimate
    """Mean and interval, for this part by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendRow:
    """One metric over time."""

    metric: str
    title: str
    axis: tuple[float, float]
    points: tuple[TrendPoint, ...]
    """At least two parts of at least 20 scores each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseMark:
    """The first request of a release."""

    name: str
    time: float
    """Unix seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendView:
    """Means over time."""

    rows: tuple[TrendRow, ...]
    releases: tuple[ReleaseMark, ...]
    """Releases after the first one."""
    part_s: float
    """Length of a part, in seconds. Parts with fewer than 20 scores are joined with the next."""


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
    low: tuple[int, ...] = ()
    """Numbers of the metrics whose score is not good, by the value that decides."""
    labels: tuple[str, ...] = ()
    """Labels of `ReportView.slices`, each as "key=value"."""
    time: float | None = None
    """Start of the request, Unix seconds, if it is known."""
    facts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """All labels with their values, if they were asked for. Long values are cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """How the numbers were made."""

    source: str
    store: str
    """The store, with its period or run, as an argument of commands. Empty for other sources."""
    judges: tuple[str, ...]
    is_baseline: bool
    """Whether the lexical baseline, which is not a judge, rated."""
    metric_versions: Mapping[str, tuple[str, ...]]
    """Versions by metric. Several if the outcomes come from several versions."""
    confidence_level: float
    usage: Usage
    """Of the judge, for these outcomes."""
    since: float | None
    """First and last start of a request, Unix seconds. None for datasets."""
    until: float | None
    is_weighted: bool
    """Whether requests were sampled with different probabilities, so that means are weighted."""
    version: str
    """Version of Ragstone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabeledMetric:
    """One metric, and the mean label of all requests of the draws that its scores help to estimate."""

    metric: str
    title: str
    compared: str
    """The value that decides, which is compared with labels, in words. Empty if it is the score."""
    mean: Estimate
    """Mean of that value."""
    label_mean: Estimate
    """Mean label of people, from 0 (wrong) to 1 (correct)."""
    labels_worth: float | None
    """Number of labels that would give the same interval without the scores. None if the scores do not help."""
    n: int
    """Labels of drawn requests with a score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsView:
    """What labels of people say."""

    n_labeled: int
    """Requests with a label."""
    n_drawn: int
    """Requests that were drawn to be labeled."""
    n_drawn_labeled: int
    """Drawn requests with a label. Only these represent all requests of the draws."""
    n_not_in_draw: int
    """Requests that could not be drawn, such as later ones. Nothing is known about their labels. 0 without a draw."""
    authors: tuple[str, ...]
    statements: tuple[Statement, ...]
    """Agreement with the metrics, and the share of wrong answers according to people."""
    metrics: tuple[LabeledMetric, ...]


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
    wrong: str
    """What counts as wrong: "wrong answers", or "abstentions" if no metric says which answers are wrong."""
    worst: tuple[AnswerView, ...]
    """The lowest answer of each cause in turn, the most frequent cause first."""
    provenance: Provenance
    changes: ChangesView | None = None
    """What changed against the baseline, if there is one."""
    trend: TrendView | None = None
    """Means over time, if times are known and there are at least two parts of 20 scores."""
    labels: LabelsView | None = None
    """What labels of people say, if there are any."""
    spent: tuple[SpentRow, ...] = ()
    """What the application needed. Empty if nothing is known."""
    runs: tuple[RunRow, ...] = ()
    """The runs of a store of runs up to the reported one, which is the last. Empty for other sources, and for one
    run."""
    trial: TrialView | None = None
    """What corrects wrong answers, if the store has a trial of repairs."""
    questions: tuple[QuestionRow, ...] = ()
    """All samples, if they were asked for."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON. An infinite number becomes None."""
        return dict(_plain(self))


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Usage):
        return value.model_dump()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if abs(value) != float("inf") else None
    return value
