"""Sources of outcomes: an experiment, a file of `evaluate --output`, or a store."""

from __future__ import annotations

import itertools
import math
import os
import shlex
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from typing_extensions import override

from ragstone._util.quantities import count
from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments._cards import card_for
from ragstone.experiments._clusters import SampleFields as FieldsOfFile
from ragstone.experiments._clusters import cluster_keys, store_labels
from ragstone.experiments._outcome_file import (
    NAME_IDS,
    SHOWN,
    OutcomeLines,
    check_samples,
    match_samples,
    read_questions,
)
from ragstone.experiments._runs import describe_changes, origins_of
from ragstone.experiments._spent import Spent, spent_of
from ragstone.experiments._spill import read_fields
from ragstone.experiments._summary import check_level
from ragstone.experiments._views.source import (
    AnswerRecord,
    Dependence,
    Evaluated,
    Reportable,
    Rows,
    SampleFields,
    Source,
    metadata_labels,
)
from ragstone.judges import is_baseline
from ragstone.metrics import MetricCard, find_composites
from ragstone.reading import CHOSEN_BY_SCORES, case_of, is_cases, read_samples
from ragstone.schema import Outcome, Sample, Score, TraceOutline, outcome_adapter, sample_from_trace
from ragstone.settings import Analysis
from ragstone.store import StorePosition, describe_store, has_spool, is_database_url, open_store

if TYPE_CHECKING:
    from ragstone.experiments._views.labeled import HumanLabels
    from ragstone.views import RunRow


@dataclass(frozen=True, slots=True)
class Period(Reportable):
    """The requests of a store in a period: the base class of `TimeRange`."""

    store: str | os.PathLike[str]
    since: float | None = None
    until: float | None = None
    run: str | None = None

    def __post_init__(self) -> None:
        if self.run is None:
            return
        with open_store(self.store, mode="read") as stored:
            times = stored.traces.run_times()
        if self.run not in times:
            raise ConfigurationError(
                f"the store {describe_store(self.store)!r} does not have a run {self.run!r} of `evaluate --store`. Its "
                f"runs: {', '.join(map(repr, times)) or 'none'}. Write STORE@RUN, or STORE@FROM..TO for a period"
            )
        # All requests of a run start in one millisecond.
        object.__setattr__(self, "since", times[self.run] - 0.0002)
        object.__setattr__(self, "until", times[self.run] + 0.0002)

    @property
    @override
    def analysis(self) -> Analysis:
        """The default analysis."""
        return Analysis()

    @property
    def name(self) -> str:
        """Name of the store and the period, in UTC."""
        store = os.fspath(self.store)
        return f"{describe_store(store) if is_database_url(store) else Path(store).stem}@{self._part}"

    @property
    def argument(self) -> str:
        """The store with the period, if it has one, as an argument of commands, without a password."""
        is_whole = self.run is None and self.since is None and self.until is None
        return shlex.quote(describe_store(self.store) + ("" if is_whole else f"@{self._part}"))

    @property
    def _part(self) -> str:
        return self.run or f"{_day(self.since)}..{_day(self.until)}"


OutcomeSource = Evaluated | Period | str | os.PathLike[str]
"""An `Experiment`, a JSONL file of outcomes (`evaluate --output`), a store, or a `TimeRange` of one."""

T = TypeVar("T")
_MOST: Final = 1e100
"""Maximum absolute value of a score: squares and sums of larger values overflow."""
_SQLITE: Final = b"SQLite format 3\x00"
PLANTED: Final = "planted"
"""Source of requests that were invented for a demo."""
_LABELS: Final = ("name", "model", "session_id", "user_id", "app", "release", "environment", "status", "source")
"""Fields of a request that are labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemOutcomes:
    """The outcomes of one system, by metric and sample."""

    name: str
    outcomes: Mapping[str, Mapping[str, Outcome]]
    """Outcomes by metric and sample id. The last one if a sample was scored several times."""
    cards: Mapping[str, MetricCard]
    """Cards by metric. One that this installation does not know has the scale that its outcomes state."""
    judges: Mapping[str, frozenset[str]]
    """Names of the judges by metric. Scores of different judges are not on the same scale."""
    is_baseline: bool = False
    """Whether any outcome comes from a baseline, which is not a judge."""
    repeats: Mapping[str, Mapping[str, tuple[Outcome, ...]]] = field(default_factory=dict)
    """All outcomes by metric and sample, for samples with several outcomes, in order."""
    inclusion_probabilities: Mapping[str, float] = field(default_factory=dict)
    """Sampling probabilities below 1, by sample id."""
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of clusters, by key (such as "session_id") and sample id."""
    lengths: Mapping[str, int] = field(default_factory=dict)
    """Numbers of words of the answers whose texts are known, by sample id."""

    @property
    def sample_ids(self) -> frozenset[str]:
        """All samples with an outcome of any metric."""
        return frozenset(id_ for by_sample in self.outcomes.values() for id_ in by_sample)

    def values(self, metric: str) -> dict[str, float]:
        """Return the values of a metric's scores, by sample id."""
        return {id_: o.value for id_, o in self.outcomes.get(metric, {}).items() if isinstance(o, Score)}

    def range_of(self, metric: str) -> tuple[float, float]:
        """Return the range of a metric. Infinite if this installation does not know it."""
        card = self.cards.get(metric)
        return (card.low, card.high) if card is not None else (-math.inf, math.inf)


