"""Medians with intervals that assume no distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ragstone.stats import estimate_median


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("n", [1, 5, 6, 9, 17, 100, 999])
def test_the_ranks_are_those_of_the_sign_test(n, level):
    """The widest interval whose ends the exact test rejects is at most one rank longer than this one, and never shorter."""
    found = estimate_median(np.arange(1.0, n + 1), low=0.0, high=n + 1.0, confidence_level=level)
    exact = max((k for k in range(n + 1) if stats.binom.cdf(k - 1, n, 0.5) <= (1 - level) / 2), default=0)
    assert (n + 1) / 2 == found.value
    assert 0 <= exact - found.low <= 1
    assert n + 1 - found.low == pytest.approx(found.high)
    assert ("order_statistics" if found.low else "range") == found.method


def test_few_values_do_not_limit_a_median():
    """Five values are all on one side of the median in one of sixteen samples."""
    assert (0.0, math.inf, "range") == (
        (found := estimate_median([1.0, 2.0, 3.0, 4.0, 5.0], low=0.0)).low, found.high, found.method
    )  # fmt: skip
    assert estimate_median([]) is None
    assert 1.5 == estimate_median([1.0, 2.0]).value


def test_copies_of_clusters_add_nothing():
    """Twenty values, each five times in one cluster: about the interval of the twenty, not that of a hundred."""
    x = np.random.default_rng(3).gamma(1.5, size=40)
    one = estimate_median(x)
    copied = estimate_median(np.repeat(x, 5), clusters=np.repeat(np.arange(40), 5).tolist())
    plain = estimate_median(np.repeat(x, 5))
    assert one.value == pytest.approx(copied.value)
    assert (copied.low, copied.high) == pytest.approx((one.low, one.high), abs=0.25)
    assert copied.high - copied.low > 1.5 * (plain.high - plain.low)
    assert "range" == estimate_median(x, clusters=["a"] * 40).method


def test_sampled_values_weigh_more():
    """The median of the population, of which the values above 1 were kept with a probability of one tenth."""
    population = np.arange(1.0, 2001.0)
    p = np.where(population > 1000, 0.1, 1.0)
    kept = np.random.default_rng(1).random(2000) < p
    found = estimate_median(population[kept], probabilities=p[kept])
    assert found.low <= 1000.5 <= found.high
    assert estimate_median(population[kept]).high < 700


def test_weights_belong_to_their_values_and_widen_the_interval():
    """In any order. A few heavy values decide, so there are fewer independent ones than values."""
    rng = np.random.default_rng(5)
    x, p = rng.gamma(1.5, size=300), rng.choice([0.02, 1.0], size=300)
    found = estimate_median(x, probabilities=p)
    order = np.argsort(-x)
    assert found == estimate_median(x[order], probabilities=p[order])
    repeated = np.repeat(x, np.round(1 / p).astype(int))
    assert np.median(repeated) == pytest.approx(found.value)
    alone = estimate_median(x[p < 1])
    assert 0.9 < (found.high - found.low) / (alone.high - alone.low) < 1.4


def test_clusters_that_do_not_matter_add_nothing():
    """There are never more independent values than values."""
    x = np.arange(100.0)
    pairs = [min(i, 99 - i) if abs(i - 49.5) > 10 else i // 2 for i in range(100)]
    one, other = estimate_median(x), estimate_median(x, clusters=pairs)
    assert (one.low, one.high) == (other.low, other.high)


@pytest.mark.parametrize(
    ("x", "options", "interval"),
    [
        (np.tile([1.0, 2.0, 3.0, 4.0], 20), {"clusters": np.repeat(np.arange(20), 4).tolist()}, (2.0, 3.0)),
        (np.arange(1.0, 81.0), {"clusters": [min(i, 79 - i) for i in range(80)]}, (28.0, 54.0)),
        (np.full(30, 5.0), {"probabilities": [0.1, 0.5] * 15}, (5.0, 5.0)),
    ],
)
def test_equal_shares_of_clusters_have_an_interval(x, options, interval):
    """Each cluster has half of its values below the median: that of as many values as there are clusters, here 40 or 20."""
    found = estimate_median(x, **options)
    assert ("order_statistics", *interval) == (found.method, found.low, found.high)
    assert "range" == estimate_median([1.0, 2.0] * 2, clusters=[0, 0, 1, 1]).method


def test_the_interval_of_balanced_clusters_holds():
    """Pairs of opposite values with a random center: at least 95% of the intervals contain the median of the process."""
    rng = np.random.default_rng(7)
    hits = []
    for _ in range(400):
        far = rng.uniform(1.0, 2.0, size=12)
        x = np.concatenate([-far, far])
        found = estimate_median(x, clusters=[*range(12)] * 2)
        hits.append(math.isfinite(found.high) and found.low <= 0.0 <= found.high)
    assert np.mean(hits) >= 0.95
