"""Coverage of intervals over clusters and false claims of tests over clusters: the tables of docs/explanation/intervals.md."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from clustered_scores import ESTIMATORS, KINDS, Setting, miss_rates
from ragstone.stats import hajek_mean

RUNS = 1000
LIMIT = 0.06 + 3.5 * math.sqrt(0.06 * 0.94 / RUNS)
"""At most 6 in 100, for about a thousand cells of the table."""
ONE_KIND = frozenset({"flip rates"})
"""Estimators whose data do not depend on the kind of scores."""


@pytest.mark.parametrize("equal", [True, False], ids=["equal", "random"])
@pytest.mark.parametrize("n_clusters", [10, 30, 100])
@pytest.mark.parametrize(
    ("estimator", "kind"),
    [(e, k) for e, k in itertools.product(ESTIMATORS, KINDS) if e not in ONE_KIND or k == KINDS[0]],
)
def test_intervals_over_clusters(estimator, kind, n_clusters, equal):
    """Misses at ICC 0, 0.3 and 0.5."""
    for icc in (0.0, 0.3, 0.5):
        setting = Setting(icc=icc, n_clusters=n_clusters, kind=kind, equal=equal)
        found = miss_rates(estimator, setting, runs=RUNS)
        cells = ", ".join(f"{name} {100 * rate:.1f}" for name, rate in found.items())
        print(f"{estimator} | {kind} | {n_clusters} | {'equal' if equal else 'random'} | {icc} | {cells}")
        assert max(found.values()) <= LIMIT, found


@pytest.mark.parametrize("side", ["two-sided", "lower"])
@pytest.mark.parametrize("icc", [0.0, 0.5])
@pytest.mark.parametrize("n_clusters", [10, 30, 100])
@pytest.mark.parametrize("share", [0.05, 0.02, 0.01])
def test_intervals_over_clusters_with_rare_scores(share, n_clusters, icc, side):
    """Most samples have no score of 0 among scores of 0.9 to 1, or few, and their spread does not show that there may be."""
    rng, n_missed = np.random.default_rng(n_clusters), 0
    for _ in range(RUNS):
        common, own = rng.standard_normal((n_clusters, 1)), rng.standard_normal((n_clusters, 5))
        u = norm.cdf(math.sqrt(icc) * common + math.sqrt(1 - icc) * own).ravel()
        scores = np.where(u < share, 0.0, 0.9 + 0.1 * (u - share) / (1 - share))
        found = hajek_mean(scores, clusters=np.repeat(np.arange(n_clusters), 5).tolist(), side=side)
        n_missed += not found.low <= 0.95 * (1 - share) <= found.high
    print(f"rare | {share} | {n_clusters} | {icc} | {side} | {100 * n_missed / RUNS:.1f}")
    assert n_missed / RUNS <= LIMIT
