"""The metric's card (what it is) and the `Metric` Protocol (what it does)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from ragstone.judges import Judge, Reader
from ragstone.schema import Failure, NotApplicable, Sample, Score

__all__ = ["Metric", "MetricCard", "OptionalDependency", "ReaderMetric", "WorkedExample"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalDependency:
    """A package that a metric calls and that is not always installed."""

    module: str
    """What is imported ("sacrebleu")."""
    package: str
    """What is installed ("sacrebleu")."""
    extra: str
    """Our extra that brings it ("ragstone[text]")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedExample:
    """One sample worked out by hand. Tests run it, and `ragstone metrics NAME` prints it."""

    row: Mapping[str, Any]
    """The sample, under the field names of a data set."""
    value: float | None
    """The metric's value; None where it is the opinion of a model that cannot be asked here."""
    steps: str
    """How the value follows, in words and numbers."""
    replies: Mapping[str, Any] = field(default_factory=dict)
    """What the judge replies, by construct: a number, or what JSON holds; a tuple of those for question after question."""
    abstentions: tuple[float, ...] = ()
    """The reader's probability to abstain from each passage alone, in their order; for metrics that ask a reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCard:
    """What a metric is: its identity, its needs and where it comes from. Docs, tables and contract tests use it."""

    name: str
    title: str
    """Display name, unique among all metrics. Tables print it before the name."""
    description: str
    low: float
    """Smallest possible value."""
    high: float
    """Largest possible value; infinite where there is none."""
    direction: Literal["higher", "lower"] = "higher"
    """Which way is better."""
    needs: tuple[str, ...]
    """Fields of the sample without which the metric is not applicable."""
    reads_passages: bool = True
    """Whether needed contexts must have texts; False if their ids are enough."""
    version: str
    """Changes with the definition; for judged metrics it ends in the prompt's hash."""
    source: str
    """Paper, section, formula."""
    group: str
    """The name that selects all metrics of a family ("ccrs")."""
    judge_calls: int = 0
    """Judge calls for each sample, in the normal case and when the metric is scored alone."""
    judge_calls_per_passage: int = 0
    """Judge calls for each passage, besides."""
    reader_calls_per_passage: int = 0
    """Questions to the reader for each passage; by estimator each is one request or several."""
    formula: str = ""
    """The definition in one line."""
    example: WorkedExample | None = None
    advice: str = ""
    """What a bad value means, and what to look at next: two sentences."""
    extra: OptionalDependency | None = None
    """A package without which the metric cannot run."""

    @property
    def asks_judge(self) -> bool:
        """Whether the metric's outcomes rest on a judge."""
        return bool(self.judge_calls or self.judge_calls_per_passage)


@runtime_checkable
class Metric(Protocol):
    """Scores one sample. Never returns NaN, never drops: every call ends in one outcome."""

    @property
    def card(self) -> MetricCard:
        """What this metric is."""
        ...

    async def score(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        """Score `sample`, which has all the fields that `card.needs` names: `Scorer` checks that, and the value.

        May raise `JudgeError`; the scorer turns that into a `Failure`.
        """
        ...


@runtime_checkable
class ReaderMetric(Metric, Protocol):
    """A metric that also asks the application's generator; it is made for one reader, or bound to it later."""

    @property
    def reader(self) -> Reader | None:
        """Who is asked; None before it is bound."""
        ...

    def with_reader(self, reader: Reader) -> Metric:
        """The same metric with this reader."""
        ...
