"""Sources of outcomes: what reports, gates and comparisons are built from, read in two passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from typing_extensions import override

from ragstone._util.quantities import text_of
from ragstone.experiments._clusters import Clusters, choose_clusters
from ragstone.experiments._spill import SamplesOnDisk
from ragstone.experiments._table import ScoreTable, TableReader
from ragstone.metrics import Composite, MetricCard
from ragstone.schema import Outcome, Sample, Trace, TraceOutline
from ragstone.settings import Analysis

if TYPE_CHECKING:
    from ragstone.experiments._spent import Spent
    from ragstone.experiments._views.labeled import HumanLabels
    from ragstone.views import RunRow


@dataclass(slots=True)
class AnswerRecord:
    """One sample with its outcomes."""

    sample: Sample | None = None
    time: float | None = None
    """Start of the request, Unix seconds. None for rows of a dataset."""
    outcomes: list[Outcome] = field(default_factory=list)
    trace: Trace | None = None
    """The captured request. None for rows of a dataset, and if its text was removed."""


class SampleFields(NamedTuple):
    """What is known about one sample before its outcomes are read."""

    id: str
    content: Sample | TraceOutline | None
    """None if its text was removed."""
    time: float | None
    """Start of the request, Unix seconds. None for rows of a dataset."""
    labels: Mapping[str, tuple[str, ...]]
    """Values by key: metadata, and for requests name, model, session, user, status and tags."""


class Dependence(NamedTuple):
    """What makes samples count more or less than one independent sample."""

    inclusion_probabilities: Mapping[str, float]
    """Sampling probabilities below 1, by sample id."""
    labels: Mapping[str, Mapping[str, str]]
    """Labels of clusters, by key and sample id."""


class Source(ABC):
    """Outcomes and samples of one system. Large sources are read one by one, without keeping them in memory.

    `cards` are those of the metrics that the source describes.
    """

    is_traffic = False
    """Whether these are requests of an application instead of rows of a dataset."""
    argument = ""
    """The store, period or run as an argument of commands. Empty for other sources."""
    composites: tuple[Composite, ...] = ()
    """Composites that are computed from the outcomes of their metrics."""

    def __init__(self, name: str, analysis: Analysis, cards: Mapping[str, MetricCard]) -> None:
        self.name = name
        self.analysis = analysis
        self.cards = cards

    @abstractmethod
    def samples(self) -> Iterator[SampleFields]:
        """Yield the samples that are known."""

    @abstractmethod
    def outcomes(self) -> Iterator[Outcome]:
        """Yield the outcomes."""

    def read(self) -> Iterator[Outcome]:
        """Yield the outcomes, and those of the composites."""
        return self.complete(self.outcomes())

    def complete(self, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Yield some of the outcomes, and those of the composites that follow from them."""
        for composite in self.composites:
            outcomes = composite.follow(outcomes)
        return iter(outcomes)

    def table(self, cards: Iterable[MetricCard] = ()) -> tuple[ScoreTable, Clusters | None]:
        """Read all scores, also of metrics (`cards`) without an outcome, and return them with their clusters."""
        reader = TableReader(cards=self.cards)
        for outcome in self.read():
            reader.put(outcome)
        reader.expect([*self.cards.values(), *cards])
        dependence = self.dependence()
        clusters = choose_clusters(self.analysis.cluster, dependence.labels, reader.rows)
        return reader.table(dependence.inclusion_probabilities, clusters), clusters

    @abstractmethod
    def records(self, ids: Collection[str]) -> dict[str, AnswerRecord]:
        """Return the samples with these ids, with all their outcomes."""

    @abstractmethod
    def dependence(self) -> Dependence:
        """Return sampling probabilities and labels of clusters. They are complete when the outcomes have been read."""

    def spent(self) -> Mapping[str, Spent]:
        """Return what the application needed by sample id, as far as it is known when the outcomes have been read."""
        return {}

    def question_of(self, sample_id: str) -> str | None:
        """Return the question of a sample, if it is known."""
        record = self.records([sample_id]).get(sample_id)
        return None if record is None or record.sample is None else record.sample.query

    def notes(self) -> list[str]:
        """Return what limits the numbers of this source, in sentences."""
        return []

    def runs(self) -> tuple[RunRow, ...]:
        """Return all runs, if the source is the last of several in one store."""
        return ()

    def trials(self) -> Sequence[str]:
        """Return the results of trials of repairs of these samples, as JSON."""
        return ()

    def human_labels(self) -> HumanLabels:
        """Return the labels of people."""
        from ragstone.experiments._views.labeled import HumanLabels

        return HumanLabels()


