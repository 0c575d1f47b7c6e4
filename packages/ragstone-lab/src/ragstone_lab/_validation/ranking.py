"""Metrics as rankings: of systems, by Kendall's tau with a target, and of the graded records of a question."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.experiments import SystemOutcomes, count_units
from ragstone.metrics.ranking import average_precision, ndcg, reciprocal_rank
from ragstone.reading import LabelRecord
from ragstone.stats import Estimate, kendall_of_means
from ragstone_lab._validation.agreement import LabelOptions, Scale, estimate_difference, turn_labels
from ragstone_lab._validation.labels import mean_labels
from ragstone_lab._validation.sources import is_reversed, refuse_uneven, scores_of

LABELS: Final = "labels"
"""Name of the target that stands for human labels."""
_MIN_SYSTEMS: Final = 3
_MEASURES: Final = ("MAP", "nDCG", "MRR")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRanking:
    """Agreement of the ranking of systems by a metric with their ranking by the target."""

    metric: str
    target: str
    tau: Estimate | None
    """Kendall's tau-b of the systems' means. Positive if the same systems are better. None if all means of one are
    equal."""
    n_samples: int
    """Number of samples for which each system has a score and a value of the target."""
    n_incomplete: int
    """Number of other samples. They are excluded, because means of different samples are not comparable."""
    n_same_order: int
    """Number of pairs of systems that both rank in the same order."""
    n_other_order: int
    """Number of pairs of systems that they rank in opposite orders."""
    means: Mapping[str, tuple[float, float]]
    """Means of the metric and of the target, by system."""


def rankings(
    systems: Sequence[SystemOutcomes],
    metrics: Sequence[str],
    target: str,
    labels: Sequence[LabelRecord] | None,
    options: LabelOptions,
) -> list[SystemRanking]:
    """Compare the ranking of the systems by each metric with that by the target."""
    if len(systems) < _MIN_SYSTEMS:
        raise DataError(
            f"a ranking needs at least {_MIN_SYSTEMS} systems, got {len(systems)}. Pass the outcomes of each system as a file"
        )
    refuse_uneven(systems, "means of rankings")
    if target == LABELS and labels is None:
        raise DataError("the target 'labels' needs human labels. Pass them with labels= (--labels)")
    if target != LABELS and (missing := [system.name for system in systems if not system.values(target)]):
        raise DataError(f"{', '.join(missing)}: no scores of the target {target!r}. Score all systems with it")
    found: list[SystemRanking] = []
    for metric in metrics:
        if metric == target:
            continue
        goals = [
            _of_labels(labels or (), metric, system, options)[0] if target == LABELS else _oriented(system, target)
            for system in systems
        ]
        scores = [_oriented(system, metric) for system in systems]
        ids = sorted(set.intersection(*(set(values) for values in (*scores, *goals))))
        if count_units(ids, options.clusters) < 2:
            continue
        pairs = [
            (math.fsum(one[id_] for id_ in ids) / len(ids), math.fsum(goal[id_] for id_ in ids) / len(ids))
            for one, goal in zip(scores, goals, strict=True)
        ]
        products = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in itertools.combinations(pairs, 2)]
        tau = kendall_of_means(
            [[values[id_] for values in scores] for id_ in ids],
            [[values[id_] for values in goals] for id_ in ids],
            options.clusters_of(ids),
            **options.bootstrap,
        )
        n_incomplete = len(set.union(*(set(values) for values in (*scores, *goals)))) - len(ids)
        counts = {"n_samples": len(ids), "n_incomplete": n_incomplete}
        counts |= {"n_same_order": sum(p > 0 for p in products), "n_other_order": sum(p < 0 for p in products)}
        means = {system.name: pair for system, pair in zip(systems, pairs, strict=True)}
        found.append(SystemRanking(metric=metric, target=target, tau=tau, means=means, **counts))
    if not found:
        raise DataError(
            f"no metric has two samples that all {len(systems)} systems share with the target {target!r}. Score the "
            "same samples with all systems"
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRanking:
    """How well a metric ranks the graded records of each question, by one measure."""

    metric: str
    system: str
    measure: str
    """"MAP", "nDCG" (linear gains) or "MRR"."""
    mean: Estimate | None
    """Mean over the questions."""
    baseline: str
    """The first metric."""
    difference: Estimate | None
    """Mean paired difference from the baseline, over the questions that both rank. None for the baseline itself."""
    relevant_from: float
    """The middle of the labels' range. Records with this label or a better one are relevant."""
    n_undefined: int
    """Number of questions that are excluded, because all their records are relevant, or none is."""
    n_unscored: int
    """Number of questions that are excluded, because the metric does not have a score of each labeled record."""
    n_tied: int
    """Number of questions with equal scores, whose records are ranked by their ids."""


