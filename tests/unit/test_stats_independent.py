"""Groups that nothing pairs: differences that hold together, exact where groups are alike, weighted where sampled."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from ragstone.stats import hajek_mean, independent_differences, mean_interval
from value_groups import compare_value_groups


def welch(x: np.ndarray, y: np.ndarray) -> float:
    """Welch's statistic."""
    return abs(x.mean() - y.mean()) / math.sqrt(x.var(ddof=1) / x.size + y.var(ddof=1) / y.size)


def test_the_p_value_is_that_of_all_deals_but_for_drawing():
    """Against SciPy's enumeration of all 924 deals of twelve values, by the same statistic."""
    rng = np.random.default_rng(1)
    x, y = rng.random(6), rng.random(6) * 0.6
    exact = scipy_stats.permutation_test((x, y), welch, alternative="greater", n_resamples=10**6).pvalue
    found = compare_value_groups([x, y], n_resamples=40_000).pairs[0]

    assert exact == pytest.approx(found.p_value, abs=4 * found.mc_error)
    assert x.mean() - y.mean() == pytest.approx(-found.difference)


def test_the_interval_excludes_zero_where_the_p_value_says_so():
    """Test and interval share one critical value."""
    for shift in np.linspace(0, 0.6, 25):
        rng = np.random.default_rng(5)
        x, y = rng.random(12) * 0.4, rng.random(15) * 0.4 + shift
        pair = compare_value_groups([x, y], n_resamples=2000).pairs[0]
        assert (pair.p_value <= 0.05) == (not pair.low <= 0 <= pair.high)


def test_large_groups_have_the_normal_limit():
    """Beyond 5,000 values each: Welch's error, the normal's quantile, and for two groups the normal's p-value."""
    rng = np.random.default_rng(2)
    x, y = rng.random(6000), rng.random(8000) ** 1.04
    found = compare_value_groups([x, y])
    pair = found.pairs[0]
    error = math.sqrt(x.var(ddof=1) / x.size + y.var(ddof=1) / y.size)

    assert "independent_normal" == found.method
    assert 2 * scipy_stats.norm.sf(welch(x, y)) == pytest.approx(pair.p_value, rel=0.2)
    assert 1.96 * error == pytest.approx((pair.high - pair.low) / 2, rel=0.02)


def test_three_groups_share_the_error():
    """The critical value of all pairs is that of the studentized range, in the limit."""
    rng = np.random.default_rng(3)
    groups = [rng.random(5000) for _ in range(3)]
    found = compare_value_groups(groups, n_resamples=200_000)
    pair = found.pairs[0]
    error = math.sqrt(groups[0].var(ddof=1) / 5000 + groups[1].var(ddof=1) / 5000)

    assert [(1, 0), (2, 0), (2, 1)] == [(p.first, p.second) for p in found.pairs]
    range_of_three = scipy_stats.studentized_range.ppf(0.95, 3, 1e6) / math.sqrt(2)
    assert range_of_three == pytest.approx((pair.high - pair.low) / 2 / error, rel=0.02)


@pytest.mark.parametrize(
    ("sizes", "spreads"), [((20, 20), (1, 1)), ((10, 60), (1, 1)), ((10, 60), (1, 0.2)), ((60, 10), (1, 0.2))]
)
def test_groups_that_do_not_differ_are_rarely_told_apart(sizes, spreads):
    """At most about one in twenty, also where a small group varies more than a large one (where a plain test fails)."""
    rng = np.random.default_rng(7)
    n_runs, claimed = 300, 0
    for seed in range(n_runs):
        groups = [0.5 + spread * (rng.random(n) - 0.5) for n, spread in zip(sizes, spreads, strict=True)]
        claimed += compare_value_groups(groups, n_resamples=399, seed=seed).pairs[0].p_value <= 0.05

    # Three standard errors above one in twenty, and a little for small groups of unlike spread.
    assert claimed / n_runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / n_runs) + 0.015


def test_sampled_values_weigh_more():
    """The difference is that of Hajek's means; what was kept for sure weighs as it is."""
    x, p = np.array([1.0, 0.0, 1.0, 1.0, 0.5]), np.array([0.1, 1.0, 0.1, 0.1, 0.5])
    y, q = np.array([0.2, 0.4, 0.3]), np.ones(3)
    pair = compare_value_groups([x, y], [p, q], pairs=[(0, 1)]).pairs[0]

    assert hajek_mean(x, p).value - y.mean() == pytest.approx(pair.difference)
    plain = compare_value_groups([x, y], pairs=[(0, 1)], seed=3)
    halved = compare_value_groups([x, y], [np.full(5, 0.5), np.full(3, 0.5)], pairs=[(0, 1)], seed=3)
    assert plain.pairs[0].p_value == halved.pairs[0].p_value
    assert plain.pairs[0].low == pytest.approx(halved.pairs[0].low)


