"""Alignment of several systems' outcomes by sample id, and by question for samples without an id."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ragstone._util.quantities import count
from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments._cards import card_of
from ragstone.experiments._checks import check_metric, check_scales, find_unusable, join_checks
from ragstone.experiments._clusters import choose_clusters, cluster_notes
from ragstone.experiments._outcome_file import NAME_IDS, SHOWN, question_number, shorten_question
from ragstone.experiments._outcomes import OutcomeSource, Period, names_of, open_source, store_of
from ragstone.experiments._table import SCORED, MetricScores, ScoreTable, TableReader, describe_unjudged
from ragstone.experiments._views.source import Evaluated, Source
from ragstone.judges import BASELINE_NOTE, is_baseline
from ragstone.metrics import selects
from ragstone.schema import Sample
from ragstone.settings import Analysis
from ragstone.store import open_store

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Sources = Mapping[str, OutcomeSource] | Sequence[OutcomeSource]
"""Systems by name, or a sequence of systems. In a sequence, names come from the files, and experiments are "A", "B",
..."""

Texts = Sequence[Callable[[str], str | None]]
"""By system: returns the question of the sample with an id, if it is known."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AlignedScores:
    """The outcomes of several systems on the same samples."""

    table: ScoreTable
    """The scores. Rows are sorted by id: all samples of any system that can be matched."""
    n_samples: Mapping[str, int]
    """Number of samples by system."""
    n_common: int
    """Number of samples that every system has."""
    paired: bool
    """Whether the comparison is paired by sample. Otherwise the systems have different samples."""
    other_ids: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Id of a sample in a system that has another one, because its rows have none. By system and id of the row."""
    notes: tuple[str, ...] = ()
    """Notes that a reader needs to interpret the numbers."""


def align(
    sources: Sources,
    analysis: Analysis,
    *,
    metrics: Sequence[str] | str | None = None,
    paired: bool | None = True,
    data: Mapping[str, Iterable[Sample]] | None = None,
) -> AlignedScores:
    """Read systems and align their outcomes by sample id. The arguments and errors are those of `compare`."""
    selected = [metrics] if isinstance(metrics, str) else metrics
    if selected is not None and not selected:
        raise ConfigurationError("metrics is empty. Name at least one metric, or omit it for all")
    opened = _open_all(sources, analysis, data or {}, selected or ())
    cards = {name: card for source in reversed(opened) for name, card in source.cards.items()}
    reader = TableReader(tuple(source.name for source in opened), cards)
    systems = [_read(reader, at, source, selected) for at, source in enumerate(opened)]
    for name in selected or ():
        if not any(selects(name, metric, reader.cards.get(metric) or card_of(metric)) for metric in reader.columns):
            known = sorted({*reader.columns, *(metric for system in systems for metric in system.others)})
            raise ConfigurationError(f"no system has outcomes of {name!r}. Available: {', '.join(known) or 'none'}.")
    notes: list[str] = []
    ids, has = tuple(reader.rows), reader.presence()
    other_ids: Mapping[tuple[str, str], str] = {}
    left_out: Collection[int] = ()
    merged: Mapping[int, int] = {}
    if paired is not False:
        merged, left_out, match_notes = match_questions(
            reader.systems, ids, [s.questions for s in systems], has, [source.question_of for source in opened]
        )
        notes += match_notes
        other_ids = {
            (reader.systems[at], ids[row]): ids[other]
            for other, row in merged.items()
            for at in has[other].nonzero()[0].tolist()
        }
        reader.merge(merged)
        has = reader.presence()
    # Sorted by id, so that the order of files does not change a result.
    order = sorted((row for row in range(len(ids)) if row not in merged and row not in left_out), key=ids.__getitem__)
    has = has[order]
    table = reader.table(order=order, is_strict=True)
    notes += check_scales(table, allowed=analysis.allow_different_judges)
    ids = tuple(table.sample_ids)
    n_samples, n_common, is_disjoint = _overlap(reader.systems, has, ids, notes, paired=paired)
    if (
        paired is None
        and not is_disjoint
        and any(
            isinstance(source, Period) and read.is_traffic for source, read in zip(listed(sources), opened, strict=True)
        )
    ):
        raise DataError(
            "the periods overlap, so that some requests are in several of them. Choose separate periods, or set "
            "paired=True to compare only the common requests."
        )
    if paired is None:
        paired = not (is_disjoint and all(o.is_traffic for o in opened))
    if paired:
        _check_overlap(reader.systems, has, ids)
    elif not is_disjoint:
        notes.insert(0, "some samples are in several systems, although the test assumes independent samples")
    same = {other: row for (_, row), other in other_ids.items()}
    labels: dict[str, dict[str, str]] = {}
    shares: list[dict[str, float]] = []
    for source in opened:
        dependence = source.dependence()
        shares.append({same.get(id_, id_): share for id_, share in dependence.inclusion_probabilities.items()})
        for key, by_sample in dependence.labels.items():
            labels.setdefault(key, {}).update(by_sample)
    clusters = choose_clusters(analysis.cluster, labels, ids)
    spent = tuple({same.get(id_, id_): one for id_, one in source.spent().items()} for source in opened)
    table = replace(_weighted(table.depend({}, clusters), shares, has, notes), by_system=spent)
    scores = {m.name: _compared(m, ids, paired=paired) for m in table.metrics.values()}
    cluster_texts = cluster_notes(analysis.cluster, clusters, labels, ids, scores)
    notes += [
        f"{name}: {system.repeated} outcomes repeat a sample and metric. The last one is used."
        for name, system in zip(reader.systems, systems, strict=True)
        if system.repeated
    ]
    notes += [
        f"{metric.name}: unknown metric, treated as unbounded and higher is better"
        for metric in table.metrics.values()
        if not metric.is_known
    ]
    unjudged = ((system, describe_unjudged(table, at)) for at, system in enumerate(table.systems))
    notes += [f"{system}: {text}" for system, text in unjudged if text]
    for at, system in enumerate(table.systems):
        checks = join_checks({metric.name: check_metric(metric, at) for metric in table.metrics.values()})
        unusable = find_unusable(table, at)
        notes += [f"{system}: {text}" for text in ([unusable] if unusable else []) + checks]
    made = [origins for metric in table.metrics.values() for origins in metric.origins]
    if is_baseline(*(one.judge for origins in made for one, n in origins.items() if n and one.state == SCORED)):
        notes.append(BASELINE_NOTE)
    return AlignedScores(
        table=table,
        n_samples=n_samples,
        n_common=n_common,
        paired=paired,
        other_ids=other_ids,
        notes=(*notes, *cluster_texts),
    )


@dataclass(slots=True)
class _System:
    questions: array[int] = field(default_factory=lambda: array("q"))
    """Number of the question of each row. 0 if it is unknown."""
    others: set[str] = field(default_factory=set)
    """Metrics of the system that are not selected."""
    repeated: int = 0


def _open_all(
    sources: Sources, analysis: Analysis, data: Mapping[str, Iterable[Sample]], selected: Sequence[str]
) -> list[Source]:
    named = sources.items() if isinstance(sources, Mapping) else zip(names_of(sources), sources, strict=True)
    opened = [
        open_source(source, name=name, samples=data.get(name, ()), analysis=analysis, compares=True, metrics=selected)
        for name, source in named
    ]
    if len(opened) < 2:
        raise ConfigurationError(
            f"a comparison needs at least two systems, got {len(opened)}. For one system, use `ragstone evaluate`."
        )
    return opened


def split_runs(sources: Sources) -> Sources:
    """Return the systems. If the only source is a store of runs, these are its runs."""
    if isinstance(sources, (str, os.PathLike, Evaluated, Period)):
        sources = [sources]
    systems = listed(sources)
    store = None if len(systems) != 1 or isinstance(systems[0], Period) else store_of(systems[0])
    if store is None:
        return sources
    with open_store(store, mode="read") as opened:
        return {name: Period(store, run=name) for name in opened.traces.run_times()} or sources


def listed(sources: Sources) -> list[OutcomeSource]:
    """Return the sources in order."""
    return list(sources.values()) if isinstance(sources, Mapping) else list(sources)


def _read(reader: TableReader, at: int, source: Source, selected: Sequence[str] | None) -> _System:
    system = _System()
    is_selected: dict[str, bool] = {}
    for outcome in source.read():
        metric = outcome.metric
        if metric not in is_selected:
            is_selected[metric] = selected is None or any(
                selects(name, metric, source.cards.get(metric) or card_of(metric)) for name in selected
            )
        if not is_selected[metric]:
            system.others.add(metric)
            continue
        system.repeated += not reader.put(outcome, at)
        note_question(system.questions, reader.row(outcome.sample_id), question_number(outcome.fingerprint))
    if not (selected and system.others) and not any(at in columns for columns in reader.columns.values()):
        raise DataError(
            f"{source.name!r} does not contain outcomes. `ragstone status STORE` shows how many requests of a store "
            "wait for a score."
        )
    return system


def _weighted(
    table: ScoreTable, by_system: Sequence[Mapping[str, float]], has: NDArray[np.bool_], notes: list[str]
) -> ScoreTable:
    """Return the table with the sampling probabilities (below 1, by sample id) of its systems."""
    import numpy as np

    if not any(by_system):
        return table
    # A sample of two systems has the smaller probability: one may be all requests, and the other a draw of them.
    own = np.array([[shares.get(id_, 1.0) for shares in by_system] for id_ in table.sample_ids])
    least = own.min(axis=1)
    larger = (has & (own > least[:, None])).sum(axis=1)
    if (larger > 1).any():
        raise ConfigurationError(
            "some samples have a smaller sampling probability in one system than in several others, so that no weight "
            "is right for all differences. Compare two systems at a time."
        )
    notes.append(
        "means are weighted by 1 / sampling probability. Effect sizes and quantiles cannot be: they are left out"
    )
    return replace(table, probabilities=least, own=own if larger.any() else None)


def _check_overlap(systems: Sequence[str], has: NDArray[np.bool_], ids: Sequence[str]) -> None:
    """Raise an error if a system does not share a sample with any other."""
    import numpy as np

    for i, system in enumerate(systems):
        others: NDArray[np.bool_] = np.delete(has, i, axis=1).sum(axis=1) > 0
        # A system without any selected metric does not have samples here, so its ids cannot differ.
        if has[:, i].any() and others.any() and not (has[:, i] & others).any():
            raise DataError(
                f"{system!r} does not share samples with the others (its ids: {_examples(ids, has[:, i])}, other ids: "
                f"{_examples(ids, others)}). Samples are matched by id, and by their question if they do not have one. Evaluate "
                f"the same rows with every system, with the same ids ({NAME_IDS}), or compare different traffic with paired=False (`ragstone compare --unpaired`)."
            )


def _overlap(
    systems: Sequence[str], has: NDArray[np.bool_], ids: Sequence[str], notes: list[str], *, paired: bool | None
) -> tuple[dict[str, int], int, bool]:
    """Count the samples of each system and the common ones, and return whether the systems are disjoint."""
    shared = has.sum(axis=1)
    n_common = int((shared == len(systems)).sum())
    is_disjoint = not (shared > 1).any()
    if n_common < len(ids) and not is_disjoint and paired is not False:
        single = has & (shared == 1)[:, None]
        alone = ", ".join(
            f"{int(single[:, i].sum())} only in {s} ({_examples(ids, single[:, i])})"
            for i, s in enumerate(systems)
            if single[:, i].any()
        )
        common = f"{n_common} of {len(ids)} samples are in every system{alone and f' ({alone})'}"
        notes.insert(0, f"{common}. Differences use the samples that both systems have scored.")
    return {s: int(has[:, i].sum()) for i, s in enumerate(systems)}, n_common, is_disjoint


def _compared(metric: MetricScores, ids: Sequence[str], *, paired: bool) -> dict[str, float]:
    """Return what a comparison averages by sample: differences of the last and the first system, or centered scores.

    Differences do not contain the samples' difficulty, so their design effect is another one than that of scores.
    """
    import numpy as np

    has = ~np.isnan(metric.values)
    filled = np.where(has, metric.values, 0.0)
    centered = np.where(has, filled - filled.sum(axis=0) / np.maximum(has.sum(axis=0), 1), 0.0)
    rows = np.flatnonzero(has[:, 0] & has[:, -1] if paired else has.any(axis=1))
    values = centered[rows, -1] - centered[rows, 0] if paired else centered[rows].sum(axis=1)
    return {ids[row]: value for row, value in zip(rows.tolist(), values.tolist(), strict=True)}


def _examples(ids: Sequence[str], chosen: NDArray[np.bool_]) -> str:
    import numpy as np

    at = np.flatnonzero(chosen)
    return ", ".join(repr(ids[i]) for i in at[:SHOWN]) + (", ..." if at.size > SHOWN else "")


def note_question(questions: array[int], row: int, number: int) -> None:
    """Set the question of a row."""
    if (gap := row + 1 - len(questions)) > 0:
        questions.extend([0] * gap)
    questions[row] = number or questions[row]


def match_questions(
    names: Sequence[str], ids: Sequence[str], questions: Sequence[array[int]], has: NDArray[np.bool_], texts: Texts
) -> tuple[dict[int, int], set[int], list[str]]:
    """Match rows without an id by their question, and check that rows with one id have one question.

    Return the row of an id by the row of the same question without an id in another system, the rows that cannot be
    matched because several have one question and no id, and notes about them.

    `questions` has the number of the question of each row (see `question_number`) by system, and `texts` the questions
    for messages. `has` says whether a system has the row, of shape (rows, systems). Raise DataError if an id has
    different questions, or no row of a system can be matched.
    """
    import numpy as np

    asked = np.zeros(has.shape, dtype=np.int64)
    for system, numbers in enumerate(questions):
        asked[: len(numbers), system] = np.frombuffer(numbers, dtype=np.int64)
    known = asked.max(axis=1)
    lowest = np.where(asked == 0, known[:, None], asked).min(axis=1)
    if (different := np.flatnonzero(lowest != known)).size:
        raise _other_questions(names, ids, asked, different, texts)
    derived = {row for row, id_ in enumerate(ids) if _is_derived(id_, int(known[row]))}
    by_question: dict[int, list[int]] = {}
    if derived:
        wanted = {int(known[row]) for row in derived}
        for row, number in enumerate(known.tolist()):
            if number in wanted:
                by_question.setdefault(number, []).append(row)
    merged: dict[int, int] = {}
    left_out: set[int] = set()
    for rows in by_question.values():
        without_id = [row for row in rows if row in derived]
        named = [row for row in rows if row not in derived]
        if len(without_id) > 1 or len(named) > 1 or (named and (has[named[0]] & has[without_id[0]]).any()):
            left_out.update(without_id)
        elif named:
            merged[without_id[0]] = named[0]
    notes = []
    if left_out:
        rows = sorted(left_out)
        note = (
            f"{count(len(rows), 'sample')} without an id {'has' if len(rows) == 1 else 'have'} a question that several samples of "
            f"one system have, so they cannot be matched and are left out: {_listed(ids, rows, has, texts)}. Give each "
            f"row an id when you evaluate it ({NAME_IDS})"
        )
        kept = np.ones(len(ids), dtype=bool)
        kept[rows] = False
        if not has[kept].any(axis=0).all():
            raise DataError(note)
        notes.append(f"WARNING {note}")
    common = has.sum(axis=1) > 1
    n_unknown = int((common & ((asked == 0) & has).any(axis=1) & (known > 0)).sum())
    if n_unknown:
        notes.append(
            f"{n_unknown:,} of {count(int(common.sum()), 'common sample')} were matched by id alone: a system does not "
            "have their questions"
        )
    return merged, left_out, notes


def _is_derived(id_: str, question: int) -> bool:
    """Return whether `derive_id` made an id, from this question."""
    digest = id_.removeprefix("q-").partition("-")[0]
    try:
        return id_.startswith("q-") and len(digest) == 24 and question_number(digest) == question
    except ValueError:
        return False


def _listed(ids: Sequence[str], rows: Sequence[int], has: NDArray[np.bool_], texts: Texts) -> str:
    shown = []
    for row in rows[:SHOWN]:
        text = texts[int(has[row].argmax())](ids[row])
        shown.append(repr(ids[row]) if text is None else shorten_question(text))
    return ", ".join(shown) + (", ..." if len(rows) > SHOWN else "")


def _other_questions(
    names: Sequence[str], ids: Sequence[str], asked: NDArray[np.int64], rows: NDArray[np.intp], texts: Texts
) -> DataError:
    shown = []
    for row in rows[:SHOWN].tolist():
        first = int((asked[row] > 0).argmax())
        second = int(((asked[row] > 0) & (asked[row] != asked[row, first])).argmax())
        found = [(names[i], texts[i](ids[row])) for i in (first, second)]
        parts = [f"{shorten_question(text)} in {name}" for name, text in found if text is not None]
        shown.append(f"{ids[row]!r}{' is ' if parts else ''}{' and '.join(parts)}")
    n_common = int(((asked > 0).sum(axis=1) > 1).sum())
    return DataError(
        f"{rows.size:,} of {n_common:,} common ids belong to different questions: {'; '.join(shown)}"
        f"{'; ...' if rows.size > SHOWN else ''}. Samples are matched by id, so nothing was compared. Evaluate the same "
        "rows with every system, with ids that name the same question in every file: --field id=COLUMN. To match by the "
        "question, name its column (--field id=question). To compare different traffic, use paired=False (--unpaired)"
    )