def rank_records(
    systems: Sequence[SystemOutcomes], metrics: Sequence[str], labels: Sequence[LabelRecord], options: LabelOptions
) -> list[RecordRanking]:
    """Rank the labeled records of each question by each metric. Empty if no question has several labeled records."""
    found = []
    for system in systems:
        questions = {id_: o.fingerprint for of in system.outcomes.values() for id_, o in of.items() if o.fingerprint}
        known: dict[str, dict[str, tuple[float, ...]]] = {}
        for metric in metrics:
            by_sample, (low, high) = _of_labels(labels, metric, system, options)
            grades = {id_: v for id_, v in by_sample.items() if id_ in questions}
            records: dict[str, list[str]] = {}
            for id_ in sorted(grades):
                records.setdefault(questions[id_], []).append(id_)
            several = {question: ids for question, ids in records.items() if len(ids) > 1}
            if not several:
                continue
            scores, relevant_from, counts = _oriented(system, metric), (low + high) / 2, Counter[str]()
            ranked = known[metric] = {}
            for ids in several.values():
                if len({grades[id_] >= relevant_from for id_ in ids}) < 2:
                    counts["undefined"] += 1
                elif not all(id_ in scores for id_ in ids):
                    counts["unscored"] += 1
                else:
                    counts["tied"] += len({scores[id_] for id_ in ids}) < len(ids)
                    ranked[ids[0]] = _measured(
                        ids, scores, {id_: grades[id_] - low for id_ in ids}, relevant_from - low
                    )
            baseline = next(iter(known))
            shared = [key for key in ranked if key in known[baseline]]
            fields: dict[str, Any] = {f"n_{name}": counts[name] for name in ("undefined", "unscored", "tied")}
            fields |= {"metric": metric, "system": system.name, "baseline": baseline, "relevant_from": relevant_from}
            for at, measure in enumerate(_MEASURES):
                mean, difference = options.mean(system, {key: row[at] for key, row in ranked.items()}, 0, 1), None
                if metric != baseline and shared:
                    differences = [ranked[key][at] - known[baseline][key][at] for key in shared]
                    difference = estimate_difference(differences, bound=1.0, **options.interval(shared))
                found.append(RecordRanking(measure=measure, mean=mean, difference=difference, **fields))
    return found


def _measured(
    ids: Sequence[str], scores: Mapping[str, float], gains: Mapping[str, float], threshold: float
) -> tuple[float, ...]:
    """Return the measures of the records in the order of their scores."""
    order = sorted(ids, key=lambda id_: (-scores[id_], id_))
    measures = (
        average_precision(order, gains, threshold=threshold),
        ndcg(order, gains, gain="linear"),
        reciprocal_rank(order, gains, threshold=threshold),
    )
    return tuple(value or 0.0 for value in measures)


def _oriented(system: SystemOutcomes, metric: str) -> dict[str, float]:
    """Return the scores by sample, with the opposite sign if lower values are better."""
    sign = -1.0 if is_reversed(system, metric) else 1.0
    return {id_: sign * value for id_, value in scores_of(system, metric).items()}


def _of_labels(
    labels: Sequence[LabelRecord], metric: str, system: SystemOutcomes, options: LabelOptions
) -> tuple[dict[str, float], tuple[float, float]]:
    """Return the mean label of each sample of a system, higher ones for better answers, and the range of labels."""
    own = [label for label in labels if label.metric in (None, metric) and label.level == "answer"]
    if not own:
        return {}, (0.0, 1.0)
    bounds = Scale.of(system, metric, own, options).labels
    if is_reversed(system, metric):
        own = turn_labels(own, bounds, generic=False)
    return mean_labels(own, system.name), bounds
