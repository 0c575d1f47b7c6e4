"""Opens what a report is built from: an experiment, a file of outcomes, or a store."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from ragstone.experiments._evaluated import Evaluated
from ragstone.experiments._levels import check_level
from ragstone.experiments._outcome_file import read_first_id
from ragstone.experiments._outcomes import OutcomeSource, TimeRange, store_of, stored_outcomes, stream_outcomes
from ragstone.experiments._questions import match_samples
from ragstone.experiments._views.labeled import HumanLabels
from ragstone.experiments._views.source import (
    AnswerRecord,
    Dependence,
    ReportSource,
    Rows,
    SampleFields,
    metadata_labels,
)
from ragstone.metrics import MetricCard
from ragstone.schema import Failure, NotApplicable, Sample, Score, Trace, TraceOutline, sample_from_trace
from ragstone.settings import Analysis
from ragstone.store import PlannedMetric, StorePosition, describe_store, open_store

AnyOutcome = Score | NotApplicable | Failure


class StoredRequests:
    """Requests of a store.

    Args:
        period: The requests.
        name: Name of the system. None: the name of the store.
        analysis: Clusters of requests, and confidence level of intervals.
    """

    after: StorePosition | None = None
    """Only what was stored after this position is read."""
    upto: StorePosition | None = None
    """Only what was stored up to this position is read."""

    def __init__(self, period: TimeRange, name: str | None, analysis: Analysis) -> None:
        self._period = period
        self._n_without_text = 0
        whole = period.since is None and period.until is None
        self.name = name or (describe_store(os.fspath(period.store)) if whole else period.name)
        self.cards: Mapping[str, MetricCard] = {}
        self.analysis = analysis
        with open_store(period.store, mode="read") as opened:
            self._plan: dict[str, PlannedMetric] = {planned.name: planned for planned in opened.plan.metrics()}

    def samples(self) -> Iterator[SampleFields]:
        period = self._period
        with open_store(period.store, mode="read") as store:
            for outline in store.traces.read_outlines(since=period.since, after=self.after, upto=self.upto):
                if period.until is None or outline.started_at < period.until:
                    yield SampleFields(outline.trace_id, outline, outline.started_at, _labels(outline))
            if self.after is None:
                self._n_without_text = 0
                for removed in store.upkeep.removed_texts(since=period.since, until=period.until):
                    self._n_without_text += 1
                    labels = {key: (value,) for key, value in removed.labels.items()}
                    yield SampleFields(removed.trace_id, None, removed.started_at, labels)

    def outcomes(self) -> Iterator[AnyOutcome]:
        return filter(self._is_planned, stored_outcomes(self._period, after=self.after, upto=self.upto))

    def _is_planned(self, outcome: AnyOutcome) -> bool:
        """Whether this is an outcome of the planned version of its metric. Outcomes of older versions are not mixed in."""
        planned = self._plan.get(outcome.metric)
        return planned is None or (
            outcome.metric_version == planned.version and outcome.judge_hash == planned.judge_hash
        )

    def records(self, ids: Collection[str]) -> dict[str, AnswerRecord]:
        found = {}
        with open_store(self._period.store, mode="read") as store:
            for id_, answer in store.traces.answers(list(ids)).items():
                found[id_] = AnswerRecord(time=answer.started_at) if answer.trace is None else _record(answer.trace)
                found[id_].outcomes += filter(self._is_planned, answer.outcomes)
        return found

    def dependence(self) -> Dependence:
        opened = stream_outcomes(self._period, cluster=self.analysis.cluster)
        return Dependence(opened.inclusion_probabilities, opened.labels)

    def human_labels(self) -> HumanLabels:
        with open_store(self._period.store, mode="read") as store:
            labels = store.labels.read()
            return HumanLabels(labels=labels, drawn=store.labels.drawn() if labels else ())

    def notes(self) -> list[str]:
        from ragstone.worker import advise, read_ledger  # `evaluate` does not need it

        ledger = read_ledger(self._period.store)
        notes = []
        if self._n_without_text:
            notes.append(
                f"The texts of {self._n_without_text:,} requests were removed by retention. Their scores count, but what needs "
                "a text (questions, abstentions, metadata) is unknown."
            )
        if dropped := ledger.total.dropped:
            notes.append(f"{dropped:,} requests were dropped before they were stored.")
        return notes + advise(self._period.store, ledger)


def _record(trace: Trace) -> AnswerRecord:
    return AnswerRecord(sample_from_trace(trace), trace.started_at, _labels(trace))


def _labels(trace: Trace | TraceOutline) -> dict[str, tuple[str, ...]]:
    labels = {
        "name": trace.name,
        "model": trace.model,
        "session_id": trace.session_id,
        "user_id": trace.user_id,
        "app": trace.app,
        "release": trace.release,
        "environment": trace.environment,
        "status": trace.status,
        "source": trace.source,
    }
    known = {key: (value,) for key, value in labels.items() if value is not None}
    tags = {"tag": trace.tags} if trace.tags else {}
    return metadata_labels(trace.metadata) | known | tags


def open_source(
    source: OutcomeSource,
    *,
    name: str | None = None,
    samples: Iterable[Sample] = (),
    analysis: Analysis | None = None,
) -> ReportSource:
    """Open what a report is built from.

    Raises:
        ConfigurationError: If the file does not exist, or the confidence level is invalid.
        StoreError: If a store cannot be read.
    """
    analysis = analysis or Analysis()
    check_level(analysis.confidence_level)
    store = store_of(source)
    if store is not None:
        period = source if isinstance(source, TimeRange) else TimeRange(store)
        return StoredRequests(period, name, analysis)
    if isinstance(source, Evaluated):
        return source.report_source(name)
    samples = tuple(samples)
    if samples and isinstance(source, str | os.PathLike):
        first = read_first_id(Path(source))
        if first is not None and all(sample.id != first for sample in samples):
            samples = match_samples(stream_outcomes(source).outcomes, samples)
    opened = stream_outcomes(source, name=name, cluster=analysis.cluster, samples=samples)
    is_read = False

    def outcomes() -> Iterator[AnyOutcome]:
        nonlocal opened, is_read
        opened, is_read = stream_outcomes(source, name=name, cluster=analysis.cluster, samples=samples), False
        yield from opened.outcomes
        is_read = True

    def find(ids: Collection[str]) -> Iterable[AnyOutcome]:
        if is_read and opened.find is not None:
            return opened.find(ids)
        return (outcome for outcome in outcomes() if outcome.sample_id in ids)

    return Rows(
        opened.name,
        outcomes,
        samples,
        find=find,
        cards=opened.cards,
        dependence=lambda: Dependence(opened.inclusion_probabilities, opened.labels),
        analysis=analysis,
    )
