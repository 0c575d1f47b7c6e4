"""Reading of systems and selection of metrics for validation."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments import Clusters, OutcomeSource, SystemOutcomes, check_same_questions, read_outcomes
from ragstone.metrics import selects
from ragstone.schema import Score
from ragstone.stats import Estimate, estimate_mean

_SAME: Final = 1e-9
"""Tolerance for scores that exceed the metric's range by rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of all intervals and tests."""

    clusters: Clusters | None = None
    """Clusters of samples, which are treated as independent. None: independent samples."""
    n_resamples: int = 2000
    n_permutations: int = 10_000
    confidence_level: float = 0.95
    seed: int = 0

    def clusters_of(self, ids: Iterable[str]) -> Sequence[str | None] | None:
        """Return the clusters of samples, or None for independent samples."""
        return None if self.clusters is None else self.clusters.of(ids)

    def interval(self, ids: Iterable[str]) -> dict[str, Any]:
        """Arguments of functions that estimate from samples."""
        return {"clusters": self.clusters_of(ids), "confidence_level": self.confidence_level}

    @property
    def bootstrap(self) -> dict[str, Any]:
        """Arguments of functions that resample."""
        return {"n_resamples": self.n_resamples, "confidence_level": self.confidence_level, "seed": self.seed}

    def mean(self, system: SystemOutcomes, values: Mapping[str, float], low: float, high: float) -> Estimate | None:
        """Estimate the mean of values by sample, weighted by the inverse of the sampling probabilities."""
        return estimate_mean(
            list(values.values()),
            low=low,
            high=high,
            probabilities=probabilities_of(system, values),
            **self.interval(values),
        )


def named_sources(
    sources: Sequence[OutcomeSource | Mapping[str, OutcomeSource]],
) -> list[tuple[str | None, OutcomeSource]]:
    """Return all sources, with the names of those that have one."""
    named: list[tuple[str | None, OutcomeSource]] = []
    for source in sources:
        named += source.items() if isinstance(source, Mapping) else [(None, source)]
    return named


def read_systems(
    sources: Sequence[OutcomeSource | Mapping[str, OutcomeSource]], *, cluster: str | None = None
) -> tuple[SystemOutcomes, ...]:
    """Read systems, each with a unique name, and the labels of `cluster`."""
    systems: dict[str, SystemOutcomes] = {}
    for name, source in named_sources(sources):
        if name is not None and name in systems:
            raise ConfigurationError(f"two systems have the name {name!r}. Use unique names.")
        read = read_outcomes(source, name=name, cluster=cluster)
        names = itertools.chain([read.name], (f"{read.name} ({n})" for n in itertools.count(2)))
        unique = next(each for each in names if each not in systems)
        systems[unique] = dataclasses.replace(read, name=unique)
    if not systems:
        raise ConfigurationError("no system given. Give at least one experiment, file of outcomes or store.")
    check_same_questions(systems.values())
    return tuple(systems.values())


def metrics_of(systems: Iterable[SystemOutcomes], selected: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the selected metrics with outcomes, or of all metrics with outcomes."""
    systems = tuple(systems)
    present = list(dict.fromkeys(metric for system in systems for metric in system.outcomes))
    if selected is None:
        return tuple(present)
    chosen: dict[str, None] = {}
    for name in selected:
        matches = [m for m in present if any(selects(name, m, system.cards.get(m)) for system in systems)]
        if not matches:
            raise DataError(f"no outcomes of a metric or group {name!r}. Available: {', '.join(present) or 'none'}.")
        chosen |= dict.fromkeys(matches)
    return tuple(chosen)


def is_reversed(system: SystemOutcomes, metric: str) -> bool:
    """Return whether lower values of a metric are better, as far as its card is known."""
    return metric in system.cards and system.cards[metric].direction == "lower"


def scores_of(system: SystemOutcomes, metric: str) -> dict[str, float]:
    """Return the values of a metric by sample id, clipped to the metric's range."""
    low, high = system.range_of(metric)
    values = system.values(metric)
    for id_, value in values.items():
        if not low - _SAME <= value <= high + _SAME:
            raise DataError(
                f"{system.name}: {metric} of sample {id_!r} is {value!r}, outside of its range [{low:g}, {high:g}]"
            )
    return {id_: min(max(value, low), high) for id_, value in values.items()}


def decisions_of(system: SystemOutcomes, metric: str) -> dict[str, float]:
    """Return the decision values of a metric by sample id, which are its values for most metrics."""
    card = system.cards.get(metric)
    if card is None or not card.decided_by:
        return scores_of(system, metric)
    found = system.outcomes.get(metric, {}).items()
    return {i: value for i, o in found if isinstance(o, Score) and (value := card.decision(o)) is not None}


def probabilities_of(system: SystemOutcomes, sample_ids: Iterable[str]) -> list[float] | None:
    """Return the sampling probabilities of samples, or None if all requests of the system were kept."""
    if not system.inclusion_probabilities:
        return None
    return [system.inclusion_probabilities.get(id_, 1.0) for id_ in sample_ids]


def is_unevenly_sampled(system: SystemOutcomes, sample_ids: Iterable[str]) -> bool:
    """Return whether the samples were sampled with different probabilities, so that an unweighted mean is wrong."""
    return len(set(probabilities_of(system, sample_ids) or ())) > 1


def refuse_uneven(systems: Iterable[SystemOutcomes], what: str) -> None:
    """Raise DataError if the requests of a system were sampled with different probabilities."""
    if uneven := [system.name for system in systems if is_unevenly_sampled(system, system.sample_ids)]:
        raise DataError(
            f"{', '.join(uneven)}: requests were sampled with different probabilities, and {what} are not weighted. "
            "Use samples that were all kept, or sampled with one rate"
        )
