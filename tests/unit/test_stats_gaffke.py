"""Gaffke's limits with the mid-p rule: proportions, a simulation of the definition, coverage, and one-sided intervals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from ragstone.stats import mean_interval
from ragstone.stats._gaffke import gaffke_cdf, gaffke_limit


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (10, 10), (85, 100), (999, 1000)])
@pytest.mark.parametrize("tail", [0.005, 0.025, 0.05])
def test_proportions_have_the_mid_p_limits(k, n, tail):
    """Golden: the probabilities of more successes and half of that of as many, from `scipy.stats.binom`."""
    from scipy.stats import binom

    x = np.array([1.0] * k + [0.0] * (n - k))
    low, high = gaffke_limit(x, tail), gaffke_limit(x, 1 - tail)
    if k:
        assert binom.sf(k, n, low) + binom.pmf(k, n, low) / 2 == pytest.approx(tail, rel=0.06)
    else:
        assert low == 0
    if k < n:
        assert binom.cdf(k, n, high) - binom.pmf(k, n, high) / 2 == pytest.approx(tail, rel=0.06)
    else:
        assert high == 1


@pytest.mark.parametrize("n", [2, 10, 50])
@pytest.mark.parametrize("kind", ["uniform", "ceiling", "narrow"])
def test_the_distribution_is_that_of_random_weights(n, kind):
    """Golden: 200,000 simulated means with exponential weights and an additional value of 0 or 1."""
    rng = np.random.default_rng(n)
    x = {
        "uniform": rng.random(n),
        "ceiling": np.where(rng.random(n) < 0.7, 1.0, rng.random(n)),
        "narrow": 0.9 + 0.01 * rng.random(n),
    }[kind]
    weights = rng.exponential(size=(200_000, n + 1))
    additional = rng.random(200_000) < 0.5
    means = (weights[:, :n] @ x + weights[:, n] * additional) / weights.sum(axis=1)
    values, counts = np.unique(x, return_counts=True)
    for m in np.quantile(means, [0.01, 0.025, 0.3, 0.7, 0.975, 0.99]):
        if x.max() == m:
            continue
        assert gaffke_cdf(values, counts, float(m)) == pytest.approx(float((means <= m).mean()), abs=0.012)


def test_the_center_is_continuous():
    """The saddlepoint formula is singular at the center, where a limit replaces it."""
    x = np.array([0.1, 0.4, 0.45, 0.8, 0.9])
    values, counts = np.unique(x, return_counts=True)
    centers = [(x.sum() + additional) / 6 for additional in (0, 1)]
    for center in centers:
        near = [gaffke_cdf(values, counts, center + i * 2e-5) for i in range(-30, 31)]
        assert all(0 < b - a < 1e-4 for a, b in itertools.pairwise(near))


def test_limits_follow_the_values_and_the_tail():
    """Larger values have larger limits, a larger tail too, and mirrored values mirrored limits."""
    rng = np.random.default_rng(2)
    for n in (1, 4, 40):
        x = rng.random(n)
        tails = (0.001, 0.025, 0.2, 0.5, 0.9, 0.999)
        limits = [gaffke_limit(x, tail) for tail in tails]
        assert limits == sorted(limits)
        assert all(gaffke_limit(np.minimum(x + 0.05, 1), t) >= limit for t, limit in zip(tails, limits, strict=True))
        for tail, limit in zip(tails, limits, strict=True):
            assert limit == pytest.approx(1 - gaffke_limit(1 - x, 1 - tail), abs=1e-6)


def rare(rng, n):
    return np.where(rng.random(n) < 0.03, 0.0, 0.9 + 0.1 * rng.random(n))


def three(rng, n):
    return rng.choice([0.0, 0.5, 1.0], p=[0.05, 0.15, 0.8], size=n)


def ceiling(rng, n):
    return np.where(rng.random(n) < 0.85, 1.0, rng.random(n))


def smooth(rng, n):
    return rng.beta(4, 2, n)


@pytest.mark.parametrize(
    ("draw", "mean"),
    [(rare, 0.97 * 0.95), (three, 0.875), (ceiling, 0.925), (smooth, 4 / 6)],
    ids=lambda v: str(v)[:14],
)
@pytest.mark.parametrize(("n", "widest"), [(10, 0.40), (30, 0.21), (100, 0.12)])
def test_intervals_cover_and_are_narrow(draw, mean, n, widest):
    """At least 94% of 400 intervals contain the mean, less three standard errors; the betting interval was 0.48 wide."""
    rng = np.random.default_rng(n)
    found = [mean_interval(draw(rng, n)) for _ in range(400)]
    assert sum(e.low <= mean <= e.high for e in found) / 400 >= 0.94 - 3 * 0.012
    assert sum(e.high - e.low for e in found) / 400 < widest


def test_rare_values_do_not_have_students_interval():
    """Scores without a low one, although 3 in 100 are: one more value of 0 would move the mean by the interval's width."""
    x = np.linspace(0.9, 1.0, 30)
    found = mean_interval(x)
    assert ("gaffke", True) == (found.method, found.low < 0.9)
    assert "student_t" == mean_interval(np.linspace(0.2, 1.0, 30)).method


