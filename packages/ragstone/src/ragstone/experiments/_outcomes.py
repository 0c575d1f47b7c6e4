"""Outcomes of one system, from an experiment, a file of `evaluate --output`, or a store."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ragstone._util.plural import count
from ragstone.errors import ConfigurationError, DataError, StoreError, StoreNotFoundError
from ragstone.experiments._cards import card_of
from ragstone.experiments._clusters import SampleFields, cluster_keys, read_fields, store_labels
from ragstone.experiments._evaluated import Evaluated
from ragstone.experiments._outcome_file import OutcomeLines
from ragstone.experiments._questions import NAME_IDS, SHOWN, check_samples
from ragstone.judges import is_baseline
from ragstone.metrics import MetricCard
from ragstone.schema import Failure, NotApplicable, Sample, Score
from ragstone.store import StorePosition, describe_store, has_spool, is_database_url, open_store

AnyOutcome = Score | NotApplicable | Failure


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The requests of a store in a period.

    Args:
        store: Path of a store, or URL of a database.
        since: Earliest start of a request, in Unix seconds. None is unbounded.
        until: Requests start before this time, in Unix seconds. None is unbounded.
    """

    store: str | os.PathLike[str]
    since: float | None = None
    until: float | None = None

    @property
    def name(self) -> str:
        """Name of the store and the period, in UTC."""
        store = os.fspath(self.store)
        name = describe_store(store) if is_database_url(store) else Path(store).stem
        return f"{name}@{_day(self.since)}..{_day(self.until)}"


OutcomeSource = Evaluated | TimeRange | str | os.PathLike[str]
"""An `Experiment`, a JSONL file of outcomes (`evaluate --output`), a store, or a `TimeRange` of one."""

_MOST: Final = 1e100
"""Maximum absolute value of a score: squares and sums of larger values overflow."""
_SQLITE: Final = b"SQLite format 3\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemOutcomes:
    """The outcomes of one system, by metric and sample."""

    name: str
    outcomes: Mapping[str, Mapping[str, AnyOutcome]]
    """Outcomes by metric and sample id. The last one if a sample was scored several times."""
    cards: Mapping[str, MetricCard]
    """Cards of the metrics that this installation knows."""
    judges: Mapping[str, frozenset[str]]
    """Names of the judges by metric. Scores of different judges are not on the same scale."""
    is_baseline: bool = False
    """Whether any outcome comes from a baseline, which is not a judge."""
    repeats: Mapping[str, Mapping[str, tuple[AnyOutcome, ...]]] = field(default_factory=dict)
    """All outcomes by metric and sample, for samples with several outcomes, in order."""
    inclusion_probabilities: Mapping[str, float] = field(default_factory=dict)
    """Sampling probabilities below 1, by sample id."""
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of clusters, by key (such as "session_id") and sample id."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeStream:
    """A source whose outcomes are read one by one, without keeping them in memory."""

    name: str
    outcomes: Iterable[AnyOutcome]
    """The outcomes in order. Can be iterated once."""
    cards: Mapping[str, MetricCard]
    """Cards of the metrics that the source describes."""
    queries: Mapping[str, str] = field(default_factory=dict)
    """Queries by sample id, if the source contains them."""
    is_traffic: bool = False
    """Whether these are requests of an application instead of rows of a dataset."""
    inclusion_probabilities: Mapping[str, float] = field(default_factory=dict)
    """Sampling probabilities below 1, by sample id. For a file they are complete when the outcomes have been read."""
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels of clusters, by key and sample id. For a file they are complete when the outcomes have been read."""
    find: Callable[[Collection[str]], Iterable[AnyOutcome]] | None = None
    """Reads the outcomes of some samples of a file again, without reading the others, after all have been read once."""


def stream_outcomes(
    source: OutcomeSource, *, name: str | None = None, cluster: str | None = None, samples: Iterable[Sample] = ()
) -> OutcomeStream:
    """Open the outcomes of one system as a stream.

    Args:
        source: The source.
        name: Name of the system. Default: the file's name, or "experiment".
        cluster: A key of clusters to read in addition to `CLUSTER_KEYS`.
        samples: The samples of a file of outcomes, for labels of clusters that the file does not have.

    Raises:
        ConfigurationError: If the file does not exist.

    Iterating over the outcomes raises the other errors of `read_outcomes`.
    """
    keys = cluster_keys(cluster)
    if isinstance(source, Evaluated):
        fields = read_fields(source.samples, keys)
        return OutcomeStream(
            name=name or "experiment",
            outcomes=source.outcomes,
            cards={card.name: card for card in source.cards},
            queries=source.queries(),
            inclusion_probabilities=fields.inclusion_probabilities,
            labels=fields.labels,
        )
    if isinstance(source, TimeRange):
        return _of_store(source, name or source.name, keys)
    store = store_of(source)
    if store is not None:
        return _of_store(TimeRange(store), name or _name_of_store(store), keys)
    path = Path(source)
    about = SampleFields(keys)
    about.add_labels(samples)
    lines = OutcomeLines(path, about)

    def outcomes() -> Iterator[AnyOutcome]:
        yield from lines
        check_samples(name or path.stem, samples, lines.question_of)

    return OutcomeStream(
        name=name or path.stem,
        outcomes=_check_sizes(outcomes(), str(path)),
        cards={},
        find=lambda sample_ids: _check_sizes(lines.find(sample_ids), str(path)),
        inclusion_probabilities=about.inclusion_probabilities,
        labels=about.labels,
    )


def read_outcomes(source: OutcomeSource, *, name: str | None = None, cluster: str | None = None) -> SystemOutcomes:
    """Read the outcomes of one system.

    Raises:
        ConfigurationError: If the file does not exist.
        DataError: If a line is not an outcome, or the source does not contain outcomes.
        StoreError: If a store cannot be read.
    """
    opened = stream_outcomes(source, name=name, cluster=cluster)
    system = replace(
        _group(opened.name, opened.outcomes, opened.cards),
        inclusion_probabilities=opened.inclusion_probabilities,
        labels=opened.labels,
    )
    if not system.outcomes and not isinstance(source, Evaluated):
        source_name = source.name if isinstance(source, TimeRange) else describe_store(source)
        raise DataError(f"{source_name!r} does not contain outcomes")
    return system


def check_same_questions(systems: Iterable[SystemOutcomes]) -> None:
    """Check that each sample id belongs to one question in all systems.

    Raises:
        DataError: If an id belongs to different questions.
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


