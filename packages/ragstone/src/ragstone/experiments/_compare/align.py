"""Systems side by side: the outcomes of each, aligned by sample id."""

from __future__ import annotations

import itertools
import os
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments._compare.names import names_of
from ragstone.experiments._compare.scales import ScoreProvenance, judge_notes, query_notes
from ragstone.experiments._evaluate import Experiment
from ragstone.experiments._outcomes import OutcomeSource, OutcomeStream, TimeRange, card_of, stream_outcomes
from ragstone.judges import BASELINE_NOTE, is_baseline
from ragstone.metrics import MetricCard
from ragstone.schema import Failure, Score
from ragstone.schema import NotApplicable as _NotApplicable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ABSENT", "FAILED", "NOT_APPLICABLE", "SCORED", "AlignedMetric", "AlignedScores", "Sources", "align"]

Sources = Mapping[str, OutcomeSource] | Sequence[OutcomeSource]
"""Systems by name, or in a row; those of a row are called by their files, experiments "A", "B", ..."""

ABSENT: Final = 0
SCORED: Final = 1
FAILED: Final = 2
NOT_APPLICABLE: Final = 3

_SHOWN: Final = 3
"""Examples of ids in messages."""
_RANGE_TOLERANCE: Final = 1e-9
"""By so much scorers let rounding take a value out of its range."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AlignedMetric:
    """One metric of all systems: samples by systems."""

    name: str
    card: MetricCard | None
    """None where this installation does not know the metric."""
    low: float
    high: float
    """The metric's range; infinite where unknown."""
    higher_is_better: bool
    values: NDArray[np.float64]
    """NaN where there is no score."""
    states: NDArray[np.int8]
    """`SCORED`, `FAILED`, `NOT_APPLICABLE` or `ABSENT`."""
    ends: Mapping[tuple[int, int], tuple[float, float]]
    """By row and system of failures that say so: between what the value lies."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AlignedScores:
    """The outcomes of several systems on the same samples."""

    systems: tuple[str, ...]
    sample_ids: tuple[str, ...]
    """Of the rows: all samples of any system."""
    metrics: tuple[AlignedMetric, ...]
    n_samples: Mapping[str, int]
    """By system."""
    n_common: int
    """Samples that every system has."""
    inclusion_probabilities: NDArray[np.float64]
    """Probability with which each row's request was kept by sampling."""
    paired: bool
    """Whether samples are compared each with itself; else systems are, each with its own."""
    baseline_judged: frozenset[str] = frozenset()
    """Systems scored by a stand-in that is no judge."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers must know about them."""

    def metric(self, name: str) -> AlignedMetric:
        """Find a metric by its name."""
        return next(m for m in self.metrics if m.name == name)


def align(
    sources: Sources,
    *,
    metrics: Sequence[str] | str | None = None,
    allow_different_judges: bool = False,
    paired: bool | None = True,
) -> AlignedScores:
    """Read systems and put their outcomes beside each other, by sample id.

    Args:
        sources: At least two systems.
        metrics: Names or groups ("ccrs"); None takes all that at least one system has.
        allow_different_judges: Note scores of different judges or versions of a metric, instead of refusing them.
        paired: Whether systems were given the same samples; None decides: traffic of stores that has no request in
            common was not.

    Raises:
        ConfigurationError: Fewer than two systems, a metric that no system has, or scores of different judges.
        DataError: Systems without a common sample, or with the same ids for different questions.
    """
    wanted = [metrics] if isinstance(metrics, str) else metrics
    opened = _opened(sources)
    rows: dict[str, int] = {}
    systems = [_read(system, rows, wanted) for system in opened]
    for system in systems:
        if not system.columns:
            if wanted and system.others:
                continue
            raise DataError(f"{system.name!r} holds no outcome; there is nothing to compare")
    names = _metric_names(systems, wanted)
    notes = [
        *(
            note
            for name in names
            for note in judge_notes(
                name, {s.name: s.scales.get(name, set()) for s in systems}, allowed=allow_different_judges
            )
        ),
        *query_notes({o.name: o.queries for o in opened}),
    ]
    ids = tuple(rows)
    found = tuple(_metric(name, systems, ids) for name in names)
    n_samples, n_common, is_disjoint = _overlap(systems, ids, notes, paired=paired)
    if paired is None and not is_disjoint and any(isinstance(source, TimeRange) for source in _listed(sources)):
        raise DataError(
            "the times overlap, so that some requests are in several of them; choose times that do not, or say "
            "paired=True to compare what is in all with itself"
        )
    if paired is None:
        paired = not (is_disjoint and all(o.is_traffic for o in opened))
    if paired:
        _check_overlap(systems, ids)
    elif not is_disjoint:
        notes.insert(0, "some samples are in several systems: these are not independent of each other, as is assumed")
    inclusion = _inclusion(opened, rows)
    notes += [
        f"{s.name}: {s.repeated} outcomes came for a sample and metric that had one already; the last counts"
        for s in systems
        if s.repeated
    ]
    notes += [
        f"{metric.name}: this installation does not know the metric; taken as one without bounds of which more is better"
        for metric in found
        if metric.card is None
    ]
    judged_by_words = frozenset(s.name for s in systems if s.is_baseline)
    if judged_by_words:
        notes.append(BASELINE_NOTE)
    return AlignedScores(
        systems=tuple(s.name for s in systems),
        sample_ids=ids,
        metrics=found,
        n_samples=n_samples,
        n_common=n_common,
        inclusion_probabilities=inclusion,
        paired=paired,
        baseline_judged=judged_by_words,
        notes=tuple(notes),
    )


