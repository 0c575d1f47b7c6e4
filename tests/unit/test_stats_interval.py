"""Bootstrap intervals: what they do where there is no spread, at the ends, and with bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ragstone.stats import bootstrap_interval

SPREAD = [0.2, 0.4, 0.9, 0.5, 0.7, 0.4]


@pytest.mark.parametrize("values", [[0.7], [0.7] * 40])
def test_no_spread_means_no_interval_but_the_range(values):
    """Zero width would be a lie: nothing is known but what values are possible."""
    found = bootstrap_interval(values, low=0.0, high=1.0)
    assert (pytest.approx(0.7), 0.0, 1.0, "range", len(values)) == (
        found.value, found.low, found.high, found.method, found.n
    )  # fmt: skip
    unbounded = bootstrap_interval(values)
    assert (-math.inf, math.inf) == (unbounded.low, unbounded.high)


def test_intervals_are_cut_at_the_range():
    """A sum of squares above 1 is not possible where its range ends there."""
    rows = [0.2, 1.0, 1.0, 1.0]
    found = bootstrap_interval(rows, lambda x: float(2 * x.mean() - 0.75), low=0.0, high=1.0)
    assert found.high == 1.0 < bootstrap_interval(rows, lambda x: float(2 * x.mean() - 0.75)).high
    assert "percentile" == found.method


def test_undefined_resamples_are_left_out():
    """A ratio whose denominator may be 0 in a resample: its interval is over the others, and never NaN."""

    def ratio(rows):
        top, bottom = rows.sum(axis=0)
        return top / bottom if bottom else math.nan

    rows = [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0], [0.0, 1.0]]
    found = bootstrap_interval(rows, ratio, n_resamples=400)
    assert (0.5, 0.0, 1.0) == (found.value, found.low, found.high)
    with pytest.raises(ValueError, match="undefined for these observations"):
        bootstrap_interval(rows[1:3], ratio)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: bootstrap_interval([]), "at least one observation"),
        (lambda: bootstrap_interval([0.5, math.inf]), "got inf"),
        (lambda: bootstrap_interval([0.5, 0.6], n_resamples=0), "n_resamples must be at least 1, got 0"),
        (lambda: bootstrap_interval([0.5, 0.6], confidence_level=1.0), "confidence_level must be in .*got 1.0"),
    ],
)
def test_bad_input_is_named(call, match):
    """The message has the value."""
    with pytest.raises(ValueError, match=match):
        call()


def test_the_interval_of_a_mean_has_the_width_of_normal_errors():
    """Of 400 values: 1.96 standard errors on each side at 95%, 1.28 at 80%. Quantiles of resamples vary by 3%."""
    x = np.linspace(0, 1, 400)
    for level, errors in ((0.95, 1.96), (0.8, 1.2816)):
        found = bootstrap_interval(x, confidence_level=level)
        assert found.high - found.low == pytest.approx(2 * errors * x.std() / 20, rel=0.08)


def test_an_interval_contains_its_value():
    """No resample of 30 different values has 30 different ones, so that all resamples are on one side."""
    x = np.arange(30.0)
    most = bootstrap_interval(x, lambda drawn: float(np.unique(drawn).size))
    least = bootstrap_interval(x, lambda drawn: -float(np.unique(drawn).size))
    assert most.low < most.value == most.high == 30
    assert least.high > least.value == least.low == -30
