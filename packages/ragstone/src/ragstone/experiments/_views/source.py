"""What a report is built from: outcomes and samples, read in two passes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ragstone.metrics import MetricCard
from ragstone.schema import Failure, NotApplicable, Sample, Score, TraceOutline
from ragstone.settings import Analysis

if TYPE_CHECKING:
    from ragstone.experiments._views.labeled import HumanLabels

AnyOutcome = Score | NotApplicable | Failure


@dataclass(slots=True)
class AnswerRecord:
    """One sample with its outcomes."""

    sample: Sample | None = None
    time: float | None = None
    """Start of the request, Unix seconds. None for rows of a dataset."""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Values by key: metadata, and for requests name, model, session, user, status and tags."""
    outcomes: list[AnyOutcome] = field(default_factory=list)


class SampleFields(NamedTuple):
    """What is known about one sample before its outcomes are read."""

    id: str
    content: Sample | TraceOutline | None
    """None if its text was removed."""
    time: float | None
    """Start of the request, Unix seconds. None for rows of a dataset."""
    labels: Mapping[str, tuple[str, ...]]
    """As in `AnswerRecord`."""


class Dependence(NamedTuple):
    """What makes samples count more or less than one independent sample."""

    inclusion_probabilities: Mapping[str, float]
    """Sampling probabilities below 1, by sample id."""
    labels: Mapping[str, Mapping[str, str]]
    """Labels of clusters, by key and sample id."""


class ReportSource(Protocol):
    """Outcomes and samples of one system. Large sources are read one by one, without keeping them in memory."""

    name: str
    cards: Mapping[str, MetricCard]
    """Cards of the metrics that the source describes."""

    def samples(self) -> Iterator[SampleFields]:
        """Yield the samples that are known."""
        ...

    def outcomes(self) -> Iterator[AnyOutcome]:
        """Yield the outcomes."""
        ...

    def records(self, ids: Collection[str]) -> dict[str, AnswerRecord]:
        """Return the samples with these ids, with all their outcomes."""
        ...

    analysis: Analysis
    """Clusters of samples, and confidence level of intervals."""

    def dependence(self) -> Dependence:
        """Return sampling probabilities and labels of clusters. They are complete when the outcomes have been read."""
        ...

    def notes(self) -> list[str]:
        """Return what limits the numbers of this source, in sentences."""
        ...

    def human_labels(self) -> HumanLabels:
        """Return the labels of people."""
        ...


class Rows:
    """Outcomes that are in memory or in a file, with the samples as far as they are known.

    Args:
        name: Name of the system.
        outcomes: Returns the outcomes. Called once for each pass.
        samples: The samples, or samples by id.
        cards: Cards of the metrics that the source describes.
        find: Returns the outcomes of some samples. None: they are searched in `outcomes`.
        dependence: Returns sampling probabilities and labels, after the outcomes were read.
        analysis: Clusters of samples, and confidence level of intervals.
        times: Starts of requests by sample id, Unix seconds.
        notes: What limits the numbers, in sentences.
    """

    def __init__(
        self,
        name: str,
        outcomes: Callable[[], Iterable[AnyOutcome]],
        samples: Iterable[Sample] | Mapping[str, Sample],
        *,
        cards: Mapping[str, MetricCard],
        find: Callable[[Collection[str]], Iterable[AnyOutcome]] | None = None,
        dependence: Callable[[], Dependence],
        analysis: Analysis,
        times: Mapping[str, float] | None = None,
        notes: Iterable[str] = (),
    ) -> None:
        self.name = name
        self.cards = cards
        self.analysis = analysis
        self._dependence = dependence
        self._outcomes = outcomes
        self._find = find
        self._samples = samples if isinstance(samples, Mapping) else {sample.id: sample for sample in samples}
        self._times = times or {}
        self._notes = list(notes)

    def samples(self) -> Iterator[SampleFields]:
        """Yield the samples."""
        for sample in self._samples.values():
            yield SampleFields(sample.id, sample, self._times.get(sample.id), metadata_labels(sample.metadata))

    def _record(self, sample_id: str) -> AnswerRecord:
        sample = self._samples.get(sample_id)
        return AnswerRecord(sample, self._times.get(sample_id), metadata_labels(sample.metadata) if sample else {})

    def outcomes(self) -> Iterator[AnyOutcome]:
        """Yield the outcomes."""
        yield from self._outcomes()

    def records(self, ids: Collection[str]) -> dict[str, AnswerRecord]:
        """Return the samples with these ids, with all their outcomes."""
        found = {id_: self._record(id_) for id_ in ids}
        for outcome in self._outcomes() if self._find is None else self._find(found.keys()):
            if outcome.sample_id in found:
                found[outcome.sample_id].outcomes.append(outcome)
        return found

    def dependence(self) -> Dependence:
        """Return sampling probabilities and labels of clusters."""
        return self._dependence()

    def human_labels(self) -> HumanLabels:
        """Return no labels: only a store keeps them."""
        from ragstone.experiments._views.labeled import HumanLabels

        return HumanLabels()

    def notes(self) -> list[str]:
        """Return what limits the numbers."""
        return self._notes


def metadata_labels(metadata: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the metadata whose values are plain: texts, numbers, and lists of these."""
    labels: dict[str, tuple[str, ...]] = {}
    for key, value in metadata.items():
        values = value if isinstance(value, list | tuple) else (value,)
        if values and all(isinstance(each, str | int | float) for each in values):
            labels[key] = tuple(map(str, values))
    return labels
