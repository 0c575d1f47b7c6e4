"""Proportions from draws that stopped early: bias and coverage by enumeration of all stopping points."""

from __future__ import annotations

import itertools
import math

import pytest

from ragstone.judges._abstention.draws import _BATCH, _continues, _least_draws, _stopped
from ragstone.stats import stopped_proportion, stopping_paths

DESIGNS = [(20, 0.4, 0.95), (60, 0.4, 0.95), (100, 0.2, 0.95), (30, 0.4, 0.8)]


def looks_of(max_draws, width, level):
    """Numbers of draws at which the sampler applies its rule."""
    first = _least_draws(max_draws, width, level)
    return (*range(first, max_draws, _BATCH), max_draws)


def enumerate_points(max_draws, width, level):
    """Probability functions and estimates of all stopping points of the sampler's rule."""
    looks = looks_of(max_draws, width, level)
    paths = stopping_paths(looks, lambda s, n: _continues(s, n, width, level))
    return [(s, n, every, _stopped(s, n, looks, width, level)) for (s, n), (every, _) in paths.items()]


def probability(p, successes, n, ways):
    return float(ways) * p**successes * (1 - p) ** (n - successes)


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_the_estimate_is_unbiased(design):
    """The expected value over all stopping points is p. The share of successes has 0.035 instead of 0.05."""
    points = enumerate_points(*design)
    for p in (0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 0.95):
        assert 1 == pytest.approx(sum(probability(p, s, n, ways) for s, n, ways, _ in points), abs=1e-9)
        assert p == pytest.approx(sum(probability(p, s, n, ways) * e.value for s, n, ways, e in points), abs=1e-9)
    share = sum(probability(0.05, s, n, ways) * s / n for s, n, ways, _ in points)
    assert share < 0.045


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_the_interval_covers_at_every_proportion(design):
    """Exact coverage is at least the confidence level, also at the limits themselves, where it is lowest."""
    points = enumerate_points(*design)
    level = design[2]
    ends = {end for *_, e in points for end in (e.low, e.high)}
    grid = {i / 200 for i in range(1, 200)} | {end + d for end in ends for d in (-1e-9, 1e-9) if 0 < end + d < 1}
    covers = [sum(probability(p, s, n, w) for s, n, w, e in points if e.low <= p <= e.high) for p in grid]
    assert level - 1e-9 <= min(covers)
    # Not by being as wide as possible: on average the coverage is close to the level.
    assert sum(covers) / len(covers) < level + (1 - level) * 0.8


def test_one_look_is_the_interval_of_clopper_and_pearson():
    """Golden: `scipy.stats.binomtest(...).proportion_ci(method="exact")`, and the share of successes."""
    from scipy import stats

    paths = stopping_paths([12], lambda _successes, _n: False)
    for k in range(13):
        found = stopped_proportion(k, 12, paths, confidence_level=0.9)
        expected = stats.binomtest(k, 12).proportion_ci(0.9, method="exact")
        assert (k / 12, expected.low, expected.high) == pytest.approx((found.value, found.low, found.high), abs=1e-9)


def test_paths_by_hand():
    """Stop after two equal draws, else after three."""
    paths = stopping_paths([2, 3], lambda s, _n: s == 1)
    assert {(0, 2): (1, 0), (2, 2): (1, 1), (1, 3): (2, 1), (2, 3): (2, 1)} == dict(paths)
    assert 0.5 == stopped_proportion(1, 3, paths).value


def test_intervals_follow_the_estimates():
    """A larger estimate has larger limits, and failures instead of successes give the mirrored interval."""
    looks = looks_of(20, 0.4, 0.95)
    points = sorted((e for *_, e in enumerate_points(20, 0.4, 0.95)), key=lambda e: e.value)
    assert all(a.low <= b.low and a.high <= b.high for a, b in itertools.pairwise(points))
    one, other = _stopped(1, 20, looks, 0.4, 0.95), _stopped(19, 20, looks, 0.4, 0.95)
    assert (one.value, one.low, one.high) == pytest.approx((1 - other.value, 1 - other.high, 1 - other.low))
    assert (0.0, 1.0) == (_stopped(0, 10, looks, 0.4, 0.95).low, _stopped(10, 10, looks, 0.4, 0.95).high)


def test_impossible_points_are_refused():
    """With the numbers in the message."""
    paths = stopping_paths([2, 3], lambda s, _n: s == 1)
    with pytest.raises(ValueError, match="1 successes in 2 draws"):
        stopped_proportion(1, 2, paths)
    with pytest.raises(ValueError, match=r"got 1\.5"):
        stopped_proportion(2, 2, paths, confidence_level=1.5)
    for looks in ([], [0, 3], [3, 3]):
        with pytest.raises(ValueError, match="ascending order"):
            stopping_paths(looks, lambda _s, _n: True)


def test_long_designs_do_not_overflow():
    """The number of sequences has hundreds of digits."""
    paths = stopping_paths([1100], lambda _s, _n: False)
    found = stopped_proportion(550, 1100, paths)
    assert (0.5, 0.06) == (found.value, pytest.approx(found.high - found.low, abs=0.002))
    assert math.isfinite(found.low)
