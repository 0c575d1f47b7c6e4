"""Two sets side by side: what is spread, what is error, and how far apart they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from intervals import seeded_bootstrap
from ragstone.stats import compare_groups, mean_interval


def test_values_by_hand_and_by_scipy():
    """Means, their difference, the spread of items, and Mann and Whitney's U as a probability."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(3, 11, 80) / 10, rng.integers(0, 9, 50) / 10
    found = compare_groups(a.tolist(), b.tolist())
    assert a.mean() - b.mean() == pytest.approx(found.difference.value)
    assert stats.mannwhitneyu(a, b).statistic / (80 * 50) == pytest.approx(found.superiority.value)
    assert (a.std(ddof=1), b.std(ddof=1)) == pytest.approx((found.first.spread, found.second.spread))
    assert (80, 50, 130) == (found.first.mean.n, found.second.mean.n, found.difference.n)


def test_standard_error_is_of_all_items_not_of_fifty():
    """With 200 items the error is spread / sqrt(200); drawing 50 would double it."""
    x = np.random.default_rng(1).random(200)
    found = compare_groups(x.tolist(), x.tolist(), n_resamples=8000)
    assert x.std() / math.sqrt(200) == pytest.approx(found.first.standard_error, rel=0.03)
    assert 0.5 == pytest.approx(found.superiority.value)
    # Two sets on their own, not pairs: their errors add up although the values are the same.
    half = (found.difference.high - found.difference.low) / 2
    assert 1.96 * math.sqrt(2) * x.std() / math.sqrt(200) == pytest.approx(half, rel=0.06)


def test_intervals_near_scipys_bootstrap():
    """The difference of means of two independent samples is close to the percentile interval of many items."""
    rng = np.random.default_rng(2)
    a, b = rng.beta(4, 1, 600), rng.beta(2, 2, 400)
    expected = stats.bootstrap(
        (a, b),
        lambda x, y, axis: x.mean(axis) - y.mean(axis),
        method="percentile",
        n_resamples=9999,
        **seeded_bootstrap(rng),
    ).confidence_interval
    found = compare_groups(a.tolist(), b.tolist(), low=0, high=1).difference
    assert tuple(expected) == pytest.approx((found.low, found.high), abs=0.003)


def test_sets_that_do_not_overlap():
    """A superiority of 1 in a few items is not certain, and neither is the mean of equal scores."""
    found = compare_groups([1.0, 1.0, 1.0], [0.0, 0.5], low=0, high=1)
    assert (1.0, 1.0) == (found.superiority.value, found.superiority.high)
    assert found.superiority.low < 0.6
    assert found.first.mean == mean_interval([1.0, 1.0, 1.0])
    assert found.first.mean.low < 0.5
    assert (0.0, 0.0) == (found.first.spread, found.first.standard_error)
    assert compare_groups([1.0], [0.0]).first.spread is None
    assert (-math.inf, math.inf) == ((alone := compare_groups([1.0], [0.0]).difference).low, alone.high)


def test_intervals_cover_at_the_ceiling():
    """Ten and ten scores, most of them 1: of 300 differences at least 95 in 100 less three standard errors are covered."""
    rng = np.random.default_rng(4)
    covered = superior = 0
    for _ in range(300):
        a, b = (np.where(rng.random(10) < p, 1.0, rng.random(10)) for p in (0.85, 0.6))
        found = compare_groups(a, b, low=0, high=1, n_resamples=1)
        covered += found.difference.low <= 0.125 <= found.difference.high
        superior += found.superiority.low <= 0.625 <= found.superiority.high
    assert min(covered, superior) >= 300 * (0.95 - 3 * 0.0126)


def test_mirrored_groups_have_mirrored_intervals():
    """The difference changes its sign, and the superiority is that of the other group."""
    a, b = [0.2, 0.9, 0.4, 0.4], [0.5, 0.4, 0.1]
    one, two = compare_groups(a, b, low=0, high=1), compare_groups(b, a, low=0, high=1)
    assert (one.difference.low, one.difference.high) == pytest.approx((-two.difference.high, -two.difference.low))
    assert (one.superiority.low, one.superiority.high) == pytest.approx(
        (1 - two.superiority.high, 1 - two.superiority.low)
    )


def test_seed_and_chunks_do_not_matter_beyond_noise():
    """The same seed gives the same bounds; more distinct values than fit one chunk give sensible ones."""
    x = np.random.default_rng(3).random(3000)
    one, two = (compare_groups(x[:1500].tolist(), x[1500:].tolist(), n_resamples=700, seed=5) for _ in range(2))
    assert one == two
    assert one != compare_groups(x[:1500].tolist(), x[1500:].tolist(), n_resamples=700, seed=6)
    assert x.std() / math.sqrt(1500) == pytest.approx(one.first.standard_error, rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (([], [1.0]), {}),
        (([1.0], [math.nan]), {}),
        (([1.0], [1.0]), {"confidence_level": 0}),
        (([1.0], [1.0]), {"n_resamples": 0}),
    ],
)
def test_bad_input_is_refused(arguments, options):
    """Nothing to compare, no number, no bootstrap."""
    with pytest.raises(ValueError, match=r"must be in|at least"):
        compare_groups(*arguments, **options)


def test_standard_errors_by_number_of_resamples():
    """Those of the first B resamples, as a run with B resamples has them; the last is that of all."""
    first, second = [0.1 * (i % 11) for i in range(40)], [0.05 * (i % 7) for i in range(30)]
    full = compare_groups(first, second, n_resamples=1500)
    assert [50, 100, 200, 500, 1000, 1500] == list(full.first.standard_errors)
    assert full.first.standard_error == full.first.standard_errors[1500]
    exact = (sum((x - 0.1 * 195 / 40) ** 2 for x in first) / 40**2) ** 0.5
    assert abs(full.first.standard_errors[1500] - exact) < 0.1 * exact
    assert len(set(full.second.standard_errors.values())) > 3
    assert [2] == list(compare_groups(first, second, n_resamples=2).first.standard_errors)


def test_groups_of_clusters_have_wider_intervals():
    """Copies of each item in one cluster: means, difference and superiority as wide as without the copies."""
    rng = np.random.default_rng(6)
    a, b = rng.random(30), rng.random(40) ** 2
    once = compare_groups(a, b, low=0, high=1)
    labels = [f"a{i}" for i in range(30)] * 4, [f"b{i}" for i in range(40)] * 4
    found = compare_groups(np.tile(a, 4), np.tile(b, 4), low=0, high=1, clusters=labels)
    alone = compare_groups(np.tile(a, 4), np.tile(b, 4), low=0, high=1)
    for name in ("difference", "superiority"):
        one, other, narrow = (getattr(of, name) for of in (once, found, alone))
        assert one.value == pytest.approx(other.value)
        assert other.high - other.low == pytest.approx(one.high - one.low, rel=0.1)
        assert other.high - other.low > 1.7 * (narrow.high - narrow.low)
    assert once.first.standard_error == pytest.approx(found.first.standard_error, rel=0.1)
    with pytest.raises(ValueError, match="each of 30 items needs a cluster, got 2"):
        compare_groups(a, b, clusters=(["x", "y"], list(range(40))))
