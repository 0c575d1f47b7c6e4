"""Holm and discriminative power, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ragstone import stats
from ragstone.stats import discriminative_power, holm
from ragstone.stats._independent import step_down


def test_holm_worked_out_by_hand():
    """Four hypotheses: 4 p, 3 p, 2 p and p from the smallest up, never below one before."""
    found = holm([0.02, 0.01, 0.03, 0.005])
    assert (0.04, 0.03, 0.04, 0.02) == pytest.approx(found.adjusted)
    assert (True, True, True, True) == found.rejected
    assert (False, False, False, True) == holm([0.02, 0.01, 0.03, 0.005], confidence_level=0.98).rejected


def test_what_could_not_be_tested_stays_in_the_family():
    """It counts as 1, it is never rejected, and it makes no other easier to reject."""
    for missing in (None, math.nan):
        found = holm([0.02, missing, 0.03])
        assert (pytest.approx(0.06), 1.0, pytest.approx(0.06)) == found.adjusted
        assert (False, False, False) == found.rejected
        assert 1 == found.n_untestable


def test_what_equals_the_limit_is_rejected():
    """Although 1 - 0.95 is a bit more than 0.05 in binary, and 1 - 0.9 a bit less than 0.1."""
    assert (True,) == holm([0.1], confidence_level=0.9).rejected
    assert (True,) == holm([0.05]).rejected
    assert (False,) == holm([0.0500001]).rejected
    assert (True, True) == holm([0.025, 0.05]).rejected


def test_an_empty_family_has_nothing_to_reject():
    """No hypotheses, no result, no error: a loop over metrics may have none left."""
    assert ((), ()) == (holm([]).adjusted, holm([]).rejected)


def test_discriminative_power_counts_all_pairs():
    """Strictly below the significance level; what could not be tested is in the denominator, at the end of the curve, and reported."""
    found = discriminative_power([0.05, 0.049, None, 0.2, math.nan])
    assert (0.2, 1, 5, 2) == (found.value, found.n_significant, found.n_pairs, found.n_untestable)
    assert (0.049, 0.05, 0.2, 1.0, 1.0) == found.asl


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: holm([0.1, 1.2]), "1.2"),
        (lambda: holm([-0.1]), "-0.1"),
        (lambda: holm([0.1], confidence_level=1), "level"),
        (lambda: discriminative_power([]), "at least one pair"),
        (lambda: discriminative_power([2.0]), "2.0"),
        (lambda: discriminative_power([0.2], confidence_level=1), "level"),
    ],
)
def test_bad_input_is_named(call, match):
    """The message has the value."""
    with pytest.raises(ValueError, match=match):
        call()


def test_a_table_that_is_rejected_no_longer_counts():
    """Two tables by hand: the second one is compared with both first, and then with its own permutations."""
    a = np.arange(100) / 100
    assert [[0.02], [0.05]] == step_down([a, a[::-1]], [[0.99], [0.95]], extra=0)
    # The order is that of the statistics, not that of the tables.
    assert [[0.05], [0.02]] == step_down([a[::-1], a], [[0.95], [0.99]], extra=0)
    assert [[3 / 101], [1.0]] == step_down([a, a[::-1]], [[0.99], [None]], extra=1)


def test_a_later_step_is_not_below_an_earlier_one():
    """Three tables whose own p-values are 5, 1 and 2%: the first one is the hurdle of all."""
    tables = [np.zeros(100) for _ in range(3)]
    tables[0][:5], tables[1][10], tables[2][20:22] = 10, 9, 8
    assert [[0.05]] * 3 == step_down(tables, [[10], [9], [8]], extra=0)


def test_power_of_untestable_pairs_is_not_known():
    """It was 0.000, as if no pair differed."""
    assert discriminative_power([None, math.nan]).value is None
    assert 0.0 == discriminative_power([None, 0.2]).value


def test_results_hold_plain_numbers():
    """A number of numpy would be shown as "np.float64(...)" in a notebook."""
    import numpy as np

    x, y = np.random.default_rng(1).random((2, 30))
    results = [
        stats.mean_interval(x), stats.mean_interval(x[:9]), stats.bootstrap_interval(x), stats.hajek_mean(x, clusters=[*range(15)] * 2),
        stats.correlate(x, y), stats.correlate(x.round(), y.round(), "kendall"), stats.describe(x, low=0, high=1),
        stats.compare_groups(x, y, n_resamples=50), stats.drawn_prediction_powered_mean(x, y, [1.0] * len(y)), stats.holm(x[:3] / 9),
        stats.kendall_of_means(np.stack([x, y], 1), np.stack([y, x], 1)), stats.design_effect(x, [*range(15)] * 2),
        stats.simultaneous_differences([np.stack([x, y], 1)], n_resamples=50), discriminative_power(list(x[:3])),
    ]  # fmt: skip
    assert not [result for result in results if "np." in repr(result)]
