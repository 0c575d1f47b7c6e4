"""Outcomes of one system, from wherever they are: an experiment, a file that `evaluate` wrote, or a store."""

from __future__ import annotations

import json
import math
import os
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from ragstone.errors import ConfigurationError, DataError, StoreError
from ragstone.experiments._evaluate import Experiment
from ragstone.judges import is_baseline
from ragstone.metrics import MetricCard, resolve_metrics
from ragstone.schema import Failure, NotApplicable, Score, outcome_adapter
from ragstone.store import describe_store, is_database_url, open_store

__all__ = [
    "OutcomeSource",
    "OutcomeStream",
    "SystemOutcomes",
    "TimeRange",
    "card_of",
    "read_outcomes",
    "stream_outcomes",
    "titles_of",
]

AnyOutcome = Score | NotApplicable | Failure


@dataclass(frozen=True, slots=True)
class TimeRange:
    """What a store has of the requests of some time.

    Args:
        store: Path of a store, or URL of a database.
        since: Requests that started then or later, Unix seconds; None has no beginning.
        until: Requests that started before, Unix seconds; None has no end.
    """

    store: str | os.PathLike[str]
    since: float | None = None
    until: float | None = None

    @property
    def name(self) -> str:
        """The store and the times, in UTC."""
        store = os.fspath(self.store)
        place = describe_store(store) if is_database_url(store) else Path(store).stem
        return f"{place}@{_day(self.since)}..{_day(self.until)}"


OutcomeSource = Experiment | TimeRange | str | os.PathLike[str]
"""An `Experiment`, a JSONL file of outcomes (`evaluate --output`), a store, or a `TimeRange` of one."""