def test_values_that_do_not_vary_have_an_interval_all_the_same():
    """Nine zeros and nine ones: a difference of 1 is claimed, and the interval is no point."""
    pair = compare_value_groups([[0.0] * 9, [1.0] * 9]).pairs[0]
    assert (1.0, True) == (pair.difference, pair.p_value < 0.01)
    assert 0 < pair.low < 0.9
    same = compare_value_groups([[1.0] * 9, [1.0] * 9]).pairs[0]
    assert (0.0, 1.0) == (same.difference, same.p_value)
    assert same.low < 0 < same.high


def test_groups_too_small_to_compare_say_nothing():
    """One value has no spread, none has no mean; other pairs are compared as if those were not there."""
    x, y = [0.1, 0.2, 0.15, 0.12], [0.8, 0.9, 0.85, 0.7]
    found = compare_value_groups([x, y, [0.5], []])
    by = {(p.first, p.second): p for p in found.pairs}

    assert by[1, 0].p_value < 0.05
    assert (None, None) == (by[2, 0].p_value, by[2, 0].low)
    assert by[2, 0].difference == pytest.approx(0.5 - np.mean(x))
    assert by[3, 0].difference is None


def test_few_deals_claim_nothing():
    """Two and two values: no deal of six is rarer than one in twenty."""
    pair = compare_value_groups([[0.1, 0.2], [0.8, 0.9]]).pairs[0]
    assert pair.p_value > 0.05


def test_the_same_seed_the_same_result():
    """And another one nearly so."""
    rng = np.random.default_rng(4)
    groups = [rng.random(30), rng.random(40)]
    assert compare_value_groups(groups, seed=1) == compare_value_groups(groups, seed=1)
    one, other = (compare_value_groups(groups, seed=s).pairs[0].p_value for s in (1, 2))
    assert one == pytest.approx(other, abs=0.03)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"groups": [[0.5], [0.5]], "pairs": [(0, 2)]}, "each of pairs must be two of the 2 groups"),
        ({"groups": [[0.5], [0.5]], "confidence_level": 1.0}, r"confidence_level must be in \(0, 1\), got 1.0"),
        ({"groups": [[0.5], [0.5]], "n_resamples": 0}, "n_resamples must be at least 1"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments, words):
    """The message names the value and the rule."""
    with pytest.raises(ValueError, match=words):
        compare_value_groups(**arguments)


def test_groups_of_equal_values_share_the_error_of_all_pairs():
    """Three groups have three pairs: each interval combines those of two means at 1 - 0.05 / 6."""
    pair = compare_value_groups([[0.0] * 9, [1.0] * 9, [1.0] * 9]).pairs[0]
    zero, one = (mean_interval([x] * 9, confidence_level=1 - 0.05 / 6) for x in (0.0, 1.0))
    assert (one.low - zero.high, one.high - zero.low) == pytest.approx((pair.low, pair.high))


def test_the_normal_limit_uses_the_correlation_of_the_metrics():
    """The same metric twice has the interval of one. Two independent ones need 2.24 instead of 1.96 standard errors."""
    x, other = np.random.default_rng(9).random((2, 10_000))
    widths = []
    for values in ([x], [x, x], [x, other]):
        found, *_ = independent_differences(
            np.stack(values, axis=1),
            np.repeat([0, 1], 5000),
            np.ones(10_000),
            n_groups=2,
            ends=[(0.0, 1.0)] * len(values),
        )
        widths.append(found.pairs[0].high - found.pairs[0].low)
    assert [1.0, 2.236 / 1.96] == pytest.approx([widths[1] / widths[0], widths[2] / widths[0]], abs=0.03)


def test_the_data_count_as_one_permutation():
    """No permutation of clearly different groups reaches their difference, and the p-value is still not 0."""
    x = np.random.default_rng(6).random(30) / 5
    pair = compare_value_groups([x, x + 0.8], n_resamples=399).pairs[0]
    assert 1 / 400 == pytest.approx(pair.p_value)