@dataclass(slots=True, kw_only=True)
class _Column:
    """One metric of one system: values by row, in 9 bytes each, as millions may come."""

    values: array[float] = field(default_factory=lambda: array("d"))
    states: bytearray = field(default_factory=bytearray)
    ends: dict[int, tuple[float, float]] = field(default_factory=dict)

    def put(self, row: int, state: int, value: float, ends: tuple[float, float] | None) -> bool:
        """Note an outcome; False where it replaces one."""
        if (gap := row + 1 - len(self.values)) > 0:
            self.values.extend(itertools.repeat(float("nan"), gap))
            self.states.extend(bytes(gap))
        new = self.states[row] == ABSENT
        self.values[row], self.states[row] = value, state
        if ends is None:
            self.ends.pop(row, None)
        else:
            self.ends[row] = ends
        return new


@dataclass(slots=True, kw_only=True)
class _System:
    name: str
    cards: Mapping[str, MetricCard]
    columns: dict[str, _Column] = field(default_factory=dict)
    scales: dict[str, set[ScoreProvenance]] = field(default_factory=dict)
    """By metric what its scores were made with."""
    others: set[str] = field(default_factory=set)
    """Metrics it has that were not asked for."""
    repeated: int = 0
    is_baseline: bool = False


def _opened(sources: Sources) -> list[OutcomeStream]:
    if isinstance(sources, (str, os.PathLike, Experiment, TimeRange)):
        sources = [sources]
    named = sources.items() if isinstance(sources, Mapping) else zip(names_of(sources), sources, strict=True)
    opened = [stream_outcomes(source, name=name) for name, source in named]
    if len(opened) < 2:
        raise ConfigurationError(
            f"a comparison needs at least two systems, got {len(opened)}; one system is summed up by `ragstone evaluate`"
        )
    return opened


def _listed(sources: Sources) -> list[OutcomeSource]:
    return list(sources.values()) if isinstance(sources, Mapping) else list(sources)


def _read(opened: OutcomeStream, rows: dict[str, int], wanted: Sequence[str] | None) -> _System:
    system = _System(name=opened.name, cards=opened.cards)
    asked: dict[str, bool] = {}
    for outcome in opened.outcomes:
        metric = outcome.metric
        if metric not in asked:
            asked[metric] = wanted is None or any(_names(name, metric, opened.cards.get(metric)) for name in wanted)
        if not asked[metric]:
            system.others.add(metric)
            continue
        row = rows.setdefault(outcome.sample_id, len(rows))
        column = system.columns.setdefault(metric, _Column())
        ends = None
        if isinstance(outcome, Score):
            state, value = SCORED, outcome.value
            scale = ScoreProvenance(
                version=outcome.metric_version, judge=outcome.judge or "", judge_hash=outcome.judge_hash
            )
            system.scales.setdefault(metric, set()).add(scale)
            system.is_baseline = system.is_baseline or is_baseline(scale.judge)
        else:
            state, value = NOT_APPLICABLE if isinstance(outcome, _NotApplicable) else FAILED, float("nan")
            if isinstance(outcome, Failure):
                ends = _ends(outcome)
        system.repeated += not column.put(row, state, value, ends)
    return system


def _names(wanted: str, metric: str, card: MetricCard | None) -> bool:
    """Whether a name or a group of the caller's means this metric."""
    if wanted == metric or metric.startswith(f"{wanted}."):
        return True
    card = card or card_of(metric)
    return card is not None and card.group == wanted


def _ends(failure: Failure) -> tuple[float, float] | None:
    match failure.details.get("bounds"):
        case [int() | float() as low, int() | float() as high] if low <= high:
            return float(low), float(high)
    return None


