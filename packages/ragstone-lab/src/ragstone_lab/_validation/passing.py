"""pass@k: the probability that at least one of k answers to a question passes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragstone.errors import ConfigurationError, DataError
from ragstone.experiments import SystemOutcomes
from ragstone.schema import Score
from ragstone.stats import Estimate, pass_at_k
from ragstone_lab._validation.repeats import Repeats
from ragstone_lab._validation.sources import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRate:
    """pass@k of one metric's scores of one system."""

    metric: str
    system: str
    k: int
    rate: Estimate | None
    """Mean of pass@k over samples, or None if no sample has at least k scores."""
    threshold: float
    """Score from which an answer passes (or up to which, if lower values are better)."""
    n_few: int
    """Number of samples with fewer than k scores. They are excluded."""


def pass_rates(
    systems: Sequence[SystemOutcomes],
    collected: Mapping[str, Repeats],
    metrics: Sequence[str],
    ks: Sequence[int],
    options: Options,
    *,
    threshold: float | None,
) -> list[PassRate]:
    """Compute pass@k from the scores of repeated answers: `evaluate --repeats`, or other files of the same samples.

    Without a threshold, an answer passes from the threshold of the metric's card, by its decision value.
    """
    if wrong := [k for k in ks if k < 1]:
        raise ConfigurationError(f"pass_at must be 1 or more, got {wrong[0]!r}")
    found = []
    for metric, system in itertools.product(metrics, systems):
        if metric not in system.outcomes:
            continue
        card = system.cards[metric]
        limit = card.threshold if threshold is None else threshold
        if limit is None:
            raise ConfigurationError(
                f"{metric} does not have a bounded range. Set threshold (research.threshold) for pass@k"
            )
        values = {
            id_: [value for score in several if isinstance(score, Score) for value in card.decisions(score)]
            for id_, several in collected[system.name].get(metric, {}).items()
        }
        counts = {i: (len(all_), sum(bool(card.reaches(v, limit)) for v in all_)) for i, all_ in values.items() if all_}
        for k in ks:
            rates = {id_: pass_at_k(n, n_passed, k) for id_, (n, n_passed) in counts.items() if n >= k}
            rate, n_few = options.mean(system, rates, 0.0, 1.0), len(counts) - len(rates)
            found.append(PassRate(metric=metric, system=system.name, k=k, rate=rate, threshold=limit, n_few=n_few))
    if all(one.rate is None for one in found):
        raise DataError(
            f"pass@{min(ks)} needs at least {min(ks)} scored answers of one sample. Evaluate with --repeats, or pass "
            "more outcomes of the same samples with --repeat"
        )
    return found
