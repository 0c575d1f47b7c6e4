"""Coverage of intervals over clusters and false claims of tests over clusters: the tables of docs/explanation/intervals.md."""

from __future__ import annotations

import itertools
import math

import pytest

from clustered_scores import ESTIMATORS, KINDS, Setting, miss_rates

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
