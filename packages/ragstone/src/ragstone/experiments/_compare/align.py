"""Alignment of several systems' outcomes by sample id, and by question for samples without an id."""

from __future__ import annotations

import itertools
import os
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments._cards import card_of
from ragstone.experiments._clusters import AUTO_CLUSTER, choose_clusters, cluster_notes
from ragstone.experiments._compare.names import names_of
from ragstone.experiments._compare.questions import match_questions, note_question
from ragstone.experiments._compare.scales import ScoreProvenance, judge_notes
from ragstone.experiments._evaluated import Evaluated
from ragstone.experiments._outcomes import OutcomeSource, OutcomeStream, TimeRange, store_of, stream_outcomes
from ragstone.experiments._questions import NAME_IDS, question_number
from ragstone.judges import BASELINE_NOTE, is_baseline
from ragstone.metrics import MetricCard, selects
from ragstone.schema import Failure, Sample, Score
from ragstone.schema import NotApplicable as _NotApplicable
from ragstone.store import open_store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Sources = Mapping[str, OutcomeSource] | Sequence[OutcomeSource]
"""Systems by name, or a sequence of systems. In a sequence, names come from the files, and experiments are "A", "B", ..."""

ABSENT: Final = 0
SCORED: Final = 1
FAILED: Final = 2
NOT_APPLICABLE: Final = 3

