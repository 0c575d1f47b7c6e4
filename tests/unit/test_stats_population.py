"""Populations, correlations, few labels and weighted samples: edges; the values are checked in tests/golden."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from intervals import ends
from ragstone.stats import (
    correlate,
    describe,
    fisher_mean,
    hajek_mean,
    kendall,
    pass_at_k,
    pearson,
    wilson_interval,
)
from ragstone.stats._population import _tie_probability


def test_population_by_hand():
    """Five values of which two sit at the ceiling and one at the floor."""
    found = describe([1.0, 0.0, 0.5, 1.0, 0.25], low=0, high=1)
    assert (5, 0.55, 0.0, 0.0, 0.25, 0.5, 1.0, 1.0) == (
        found.n,
        pytest.approx(found.mean),
        found.geometric_mean,
        found.minimum,
        found.q1,
        found.median,
        found.q3,
        found.maximum,
    )
    assert (0.4, *ends(wilson_interval(2, 5))) == (found.at_high.value, found.at_high.low, found.at_high.high)
    assert 0.2 == found.at_low.value
    assert 2 / 20 == pytest.approx(found.ties)


def test_spread_and_shape_by_hand():
    """Three 0 and one 1: squares of deviations sum to 0.75; m2 = 3/16, m3 = 3/32, m4 = 21/256; the kurtosis is excess."""
    found = describe([0.0, 1.0, 0.0, 0.0], low=0, high=1)
    assert (found.sd, found.skewness, found.kurtosis) == pytest.approx((0.5, 2 / math.sqrt(3), -2 / 3))


def test_population_of_constants_and_of_one_has_no_shape():
    """Skewness and kurtosis of constants are undefined, and so is the spread of one value."""
    assert (None, None) == ((found := describe([0.3, 0.1 + 0.2, 0.3])).skewness, found.kurtosis)
    assert 1.0 == found.ties
    assert (None, None, None) == ((one := describe([0.4])).sd, one.ties, one.skewness)
    assert describe([]) is None


def test_population_without_bounds_or_with_negative_values():
    """No range, no share at it; a negative value has no geometric mean."""
    found = describe([-1.0, 2.0], low=None, high=math.inf)
    assert (None, None, None) == (found.at_low, found.at_high, found.geometric_mean)


def test_ties_are_without_replacement_and_after_rounding():
    """Two of two alike tie for sure; all different never do."""
    assert 1.0 == describe([0.3, 0.1 + 0.2]).ties
    assert 0.0 == describe([0.1, 0.2, 0.3]).ties
    assert 1 / 3 == _tie_probability([1, 1, 0.5])
    assert _tie_probability([1]) is None
    assert 1 / 3 == pytest.approx(describe([0.3, 0.1 + 0.2, 0.4]).ties)


def test_constants_have_no_correlation():
    """Also where rounding makes them look as if they varied."""
    wobbly = [0.1 + 0.2, 0.3, 0.3]
    assert (None, None) == (pearson(wobbly, [1, 2, 3]), pearson([1, 2, 3], wobbly))
    assert (None, None, None) == (kendall([1, 1], [1, 2]), kendall([1], [1]), pearson([1], [1]))


def test_perfect_correlations_decide_the_mean():
    """Z is infinite there; +1 and -1 together have no mean."""
    assert (1, 2) == ((found := fisher_mean([0.2, 1.0])).value, found.n)
    assert fisher_mean([-1.0, 1.0]).value is None


def test_fisher_mean_drops_and_counts_what_is_undefined():
    """None and NaN are in no mean."""
    one = correlate(range(20), [*range(10, 20), *range(10)])
    found = fisher_mean([one.value, None, math.nan, one.value], [one, None, None, one])
    assert (2, 2) == (found.n, found.n_undefined)
    assert (one.value, *ends(one)) == pytest.approx((found.value, found.low, found.high))
    open_ended = replace(one, low=-1.0)
    assert (-1.0, one.high) == pytest.approx(ends(fisher_mean([one.value] * 2, [one, open_ended])))
    both = fisher_mean([0.1, 0.3], [replace(one, value=v, low=v - 0.2, high=1.0) for v in (0.1, 0.3)])
    assert (math.tanh((math.atanh(-0.1) + math.atanh(0.1)) / 2), 1.0) == pytest.approx(ends(both))
    assert (None, 0, 1) == ((none := fisher_mean([None])).value, none.n, none.n_undefined)
    assert None is fisher_mean([0.5, 0.5]).low


def test_weighted_mean_by_hand():
    """Three items of ten each and one of one; the weights have no scale of their own."""
    found = hajek_mean([1.0, 0.0, 1.0, 1.0], [0.1, 1.0, 0.1, 0.1])
    assert 30 / 31 == pytest.approx(found.value)
    same = hajek_mean([1.0, 0.0, 1.0, 1.0], [0.05, 0.5, 0.05, 0.05])
    assert (found.low, found.high) == pytest.approx((same.low, same.high))


def test_equal_values_of_sampled_traffic_are_not_certain():
    """Two sampled items that are right do not make all traffic right."""
    few, uneven = hajek_mean([1.0, 1.0], [0.1, 0.1]), hajek_mean([1.0] * 4, [0.01, 1.0, 1.0, 1.0])
    assert (1.0, 2 / (2 + 1.959964**2), 2) == pytest.approx((few.value, few.low, few.n))
    # One item stands for a hundred, the others for one each: not much more than one is known.
    assert (1.0, 1 / (1 + 1.959964**2), 4) == pytest.approx((uneven.value, uneven.low, uneven.n))
    assert hajek_mean([0.7] * 5, [0.5] * 5).low < 0.5


def test_weighted_estimates_cover_where_the_plain_mean_fails():
    """Bad answers sampled ten times as often: the weighted mean holds the truth, the unweighted mean is far off."""
    rng = np.random.default_rng(6)
    traffic = np.where(rng.random(3000) < 0.2, rng.uniform(0, 0.4, 3000), rng.uniform(0.7, 1, 3000))
    p = np.where(traffic < 0.5, 0.5, 0.05)
    hits, plain = [], []
    for _ in range(400):
        chosen = rng.random(3000) < p
        x, q = traffic[chosen].tolist(), p[chosen].tolist()
        found = hajek_mean(x, q)
        hits.append(found.low <= traffic.mean() <= found.high)
        plain.append(np.mean(x))
    assert 0.92 <= np.mean(hits) <= 0.98
    assert np.mean(plain) < traffic.mean() - 0.2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: describe([math.nan]), "finite"),
        (lambda: pearson([1, 2], [1]), "same length"),
        (lambda: kendall([1, math.nan], [1, 2]), "NaN"),
        (lambda: fisher_mean([2.0]), "2.0"),
        (lambda: fisher_mean([0.5], [None, None]), "1 correlations and 2 intervals"),
        (lambda: hajek_mean([0.5, 0.5], [0.5, 0.0]), "got 0.0"),
        (lambda: hajek_mean([0.5, 1.5], [0.5, 0.5]), "1.5"),
        (lambda: hajek_mean([0.5], [0.5, 0.5]), "1 values and 2"),
        (lambda: hajek_mean([math.inf, 0.5], [0.5, 0.5]), "finite"),
        (lambda: pass_at_k(3, 4, 1), "correct=4"),
        (lambda: pass_at_k(3, 1, 4), "k=4"),
        (lambda: pass_at_k(3, 1, 0), "k=0"),
    ],
)
def test_bad_input_is_refused(call, message):
    """The message names the value."""
    with pytest.raises(ValueError, match=message):
        call()


def test_pass_at_k_of_large_numbers():
    """Whole numbers do not overflow, and the plug-in formula is another number."""
    assert 0.75 == pytest.approx(pass_at_k(10_000, 5_000, 2), abs=1e-4)
    assert 1.0 == pass_at_k(10, 8, 3)
    assert 1 - (1 - 2 / 5) ** 3 < pass_at_k(5, 2, 3)


def test_a_mean_correlation_is_that_of_fishers_z():
    """Of 0.1 and 0.9 it is 0.66, where the plain mean is 0.5."""
    found = fisher_mean([0.1, 0.9])
    assert math.tanh((math.atanh(0.1) + math.atanh(0.9)) / 2) == pytest.approx(found.value)
    assert 0.65 < found.value < 0.67


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_the_scale_of_a_side_does_not_change_a_correlation(scale):
    """Squares of such numbers are 0 or infinite."""
    x = np.array([1.0, 2.0, 5.0, 4.0])
    assert pearson([1, 2, 3, 4], x) == pytest.approx(pearson([1, 2, 3, 4], x * scale))


def test_rounding_does_not_move_a_correlation_out_of_its_range():
    """The products of about every fifth of these lines are a little above 1, or below -1."""
    rng = np.random.default_rng(0)
    lines = [rng.random(5) for _ in range(500)]
    found = [pearson(x, slope * x + 0.1) for x in lines for slope in (3, -3)]
    assert {1.0} == {abs(value) for value in found if abs(value) >= 1}
    assert [1.0, -1.0] * 500 == pytest.approx(found)


def test_values_that_differ_in_the_seventh_decimal_do_not_tie():
    """Nor are they at the end of the range, which a value with a rounding error is."""
    found = describe([0.0, 1e-7, 1 - 1e-7, 1 - 1e-12], low=0, high=1)
    assert (0.25, 0.25, 0.0) == (found.at_low.value, found.at_high.value, found.ties)
