"""Rank correlation and cluster bootstrap against scipy and brute force; sums of intervals against the published form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ragstone.stats import (
    WeightedTerm,
    bootstrap_mean,
    bootstrap_spearman,
    mean_interval,
    spearman,
    weighted_sum_interval,
)


@pytest.mark.parametrize("seed", range(40))
def test_ranks_and_correlation_agree_with_scipy(seed):
    """Average ranks, with many ties and with none."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    x, y = rng.integers(0, int(rng.integers(2, 12)), (2, n)).astype(float)
    if seed % 2:
        x = rng.normal(size=n)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert spearman(x, y) is None
    else:
        assert float(stats.spearmanr(x, y).statistic) == pytest.approx(spearman(x, y), abs=1e-12)


@pytest.mark.parametrize(("x", "y"), [([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [0, 0, 0]), ([1], [2]), ([], [])])
def test_constant_input_is_undefined(x, y):
    """Not 0, not NaN, no warning."""
    assert spearman(x, y) is None


def test_bad_input_is_refused():
    """NaN has no rank, and pairs come in pairs."""
    with pytest.raises(ValueError, match="NaN"):
        spearman([1, float("nan")], [1, 2])
    with pytest.raises(ValueError, match="same length"):
        spearman([1, 2], [1])
    with pytest.raises(ValueError, match="2 dimensions"):
        bootstrap_mean([1.0, 2.0])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="level"):
        bootstrap_mean([[1.0]], confidence_level=1)
    with pytest.raises(ValueError, match="without NaN"):
        bootstrap_spearman([[1.0], [2.0]], [1, 2], [0])


def test_bootstrap_of_means_against_brute_force():
    """The matrix product draws rows as a loop would: the same spread, up to the noise of resampling."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=(60, 1))
    (estimate,) = bootstrap_mean(values, n_resamples=4000)
    loop = [values[rng.integers(0, 60, 60), 0].mean() for _ in range(4000)]
    low, high = np.quantile(loop, [0.025, 0.975])
    assert values.mean() == pytest.approx(estimate.value)
    assert (low, high) == pytest.approx((estimate.low, estimate.high), abs=0.03)
    assert ("bootstrap", 60, 0.95) == (estimate.method, estimate.n, estimate.confidence_level)


def test_bootstrap_leaves_undefined_cells_out():
    """Each column's mean is over its defined cells; a column without any has no estimate."""
    nan = float("nan")
    a, b, c = bootstrap_mean([[1.0, nan, nan], [3.0, 5.0, nan], [nan, nan, nan]])
    assert (2.0, 2, 5.0, 1, 5.0, 5.0) == (a.value, a.n, b.value, b.n, b.low, b.high)
    assert c is None
    assert [None, None] == bootstrap_mean(np.empty((0, 2)))


@pytest.mark.parametrize("n", [1, 6, 40])
def test_equal_cells_with_bounds_are_not_certain(n):
    """The interval of a column without spread is that of the mean of equal scores; other columns are resampled."""
    x = np.column_stack([np.ones(n), np.linspace(-1.0, 1.0, n), np.zeros(n)])
    with_bounds = bootstrap_mean(x, bounds=[(-1, 1), (-1, 1), (-2, 2)])
    without = bootstrap_mean(x)
    ones, zeros = mean_interval([1.0] * n, low=-1, high=1), mean_interval([0.0] * n, low=-2, high=2)
    assert [ones, zeros] == [with_bounds[0], with_bounds[2]]
    assert ones.low < 1.0 == ones.high
    assert zeros.low < 0.0 < zeros.high
    assert n == 1 or with_bounds[1] == without[1]
    with pytest.raises(ValueError, match="one pair per column, got 1 for 3 columns"):
        bootstrap_mean(x, bounds=[(-1, 1)])


