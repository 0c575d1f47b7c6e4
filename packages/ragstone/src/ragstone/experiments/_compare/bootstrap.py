"""The paired bootstrap test of all pairs of systems on several metrics, corrected for their number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from ragstone.errors import ConfigurationError
from ragstone.experiments._compare.align import AlignedMetric, AlignedScores
from ragstone.stats import PairedTest, TukeyPair, cluster_codes, expanded_tail, holm, paired_bootstrap

FEW_UNITS: Final = 30
"""Smallest number of samples or clusters for a bootstrap test: with fewer, it rejects too often."""

_TAIL: Final = 5
"""Smallest number of resamples beyond each end of an interval."""


def bootstrap_pairs(
    metrics: Sequence[AlignedMetric],
    scores: AlignedScores,
    pairs: Sequence[tuple[int, int]],
    *,
    confidence_level: float,
    n_resamples: int,
    seed: int,
) -> list[tuple[TukeyPair, ...]]:
    """Test all pairs on all metrics by resampling samples, or whole clusters, with the scores of both systems together.

    P-values have Holm's correction for the number of pairs and metrics. Intervals are expanded percentile intervals with Bonferroni's
    correction, so that they hold simultaneously.

    Returns:
        The pairs of each metric.

    Raises:
        ConfigurationError: If a pair has scores of fewer than 30 samples or clusters, or there are too few resamples for the
            number of pairs and metrics.

    Source:
        Efron and Tibshirani 1993, chapters 13 and 15. Holm 1979.
    """
    n_tests = len(metrics) * len(pairs)
    tail = (1 - confidence_level) / (2 * n_tests)
    least = _TAIL / expanded_tail(tail, FEW_UNITS)
    if n_resamples < least:
        raise ConfigurationError(
            f"{n_resamples:,} resamples are too few for a bootstrap test of {n_tests} differences: each end of an interval "
            f"needs {_TAIL}. Ask for at least {math.ceil(least):,} (n_permutations, analysis.n_permutations), or compare fewer "
            "metrics or systems"
        )
    tests = [
        [
            _test(metric, scores, pair, confidence_level=1 - 2 * tail, n_resamples=n_resamples, seed=seed)
            for pair in pairs
        ]
        for metric in metrics
    ]
    p_values = iter(
        holm([None if test is None else test.p_value for of_metric in tests for test in of_metric]).adjusted
    )
    return [
        tuple(_pair(pair, test, next(p_values)) for pair, test in zip(pairs, of_metric, strict=True))
        for of_metric in tests
    ]


def _test(
    metric: AlignedMetric,
    scores: AlignedScores,
    pair: tuple[int, int],
    *,
    confidence_level: float,
    n_resamples: int,
    seed: int,
) -> PairedTest | None:
    """Test one pair on one metric. None without a common score."""
    import numpy as np

    first, second = (metric.values[:, column] for column in pair)
    rows = np.flatnonzero(~np.isnan(first - second))
    if not rows.size:
        return None
    clusters = scores.clusters
    n_units = rows.size if clusters is None else int(cluster_codes([clusters[row] for row in rows]).max()) + 1
    if n_units < FEW_UNITS:
        one, other = (scores.systems[column] for column in pair)
        raise ConfigurationError(
            f"a bootstrap test needs {FEW_UNITS} {'samples' if clusters is None else 'clusters'} with scores of both systems, "
            f"got {n_units} for {one} and {other} on {metric.name}. Use the permutation test, which holds for any number, or "
            "leave the metric out"
        )
    return paired_bootstrap(
        first,
        second,
        clusters=clusters,
        weights=1 / scores.inclusion_probabilities,
        n_resamples=n_resamples,
        confidence_level=confidence_level,
        seed=seed,
    )


def _pair(pair: tuple[int, int], test: PairedTest | None, p_value: float) -> TukeyPair:
    testable = test is not None and test.p_value is not None
    return TukeyPair(
        first=pair[0],
        second=pair[1],
        n=0 if test is None else test.n,
        difference=None if test is None else test.difference,
        p_value=p_value if testable else None,
        mc_error=None if test is None else test.mc_error,
        low=None if test is None else test.low,
        high=None if test is None else test.high,
    )
