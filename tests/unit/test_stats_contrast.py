"""Two sets side by side: what is spread, what is error, and how far apart they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ragstone.stats import compare_groups


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


def test_intervals_against_scipys_bootstrap():
    """The difference of means of two independent samples, percentile method."""
    rng = np.random.default_rng(2)
    a, b = rng.beta(4, 1, 60), rng.beta(2, 2, 40)
    expected = stats.bootstrap(
        (a, b), lambda x, y, axis: x.mean(axis) - y.mean(axis), method="percentile", n_resamples=9999, rng=rng
    ).confidence_interval
    found = compare_groups(a.tolist(), b.tolist(), n_resamples=9999).difference
    assert tuple(expected) == pytest.approx((found.low, found.high), abs=0.006)


def test_sets_that_do_not_overlap():
    """Certain superiority; a constant set has no spread and no error."""
    found = compare_groups([1.0, 1.0, 1.0], [0.0, 0.5])
    assert (1.0, 1.0, 1.0) == (found.superiority.value, found.superiority.low, found.superiority.high)
    assert (0.0, 0.0) == (found.first.spread, found.first.standard_error)
    assert compare_groups([1.0], [0.0]).first.spread is None


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
    with pytest.raises(ValueError, match="at least"):
        compare_groups(*arguments, **options)