def test_columns_share_their_resamples():
    """A difference that is the same in each row has no spread, however the columns vary."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=50)
    _, _, difference = bootstrap_mean(np.stack([x + 0.25, x, np.full(50, 0.25)], axis=1))
    assert (0.25, 0.25) == pytest.approx((difference.low, difference.high))


def test_bootstrap_covers_at_its_level():
    """Of 400 intervals for a normal mean, about 95 in 100 hold it."""
    rng = np.random.default_rng(11)
    columns = rng.normal(size=(40, 400))
    covered = [e.low <= 0 <= e.high for e in bootstrap_mean(columns)]
    # Percentile intervals are a little short at n = 40; 0.92 lies 2.7 standard errors below 0.95.
    assert 0.90 <= np.mean(covered) <= 0.98


def test_pooled_bootstrap_against_brute_force():
    """Weighted ranks are the ranks of the rows that were drawn."""
    rng = np.random.default_rng(3)
    clusters = np.repeat(np.arange(20), 4)
    x = rng.integers(0, 6, 80) + np.repeat(rng.normal(size=20), 4).round()
    y = (x + rng.integers(0, 8, 80)).astype(float)
    (estimate,) = bootstrap_spearman(x[:, None], y, clusters, n_resamples=300, seed=9)
    draws = np.random.default_rng(9)
    loop = []
    for _ in range(300):
        times = draws.multinomial(20, np.full(20, 1 / 20))
        rows = np.concatenate([np.flatnonzero(clusters == i) for i in np.repeat(np.arange(20), times)])
        loop.append(stats.spearmanr(x[rows], y[rows]).statistic)
    assert float(stats.spearmanr(x, y).statistic) == pytest.approx(estimate.value, abs=1e-12)
    assert np.quantile(loop, [0.025, 0.975]) == pytest.approx([estimate.low, estimate.high], abs=1e-9)
    assert 80 == estimate.n


def test_pooled_constants_are_undefined():
    """One column says nothing, the other does."""
    found = bootstrap_spearman([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]], [0, 1, 1], [0, 1, 2])
    assert found[0] is None
    assert found[1].value > 0
    assert [None] == bootstrap_spearman([[1.0], [2.0]], [1, 1], [0, 1])


def test_sum_of_intervals_worked_out_by_hand():
    """Squares add for estimates, widths for bounds; a negative weight turns an interval round."""
    terms = [
        WeightedTerm(weight=2.0, value=0.5, low=0.4, high=0.8, certain=False),
        WeightedTerm(weight=-1.0, value=0.3, low=0.1, high=0.4, certain=False),
        WeightedTerm(weight=0.5, value=0.6, low=0.5, high=0.8, certain=True),
    ]
    value, low, high = weighted_sum_interval(terms)
    assert 1.0 - 0.3 + 0.3 == pytest.approx(value)
    assert value - math.hypot(0.2, 0.1) - 0.05 == pytest.approx(low)
    assert value + math.hypot(0.6, 0.2) + 0.1 == pytest.approx(high)


def test_difference_of_proportions_as_newcombe_has_it():
    """For two Wilson intervals the method is Newcombe's; 56/70 - 48/80 = 0.20 [0.0524, 0.3339] in his table II."""
    one = mean_interval([1.0] * 56 + [0.0] * 14)
    two = mean_interval([1.0] * 48 + [0.0] * 32)
    terms = [
        WeightedTerm(weight=w, value=e.value, low=e.low, high=e.high, certain=False) for w, e in ((1, one), (-1, two))
    ]
    _, low, high = weighted_sum_interval(terms)
    assert (0.0524, 0.3339) == (round(low, 4), round(high, 4))


def test_sums_of_nonsense_are_refused():
    """A value outside its interval, or infinite."""
    with pytest.raises(ValueError, match="in its interval"):
        weighted_sum_interval([WeightedTerm(weight=1, value=0.9, low=0, high=0.5, certain=True)])
    with pytest.raises(ValueError, match="finite"):
        weighted_sum_interval([WeightedTerm(weight=math.inf, value=0, low=0, high=0.5, certain=True)])
    assert (0.0, 0.0, 0.0) == weighted_sum_interval([])


def test_combined_wilson_intervals_cover():
    """Five drawn probabilities, weighted as UDCG weighs them: the interval holds the truth about 95 times in 100."""
    rng = np.random.default_rng(2)
    p = np.array([0.02, 0.3, 0.5, 0.9, 0.98])
    weights = np.array([1, 1, -1 / 3, -1 / 3, -1 / 3]) / 5
    truth, covered = float(weights @ p), []
    intervals = {k: mean_interval([1.0] * k + [0.0] * (20 - k)) for k in range(21)}
    for _ in range(2000):
        found = [intervals[int(k)] for k in rng.binomial(20, p)]
        terms = [
            WeightedTerm(weight=w, value=e.value, low=e.low, high=e.high, certain=False)
            for w, e in zip(weights, found, strict=True)
        ]
        _, low, high = weighted_sum_interval(terms)
        covered.append(low <= truth <= high)
    assert 0.93 <= np.mean(covered) <= 0.985


def test_bootstrap_of_means_is_worked_out_in_parts(monkeypatch):
    """A few resamples at a time, so that many rows need no table of all resamples; the result is the same."""
    from ragstone.stats import _rank

    values = np.random.default_rng(2).random((40, 2))
    (whole, _) = bootstrap_mean(values, n_resamples=300)
    monkeypatch.setattr(_rank, "_CELLS", 100)
    (parts, _) = bootstrap_mean(values, n_resamples=300)
    assert (whole.low, whole.high) == pytest.approx((parts.low, parts.high), abs=1e-12)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_perfect_order_of_few_clusters_is_not_certain(sign):
    """Clusters count, not rows; either way round."""
    x, clusters = list(range(8)), [0, 0, 1, 1, 2, 2, 3, 3]
    (found,) = bootstrap_spearman([[sign * v] for v in x], x, clusters)
    ends = sorted((float(sign), sign * 4 / (4 + 1.959964**2)))
    assert (sign, "wilson", 8) == (pytest.approx(found.value), found.method, found.n)
    assert ends == pytest.approx([found.low, found.high])
