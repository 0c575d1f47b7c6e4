"""The metric card (definition of a metric) and the `Metric` Protocol (its interface)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeGuard, runtime_checkable

from ragstone._util.local_model import OptionalDependency
from ragstone.judges import Embedder, Judge, Reader
from ragstone.schema import Failure, NotApplicable, Sample, Score

MEAN_OF_REPEATS: Final = "mean_of_repeats"
"""Method of a score that is the mean of several answers of the application. Its details hold the parts of each."""
_ROUNDING: Final = 1e-9
"""Rounding error of a decision value or a bound."""


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value of details is a finite number. Details of other packages may contain anything."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def advise(meaning: str, next_step: str, direction: Literal["higher", "lower"] = "higher") -> str:
    """Return the advice of a card: what a bad value means, and what to do about it."""
    return f"{'Low' if direction == 'higher' else 'High'} means that {meaning}. Next: {next_step}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedExample:
    """One sample with a calculation by hand. Tests run it, and `ragstone metrics NAME` prints it."""

    row: Mapping[str, Any]
    """The sample, with the field names of a dataset."""
    value: float | None
    """The metric's value, or None if it depends on a local model."""
    steps: str
    """The calculation, in text and numbers."""
    replies: Mapping[str, Any] = field(default_factory=dict)
    """Judge replies by construct: a number or a JSON value, or a tuple of these for consecutive judge calls."""
    cosines: tuple[float, ...] = ()
    """Cosine of the query with each text that the metric compares with it, for metrics with an embedder."""
    abstentions: tuple[float, ...] = ()
    """The reader's probability of abstaining with each passage alone, in passage order, for metrics with a reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCard:
    """Definition of a metric: name, needed fields, range and source. Docs, tables and contract tests use it."""

    name: str
    title: str
    """Display name, unique among all metrics. Tables print it before the name."""
    description: str
    low: float
    """Smallest possible value."""
    high: float
    """Largest possible value, infinite if the metric is unbounded."""
    neutral: float | None = None
    """The value without any effect of what is rated, if the metric has such a value (UDCG: 0.5)."""
    decided_by: tuple[str, ...] = ()
    """Numbers in the details of a score, on the metric's range, the best of which decides whether it is good. Empty:
    the value decides. `ccrs.ac`: a wrong answer and a correct paraphrase both have values of at most 0.3."""
    reachable: str = ""
    """Which values are possible for which samples, if that is not the whole range."""
    follows_from: tuple[str, ...] = ()
    """Metrics whose values determine the value, such as precision and recall of F1. A comparison that has all of them
    is not corrected for this one."""
    direction: Literal["higher", "lower"] = "higher"
    """Whether higher or lower values are better."""
    needs: tuple[str, ...]
    """Fields of the sample without which the metric is not applicable."""
    reads_passages: bool = True
    """Whether needed contexts must have texts. False if their ids are enough."""
    version: str
    """Version of the definition. For judged metrics it ends with the prompt hash."""
    source: str
    """Paper, section, formula."""
    group: str
    """Name that selects all metrics of a family ("ccrs")."""
    judge_calls: int = 0
    """Judge calls per sample, in the normal case and if the metric is scored alone."""
    judge_calls_per_passage: int = 0
    """Additional judge calls per passage."""
    reader_calls_per_passage: int = 0
    """Reader calls per passage. Depending on the estimator, a call is one or several HTTP requests."""
    embedder_calls: int = 0
    """Calls of the embedder per sample."""
    formula: str = ""
    """The definition in one line."""
    example: WorkedExample | None = None
    advice: str = ""
    """Two sentences: the meaning of a bad value, and the next step."""
    extra: OptionalDependency | None = None
    """Package that the metric requires."""

    @property
    def stage(self) -> Literal["answer", "support", "passages"]:
        """What the metric rates: the answer against a reference, the answer against passages and query, or the passages."""
        if "response" not in self.needs:
            return "passages"
        return "answer" if "reference" in self.needs and "contexts" not in self.needs else "support"

    @property
    def threshold(self) -> float | None:
        """Decision value from which a score is good: the neutral value, or the middle of the range. None without one."""
        if self.neutral is not None:
            return self.neutral
        return (self.low + self.high) / 2 if math.isfinite(self.high - self.low) else None

    @property
    def decision_name(self) -> str:
        """The decision value in words."""
        several = "the best of " * (len(self.decided_by) > 1)
        return f"{several}{' and '.join(self.decided_by)} in its details" if self.decided_by else "its value"

    @property
    def rule(self) -> str:
        """Which scores are good, in words. Empty without a threshold."""
        if self.threshold is None:
            return ""
        side = "at most" if self.direction == "lower" else "at least"
        return f"good if {self.decision_name} is {side} {self.threshold:.3g}"

    def decision(self, score: Score) -> float | None:
        """Return the number that decides whether a score is good, or None if the score does not have it.

        For a score of repeats it is the mean of their decision values.
        """
        if not self.decided_by:
            return score.value
        found = self.decisions(score)
        return math.fsum(found) / len(found) if found else None

    def decisions(self, score: Score) -> list[float]:
        """Return the decision values of the repeats that a score merges, or that of the score. Empty if not known."""
        details = score.details
        repeats = score.method == MEAN_OF_REPEATS
        if not self.decided_by:
            return [float(v) for v in details.get("repeats") or () if is_number(v)] if repeats else [score.value]
        if repeats:
            parts = details.get("repeat_parts") or {}
            rows = list(zip(*(parts.get(name) or () for name in self.decided_by), strict=False))
        else:
            rows = [tuple(map(details.get, self.decided_by))]
        best = min if self.direction == "lower" else max
        return [float(best(row)) for row in rows] if all(map(is_number, itertools.chain(*rows))) else []

    def is_good(self, score: Score) -> bool | None:
        """Return whether the decision value reaches the threshold. None if either is not known."""
        value, threshold = self.decision(score), self.threshold
        return None if value is None or threshold is None else bool(self.reaches(value, threshold))

    def goodness(self, value: float) -> float:
        """Return the place of a value between the worst (0) and the best value (1) of the range, which must be finite."""
        share = (value - self.low) / (self.high - self.low)
        return 1 - share if self.direction == "lower" else share

    def reaches(self, value: Any, threshold: float) -> Any:
        """Return whether a value, or each of an array, is at least a threshold. At most, if lower values are better."""
        return value <= threshold + _ROUNDING if self.direction == "lower" else value >= threshold - _ROUNDING

    def bounds_of(self, failure: Failure) -> tuple[float, float] | None:
        """Return the bounds of a failed sample's value, if the failure reports them and both are in the range."""
        match failure.details.get("bounds"):
            case [int() | float() as low, int() | float() as high] if (
                self.low - _ROUNDING <= low <= high <= self.high + _ROUNDING
            ):
                return max(float(low), self.low), min(float(high), self.high)
        return None

    @property
    def asks_judge(self) -> bool:
        """Whether the metric calls a judge."""
        return bool(self.judge_calls or self.judge_calls_per_passage)


@runtime_checkable
class Metric(Protocol):
    """Computes a score for one sample. Every call returns exactly one outcome, and values are never NaN."""

    @property
    def card(self) -> MetricCard:
        """The card of this metric."""

    async def score(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        """Score `sample`, which has every field in `card.needs`.

        `Scorer` checks the fields before the call and the value after it. It turns a `JudgeError` into a `Failure`.
        """


@runtime_checkable
class ReaderMetric(Metric, Protocol):
    """A metric that also calls the application's generator. The reader is set at construction or bound later."""

    @property
    def reader(self) -> Reader | None:
        """The reader, or None before it is bound."""

    def with_reader(self, reader: Reader) -> Metric:
        """Return the same metric with this reader."""


@runtime_checkable
class EmbedderMetric(Metric, Protocol):
    """A metric that also calls an embedding model. The embedder is set at construction or bound later."""

    @property
    def embedder(self) -> Embedder | None:
        """The embedder, or None before it is bound."""

    def with_embedder(self, embedder: Embedder) -> Metric:
        """Return the same metric with this embedder."""
