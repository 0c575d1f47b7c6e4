"""Reading of systems and selection of metrics for validation."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments import OutcomeSource, SystemOutcomes, check_same_questions, read_outcomes, store_of
from ragstone.metrics import selects

_SAME: Final = 1e-9
"""Tolerance for scores that exceed the metric's range by rounding."""


def read_systems(
    sources: Sequence[OutcomeSource | Mapping[str, OutcomeSource]], *, cluster: str | None = None
) -> tuple[SystemOutcomes, ...]:
    """Read systems, each with a unique name, and the labels of `cluster`.

    Raises:
        ConfigurationError: If no source is given, or mappings repeat a name.
        DataError: If one id belongs to different questions.
    """
    systems: list[SystemOutcomes] = []
    taken: set[str] = set()
    for source in sources:
        named: Iterable[tuple[str | None, OutcomeSource]] = (
            source.items() if isinstance(source, Mapping) else [(None, source)]
        )
        for name, one in named:
            if name is not None and name in taken:
                raise ConfigurationError(f"two systems have the name {name!r}. Use unique names.")
            read = read_outcomes(one, name=name, cluster=cluster)
            unique = read.name
            number = 2
            while unique in taken:
                unique = f"{read.name} ({number})"
                number += 1
            taken.add(unique)
            systems.append(dataclasses.replace(read, name=unique))
    if not systems:
        raise ConfigurationError("no system given. Give at least one experiment, file of outcomes or store.")
    check_same_questions(systems)
    return tuple(systems)


def stores_of(
    sources: Sequence[OutcomeSource | Mapping[str, OutcomeSource]], systems: Sequence[SystemOutcomes]
) -> dict[str, str | os.PathLike[str]]:
    """Return the stores among the sources, by the names of their systems."""
    flat = [one for source in sources for one in (source.values() if isinstance(source, Mapping) else [source])]
    found = {system.name: store_of(source) for source, system in zip(flat, systems, strict=True)}
    return {name: store for name, store in found.items() if store is not None}


def metrics_of(systems: Iterable[SystemOutcomes], selected: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the selected metrics with outcomes, or of all metrics with outcomes.

    Raises:
        DataError: If a name or group does not have outcomes.
    """
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


def scores_of(system: SystemOutcomes, metric: str) -> dict[str, float]:
    """Return the values of a metric by sample id, clipped to the metric's range.

    Raises:
        DataError: If a value is outside of the metric's range.
    """
    low, high = system.range_of(metric)
    values = system.values(metric)
    for id_, value in values.items():
        if not low - _SAME <= value <= high + _SAME:
            raise DataError(
                f"{system.name}: {metric} of sample {id_!r} is {value!r}, outside of its range [{low:g}, {high:g}]"
            )
    return {id_: min(max(value, low), high) for id_, value in values.items()}


def probabilities_of(system: SystemOutcomes, sample_ids: Iterable[str]) -> list[float] | None:
    """Return the sampling probabilities of samples, or None if all requests of the system were kept."""
    if not system.inclusion_probabilities:
        return None
    return [system.inclusion_probabilities.get(id_, 1.0) for id_ in sample_ids]


def is_unevenly_sampled(system: SystemOutcomes, sample_ids: Iterable[str]) -> bool:
    """Return whether the samples were sampled with different probabilities, so that an unweighted mean is wrong."""
    return len(set(probabilities_of(system, sample_ids) or ())) > 1