def read_outcomes(source: OutcomeSource, *, name: str | None = None, cluster: str | None = None) -> SystemOutcomes:
    """Read the outcomes of one system.

    Raise ConfigurationError if the file does not exist. Raise DataError if a line is not an outcome, or the source does
    not contain outcomes. Raise StoreError if a store cannot be read.
    """
    analysis = Analysis() if cluster is None else Analysis(cluster=cluster)
    if name is None and not isinstance(source, Evaluated):
        name = source.name if isinstance(source, Period) else names_of([source])[0]
    opened = open_source(source, name=name, analysis=analysis, compares=True)
    grouped: dict[str, dict[str, list[Outcome]]] = {}
    judges: dict[str, set[str]] = {}
    for outcome in opened.outcomes():
        grouped.setdefault(outcome.metric, {}).setdefault(outcome.sample_id, []).append(outcome)
        if outcome.judge is not None:
            judges.setdefault(outcome.metric, set()).add(outcome.judge)
    if not grouped and not isinstance(source, Evaluated):
        source_name = source.name if isinstance(source, Period) else describe_store(source)
        raise DataError(f"{source_name!r} does not contain outcomes")
    dependence = opened.dependence()
    return SystemOutcomes(
        name=opened.name,
        outcomes={m: {id_: several[-1] for id_, several in by.items()} for m, by in grouped.items()},
        cards={
            **opened.cards,
            **{metric: card_for(next(iter(by.values()))[0], opened.cards) for metric, by in grouped.items()},
        },
        judges={metric: frozenset(names) for metric, names in judges.items()},
        is_baseline=any(is_baseline(judge) for names in judges.values() for judge in names),
        repeats={
            m: several
            for m, by in grouped.items()
            if (several := {id_: tuple(all_) for id_, all_ in by.items() if len(all_) > 1})
        },
        inclusion_probabilities=dependence.inclusion_probabilities,
        labels=dependence.labels,
        lengths={
            sample.id: len(sample.content.response.split())
            for sample in opened.samples()
            if sample.content is not None and sample.content.response is not None
        },
    )


def check_same_questions(systems: Iterable[SystemOutcomes]) -> None:
    """Check that each sample id belongs to one question in all systems.

    Raise DataError if an id belongs to different questions.
    """
    known: dict[str, tuple[str, str]] = {}
    other: dict[str, str] = {}
    for system in systems:
        for outcome in (outcome for by_sample in system.outcomes.values() for outcome in by_sample.values()):
            if (mark := outcome.fingerprint) is not None:
                name, first = known.setdefault(outcome.sample_id, (system.name, mark))
                if first != mark:
                    other[outcome.sample_id] = f"{outcome.sample_id!r} of {name} and {system.name}"
    if other:
        shown = ", ".join([*other.values()][:SHOWN]) + (", ..." if len(other) > SHOWN else "")
        raise DataError(
            f"{len(other):,} of {count(len(known), 'id')} {'belongs' if len(other) == 1 else 'belong'} to different questions: {shown}. "
            f"Samples are matched by id. Evaluate with ids that name the same question in every file ({NAME_IDS})"
        )


def store_of(source: OutcomeSource) -> str | os.PathLike[str] | None:
    """Return the store that a source reads, or None for an experiment and a file of outcomes.

    Raise ConfigurationError if this is not a file.
    """
    if isinstance(source, Evaluated):
        return None
    if isinstance(source, Period):
        return source.store
    if not isinstance(source, str | os.PathLike):
        raise ConfigurationError(
            f"a source must be an Experiment, a file of outcomes or a store, got {type(source).__name__}"
        )
    if is_database_url(source):
        return source
    path = Path(source)
    if not path.is_file():
        if has_spool(path):
            return path
        problem = "is not a file" if path.exists() else "was not found"
        raise ConfigurationError(
            f"{str(path)!r} {problem}. Give a store, or a file of outcomes: `ragstone evaluate FILE --output OUTCOMES` "
            "writes one."
        )
    with path.open("rb") as file:
        return path if file.read(len(_SQLITE)) == _SQLITE else None


