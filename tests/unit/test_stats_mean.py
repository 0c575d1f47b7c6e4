"""Intervals for means: methods, laws, and figures from elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from intervals import ends
from ragstone.stats import failure_bounds, mean_interval, wilson_interval

scores = st.lists(st.floats(0, 1), min_size=1, max_size=60)


@given(scores)
def test_the_interval_holds_the_mean_and_stays_in_range(values: list[float]) -> None:
    """Whatever the data, 0 <= low <= mean <= high <= 1."""
    estimate = mean_interval(values)

    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert np.mean(values) == pytest.approx(estimate.value)


@given(scores, st.randoms())
def test_the_order_of_the_scores_does_not_matter(values: list[float], random: object) -> None:
    """Scores arrive in completion order, and the answer must not depend on it."""
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    assert mean_interval(values) == mean_interval(shuffled)


@given(scores.filter(lambda v: len(v) < 30))
def test_scale_and_shift_carry_over(values: list[float]) -> None:
    """A metric on [0, 100] has the interval of the same metric on [0, 1], times 100."""
    unit = mean_interval(values)
    hundred = mean_interval([100 * v for v in values], low=0, high=100)

    assert unit.method == hundred.method
    assert (100 * unit.low, 100 * unit.high) == pytest.approx((hundred.low, hundred.high), abs=0.2)


@pytest.mark.parametrize(
    ("values", "method"),
    [
        ([1.0] * 5, "wilson"),
        ([0.0, 1.0] * 50, "wilson"),
        ([0.5], "gaffke"),
        ([0.7] * 100, "gaffke"),
        ([0.2, 0.9] * 5, "gaffke"),
        ([0.2, 0.9] * 50, "student_t"),
        ([0.1] * 5 + [0.9] * 95, "gaffke"),
        ([0.1] * 5 + [0.9] * 4995, "gaffke"),
        ([0.7] * 3000, "gaffke"),
    ],
)
def test_the_method_follows_from_the_data(values: list[float], method: str) -> None:
    """And it is named in the result."""
    assert method == mean_interval(values).method


@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0]), min_size=1, max_size=8),
    st.sampled_from([1, 10, 30]),
    st.lists(st.floats(0.01, 0.999), min_size=2, max_size=2).map(sorted),
    st.sampled_from(["two-sided", "lower", "upper"]),
)
@example([0.9, 0.7, 0.8, 1.0], 10, [0.97, 0.9833], "two-sided")
def test_the_interval_of_a_higher_level_contains_that_of_a_lower_one(values, times, levels, side):
    """A method that depended on the level gave [0.772, 0.887] at 97%, and [0.805, 0.895] at 98.3%."""
    lower, higher = (mean_interval(values * times, confidence_level=level, side=side) for level in levels)

    assert lower.method == higher.method
    assert higher.low <= lower.low + 1e-6
    assert higher.high >= lower.high - 1e-6


@pytest.mark.parametrize("values", [[1.0] * 5, [0.7] * 40, [0.7] * 3000])
def test_equal_scores_are_not_a_certainty(values: list[float]) -> None:
    """A zero-width interval from a finite sample would be a lie."""
    estimate = mean_interval(values)

    assert estimate.high - estimate.low > 0.0009


def test_student_t_agrees_with_scipy() -> None:
    """Golden: `scipy.stats.t.interval`."""
    from scipy import stats

    values = np.random.default_rng(3).uniform(0.3, 0.7, 50)
    expected = stats.t.interval(0.95, 49, loc=values.mean(), scale=stats.sem(values))

    estimate = mean_interval(list(values))

    assert expected == pytest.approx((estimate.low, estimate.high), abs=1e-8)  # the oldest scipy has nine digits


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (10, 10), (81, 263)])
def test_wilson_agrees_with_scipy(k: int, n: int) -> None:
    """Golden: `scipy.stats.binomtest(...).proportion_ci(method="wilson")`."""
    from scipy import stats

    expected = stats.binomtest(k, n).proportion_ci(method="wilson")

    assert (expected.low, expected.high) == pytest.approx(ends(wilson_interval(k, n)), abs=1e-12)


@pytest.mark.parametrize("n", [5, 10, 20])
def test_the_betting_interval_covers_at_small_n(n: int) -> None:
    """On ceiling-heavy scores, where Student's t covers 80 % at n = 10, at least 95 of 100 hold the mean."""
    rng = np.random.default_rng(7)
    truth = 0.85 + 0.15 * 0.5
    hits = 0
    for _ in range(200):
        x = np.where(rng.random(n) < 0.85, 1.0, rng.random(n))
        estimate = mean_interval(list(x))
        hits += estimate.low <= truth <= estimate.high

    assert hits >= 190


def test_scores_at_the_ceiling_are_covered_beyond_small_n() -> None:
    """A drop in three of a hundred: Student's t covers 85 % there at n = 100."""
    rng = np.random.default_rng(8)
    hits = 0
    for _ in range(100):
        x = np.where(rng.random(100) < 0.03, 0.1, 0.95)
        estimate = mean_interval(list(x))
        hits += estimate.low <= 0.03 * 0.1 + 0.97 * 0.95 <= estimate.high

    assert hits >= 95


@pytest.mark.parametrize(
    ("values", "match"),
    [([], "at least one value"), ([0.5, float("nan")], "nan"), ([0.5, 1.2], "1.2"), ([float("inf")], "inf")],
)
def test_what_is_not_a_score_is_refused(values: list[float], match: str) -> None:
    """The message names the value."""
    with pytest.raises(ValueError, match=match):
        mean_interval(values)