_MOST: Final = 1e100
"""Larger values are refused: their squares and sums are no numbers any more."""
_SQLITE: Final = b"SQLite format 3\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemOutcomes:
    """The outcomes of one system, by metric and sample."""

    name: str
    outcomes: Mapping[str, Mapping[str, AnyOutcome]]
    """By metric, then by sample id; the last one where a sample was scored several times."""
    cards: Mapping[str, MetricCard]
    """Of the metrics that this installation knows."""
    judges: Mapping[str, frozenset[str]]
    """By metric the judges (in words) that its outcomes rest on; scores of different judges are not one scale."""
    is_baseline: bool = False
    """Whether any outcome comes from a stand-in that is no judge."""
    repeats: Mapping[str, Mapping[str, tuple[AnyOutcome, ...]]] = field(default_factory=dict)
    """By metric and sample all outcomes, where there are several of one sample, in their order."""

    @property
    def sample_ids(self) -> frozenset[str]:
        """All samples with an outcome of any metric."""
        return frozenset(id_ for by_sample in self.outcomes.values() for id_ in by_sample)

    def values(self, metric: str) -> dict[str, float]:
        """The values of a metric by sample id; only what was scored."""
        return {id_: o.value for id_, o in self.outcomes.get(metric, {}).items() if isinstance(o, Score)}

    def range_of(self, metric: str) -> tuple[float, float]:
        """The range of a metric; without bounds where this installation does not know it."""
        card = self.cards.get(metric)
        return (card.low, card.high) if card is not None else (-math.inf, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeStream:
    """A source whose outcomes are read one by one, for whoever does not need to keep them."""

    name: str
    outcomes: Iterable[AnyOutcome]
    """In their order; can be gone through once."""
    cards: Mapping[str, MetricCard]
    """Of the metrics that the source itself describes."""
    queries: Mapping[str, str] = field(default_factory=dict)
    """By sample id what was asked, where the source tells."""
    is_traffic: bool = False
    """Whether these are requests of an application, and not rows of a data set."""
    inclusion_probabilities: Mapping[str, float] = field(default_factory=dict)
    """By sample id the probability with which sampling kept it, where that is below 1."""


def stream_outcomes(source: OutcomeSource, *, name: str | None = None) -> OutcomeStream:
    """Find the outcomes of one system, and read them when they are asked for.

    Args:
        source: Where they are.
        name: What the system is called; without it the file's name, or "experiment".

    Raises:
        ConfigurationError: The file does not exist.

    Going through the outcomes raises what else `read_outcomes` does.
    """
    if isinstance(source, Experiment):
        return OutcomeStream(
            name=name or "experiment",
            outcomes=source.outcomes,
            cards={card.name: card for card in source.cards},
            queries={sample.id: sample.query for sample in source.samples if sample.query is not None},
        )
    if isinstance(source, TimeRange):
        return _of_store(source, name or source.name)
    if is_database_url(source):
        return _of_store(TimeRange(source), name or describe_store(os.fspath(source)))
    path = Path(source)
    if not path.is_file():
        raise ConfigurationError(
            f"{str(path)!r} is no file of outcomes and no store; `ragstone evaluate FILE --output OUTCOMES` writes one"
        )
    with path.open("rb") as file:
        stored = file.read(len(_SQLITE)) == _SQLITE
    if stored:
        return _of_store(TimeRange(path), name or path.stem)
    return OutcomeStream(name=name or path.stem, outcomes=_sized(_lines(path), str(path)), cards={})


def read_outcomes(source: OutcomeSource, *, name: str | None = None) -> SystemOutcomes:
    """Read the outcomes of one system.

    Args:
        source: Where they are.
        name: What the system is called; without it the file's name, or "experiment".

    Raises:
        ConfigurationError: The file does not exist.
        DataError: A line that is no outcome, or no outcome at all.
        StoreError: A store that cannot be read.
    """
    opened = stream_outcomes(source, name=name)
    found = _arranged(opened.name, opened.outcomes, opened.cards)
    if not found.outcomes and not isinstance(source, Experiment):
        place = source.name if isinstance(source, TimeRange) else describe_store(source)
        raise DataError(f"{place!r} holds no outcome")
    return found


def _arranged(name: str, outcomes: Iterable[AnyOutcome], cards: Mapping[str, MetricCard]) -> SystemOutcomes:
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


def card_of(metric: str) -> MetricCard | None:
    """The card of a metric by its name; None where this installation does not know it."""
    try:
        (found,) = resolve_metrics([metric])
    except (ConfigurationError, ValueError):
        return None
    return found.card


def titles_of(metrics: Iterable[str]) -> dict[str, str]:
    """The display names of the metrics that this installation knows."""
    return {name: card.title for name in metrics if (card := card_of(name)) is not None}


def _sized(outcomes: Iterable[AnyOutcome], place: str) -> Iterable[AnyOutcome]:
    for outcome in outcomes:
        if isinstance(outcome, Score) and abs(outcome.value) > _MOST:
            raise DataError(
                f"{place!r} has {outcome.value:g} of {outcome.metric!r} for {outcome.sample_id!r}: values of over "
                f"{_MOST:g} cannot be computed with"
            )
        yield outcome


def _lines(path: Path) -> Iterable[AnyOutcome]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield _outcome(line.removeprefix(BOM_UTF8))
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                place = ".".join(map(str, first["loc"]))
                # A file of samples, most often: how pydantic tells outcomes apart helps nobody.
                what = (
                    "it has no field 'outcome'"
                    if first["type"] == "union_tag_not_found"
                    else f"{place}: {first['msg']}"
                )
                raise DataError(
                    f"line {number} of {str(path)!r} is no outcome ({what.removeprefix(': ')}); files of outcomes are written "
                    "by `ragstone evaluate FILE --output OUTCOMES`"
                ) from None


def _outcome(line: bytes) -> AnyOutcome:
    """Read one line: as `evaluate --output` writes it, or as the JSONL sink does, which has all keys on every line."""
    try:
        return outcome_adapter.validate_json(line)
    except ValidationError:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or "sample_id" in row or "trace_id" not in row:
            raise
        told = {key: value for key, value in row.items() if value is not None}
        return outcome_adapter.validate_python(told | {"sample_id": row["trace_id"]})


def _of_store(period: TimeRange, name: str) -> OutcomeStream:
    place = describe_store(os.fspath(period.store)) if is_database_url(period.store) else str(period.store)
    with _reading(place), open_store(period.store, mode="read") as store:
        inclusion = store.inclusion_probabilities(since=period.since, until=period.until)
    return OutcomeStream(
        name=name,
        outcomes=_sized(_stored(period, place), place),
        cards={},
        is_traffic=True,
        inclusion_probabilities=inclusion,
    )


def _stored(period: TimeRange, place: str) -> Iterable[AnyOutcome]:
    with _reading(place), open_store(period.store, mode="read") as store:
        yield from store.outcomes(since=period.since, until=period.until)


@contextmanager
def _reading(place: str) -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise type(error)(f"the store {place!r} cannot be read: {error}") from None


def _day(time: float | None) -> str:
    if time is None:
        return ""
    return (
        datetime.fromtimestamp(time, tz=UTC).isoformat(timespec="minutes").removesuffix("+00:00").removesuffix("T00:00")
    )
