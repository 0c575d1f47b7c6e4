"""Sessions become units when they close: times, weights, the worst trace, and the baseline that is learned from them."""

from __future__ import annotations

import numpy as np
import pytest

from ragstone.store import WatchedOutcome
from ragstone.watch._baseline import LearningUnits
from ragstone.watch._units import segments, to_unit
from watch_tables import KEY

HOUR = 3600.0


def outcome(at, value=0.5, *, p=1.0, trace=None, key=KEY):
    return WatchedOutcome(
        key=key,
        trace_id=trace or f"t{at}",
        session="s",
        requested_at=at,
        value=value,
        probability=p,
        labels={"n": str(at)},
    )


def test_session_closes_after_its_gap():
    """A pause of the gap or more ends a unit, and a shorter one does not."""
    parts = segments([outcome(at) for at in (0.0, 1000.0, 2799.0, 4599.0, 6000.0)], gap_s=1800.0)
    assert [(4599.0, 3), (7800.0, 2)] == [(part.closes_at, len(part.outcomes)) for part in parts]


def test_session_closes_after_four_hours():
    """A session without pauses is divided after four hours."""
    parts = segments([outcome(i * 600.0) for i in range(30)], gap_s=1800.0)
    assert [4 * HOUR, 4 * HOUR + 5 * 600.0 + 1800.0] == [part.closes_at for part in parts]
    assert [24, 6] == [len(part.outcomes) for part in parts]


def test_order_of_arrival_does_not_matter():
    """Outcomes arrive in any order, and their units are the same."""
    rows = [outcome(i * 700.0, value=i / 40) for i in range(40)]
    shuffled = [rows[i] for i in np.random.default_rng(0).permutation(40)]
    assert segments(rows, gap_s=1800.0) == segments(shuffled, gap_s=1800.0)


def test_unit_weighs_by_the_sampling_probability():
    """A request that was sampled with 10% counts ten times, failures are counted apart."""
    unit = to_unit(
        [outcome(0.0, 1.0, p=0.1, trace="a"), outcome(1.0, 0.2, p=0.5, trace="b"), outcome(2.0, None, p=0.25)],
        closed_at=9.0,
        slices=("n",),
    )
    assert unit.value == pytest.approx((10 * 1.0 + 2 * 0.2) / 12)
    assert (12.0, 4.0, 0.25, 0.1) == (unit.weight, unit.failed_weight, unit.failed_share, unit.p_min)
    assert ("b", 0.2, {"n": "0.0"}) == (unit.worst_trace, unit.worst_value, unit.labels)


def test_worst_of_a_metric_for_which_lower_is_better():
    """The worst trace follows the direction of the metric."""
    rows = [outcome(0.0, 0.1, trace="a"), outcome(1.0, 0.9, trace="b")]
    assert "b" == to_unit(rows, closed_at=9.0, higher_is_better=False).worst_trace


def test_unit_of_failures_has_no_value():
    """If all outcomes are failures, the unit has none."""
    unit = to_unit([outcome(0.0, None), outcome(1.0, None)], closed_at=9.0)
    assert (None, 0.0, 1.0) == (unit.value, unit.weight, unit.failed_share)


def days_of(n, days=7):
    return np.arange(n) * days // n


def learn(values, totals, days, **options):
    return LearningUnits(values=values, totals=totals, days=days, **options).learn()


def test_baseline_needs_200_units_and_two_days():
    """Too few units or one day are not a baseline."""
    assert learn(np.full(199, 0.5), np.ones(199), days_of(199)) is None
    assert learn(np.full(400, 0.5), np.ones(400), np.zeros(400, int)) is None
    assert learn(np.full(200, 0.5), np.ones(200), days_of(200)).mean == 0.5


def test_tolerance_is_the_smallest_margin():
    """Without any error the margin is 0.3 of the smallest drop that matters."""
    baseline = learn(np.full(300, 0.8), np.ones(300), days_of(300), min_drop=0.1)
    assert baseline.margin == pytest.approx(0.03)
    assert baseline.reference("drop") == pytest.approx(0.77)
    assert baseline.reference("rise") == pytest.approx(0.83)


def test_error_over_sessions_extends_the_baseline():
    """If 2.58 standard errors exceed the tolerance, more time is needed; at the end the error is the margin."""
    rng = np.random.default_rng(1)
    x = rng.random(400)
    assert learn(x, np.ones(400), days_of(400)) is None
    last = learn(x, np.ones(400), days_of(400), is_last=True)
    assert last.margin >= 2.57 * x.std(ddof=1) / 20 * 0.999


def test_error_between_days_is_measured_with_t():
    """Days that differ make the margin larger than sessions alone do: Student's t with six degrees of freedom."""
    day = days_of(70_000)
    level = np.array([0.8, 0.82, 0.78, 0.81, 0.79, 0.83, 0.77])
    last = learn(level[day], np.ones(day.size), day, is_last=True)
    assert last.margin == pytest.approx(3.707 * level.std(ddof=1) / np.sqrt(7), rel=1e-3)


def test_weights_are_cut_but_never_below_one_request():
    """Few requests with a small probability keep their weight: with a smaller cap a mean of .90 became .081."""
    p = np.where(np.arange(1000) % 20 == 0, 0.01, 1.0)
    x = np.where(p < 1, 0.9, 0.04)
    baseline = learn(x, 1 / p, days_of(1000), p_floor=0.01, is_last=True)
    assert baseline.cap == 1.0
    assert baseline.mean == pytest.approx((50 * 100 * 0.9 + 950 * 0.04) / (5000 + 950))
    assert (1.0, 0.01) == (baseline.weight(100.0), baseline.weight(1.0))


def test_large_sessions_are_cut_at_the_90th_percentile():
    """A session of a thousand requests weighs as much as one at the 90th percentile."""
    total = np.ones(1000)
    total[:150] = 10.0
    total[0] = 1000.0
    baseline = learn(np.full(1000, 0.5), total, days_of(1000))
    assert 10.0 == baseline.cap
    assert (1.0, 1.0, 0.1) == (baseline.weight(1000.0), baseline.weight(10.0), baseline.weight(1.0))


def test_mean_at_the_end_of_the_range_has_no_reference():
    """A mean of nearly 0 cannot fall by more than the tolerance."""
    baseline = learn(np.full(300, 0.01), np.ones(300), days_of(300))
    assert baseline.reference("drop") is None
    assert baseline.reference("rise") == pytest.approx(0.025)