class StoredRequests(Source):
    """Requests of a store, under its name unless `name` is given. Of a store of runs, those of one run.

    With `only_planned`, outcomes of earlier versions of the planned metrics are left out.
    """

    _prefix = ""
    """Beginning of the ids in the store that the ids of the samples lack (see `use_row_ids`)."""

    after: StorePosition | None = None
    """Only what was stored after this position is read."""
    upto: StorePosition | None = None
    """Only what was stored up to this position is read."""

    def __init__(self, period: Period, name: str | None, analysis: Analysis, *, only_planned: bool = True) -> None:
        self._n_without_text = self._n_planted = 0
        self._spent: dict[str, Spent] = {}
        with open_store(period.store, mode="read") as opened:
            self._plan = {planned.name: planned for planned in opened.plan.metrics()} if only_planned else {}
            times = opened.traces.run_times()
        since, until = period.since or -math.inf, math.inf if period.until is None else period.until
        self._runs = {run: time for run, time in times.items() if time < until}
        """Times of the runs up to the one whose requests these are. Empty if they are captured requests."""
        whole = period.since is None and period.until is None
        shown = describe_store(os.fspath(period.store)) if whole or self._runs else period.name
        if self._runs and [*self._runs.values()][-1] >= since:
            period = Period(period.store, run=[*self._runs][-1])
            shown, self._plan = f"{shown}, run {period.run}", {}  # the plan is that of the last run
        self.is_traffic = not times
        self._period, self.argument = period, period.argument
        super().__init__(name or shown, analysis, {})

    def use_row_ids(self) -> StoredRequests:
        """Give requests of a run the ids of the evaluated rows."""
        self._prefix = f"{self._period.run}/" if self._period.run else ""
        return self

    @override
    def samples(self) -> Iterator[SampleFields]:
        period = self._period
        if self.after is None:
            self._n_planted = 0
        with open_store(period.store, mode="read") as store:
            for outline in store.traces.read_outlines(since=period.since, after=self.after, upto=self.upto):
                if period.until is None or outline.started_at < period.until:
                    self._n_planted += outline.source == PLANTED
                    id_ = outline.trace_id.removeprefix(self._prefix)
                    self._spent[id_] = spent_of([outline])
                    yield SampleFields(id_, outline, outline.started_at, _labels(outline))
            if self.after is None:
                self._n_without_text = 0
                for removed in store.upkeep.removed_texts(since=period.since, until=period.until):
                    self._n_without_text += 1
                    labels = {key: (value,) for key, value in removed.labels.items()}
                    yield SampleFields(removed.trace_id.removeprefix(self._prefix), None, removed.started_at, labels)

    @override
    def outcomes(self) -> Iterator[Outcome]:
        period = self._period
        with open_store(period.store, mode="read") as store:
            found = store.outcomes.read(since=period.since, until=period.until, after=self.after, upto=self.upto)
            yield from map(self._of_row, _check_sizes(filter(self.is_planned, found), describe_store(period.store)))

    def _of_row(self, outcome: Outcome) -> Outcome:
        """Return an outcome with the id of the evaluated row, if this is a run."""
        if not self._prefix:
            return outcome
        return outcome.model_copy(update={"sample_id": outcome.sample_id.removeprefix(self._prefix)})

    def is_planned(self, outcome: Outcome) -> bool:
        """Whether this is an outcome of the planned version of its metric. Outcomes of older versions are not mixed in."""
        planned = self._plan.get(outcome.metric)
        return planned is None or (
            outcome.metric_version == planned.version and outcome.judge_hash == planned.judge_hash
        )

    @override
    def records(self, ids: Collection[str]) -> dict[str, AnswerRecord]:
        found = {}
        with open_store(self._period.store, mode="read") as store:
            by_trace = {f"{start}{id_}": id_ for id_ in ids for start in ("", self._prefix)}
            for trace_id, answer in store.traces.answers(list(by_trace)).items():
                id_ = by_trace[trace_id]
                sample = None if answer.trace is None else sample_from_trace(answer.trace)
                outcomes = [*map(self._of_row, filter(self.is_planned, answer.outcomes))]
                found[id_] = AnswerRecord(sample, answer.started_at, outcomes, answer.trace)
        return found

    @override
    def dependence(self) -> Dependence:
        period = self._period
        with open_store(period.store, mode="read") as store:
            shares = store.traces.inclusion_probabilities(since=period.since, until=period.until)
            labels = {
                key: store_labels(store, key, since=period.since, until=period.until)
                for key in cluster_keys(self.analysis.cluster)
            }
        return Dependence(self._by_row(shares), {key: self._by_row(by_id) for key, by_id in labels.items()})

    def _by_row(self, values: Mapping[str, T]) -> dict[str, T]:
        return {id_.removeprefix(self._prefix): value for id_, value in values.items()}

    @override
    def spent(self) -> Mapping[str, Spent]:
        if not self._spent:
            deque(self.samples(), maxlen=0)
        return self._spent

    @override
    def runs(self) -> tuple[RunRow, ...]:
        from ragstone.experiments._views.spent import estimate_spent
        from ragstone.views import RunRow

        rows, before = [], dict[str, AbstractSet[tuple[str, str]]]()
        for name, time in self._runs.items():
            run = StoredRequests(Period(self._period.store, run=name), name, self.analysis)
            table, level = replace(run.table()[0], by_system=(run.spent(),)), self.analysis.confidence_level
            origins = origins_of(run.outcomes())
            rows.append(
                RunRow(
                    name=name,
                    time=time,
                    means={metric: table.mean(scores, level) for metric, scores in table.metrics.items()},
                    spent=estimate_spent(table, 0, len(table.sample_ids), level),
                    change=describe_changes(before, origins),
                )
            )
            before |= origins
        return tuple(rows) if len(rows) > 1 else ()

    @override
    def trials(self) -> Sequence[str]:
        with open_store(self._period.store, mode="read") as store:
            start = f"{self._period.run}/" if self._period.run else ""  # of the trials of the run
            return [each.body for each in store.labels.trials() if each.trial_id.startswith(start)]

    @override
    def human_labels(self) -> HumanLabels:
        from ragstone.experiments._views.labeled import HumanLabels

        with open_store(self._period.store, mode="read") as store:
            labels = store.labels.read()
            drawn = store.labels.drawn() if labels else ()
        return HumanLabels(
            labels=[each._replace(trace_id=each.trace_id.removeprefix(self._prefix)) for each in labels],
            drawn=[each._replace(trace_id=each.trace_id.removeprefix(self._prefix)) for each in drawn],
        )

    @override
    def notes(self) -> list[str]:
        from ragstone.worker import advise, read_ledger  # `evaluate` does not need it

        ledger = read_ledger(self._period.store)
        notes = []
        if self._n_planted:
            notes.append(f"{count(self._n_planted, 'request')} are planted: invented for a demo, with a fixed seed.")
        if self._n_without_text:
            notes.append(
                f"The texts of {self._n_without_text:,} requests were removed by retention. Their scores count, but "
                "what needs a text (questions, abstentions, metadata) is unknown."
            )
        if ledger.lost:
            notes.append(f"{count(ledger.lost, 'request was', 'requests were')} dropped before they were stored.")
        notes += [
            f"{count(n, f'{reason} request is', f'{reason} requests are')} not in the report."
            for reason, n in ledger.removed.items()
        ]
        # Other runs can have other judges: that is what their history is for.
        return notes if self._runs else notes + advise(self._period.store, ledger)


