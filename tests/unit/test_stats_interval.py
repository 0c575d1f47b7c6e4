"""Bootstrap intervals: what they do where there is no spread, at the ends, in clusters, and with bad input."""

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


def test_clusters_are_drawn_as_wholes():
    """Ten copies of each of eight values are eight observations, not eighty."""
    values = np.random.default_rng(1).random(8)
    plain = bootstrap_interval(values, seed=3)
    copied = bootstrap_interval(np.repeat(values, 10), clusters=list(np.repeat(list("abcdefgh"), 10)), seed=3)
    naive = bootstrap_interval(np.repeat(values, 10), seed=3)
    assert (pytest.approx(plain.low), pytest.approx(plain.high), 80) == (copied.low, copied.high, copied.n)
    assert naive.high - naive.low < 0.5 * (copied.high - copied.low)


def test_clusters_of_unequal_size_against_brute_force():
    """Each resample has as many clusters as the data, and as many observations as these happen to have."""
    values = np.array([0.1, 0.2, 0.3, 0.9, 0.5, 0.6])
    labels = ["a", "a", "a", "b", "c", "c"]
    parts = [values[:3], values[3:4], values[4:]]
    rng = np.random.default_rng(7)
    means = [np.concatenate([parts[i] for i in rng.integers(0, 3, 3)]).mean() for _ in range(800)]
    found = bootstrap_interval(values, clusters=labels, n_resamples=800, seed=7)
    assert np.quantile(means, [0.025, 0.975]).tolist() == pytest.approx([found.low, found.high], abs=1e-12)


def test_clusters_of_one_are_no_clusters():
    """Labels that are all different change nothing."""
    assert bootstrap_interval(SPREAD) == bootstrap_interval(SPREAD, clusters=range(6))
    assert "range" == bootstrap_interval(SPREAD, clusters=[1] * 6).method


def test_the_mean_is_a_statistic_like_any_other(monkeypatch):
    """The short way for the mean draws what the long way draws, in chunks or not."""
    from ragstone.stats import _bootstrap

    short = bootstrap_interval(SPREAD, seed=2)
    long = bootstrap_interval(SPREAD, lambda x: float(x.mean()), seed=2)
    assert (short.low, short.high) == pytest.approx((long.low, long.high), abs=1e-12)
    monkeypatch.setattr(_bootstrap, "_CELLS", 10)
    assert short == bootstrap_interval(SPREAD, seed=2)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: bootstrap_interval([]), "at least one observation"),
        (lambda: bootstrap_interval([0.5, math.inf]), "got inf"),
        (lambda: bootstrap_interval([0.5, 0.6], clusters=[1]), "2 observations and 1 labels"),
        (lambda: bootstrap_interval([0.5, 0.6], n_resamples=0), "n_resamples=0"),
        (lambda: bootstrap_interval([0.5, 0.6], confidence_level=1.0), "level=1.0"),
    ],
)
def test_bad_input_is_named(call, match):
    """The message has the value."""
    with pytest.raises(ValueError, match=match):
        call()
