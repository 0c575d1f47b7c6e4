"""Agreement of metrics on the ranking of systems: Kendall's tau with the ranking by a target."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragstone.errors import DataError
from ragstone.experiments import SystemOutcomes, count_units
from ragstone.reading import LabelRecord
from ragstone.stats import Estimate, kendall_of_means
from ragstone_lab._validation.sources import Options, is_unevenly_sampled, scores_of

LABELS: Final = "labels"
"""Name of the target that stands for human labels."""
_MIN_SYSTEMS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRanking:
    """Agreement of the ranking of systems by a metric with their ranking by the target."""

    metric: str
    target: str
    tau: Estimate | None
    """Kendall's tau-b of the systems' means. Positive if the same systems are better. None if all means of one are equal."""
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
    options: Options,
) -> list[SystemRanking]:
    """Compare the ranking of the systems by each metric with that by the target."""
    if len(systems) < _MIN_SYSTEMS:
        raise DataError(
            f"a ranking needs at least {_MIN_SYSTEMS} systems, got {len(systems)}. Pass the outcomes of each system as a file"
        )
    if uneven := [system.name for system in systems if is_unevenly_sampled(system, system.sample_ids)]:
        raise DataError(
            f"{', '.join(uneven)}: requests were sampled with different probabilities, and rankings do not weight their means. "
            "Use samples that were all kept, or sampled with one rate"
        )
    if target == LABELS and labels is None:
        raise DataError("the target 'labels' needs human labels. Pass them with labels= (--labels)")
    if target != LABELS and (missing := [system.name for system in systems if not system.values(target)]):
        raise DataError(f"{', '.join(missing)}: no scores of the target {target!r}. Score all systems with it")
    found: list[SystemRanking] = []
    for metric in metrics:
        if metric == target:
            continue
        goals = [
            _of_labels(labels or (), metric, system.name) if target == LABELS else _oriented(system, target)
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
        found.append(
            SystemRanking(
                metric=metric,
                target=target,
                tau=tau,
                n_samples=len(ids),
                n_incomplete=len(set.union(*(set(values) for values in (*scores, *goals)))) - len(ids),
                n_same_order=sum(product > 0 for product in products),
                n_other_order=sum(product < 0 for product in products),
                means={system.name: pair for system, pair in zip(systems, pairs, strict=True)},
            )
        )
    if not found:
        raise DataError(
            f"no metric has two samples that all {len(systems)} systems share with the target {target!r}. Score the same "
            "samples with all systems"
        )
    return found


def _oriented(system: SystemOutcomes, metric: str) -> dict[str, float]:
    """Return the scores by sample, with the opposite sign if lower values are better."""
    card = system.cards.get(metric)
    sign = -1.0 if card is not None and card.direction == "lower" else 1.0
    return {id_: sign * value for id_, value in scores_of(system, metric).items()}


def _of_labels(labels: Sequence[LabelRecord], metric: str, system: str) -> dict[str, float]:
    """Return the mean label of each sample of a system."""
    values: dict[str, list[float]] = {}
    for label in labels:
        if label.metric in (None, metric) and label.system in (None, system):
            values.setdefault(label.key, []).append(label.value)
    return {id_: math.fsum(several) / len(several) for id_, several in values.items()}