class OutcomeFile(Rows):
    """A file of outcomes, which is read again for each pass, with the samples as far as they are known."""

    def __init__(
        self, path: Path, name: str, samples: Sequence[Sample], analysis: Analysis, notes: Iterable[str] = ()
    ) -> None:
        super().__init__(name, (), samples, analysis, cards={}, dependence=Dependence({}, {}), notes=notes)
        self._path = path
        self._lines: OutcomeLines | None = None
        """The lines, if they were read to the end."""

    @override
    def outcomes(self) -> Iterator[Outcome]:
        about = FieldsOfFile(cluster_keys(self.analysis.cluster))
        about.add_labels(self._samples)
        lines, self._lines = OutcomeLines(self._path, about), None
        yield from _check_sizes(lines, str(self._path))
        check_samples(self.name, self._samples, lines.question_of)
        self._lines, self._spent = lines, lines.spent
        self._dependence = Dependence(about.inclusion_probabilities, about.labels)

    @override
    def _find(self, ids: Collection[str]) -> Iterable[Outcome]:
        return super()._find(ids) if self._lines is None else _check_sizes(self._lines.find(ids), str(self._path))


def open_source(
    source: OutcomeSource,
    *,
    name: str | None = None,
    samples: Iterable[Sample] = (),
    analysis: Analysis | None = None,
    compares: bool = False,
    metrics: Iterable[str] = (),
) -> Source:
    """Open the outcomes of one system, by default under the name of the file or store, or "experiment".

    `samples` are those of a file of outcomes, for texts and labels of clusters that it does not have. An experiment has
    an analysis of its own, and takes this one only if it `compares`. Then all outcomes of a store are read, also those
    of earlier versions of its metrics. Composites with a file among `metrics` are computed from the outcomes of their
    metrics.
    """
    opened = _open(source, name, tuple(samples), analysis or Analysis(), compares=compares)
    opened.composites = find_composites(metrics)
    opened.cards = {**opened.cards, **{each.card.name: each.card for each in opened.composites}}
    return opened