def _metric_names(systems: Sequence[_System], wanted: Sequence[str] | None) -> list[str]:
    names = list(dict.fromkeys(metric for system in systems for metric in system.columns))
    known = sorted({*names, *(metric for system in systems for metric in system.others)})
    cards = {name: card for system in systems for name, card in system.cards.items()}
    for name in wanted or ():
        if not any(_names(name, metric, cards.get(metric)) for metric in names):
            raise ConfigurationError(f"no system has outcomes of {name!r}; there are {', '.join(known) or 'none'}")
    return names


def _metric(name: str, systems: Sequence[_System], ids: Sequence[str]) -> AlignedMetric:
    import numpy as np

    card = next((s.cards[name] for s in systems if name in s.cards), None) or card_of(name)
    low, high = (card.low, card.high) if card else (-np.inf, np.inf)
    values = np.full((len(ids), len(systems)), np.nan)
    states = np.full((len(ids), len(systems)), ABSENT, dtype=np.int8)
    ends = {}
    for i, system in enumerate(systems):
        column = system.columns.get(name)
        if column is None:
            continue
        found = np.frombuffer(column.values)
        strange = np.flatnonzero((found < low - _RANGE_TOLERANCE) | (found > high + _RANGE_TOLERANCE))
        if strange.size:
            row = strange[0]
            raise DataError(
                f"{system.name!r} has {found[row]:g} of {name!r} for {ids[row]!r}, which lies from {low:g} to {high:g}: "
                "these are scores of another metric or on another scale"
            )
        values[: len(column.values), i] = np.clip(found, low, high)
        states[: len(column.states), i] = np.frombuffer(column.states, dtype=np.int8)
        # Bounds beside the range bound nothing.
        ends.update(
            {(row, i): (max(a, low), min(b, high)) for row, (a, b) in column.ends.items() if a <= high and b >= low}
        )
    return AlignedMetric(
        name=name,
        card=card,
        low=low,
        high=high,
        higher_is_better=card is None or card.direction == "higher",
        values=values,
        states=states,
        ends=ends,
    )


def _presence(systems: Sequence[_System], ids: Sequence[str]) -> NDArray[np.bool_]:
    """Samples by systems: who has an outcome of which."""
    import numpy as np

    has = np.zeros((len(ids), len(systems)), dtype=bool)
    for i, system in enumerate(systems):
        for column in system.columns.values():
            has[: len(column.states), i] |= np.frombuffer(column.states, dtype=np.int8) != ABSENT
    return has


def _check_overlap(systems: Sequence[_System], ids: Sequence[str]) -> None:
    """Refuse systems that share no sample with any other."""
    import numpy as np

    has = _presence(systems, ids)
    for i, system in enumerate(systems):
        others: NDArray[np.bool_] = np.delete(has, i, axis=1).sum(axis=1) > 0
        # A system may have none of the metrics that were asked for; then it is not the ids that differ.
        if has[:, i].any() and others.any() and not (has[:, i] & others).any():
            raise DataError(
                f"{system.name!r} has no sample in common with the others: its ids are {_examples(ids, has[:, i])}, theirs "
                f"{_examples(ids, others)}. Samples "
                "are compared by their ids: evaluate the same rows with every system, with an id that stays the same; or "
                "compare them as different traffic: paired=False (--unpaired)"
            )


def _overlap(
    systems: Sequence[_System], ids: Sequence[str], notes: list[str], *, paired: bool | None
) -> tuple[dict[str, int], int, bool]:
    """Count what each system has and what all have, and say whether no sample is in two."""
    has = _presence(systems, ids)
    shared = has.sum(axis=1)
    n_common = int((shared == len(systems)).sum())
    is_disjoint = not (shared > 1).any()
    if n_common < len(ids) and not is_disjoint and paired is not False:
        alone = [
            f"{int((has[:, i] & (shared == 1)).sum())} only in {s.name} ({_examples(ids, has[:, i] & (shared == 1))})"
            for i, s in enumerate(systems)
            if (has[:, i] & (shared == 1)).any()
        ]
        notes.insert(
            0,
            f"{n_common} of {len(ids)} samples are in every system"
            + (f"; {', '.join(alone)}" if alone else "")
            + "; a difference is over the samples that both systems have scored",
        )
    return {s.name: int(has[:, i].sum()) for i, s in enumerate(systems)}, n_common, is_disjoint


def _inclusion(opened: Sequence[OutcomeStream], rows: Mapping[str, int]) -> NDArray[np.float64]:
    import numpy as np

    found = np.ones(len(rows))
    for source in opened:
        for id_, probability in source.inclusion_probabilities.items():
            if id_ in rows:
                found[rows[id_]] = probability
    return found


def _examples(ids: Sequence[str], chosen: NDArray[np.bool_]) -> str:
    import numpy as np

    at = np.flatnonzero(chosen)
    return ", ".join(repr(ids[i]) for i in at[:_SHOWN]) + (", ..." if at.size > _SHOWN else "")