class Rows(Source):
    """Outcomes that are in memory, with the samples as far as they are known.

    `dependence` holds sampling probabilities and labels, `times` the starts of requests by sample id (Unix seconds),
    `spent` what the application needed by sample id, and `notes` what limits the numbers, in sentences.
    """

    def __init__(
        self,
        name: str,
        outcomes: Iterable[Outcome],
        samples: Iterable[Sample],
        analysis: Analysis,
        *,
        cards: Mapping[str, MetricCard],
        dependence: Dependence,
        times: Mapping[str, float] | None = None,
        spent: Mapping[str, Spent] | None = None,
        notes: Iterable[str] = (),
    ) -> None:
        super().__init__(name, analysis, cards)
        self._dependence = dependence
        self._outcomes = outcomes
        self._samples = samples
        self._find_sample = (
            samples.find if isinstance(samples, SamplesOnDisk) else {sample.id: sample for sample in samples}.get
        )
        self._times = times or {}
        self._spent = spent or {}
        self._notes = list(notes)

    @override
    def samples(self) -> Iterator[SampleFields]:
        for sample in self._samples:
            yield SampleFields(sample.id, sample, self._times.get(sample.id), metadata_labels(sample.metadata))

    @override
    def outcomes(self) -> Iterator[Outcome]:
        yield from self._outcomes

    @override
    def records(self, ids: Collection[str]) -> dict[str, AnswerRecord]:
        found = {id_: AnswerRecord(self._find_sample(id_), self._times.get(id_)) for id_ in ids}
        for outcome in self._find(found):
            found[outcome.sample_id].outcomes.append(outcome)
        return found

    def _find(self, ids: Collection[str]) -> Iterable[Outcome]:
        """Return the outcomes of some samples."""
        return (outcome for outcome in self.outcomes() if outcome.sample_id in ids)

    @override
    def dependence(self) -> Dependence:
        return self._dependence

    @override
    def spent(self) -> Mapping[str, Spent]:
        return self._spent

    @override
    def notes(self) -> list[str]:
        return self._notes


def metadata_labels(metadata: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the metadata whose values are plain: texts, numbers, and lists of these."""
    labels: dict[str, tuple[str, ...]] = {}
    for key, value in metadata.items():
        values = value if isinstance(value, list | tuple) else (value,)
        if values and all(isinstance(each, str | int | float) for each in values):
            labels[key] = tuple(map(text_of, values))
    return labels


EXPERIMENT: Final = "experiment"
"""Name of an experiment in its report."""


class Reportable(ABC):
    """Base class of `Experiment` and `TimeRange`."""

    __slots__ = ()

    @property
    @abstractmethod
    def analysis(self) -> Analysis:
        """Clusters of samples, and confidence level of intervals."""


class Evaluated(Reportable):
    """Base class of `Experiment`."""

    __slots__ = ()

    samples: Sequence[Sample]
    outcomes: Sequence[Outcome]
    cards: tuple[MetricCard, ...]

    @abstractmethod
    def source(self, name: str | None = None, analysis: Analysis | None = None) -> Source:
        """Return the outcomes as a source. Without an analysis, it has that of the experiment."""