_SHOWN: Final = 3
"""Number of example ids in messages."""
_RANGE_TOLERANCE: Final = 1e-9
"""Tolerance for values that exceed the metric's range by rounding."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AlignedMetric:
    """The scores of all systems on one metric, as arrays of shape (samples, systems)."""

    name: str
    card: MetricCard | None
    """None if this installation does not know the metric."""
    low: float
    high: float
    """The metric's range. Infinite if unknown."""
    higher_is_better: bool
    values: NDArray[np.float64]
    """NaN if the sample does not have a score."""
    states: NDArray[np.int8]
    """`SCORED`, `FAILED`, `NOT_APPLICABLE` or `ABSENT`."""
    ends: Mapping[tuple[int, int], tuple[float, float]]
    """Bounds (lowest and highest possible value) of failures that report them, by row and system."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AlignedScores:
    """The outcomes of several systems on the same samples."""

    systems: tuple[str, ...]
    sample_ids: tuple[str, ...]
    """Ids of the rows, sorted: all samples of any system that can be matched."""
    metrics: tuple[AlignedMetric, ...]
    n_samples: Mapping[str, int]
    """Number of samples by system."""
    n_common: int
    """Number of samples that every system has."""
    inclusion_probabilities: NDArray[np.float64]
    """Sampling probability of each row's request."""
    paired: bool
    """Whether the comparison is paired by sample. Otherwise the systems have different samples."""
    clusters: tuple[str | None, ...] | None = None
    """Label of the cluster of each row, or None if rows are independent."""
    other_ids: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Id of a sample in a system that has another one, because its rows have none. By system and id of the row."""
    baseline_judged: frozenset[str] = frozenset()
    """Systems scored by a baseline, which is not a judge."""
    notes: tuple[str, ...] = ()
    """Notes that a reader needs to interpret the numbers."""

    def metric(self, name: str) -> AlignedMetric:
        """Return the metric with this name."""
        return next(m for m in self.metrics if m.name == name)


def align(
    sources: Sources,
    *,
    metrics: Sequence[str] | str | None = None,
    allow_different_judges: bool = False,
    paired: bool | None = True,
    cluster: str | None = AUTO_CLUSTER,
    data: Mapping[str, Iterable[Sample]] | None = None,
) -> AlignedScores:
    """Read systems and align their outcomes by sample id.

    Args:
        sources: At least two systems.
        metrics: Names or groups ("ccrs"). Default: all metrics of any system.
        allow_different_judges: Accept scores of different judges or metric versions, with a warning.
        paired: Whether the systems have the same samples. None detects it: stores without a common request are unpaired.
        cluster: Key of the clusters of samples, "auto", or None or "none" for independent samples.
        data: Samples of files of outcomes by system, for labels of clusters that the files do not have.

    Raises:
        ConfigurationError: If there are fewer than two systems, a metric is missing in all systems, scores are from
            different judges, or no sample has the key of `cluster`.
        DataError: If all samples are in one cluster, systems do not share samples, or the same ids belong to different queries.
    """
    selected = [metrics] if isinstance(metrics, str) else metrics
    opened = _open_all(sources, cluster, data or {})
    rows: dict[str, int] = {}
    systems = [_read(system, rows, selected) for system in opened]
    for system in systems:
        if not system.columns:
            if selected and system.others:
                continue
            raise DataError(
                f"{system.name!r} does not contain outcomes. `ragstone status STORE` shows how many requests of a store wait for a "
                "score."
            )
    names = _metric_names(systems, selected)
    notes = [
        *(
            note
            for name in names
            for note in judge_notes(
                name, {s.name: s.scales.get(name, set()) for s in systems}, allowed=allow_different_judges
            )
        ),
    ]
    ids = tuple(rows)
    other_ids: Mapping[tuple[str, str], str] = {}
    merged: Mapping[int, int] = {}
    left_out: Collection[int] = ()
    if paired is not False:
        has = _presence(systems, ids)
        texts = [
            _questions_of(source, o, (data or {}).get(o.name, ()))
            for source, o in zip(listed(sources), opened, strict=True)
        ]
        questions = [s.questions for s in systems]
        matched = match_questions([s.name for s in systems], ids, questions, has, texts)
        merged, left_out = matched.merged, matched.left_out
        notes += matched.notes
        other_ids = {
            (system.name, ids[row]): ids[other]
            for other, row in merged.items()
            for system, is_there in zip(systems, has[other], strict=True)
            if is_there
        }
    ids, rows = _arrange(systems, ids, merged, left_out)
    aligned = tuple(_metric(name, systems, ids) for name in names)
    n_samples, n_common, is_disjoint = _overlap(systems, ids, notes, paired=paired)
    if paired is None and not is_disjoint and any(isinstance(source, TimeRange) for source in listed(sources)):
        raise DataError(
            "the periods overlap, so that some requests are in several of them. Choose separate periods, or set "
            "paired=True to compare only the common requests."
        )
    if paired is None:
        paired = not (is_disjoint and all(o.is_traffic for o in opened))
    if paired:
        _check_overlap(systems, ids)
    elif not is_disjoint:
        notes.insert(0, "some samples are in several systems, although the test assumes independent samples")
    inclusion = _inclusion(opened, rows, len(ids))
    clusters, cluster_texts = _clusters(cluster, opened, ids, aligned, paired=paired)
    notes += [
        f"{s.name}: {s.repeated} outcomes repeat a sample and metric. The last one is used."
        for s in systems
        if s.repeated
    ]
    notes += [
        f"{metric.name}: unknown metric, treated as unbounded and higher is better"
        for metric in aligned
        if metric.card is None
    ]
    baseline_judged = frozenset(s.name for s in systems if s.is_baseline)
    if baseline_judged:
        notes.append(BASELINE_NOTE)
    notes += cluster_texts
    return AlignedScores(
        systems=tuple(s.name for s in systems),
        sample_ids=ids,
        metrics=aligned,
        n_samples=n_samples,
        n_common=n_common,
        inclusion_probabilities=inclusion,
        paired=paired,
        clusters=clusters,
        other_ids=other_ids,
        baseline_judged=baseline_judged,
        notes=tuple(notes),
    )


@dataclass(slots=True, kw_only=True)
class _Column:
    """One metric of one system: values by row, with 9 bytes per value, for millions of samples."""

    values: array[float] = field(default_factory=lambda: array("d"))
    states: bytearray = field(default_factory=bytearray)
    ends: dict[int, tuple[float, float]] = field(default_factory=dict)

    def put(self, row: int, state: int, value: float, ends: tuple[float, float] | None) -> bool:
        """Store an outcome, and return False if it replaces one."""
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

    def arrange(self, order: NDArray[np.intp], merged: Mapping[int, int]) -> None:
        """Replace the rows by those of `order`, after the rows of `merged` were put into others."""
        import numpy as np

        for other, row in merged.items():
            if other < len(self.states) and self.states[other] != ABSENT:
                self.put(row, self.states[other], self.values[other], self.ends.get(other))
        n = len(self.values)
        values, states = np.full(order.size, np.nan), np.zeros(order.size, dtype=np.uint8)
        own = order < n
        values[own], states[own] = (
            np.frombuffer(self.values)[order[own]],
            np.frombuffer(self.states, np.uint8)[order[own]],
        )
        if self.ends:
            self.ends = {new: self.ends[row] for new, row in enumerate(order.tolist()) if row in self.ends}
        self.values, self.states = array("d", values.tobytes()), bytearray(states.tobytes())


@dataclass(slots=True, kw_only=True)
class _System:
    name: str
    cards: Mapping[str, MetricCard]
    columns: dict[str, _Column] = field(default_factory=dict)
    questions: array[int] = field(default_factory=lambda: array("q"))
    """Number of the question of each row. 0 if it is unknown."""
    scales: dict[str, set[ScoreProvenance]] = field(default_factory=dict)
    """Provenance of the scores, by metric."""
    others: set[str] = field(default_factory=set)
    """Metrics of the system that are not selected."""
    repeated: int = 0
    is_baseline: bool = False


def _open_all(sources: Sources, cluster: str | None, data: Mapping[str, Iterable[Sample]]) -> list[OutcomeStream]:
    if isinstance(sources, (str, os.PathLike, Evaluated, TimeRange)):
        sources = [sources]
    named = sources.items() if isinstance(sources, Mapping) else zip(names_of(sources), sources, strict=True)
    opened = [stream_outcomes(source, name=name, cluster=cluster, samples=data.get(name, ())) for name, source in named]
    if len(opened) < 2:
        raise ConfigurationError(
            f"a comparison needs at least two systems, got {len(opened)}. For one system, use `ragstone evaluate`."
        )
    return opened


def listed(sources: Sources) -> list[OutcomeSource]:
    """Return the sources in order."""
    return list(sources.values()) if isinstance(sources, Mapping) else list(sources)


def _read(opened: OutcomeStream, rows: dict[str, int], selected: Sequence[str] | None) -> _System:
    system = _System(name=opened.name, cards=opened.cards)
    is_selected: dict[str, bool] = {}
    for outcome in opened.outcomes:
        metric = outcome.metric
        if metric not in is_selected:
            is_selected[metric] = selected is None or any(
                selects(name, metric, opened.cards.get(metric) or card_of(metric)) for name in selected
            )
        if not is_selected[metric]:
            system.others.add(metric)
            continue
        row = rows.setdefault(outcome.sample_id, len(rows))
        note_question(system.questions, row, question_number(outcome.fingerprint))
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


def _ends(failure: Failure) -> tuple[float, float] | None:
    match failure.details.get("bounds"):
        case [int() | float() as low, int() | float() as high] if low <= high:
            return float(low), float(high)
    return None


def _arrange(
    systems: Sequence[_System], ids: Sequence[str], merged: Mapping[int, int], left_out: Collection[int]
) -> tuple[tuple[str, ...], dict[str, int]]:
    """Sort the rows by id, so that the order of files does not change a result, and merge rows of one sample.

    Returns:
        The ids of the rows, and the row of each id.
    """
    import numpy as np

    order = sorted((row for row in range(len(ids)) if row not in merged and row not in left_out), key=ids.__getitem__)
    for system in systems:
        for column in system.columns.values():
            column.arrange(np.asarray(order, dtype=np.intp), merged)
    sorted_ids = tuple(ids[row] for row in order)
    rows = {id_: row for row, id_ in enumerate(sorted_ids)}
    return sorted_ids, rows | {ids[other]: rows[ids[row]] for other, row in merged.items()}


def _questions_of(
    source: OutcomeSource, opened: OutcomeStream, samples: Iterable[Sample]
) -> Callable[[str], str | None]:
    """Return a function that returns the question of a sample, if it is known."""

    def find(id_: str) -> str | None:
        if (query := opened.queries.get(id_)) is not None:
            return query
        store = store_of(source)
        if store is None:
            return next((sample.query for sample in samples if sample.id == id_), None)
        with open_store(store, mode="read") as stored:
            answer = stored.traces.answers([id_]).get(id_)
        return None if answer is None or answer.trace is None else answer.trace.query

    return find


def _metric_names(systems: Sequence[_System], selected: Sequence[str] | None) -> list[str]:
    names = list(dict.fromkeys(metric for system in systems for metric in system.columns))
    known = sorted({*names, *(metric for system in systems for metric in system.others)})
    cards = {name: card for system in systems for name, card in system.cards.items()}
    for name in selected or ():
        if not any(selects(name, metric, cards.get(metric) or card_of(metric)) for metric in names):
            raise ConfigurationError(f"no system has outcomes of {name!r}. Available: {', '.join(known) or 'none'}.")
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
        scores = np.frombuffer(column.values)
        invalid = np.flatnonzero((scores < low - _RANGE_TOLERANCE) | (scores > high + _RANGE_TOLERANCE))
        if invalid.size:
            row = invalid[0]
            raise DataError(
                f"{system.name!r} has the value {scores[row]:g} of {name!r} for {ids[row]!r}, outside of the range from "
                f"{low:g} to {high:g}. These are scores of another metric or on another scale."
            )
        values[: len(column.values), i] = np.clip(scores, low, high)
        states[: len(column.states), i] = np.frombuffer(column.states, dtype=np.int8)
        # Bounds outside of the metric's range are ignored.
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
    """Return a boolean array (samples, systems): whether the system has an outcome of the sample."""
    import numpy as np

    has = np.zeros((len(ids), len(systems)), dtype=bool)
    for i, system in enumerate(systems):
        for column in system.columns.values():
            has[: len(column.states), i] |= np.frombuffer(column.states, dtype=np.int8) != ABSENT
    return has


def _check_overlap(systems: Sequence[_System], ids: Sequence[str]) -> None:
    """Raise an error if a system does not share a sample with any other."""
    import numpy as np

    has = _presence(systems, ids)
    for i, system in enumerate(systems):
        others: NDArray[np.bool_] = np.delete(has, i, axis=1).sum(axis=1) > 0
        # A system without any selected metric does not have samples here, so its ids cannot differ.
        if has[:, i].any() and others.any() and not (has[:, i] & others).any():
            raise DataError(
                f"{system.name!r} does not share samples with the others (its ids: {_examples(ids, has[:, i])}, other ids: "
                f"{_examples(ids, others)}). Samples are matched by id, and by their question if they do not have one. Evaluate "
                f"the same rows with every system, with the same ids ({NAME_IDS}), or compare different traffic with paired=False (`ragstone compare --unpaired`)."
            )


def _overlap(
    systems: Sequence[_System], ids: Sequence[str], notes: list[str], *, paired: bool | None
) -> tuple[dict[str, int], int, bool]:
    """Count the samples of each system and the common ones, and return whether the systems are disjoint."""
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
            + (f" ({', '.join(alone)})" if alone else "")
            + ". Differences use the samples that both systems have scored.",
        )
    return {s.name: int(has[:, i].sum()) for i, s in enumerate(systems)}, n_common, is_disjoint


def _inclusion(opened: Sequence[OutcomeStream], rows: Mapping[str, int], n: int) -> NDArray[np.float64]:
    import numpy as np

    probabilities = np.ones(n)
    for source in opened:
        for id_, probability in source.inclusion_probabilities.items():
            if id_ in rows:
                probabilities[rows[id_]] = probability
    return probabilities


def _clusters(
    cluster: str | None,
    opened: Sequence[OutcomeStream],
    ids: Sequence[str],
    metrics: Sequence[AlignedMetric],
    *,
    paired: bool,
) -> tuple[tuple[str | None, ...] | None, list[str]]:
    """Return the label of the cluster of each row, and notes about the clusters."""
    import numpy as np

    merged: dict[str, dict[str, str]] = {}
    for source in opened:
        for key, by_sample in source.labels.items():
            merged.setdefault(key, {}).update(by_sample)
    found = choose_clusters(cluster, merged, ids)
    described = {}
    for metric in metrics:
        # The design effect of a comparison is that of the differences, which do not contain the samples' difficulty.
        has = ~np.isnan(metric.values)
        filled = np.where(has, metric.values, 0.0)
        centered = np.where(has, filled - filled.sum(axis=0) / np.maximum(has.sum(axis=0), 1), 0.0)
        rows = np.flatnonzero(has[:, 0] & has[:, -1] if paired else has.any(axis=1))
        values = centered[rows, -1] - centered[rows, 0] if paired else centered[rows].sum(axis=1)
        described[metric.name] = {ids[row]: value for row, value in zip(rows.tolist(), values.tolist(), strict=True)}
    notes = cluster_notes(cluster, found, merged, ids, described)
    return None if found is None else tuple(found.of(ids)), notes


def _examples(ids: Sequence[str], chosen: NDArray[np.bool_]) -> str:
    import numpy as np

    at = np.flatnonzero(chosen)
    return ", ".join(repr(ids[i]) for i in at[:_SHOWN]) + (", ..." if at.size > _SHOWN else "")
