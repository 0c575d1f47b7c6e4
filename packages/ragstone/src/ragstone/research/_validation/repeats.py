"""The same samples scored again: how often the judge says something else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments import OutcomeSource, SystemOutcomes, read_outcomes
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.stats import FlipRate, flip_rate

__all__ = ["MetricRepeatability", "flips", "read_repeats"]

AnyOutcome = Score | NotApplicable | Failure
Repeats = dict[str, dict[str, list[AnyOutcome]]]
"""By metric and sample all outcomes, the first one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRepeatability:
    """How steady one metric's scores of one system are when the same is asked again."""

    metric: str
    system: str
    rate: FlipRate
    n_unscored: int
    """Repeats that failed, or were not applicable: in no pair."""
    n_other_judge: int
    """Repeats by another judge, prompt or version: another measurement, not a repeat."""


def read_repeats(
    systems: Sequence[SystemOutcomes],
    repeats: Sequence[OutcomeSource] | Mapping[str, Sequence[OutcomeSource]],
) -> dict[str, Repeats]:
    """Gather, by system, the outcomes of samples that have several.

    Args:
        systems: Their own files may hold a sample several times.
        repeats: Files of the same samples scored again; by system where there are several systems.

    Raises:
        ConfigurationError: Files without a system, or of a system that is not there.
        DataError: A file of which no sample was scored before.
    """
    if not isinstance(repeats, Mapping):
        if repeats and len(systems) > 1:
            names = ", ".join(system.name for system in systems)
            raise ConfigurationError(
                f"a repeat belongs to one of several systems ({names}); name it (--repeat {systems[0].name}=FILE)"
            )
        repeats = {systems[0].name: repeats}
    known = {system.name: system for system in systems}
    gathered: dict[str, Repeats] = {system.name: _own(system) for system in systems}
    for name, sources in repeats.items():
        if name not in known:
            raise ConfigurationError(f"a repeat is of a system {name!r}; there are {', '.join(known)}")
        for source in sources:
            if not _add(gathered[name], _own(read_outcomes(source))):
                raise DataError(
                    f"{source!s}: no outcome is of a metric and sample of {name!r}; a repeat scores the same samples again"
                )
    return gathered


def _own(system: SystemOutcomes) -> Repeats:
    return {
        metric: {id_: list(system.repeats.get(metric, {}).get(id_, (last,))) for id_, last in by.items()}
        for metric, by in system.outcomes.items()
    }


def _add(gathered: Repeats, repeats: Repeats) -> bool:
    added = False
    for metric, by_sample in repeats.items():
        for id_, outcomes in by_sample.items():
            several = gathered.get(metric, {}).get(id_)
            if several is not None:
                several += outcomes
                added = True
    return added


def flips(
    systems: Sequence[SystemOutcomes],
    gathered: Mapping[str, Repeats],
    metrics: Sequence[str],
    *,
    threshold: float,
    confidence_level: float,
) -> list[MetricRepeatability]:
    """Measure how often repeats differ by more than `threshold` of the metric's range."""
    found = []
    for metric in metrics:
        for system in systems:
            low, high = system.range_of(metric)
            width = high - low if math.isfinite(high - low) else 1.0
            rows, n_unscored, n_other = [], 0, 0
            for several in gathered[system.name].get(metric, {}).values():
                if len(several) < 2:
                    continue
                # What is repeated is the first measurement.
                same = [o for o in several if (o.metric_version, o.judge_hash) == _identity(several[0])]
                n_other += len(several) - len(same)
                values = [o.value for o in same if isinstance(o, Score)]
                n_unscored += len(same) - len(values)
                rows.append(values)
            rate = flip_rate(rows, threshold=threshold * width, confidence_level=confidence_level)
            if rate is not None:
                found.append(
                    MetricRepeatability(
                        metric=metric,
                        system=system.name,
                        rate=rate,
                        n_unscored=n_unscored,
                        n_other_judge=n_other,
                    )
                )
    return found


def _identity(outcome: AnyOutcome) -> tuple[str, str]:
    return outcome.metric_version, outcome.judge_hash
