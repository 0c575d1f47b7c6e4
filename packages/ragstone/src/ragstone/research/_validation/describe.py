"""Properties of metrics from outcomes alone: distributions, correlations and discriminative power."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from ragstone.experiments import Clusters, SystemOutcomes, count_units
from ragstone.research._validation.sources import probabilities_of, scores_of
from ragstone.schema import Failure, Score
from ragstone.stats import (
    CorrelationKind,
    CorrelationMean,
    Description,
    DiscriminativePower,
    Estimate,
    describe,
    discriminative_power,
    estimate_mean,
    fisher_mean,
    kendall,
    pearson,
    randomized_tukey,
    spearman,
)

_SAME: Final = 0.5e-9
"""Distance from a bound below which a score is at the bound."""


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
    """Number of pairs whose p-value is within two Monte Carlo errors of the significance level: the result may depend on the seed."""
    n_permutations: int


def distributions(
    systems: Sequence[SystemOutcomes], metrics: Sequence[str], *, clusters: Clusters | None, confidence_level: float
) -> list[Distribution]:
    """Describe each metric in each system.

    Means and shares at the bounds are weighted by the inverse of the sampling probabilities, and their intervals treat whole
    clusters as independent. The other statistics describe the scored samples without weights.
    """
    results = []
    for metric in metrics:
        for system in systems:
            outcomes = system.outcomes.get(metric, {}).values()
            if not outcomes:
                continue
            low, high = system.range_of(metric)
            scores = scores_of(system, metric)
            values, probabilities = list(scores.values()), probabilities_of(system, scores)
            mean_of = partial(
                _mean,
                probabilities=probabilities,
                labels=None if clusters is None else clusters.of(scores),
                confidence_level=confidence_level,
            )
            n_failed = sum(isinstance(o, Failure) for o in outcomes)
            results.append(
                Distribution(
                    metric=metric,
                    system=system.name,
                    population=_describe(values, low, high, mean_of, probabilities),
                    mean=mean_of(values, low, high),
                    n_failed=n_failed,
                    n_not_applicable=sum(not isinstance(o, Score) for o in outcomes) - n_failed,
                )
            )
    return results


def _mean(
    values: Sequence[float],
    low: float,
    high: float,
    *,
    probabilities: Sequence[float] | None,
    labels: Sequence[str | None] | None,
    confidence_level: float,
) -> Estimate | None:
    return estimate_mean(
        values, low=low, high=high, probabilities=probabilities, clusters=labels, confidence_level=confidence_level
    )


def _describe(
    values: Sequence[float],
    low: float,
    high: float,
    mean_of: Callable[[Sequence[float], float, float], Estimate | None],
    probabilities: Sequence[float] | None,
) -> Description | None:
    """Describe scores, with weighted means and shares."""
    found = describe(values, low=low, high=high)
    if found is None:
        return None

    def share(bound: float) -> Estimate | None:
        return mean_of([float(abs(v - bound) < _SAME) for v in values], 0.0, 1.0) if math.isfinite(bound) else None

    mean = mean_of(values, low, high)
    is_weighted = len(set(probabilities or ())) > 1
    return replace(
        found,
        mean=found.mean if mean is None else mean.value,
        # An unweighted mean of requests with different sampling probabilities would be wrong.
        geometric_mean=None if is_weighted else found.geometric_mean,
        at_low=share(low),
        at_high=share(high),
    )


def correlations(
    systems: Sequence[SystemOutcomes], metrics: Sequence[str], *, clusters: Clusters | None, confidence_level: float
) -> list[MetricPairCorrelation]:
    """Correlate metrics with each other in each system, over the samples that both scored.

    With clusters, the standard errors use the number of clusters instead of samples, which is too wide rather than too
    narrow.
    """
    measures: dict[CorrelationKind, Callable[[list[float], list[float]], float | None]] = {
        "pearson": pearson,
        "spearman": spearman,
        "kendall": kendall,
    }
    results = []
    for kind, measure in measures.items():
        for first, second in itertools.combinations(metrics, 2):
            values: dict[str, float | None] = {}
            sizes: dict[str, int] = {}
            units: list[int] = []
            for system in systems:
                one, two = scores_of(system, first), scores_of(system, second)
                both = [id_ for id_ in one if id_ in two]
                if not both:
                    continue
                values[system.name] = measure([one[id_] for id_ in both], [two[id_] for id_ in both])
                sizes[system.name] = len(both)
                units.append(count_units(both, clusters))
            results.append(
                MetricPairCorrelation(
                    first=first,
                    second=second,
                    kind=kind,
                    mean=fisher_mean(list(values.values()), units, kind=kind, confidence_level=confidence_level),
                    per_system=values,
                    n_pairs=sizes,
                )
            )
    return results


def powers(
    systems: Sequence[SystemOutcomes],
    metrics: Sequence[str],
    *,
    clusters: Clusters | None,
    confidence_level: float,
    n_permutations: int,
    seed: int,
) -> list[MetricPower]:
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
        result = randomized_tukey(
            shared,
            clusters=None if clusters is None else clusters.of(rows[i] for i in kept),
            n_resamples=n_permutations,
            confidence_level=confidence_level,
            seed=seed,
        )
        ps = [pair.p_value for pair in result.pairs]
        results.append(
            MetricPower(
                metric=metric,
                power=discriminative_power(ps, confidence_level=confidence_level),
                p_values={
                    f"{columns[pair.first][0]} / {columns[pair.second][0]}": pair.p_value for pair in result.pairs
                },
                n_samples=len(shared),
                n_uncertain=sum(
                    pair.p_value is not None
                    and pair.mc_error is not None
                    and pair.mc_error > 0
                    and abs(pair.p_value - (1 - confidence_level)) <= 2 * pair.mc_error
                    for pair in result.pairs
                ),
                n_permutations=result.n_resamples,
            )
        )
    return results
