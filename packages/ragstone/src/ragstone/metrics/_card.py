"""The metric card (definition of a metric) and the `Metric` Protocol (its interface)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from ragstone._util.local_model import OptionalDependency
from ragstone.judges import Embedder, Judge, Reader
from ragstone.schema import Failure, NotApplicable, Sample, Score


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