def _group(name: str, outcomes: Iterable[AnyOutcome], cards: Mapping[str, MetricCard]) -> SystemOutcomes:
    grouped: dict[str, dict[str, list[AnyOutcome]]] = {}
    judges: dict[str, set[str]] = {}
    baseline = False
    for outcome in outcomes:
        grouped.setdefault(outcome.metric, {}).setdefault(outcome.sample_id, []).append(outcome)
        if outcome.judge is not None:
            judges.setdefault(outcome.metric, set()).add(outcome.judge)
            baseline = baseline or is_baseline(outcome.judge)
    known = dict(cards)
    for metric in grouped.keys() - known.keys():
        card = card_of(metric)
        if card is not None:
            known[metric] = card
    return SystemOutcomes(
        name=name,
        outcomes={m: {id_: several[-1] for id_, several in by.items()} for m, by in grouped.items()},
        cards=known,
        judges={metric: frozenset(names) for metric, names in judges.items()},
        is_baseline=baseline,
        repeats={
            m: several
            for m, by in grouped.items()
            if (several := {id_: tuple(all_) for id_, all_ in by.items() if len(all_) > 1})
        },
    )


def store_of(source: OutcomeSource) -> str | os.PathLike[str] | None:
    """Return the store that a source reads, or None for an experiment and a file of outcomes.

    Raises:
        ConfigurationError: If this is not a file.
    """
    if isinstance(source, Evaluated):
        return None
    if isinstance(source, TimeRange):
        return source.store
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


def _name_of_store(store: str | os.PathLike[str]) -> str:
    return describe_store(store) if is_database_url(store) else Path(store).stem


def _check_sizes(outcomes: Iterable[AnyOutcome], source: str) -> Iterable[AnyOutcome]:
    for outcome in outcomes:
        if isinstance(outcome, Score) and abs(outcome.value) > _MOST:
            raise DataError(
                f"{source!r} has the value {outcome.value:g} of {outcome.metric!r} for {outcome.sample_id!r}. Values must "
                f"not exceed {_MOST:g}."
            )
        yield outcome


def _of_store(period: TimeRange, name: str, keys: Sequence[str]) -> OutcomeStream:
    with _reading(_place(period)), open_store(period.store, mode="read") as store:
        inclusion = store.traces.inclusion_probabilities(since=period.since, until=period.until)
        labels = {key: store_labels(store, key, since=period.since, until=period.until) for key in keys}
    return OutcomeStream(
        name=name,
        outcomes=stored_outcomes(period),
        cards={},
        is_traffic=True,
        inclusion_probabilities=inclusion,
        labels=labels,
    )


def stored_outcomes(
    period: TimeRange, *, after: StorePosition | None = None, upto: StorePosition | None = None
) -> Iterable[AnyOutcome]:
    """Yield the outcomes of a store. `after` and `upto` are those of `Outcomes.read`.

    Raises:
        DataError: If a value is too large.
        StoreError: If the store cannot be read.
    """
    name = _place(period)
    return _check_sizes(_stored(period, name, after, upto), name)


def _stored(
    period: TimeRange, store_name: str, after: StorePosition | None, upto: StorePosition | None
) -> Iterable[AnyOutcome]:
    with _reading(store_name), open_store(period.store, mode="read") as store:
        yield from store.outcomes.read(since=period.since, until=period.until, after=after, upto=upto)


def _place(period: TimeRange) -> str:
    return describe_store(os.fspath(period.store)) if is_database_url(period.store) else str(period.store)


@contextmanager
def _reading(store_name: str) -> Iterator[None]:
    try:
        yield
    except StoreNotFoundError:
        raise
    except StoreError as error:
        message = str(error)
        about = "" if repr(store_name) in message else f"the store {store_name!r} cannot be read: "
        raise type(error)(f"{about}{message}") from None


def _day(time: float | None) -> str:
    if time is None:
        return ""
    return (
        datetime.fromtimestamp(time, tz=UTC).isoformat(timespec="minutes").removesuffix("+00:00").removesuffix("T00:00")
    )
