"""Properties of metrics from outcomes alone: distributions, correlations and discriminative power."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, get_args

from ragstone.experiments import SystemOutcomes
from ragstone.schema import Failure
from ragstone.stats import (
    CorrelationKind,
    CorrelationMean,
    Description,
    DiscriminativePower,
    Estimate,
    correlate,
    describe,
    discriminative_power,
    fisher_mean,
)
from ragstone_lab._validation.sources import Options, is_unevenly_sampled, scores_of
from ragstone_lab._validation.tukey import tukey_p_values

_SAME: Final = 0.5e-9
"""Distance from a bound below which a score is at the bound."""


UNRESTRICTED: Final = (
    "no interval, because a few pairs of extreme scores, which the samples may lack, could move it anywhere"
)
"""Why a correlation has the whole range as its interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """The distribution of one metric's scores of one system."""

    metric: str
    system: str
    population: Description | None
    """None without scores."""
    mean: Estimate | None
    """Mean with its interval, as in the table of `evaluate`."""
    n_failed: int
    n_not_applicable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPairCorrelation:
    """The correlation of two metrics, within systems and averaged over systems."""

    first: str
    second: str
    kind: CorrelationKind
    mean: CorrelationMean
    """Fisher-z mean over systems, with an interval."""
    per_system: dict[str, float | None]
    """Correlation by system. None if a metric is constant."""
    n_pairs: dict[str, int]
    """Number of samples that both metrics scored, by system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPower:
    """The discriminative power of one metric for the systems."""

    metric: str
    power: DiscriminativePower
    p_values: dict[str, float | None]
    """P-values by pair of systems, "a / b", corrected for the number of pairs."""
    n_samples: int
    """Number of samples with scores of at least two systems."""
    n_uncertain: int
    """Number of pairs whose p-value is within two Monte Carlo errors of the significance level: the result may depend
    on the seed."""
    n_permutations: int


def distributions(systems: Sequence[SystemOutcomes], metrics: Sequence[str], options: Options) -> list[Distribution]:
    """Describe each metric in each system.

    Means and shares at the bounds are weighted by the inverse of the sampling probabilities, and their intervals treat
    whole clusters as independent. The other statistics describe the scored samples without weights.
    """
    return [
        _distribution(system, metric, options)
        for metric, system in itertools.product(metrics, systems)
        if system.outcomes.get(metric)
    ]


def _distribution(system: SystemOutcomes, metric: str, options: Options) -> Distribution:
    low, high = system.range_of(metric)
    scores = scores_of(system, metric)
    mean = options.mean(system, scores, low, high)

    def share(bound: float) -> Estimate | None:
        marks = {id_: float(abs(value - bound) < _SAME) for id_, value in scores.items()}
        return options.mean(system, marks, 0.0, 1.0) if math.isfinite(bound) else None

    population = describe(list(scores.values()), low=low, high=high)
    if population is not None and mean is not None:
        population = replace(
            population,
            mean=mean.value,
            # An unweighted mean of requests with different sampling probabilities would be wrong.
            geometric_mean=None if is_unevenly_sampled(system, scores) else population.geometric_mean,
            at_low=share(low),
            at_high=share(high),
        )
    outcomes = system.outcomes[metric].values()
    n_failed = sum(isinstance(o, Failure) for o in outcomes)
    n_other = len(outcomes) - len(scores) - n_failed
    return Distribution(
        metric=metric, system=system.name, population=population, mean=mean, n_failed=n_failed, n_not_applicable=n_other
    )


def correlations(
    systems: Sequence[SystemOutcomes], metrics: Sequence[str], options: Options
) -> list[MetricPairCorrelation]:
    """Correlate metrics with each other in each system, over the samples that both scored.

    The intervals treat whole clusters as independent, and know the ranges of the metrics.
    """
    results = []
    for kind in get_args(CorrelationKind):
        for first, second in itertools.combinations(metrics, 2):
            values: dict[str, Estimate | None] = {}
            sizes: dict[str, int] = {}
            for system in systems:
                one, two = scores_of(system, first), scores_of(system, second)
                both = [id_ for id_ in one if id_ in two]
                if not both:
                    continue
                values[system.name] = correlate(
                    [one[id_] for id_ in both],
                    [two[id_] for id_ in both],
                    kind,
                    x_range=system.range_of(first),
                    y_range=system.range_of(second),
                    **options.interval(both),
                )
                sizes[system.name] = len(both)
            points = {name: None if found is None else found.value for name, found in values.items()}
            mean = fisher_mean([*points.values()], [*values.values()])
            pair = {"first": first, "second": second, "kind": kind}
            results.append(MetricPairCorrelation(**pair, mean=mean, per_system=points, n_pairs=sizes))
    return results


def powers(systems: Sequence[SystemOutcomes], metrics: Sequence[str], options: Options) -> list[MetricPower]:
    """Test all pairs of systems with each metric, with samples aligned by id, and whole clusters permuted."""
    results = []
    for metric in metrics:
        columns = [(system.name, values) for system in systems if (values := scores_of(system, metric))]
        rows = sorted({id_ for _, values in columns for id_ in values})
        table = [[values.get(id_, math.nan) for _, values in columns] for id_ in rows]
        kept = [i for i, row in enumerate(table) if sum(not math.isnan(v) for v in row) > 1]
        shared = [table[i] for i in kept]
        if len(columns) < 2 or not shared:
            continue
        clusters = options.clusters_of(rows[i] for i in kept)
        found = tukey_p_values(shared, clusters, n_resamples=options.n_permutations, seed=options.seed)
        level, n = 1 - options.confidence_level, options.n_permutations
        ps = {f"{columns[i][0]} / {columns[j][0]}": p for (i, j), p in found.items()}
        power = discriminative_power(list(ps.values()), confidence_level=options.confidence_level)
        n_uncertain = sum(p is not None and abs(p - level) <= 2 * math.sqrt(p * (1 - p) / n) for p in ps.values())
        counts = {"n_samples": len(shared), "n_uncertain": n_uncertain, "n_permutations": n}
        results.append(MetricPower(metric=metric, power=power, p_values=ps, **counts))
    return results