def _open(
    source: OutcomeSource, name: str | None, samples: tuple[Sample, ...], analysis: Analysis, *, compares: bool
) -> Source:
    check_level(analysis.confidence_level)
    if isinstance(source, Evaluated):
        return source.source(name, analysis if compares else None)
    store = store_of(source)
    if store is not None:
        period = source if isinstance(source, Period) else Period(store)
        return StoredRequests(period, name, analysis, only_planned=not compares).use_row_ids()
    path = Path(os.fspath(source))  # type: ignore[arg-type]  # a period is a store
    if is_cases(path):
        return _open_cases(path, name, analysis)
    opened = OutcomeFile(path, name or path.stem, samples, analysis)
    if not samples:
        return opened
    matched, notes = match_samples(opened.name, read_questions(path), samples)
    return OutcomeFile(path, opened.name, matched, analysis, notes)


def _open_cases(path: Path, name: str | None, analysis: Analysis) -> Rows:
    """Open a file of cases, with the outcomes that they had in production."""
    samples, _ = read_samples(path)
    fields = read_fields(samples, analysis.cluster)
    cases = [case_of(sample) or {"estimates": "", "outcomes": ()} for sample in samples]
    return Rows(
        name or path.stem,
        [outcome_adapter.validate_python(outcome) for case in cases for outcome in case["outcomes"]],
        samples,
        analysis,
        cards={},
        dependence=Dependence(fields.inclusion_probabilities, fields.labels),
        notes=[f"{CHOSEN_BY_SCORES}."] if any(case["estimates"] is None for case in cases) else (),
    )


def _labels(trace: TraceOutline) -> dict[str, tuple[str, ...]]:
    known = {key: (value,) for key in _LABELS if (value := getattr(trace, key)) is not None}
    tags = {"tag": trace.tags} if trace.tags else {}
    return metadata_labels(trace.metadata) | known | tags


def _check_sizes(outcomes: Iterable[Outcome], source: str) -> Iterable[Outcome]:
    for outcome in outcomes:
        if isinstance(outcome, Score) and abs(outcome.value) > _MOST:
            raise DataError(
                f"{source!r} has the value {outcome.value:g} of {outcome.metric!r} for {outcome.sample_id!r}. Values "
                f"must not exceed {_MOST:g}."
            )
        yield outcome


def _day(time: float | None) -> str:
    if time is None:
        return ""
    minute = datetime.fromtimestamp(time, tz=UTC).isoformat(timespec="minutes")
    return minute.removesuffix("+00:00").removesuffix("T00:00")


def names_of(sources: Sequence[OutcomeSource]) -> list[str]:
    """Return unique default names: letters for experiments, and for files the shortest distinct part of the path."""
    names: dict[int, str] = {}
    paths: dict[int, Path] = {}
    for i, source in enumerate(sources):
        if isinstance(source, Period):
            names[i] = source.name
        elif not isinstance(source, Evaluated):
            if is_database_url(source):
                names[i] = describe_store(source)
            else:
                paths[i] = Path(source).absolute()
    shown = {i: path.stem for i, path in paths.items()}
    for depth in range(2, max((len(path.parts) for path in paths.values()), default=0) + 1):
        times = Counter(shown.values())
        for i, path in paths.items():
            if times[shown[i]] > 1:
                shown[i] = "/".join([*path.parts[-depth:-1], path.stem])
    names |= shown
    # Names that are still equal belong to the same source, or to files that differ only in their suffix.
    times = Counter(names.values())
    names = {i: name if times[name] == 1 else f"{paths.get(i, name)} ({i + 1})" for i, name in names.items()}
    letters = (letter for letter in _letters() if letter not in set(names.values()))
    return [names[i] if i in names else next(letters) for i in range(len(sources))]


def _letters() -> Iterator[str]:
    """Yield A, B, ..., Z, AA, AB, ..."""
    for n in itertools.count(1):
        yield from map("".join, itertools.product("ABCDEFGHIJKLMNOPQRSTUVWXYZ", repeat=n))
