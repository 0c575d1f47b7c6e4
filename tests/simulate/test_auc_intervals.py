"""Coverage of the intervals of a judge's AUC: the table of docs/explanation/intervals.md."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from ragstone.stats import judge_errors

RUNS = 1500
LIMIT = 0.93 - 3 * math.sqrt(0.93 * 0.07 / RUNS)
CUTS = np.array([-0.6, 0.2, 0.9, 1.7])


def distance(auc):
    """Distance of the means of two normal distributions with this AUC."""
    return math.sqrt(2) * norm.ppf(auc)


def cover(auc, draw):
    """Share of the intervals that contain the AUC, and their mean width, of samples of scores, correctness and clusters."""
    found = []
    for _ in range(RUNS):
        x, y, clusters = draw()
        one = judge_errors(x, y.astype(float), threshold=0.5, correct_from=0.5, clusters=clusters).auc
        if one is not None:
            found.append((one.low <= auc <= one.high, one.high - one.low))
    assert len(found) > 0.99 * RUNS
    return np.mean(found, axis=0)


@pytest.mark.parametrize(("n", "share"), [(20, 0.5), (50, 0.5), (100, 0.8), (100, 0.5), (400, 0.9)])
@pytest.mark.parametrize("auc", [0.5, 0.9, 0.97, 0.99])
def test_intervals_of_an_auc(auc, n, share):
    """At least 93 in 100, also where few answers overlap."""
    rng = np.random.default_rng(n)
    y = np.arange(n) < round(share * n)
    covered, width = cover(auc, lambda: (distance(auc) * y + rng.standard_normal(n), y, None))
    print(f"smooth | {auc} | {n}, {share:.0%} | {100 * covered:.1f} ({width:.2f})")
    assert covered >= LIMIT


@pytest.mark.parametrize(("n", "share"), [(20, 0.5), (100, 0.8), (400, 0.9)])
@pytest.mark.parametrize("moved", [0.0, 0.75, 1.5])
def test_intervals_of_an_auc_of_five_levels(moved, n, share):
    """Scores with many ties, each of which counts half."""
    rng = np.random.default_rng(n)
    one, other = (np.diff(norm.cdf(CUTS, loc=at), prepend=0.0, append=1.0) for at in (moved, 0.0))
    auc = float(one @ (np.cumsum(other) - other / 2))
    y = np.arange(n) < round(share * n)
    covered, width = cover(auc, lambda: (np.digitize(moved * y + rng.standard_normal(n), CUTS) / 4, y, None))
    print(f"five levels | {auc:.2f} | {n}, {share:.0%} | {100 * covered:.1f} ({width:.2f})")
    assert covered >= LIMIT


@pytest.mark.parametrize("n", [20, 60])
@pytest.mark.parametrize("icc", [0.3, 0.6])
def test_intervals_of_an_auc_over_clusters(icc, n):
    """Clusters of five answers, whose scores and correctness depend on the cluster."""
    rng = np.random.default_rng(n)
    codes = np.repeat(np.arange(n), 5)

    def related():
        return math.sqrt(icc) * rng.standard_normal(n)[codes] + math.sqrt(1 - icc) * rng.standard_normal(codes.size)

    def draw():
        y = related() > 0
        return distance(0.9) * y + related(), y, codes.tolist()

    covered, width = cover(0.9, draw)
    print(f"clusters | {icc} | {n} | {100 * covered:.1f} ({width:.2f})")
    assert covered >= LIMIT
