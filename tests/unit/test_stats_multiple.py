"""Holm and discriminative power, worked out by hand."""

from __future__ import annotations

import math

import pytest

from ragstone.stats import discriminative_power, holm


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