def test_two_sided_intervals_have_half_of_the_error_on_each_side():
    """The limits are those of the two tails, and mirrored values have the mirrored interval."""
    x = np.array([0.2, 0.9, 1.0, 0.7, 1.0, 0.4])
    found, mirrored = mean_interval(x, confidence_level=0.8), mean_interval(1 - x, confidence_level=0.8)
    assert (gaffke_limit(x, 0.1), gaffke_limit(x, 0.9)) == pytest.approx((found.low, found.high))
    assert (found.low, found.high) == pytest.approx((1 - mirrored.high, 1 - mirrored.low), abs=1e-6)


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_one_sided_intervals_have_the_whole_error_on_one_side(side):
    """Gaffke's limit is without the mid-p rule, because a gate's error must not exceed the level for any n."""
    values = [0.2, 0.9, 1.0, 0.7, 1.0, 0.4]
    one = mean_interval(values, low=-1, high=2, side=side)
    limit = -1 + 3 * gaffke_limit((np.array(values) + 1) / 3, 0.05 if side == "lower" else 0.95, mid_p=False)
    assert "gaffke" == one.method
    assert ((limit, 2.0) if side == "lower" else (-1.0, limit)) == pytest.approx((one.low, one.high))
    wider = mean_interval(values, low=-1, high=2, confidence_level=0.9)
    assert one.low < wider.low if side == "lower" else one.high > wider.high


@pytest.mark.parametrize(("k", "n"), [(11, 11), (18, 20), (9, 10), (99, 120), (290, 300)])
def test_one_sided_limits_of_a_proportion_are_those_of_clopper_and_pearson(k, n):
    """Golden: `scipy.stats.beta.ppf`. With the mid-p rule, 11 successes of 11 would show 0.8 with an error of 8.6%."""
    from scipy.stats import beta

    values = [1.0] * k + [0.0] * (n - k)
    assert beta.ppf(0.05, k, n - k + 1) == pytest.approx(mean_interval(values, side="lower").low, abs=2e-3)
    upper = 1.0 if k == n else beta.ppf(0.95, k + 1, n - k)
    assert upper == pytest.approx(mean_interval(values, side="upper").high, abs=2e-3)


def test_one_sided_intervals_use_students_t_for_many_values_with_little_skewness():
    """The conditions are stricter than for two limits, where the errors of both sides cancel."""
    even, skewed = np.linspace(0.2, 0.8, 200), np.linspace(0.01, 1.0, 200) ** 0.2
    assert ["student_t", "gaffke", "gaffke"] == [
        mean_interval(x, side="lower").method for x in (even, even[1:], skewed)
    ]
    assert "student_t" == mean_interval(skewed).method


def test_one_sided_intervals_without_a_bound():
    """Golden: `scipy.stats.t.ppf`; the other end is the bound of the range, which may be infinite."""
    from scipy import stats

    values = [0.8, 1.4, 0.9, 2.2, 1.1]
    lower = mean_interval(values, high=math.inf, side="lower")
    expected = np.mean(values) - stats.t.ppf(0.95, 4) * stats.sem(values)
    assert (pytest.approx(expected), math.inf) == (lower.low, lower.high)
    assert 0.0 == mean_interval(values, high=math.inf, side="upper").low
    with pytest.raises(ValueError, match='"two-sided", "lower" or "upper", got \'both\''):
        mean_interval(values, high=math.inf, side="both")


def test_thousands_of_values():
    """Distinct values need no simulation and no table: the interval is close to the normal one."""
    x = np.random.default_rng(1).beta(9, 1, 5000)
    low, high = gaffke_limit(x, 0.025), gaffke_limit(x, 0.975)
    half = 1.96 * x.std() / math.sqrt(x.size)
    assert (x.mean() - half, x.mean() + half) == pytest.approx((low, high), abs=0.0006)