def test_failures_bound_the_mean() -> None:
    """Three scores with mean 0.5 and one failure: the mean of four lies in [0.375, 0.625]."""
    assert (0.375, 0.625) == failure_bounds(0.5, 3, 1, low=0, high=1)
    assert (0.0, 1.0) == failure_bounds(None, 0, 2, low=0, high=1)
    with pytest.raises(ValueError, match="at least one"):
        failure_bounds(None, 0, 0, low=0, high=1)


def test_many_equal_values_do_not_overflow():
    """600 times the same score: an interval around it, without a warning from the arithmetic."""
    estimate = mean_interval([0.95] * 600)
    assert estimate.method == "gaffke"
    assert 0.9 < estimate.low < 0.95 < estimate.high < 1.0


def test_without_an_upper_bound_it_is_student_cut_at_the_lower():
    """Golden: `scipy.stats.t.interval` for a ratio; where that reaches below 0, 0 is the end."""
    from scipy import stats

    values = [0.8, 1.4, 0.9, 2.2, 1.1]
    low, high = stats.t.interval(0.9, 4, loc=np.mean(values), scale=stats.sem(values))
    estimate = mean_interval(values, high=math.inf, confidence_level=0.9)
    assert (low, high) == pytest.approx((estimate.low, estimate.high), abs=1e-8)  # the oldest scipy has nine digits
    assert ("student_t", 5) == (estimate.method, estimate.n)
    assert 0.0 == mean_interval([0.01, 5.0], high=math.inf).low
    below = mean_interval([-0.01, -5.0], low=-math.inf, high=0.0)
    assert (0.0, "student_t") == (below.high, below.method)
    assert below.low < -5


@pytest.mark.parametrize("values", [[1.3], [1.3] * 50])
def test_without_a_bound_equal_values_tell_nothing_but_the_range(values):
    """One value has no spread, and equal ones do not rule out a huge one that was not seen."""
    estimate = mean_interval(values, high=math.inf)
    assert (pytest.approx(1.3), 0.0, math.inf, "range") == (
        estimate.value,
        estimate.low,
        estimate.high,
        estimate.method,
    )
    both = mean_interval(values, low=-math.inf, high=math.inf)
    assert (-math.inf, math.inf) == (both.low, both.high)


@pytest.mark.parametrize("bad", [math.inf, math.nan, -0.1])
def test_an_infinite_range_does_not_admit_infinite_values(bad):
    """Infinity is a bound, not a score."""
    with pytest.raises(ValueError, match=repr(bad)):
        mean_interval([1.0, bad], high=math.inf)


def test_a_failure_without_a_bound_leaves_the_mean_without_one():
    """One failure may have any density; none leaves the mean as it is, and 0 times infinity is never worked out."""
    assert (0.5, math.inf) == failure_bounds(1.0, 1, 1, low=0, high=math.inf)
    assert (1.0, 1.0) == failure_bounds(1.0, 3, 0, low=0, high=math.inf)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((1.5, 3, 1, 0, 1), r"\[0, 1\].*got 1.5"),
        ((None, 3, 1, 0, 1), "mean of 3 values.*got None"),
        ((0.5, -3, 1, 0, 1), "n=-3"),
        ((0.5, 3, -1, 0, 1), "n_failed=-1"),
        ((0.5, 3, 1, 1, 0), "low=1 and high=0"),
    ],
)
def test_impossible_counts_and_means_do_not_have_bounds(arguments, match):
    """They returned bounds whose low end was above the high end, such as (1.0, 0.0)."""
    mean, n, n_failed, low, high = arguments
    with pytest.raises(ValueError, match=match):
        failure_bounds(mean, n, n_failed, low=low, high=high)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [((0.5, 3, 1, 0, 1), (0.375, 0.625)), ((0.5, 3, 0, 0, 1), (0.5, 0.5)), ((None, 0, 2, 0, 1), (0.0, 1.0))],
)
def test_failure_bounds_have_named_limits(arguments, found):
    """With failures, without any, and with nothing else: a caller reads `low` and `high`, as of an estimate."""
    mean, n, n_failed, low, high = arguments
    bounds = failure_bounds(mean, n, n_failed, low=low, high=high)
    assert (bounds.low, bounds.high) == found


def test_wilson_reports_its_sample():
    """Count, share, level and method belong to the result, not only its limits."""
    found = wilson_interval(3, 12, confidence_level=0.9)
    assert (found.n, found.value, found.confidence_level, found.method) == (12, 0.25, 0.9, "wilson")
    assert mean_interval([1.0] * 3 + [0.0] * 9, confidence_level=0.9) == found


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_the_limits_of_none_and_of_all_are_the_ends_of_the_range(level: float) -> None:
    """Exactly, for each n up to 300. Rounding would leave 1e-18 or a negative number."""
    for n in range(1, 301):
        none, every = (wilson_interval(k, n, confidence_level=level) for k in (0, n))
        assert (0.0, 1.0) == (none.low, every.high)


def test_a_mean_beyond_the_range_by_rounding_has_bounds() -> None:
    """The mean of ten times 0.1 + 0.2 in a range up to 0.3 exceeds it by 4e-17."""
    mean = 0.1 + 0.2
    assert mean > 0.3
    assert failure_bounds(mean, 10, 10, low=0.0, high=0.3) == pytest.approx((0.15, 0.3))
    with pytest.raises(ValueError, match=r"must be in this range, got 0\.31"):
        failure_bounds(0.31, 10, 10, low=0.0, high=0.3)
