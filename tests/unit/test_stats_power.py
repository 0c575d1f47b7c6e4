"""Power and sample size: figures from tables, ends, and what is refused."""

from __future__ import annotations

import math

import pytest

from ragstone.stats import detectable_difference, paired_power, proportion_sample_size, sample_size


@pytest.mark.parametrize(("d", "expected"), [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_sample_sizes_of_the_textbook(d, expected):
    """Small, medium and large effects at 80 % power, two-sided 5 %: 199, 34 and 15 pairs (Cohen's conventions)."""
    assert expected == sample_size(d * 0.3, 0.3)


def test_nothing_to_find_is_found_as_often_as_by_chance():
    """Power at a difference of 0 is the significance level; against the claimed direction it is less."""
    assert 0.05 == pytest.approx(paired_power(0, 1, 20))
    assert 0.05 == pytest.approx(paired_power(0, 1, 20, two_sided=False))
    assert paired_power(-0.5, 1, 20, two_sided=False) < 0.001
    assert paired_power(-0.5, 1, 20) == pytest.approx(paired_power(0.5, 1, 20))


@pytest.mark.parametrize("n", [2, 3, 30, 10_000, 10**7])
@pytest.mark.parametrize("difference", [1e-6, 0.1, 3.0, 50.0, 1e6])
def test_power_is_a_probability_however_large_the_numbers(n, difference):
    """Where series give NaN."""
    assert 0.05 - 1e-9 <= paired_power(difference, 1.0, n) <= 1.0
    assert 0.0 <= paired_power(-difference, 1.0, n, two_sided=False) <= 0.05 + 1e-9


def test_two_samples_are_the_least():
    """Even a certain difference needs two, to know that it varies."""
    assert 2 == sample_size(1e9, 1.0)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: paired_power(0.1, 0.0, 10), "standard deviation"),
        (lambda: paired_power(0.1, math.nan, 10), "standard deviation"),
        (lambda: paired_power(0.1, 1, 1), "n=1"),
        (lambda: paired_power(math.inf, 1, 9), "difference=inf"),
        (lambda: paired_power(0.1, 1, 9, level=1), "level"),
        (lambda: sample_size(0.0, 1), "not 0"),
        (lambda: sample_size(0.1, 1, power=1.0), "power=1.0"),
        (lambda: sample_size(0.1, 1, power=0.04), "power=0.04"),
        (lambda: sample_size(1e-9, 1), "more than"),
        (lambda: detectable_difference(10, 1, power=0.05), "power"),
        (lambda: detectable_difference(10, -1), "standard deviation"),
        (lambda: detectable_difference(1, 1), "n=1"),
        (lambda: proportion_sample_size(1.1, 0.1), "p=1.1"),
        (lambda: proportion_sample_size(0.5, 0.5), "half_width=0.5"),
        (lambda: proportion_sample_size(0.5, 0.1, level=0), "level=0"),
    ],
)
def test_bad_input_is_named(call, match):
    """The message has the value."""
    with pytest.raises(ValueError, match=match):
        call()


def test_few_samples_cost_degrees_of_freedom():
    """Five pairs one standard deviation apart: power 0.401, as statsmodels has it."""
    assert 0.40139 == pytest.approx(paired_power(1.0, 1.0, 5), abs=1e-6)
