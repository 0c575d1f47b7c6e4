"""Systems to evaluate metrics on: read, named, and narrowed down to the metrics asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments import OutcomeSource, SystemOutcomes, read_outcomes

__all__ = ["metrics_of", "read_systems", "scores_of"]

_SAME: Final = 1e-9
"""Scores may leave the metric's range by a rounding error."""


def read_systems(sources: Sequence[OutcomeSource | Mapping[str, OutcomeSource]]) -> tuple[SystemOutcomes, ...]:
    """Read systems, each with a name of its own.

    Raises:
        ConfigurationError: No source, or two that a mapping calls the same.
    """
    systems: list[SystemOutcomes] = []
    taken: set[str] = set()
    for source in sources:
        named: Iterable[tuple[str | None, OutcomeSource]] = (
            source.items() if isinstance(source, Mapping) else [(None, source)]
        )
        for name, one in named:
            if name is not None and name in taken:
                raise ConfigurationError(f"two systems are called {name!r}; give each a name of its own")
            read = read_outcomes(one, name=name)
            unique = read.name
            number = 2
            while unique in taken:
                unique = f"{read.name} ({number})"
                number += 1
            taken.add(unique)
            systems.append(dataclasses.replace(read, name=unique))
    if not systems:
        raise ConfigurationError("there is nothing to look at; give at least one experiment, file of outcomes or store")
    return tuple(systems)


def metrics_of(systems: Iterable[SystemOutcomes], asked: Sequence[str] | None) -> tuple[str, ...]:
    """Names of the metrics with outcomes, in their order; of those asked for where any were.

    Raises:
        DataError: A name or group without an outcome.
    """
    systems = tuple(systems)
    present = list(dict.fromkeys(metric for system in systems for metric in system.outcomes))
    if asked is None:
        return tuple(present)
    chosen: dict[str, None] = {}
    for name in asked:
        found = [metric for metric in present if _called(metric, name, systems)]
        if not found:
            raise DataError(
                f"no outcome is of a metric or group {name!r}; there are {', '.join(present) or 'none at all'}"
            )
        chosen |= dict.fromkeys(found)
    return tuple(chosen)


def _called(metric: str, name: str, systems: Iterable[SystemOutcomes]) -> bool:
    """Whether a metric goes by this name, or belongs to the group of this name."""
    groups = {system.cards[metric].group for system in systems if metric in system.cards}
    return name in {metric, metric.partition(".")[0], *groups}


def scores_of(system: SystemOutcomes, metric: str) -> dict[str, float]:
    """The values of a metric by sample id, inside the metric's range.

    Raises:
        DataError: A value that the metric cannot have.
    """
    low, high = system.range_of(metric)
    values = system.values(metric)
    for id_, value in values.items():
        if not low - _SAME <= value <= high + _SAME:
            raise DataError(
                f"{system.name}: {metric} of sample {id_!r} is {value!r}, and lies in [{low:g}, {high:g}] by its definition"
            )
    return {id_: min(max(value, low), high) for id_, value in values.items()}
