"""A stream learns, watches, alarms and recovers; its state is small and continues exactly."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from ragstone.settings import Watch
from ragstone.stats import AlarmBudget
from ragstone.store import Unit
from ragstone.watch._options import Scale
from ragstone.watch._stream import Stream
from watch_tables import DAY_S, KEY

UNIT_SCALE = Scale(low=0.0, high=1.0)


class Feed:
    """A stream with its budget and its stored units."""

    def __init__(self, *, kind="score", scale=UNIT_SCALE, options=None, seed=0):
        self.stream = Stream(KEY, kind, scale, start=0.0)
        self.options = options or Watch()
        self.budget = AlarmBudget(1.0, start=0.0)
        self.units, self.events = [], []
        self.rng = np.random.default_rng(seed)
        self.day = 0.0
        self.worst = 0.67

    def add(self, value, *, p=1.0, repeated=False, failed=0.0, days=0.005):
        self.day += days
        unit = Unit(
            session=str(len(self.units)),
            closed_at=self.day * DAY_S,
            value=value,
            weight=(1 - failed) / p,
            failed_weight=failed / p,
            p_min=p,
            gap_s=3600.0 if repeated else None,
        )
        self.units.append(unit)
        event = self.stream.update(
            unit,
            budget=self.budget,
            n_active=1,
            options=self.options,
            amounts=lambda a, b: [u.amounts for u in self.units if a <= u.closed_at <= b],
        )
        if event == "alarm":
            # What a fold does with the estimates of the alarm.
            self.stream.open_alarm(before=0.8, after=self.worst + 0.03, worst=self.worst, options=self.options)
        if event:
            self.events.append((event, round(self.day, 2)))
        return event

    def days(self, n, mean, *, sd=0.05, per_day=200, **kw):
        for _ in range(int(n * per_day)):
            self.add(float(np.clip(self.rng.normal(mean, sd), 0, 1)), days=1 / per_day, **kw)
        return self


def needed(feed, options):
    return feed.stream.units_needed([unit.amounts for unit in feed.units], options)


@pytest.mark.parametrize("kind", ["score", "failures"])
@pytest.mark.parametrize("higher_is_better", [True, False])
def test_baseline_is_that_of_the_values_of_its_units(kind, higher_is_better):
    """Learning reads only numbers of units. Mean and weights are those of `value_of` and `watches` of whole units."""
    rng = np.random.default_rng(8)
    stream = Stream(KEY, kind, Scale(low=-5.0, high=15.0, higher_is_better=higher_is_better), start=0.0)
    units = [
        Unit(
            session=str(i),
            closed_at=i * 7 * DAY_S / 400,
            # Some scores are outside the range by an error of a metric, and some units only have failures.
            value=None if i % 9 == 0 else float(rng.normal(5, 8)),
            weight=0.0 if i % 9 == 0 else float(rng.integers(1, 4)),
            failed_weight=1.0 if i % 9 == 0 else float(rng.integers(0, 2)),
            p_min=0.5,
        )
        for i in range(400)
    ]
    mine = [unit for unit in units if stream.watches(unit)]
    assert len(mine) == (400 if kind == "failures" else 355)
    stream.learn_from(0.0, 28 * DAY_S, Watch(), lambda a, b: [u.amounts for u in units if a <= u.closed_at <= b])
    pairs = [stream.value_of(unit) for unit in mine]
    weights = [stream.baseline.weight(total) for _, total in pairs]
    expected = np.average([x for x, _ in pairs], weights=weights)
    assert (len(mine), 7, 0.5) == (stream.baseline.n, stream.baseline.days, stream.baseline.p_floor)
    assert stream.baseline.mean == pytest.approx(expected)


def test_the_unit_that_ends_the_week_is_not_of_the_baseline():
    """It is the first one that is watched."""
    stream = Stream(KEY, "score", Scale(low=0.0, high=1.0), start=0.0)
    units = [Unit(session=str(i), closed_at=i * DAY_S / 40, value=0.8, weight=1.0) for i in range(281)]
    assert 7 * DAY_S == units[-1].closed_at
    stream.learn_from(0.0, 7 * DAY_S, Watch(), lambda a, b: [u.amounts for u in units if a <= u.closed_at <= b])
    assert 280 == stream.baseline.n


def test_learns_seven_days_then_watches():
    """Before seven full days nothing can alarm, and the reference is the tolerance below the mean."""
    feed = Feed().days(6.9, 0.8)
    assert "learning" == feed.stream.phase
    feed.days(0.2, 0.8)
    assert "watching" == feed.stream.phase
    assert feed.stream.reference == pytest.approx(0.785, abs=0.002)
    assert 7 == feed.stream.baseline.days


def test_noisy_stream_learns_longer_but_not_more_than_28_days():
    """If the error is too large after seven days, the baseline is extended by weeks, to the 28th day."""
    feed = Feed().days(14.5, 0.5, sd=0.35, per_day=30)
    assert "learning" == feed.stream.phase
    feed.days(14, 0.5, sd=0.35, per_day=30)
    assert "watching" == feed.stream.phase
    assert (28, 28) == (feed.stream.learn_days, feed.stream.baseline.days)
    assert feed.stream.baseline.margin > 0.015


def test_needed_units_are_the_rest_of_200_then_those_of_the_tolerance():
    """With them the baseline is learned at the end of its week, and not with one less."""
    feed = Feed().days(5, 0.8, per_day=20)
    assert 100 == needed(feed, feed.options)
    feed.days(1.99, 0.8, per_day=49)
    more = needed(feed, feed.options)
    assert 200 == len(feed.units) + more
    for _ in range(more - 1):
        feed.add(0.8, days=1e-6)
    feed.add(0.8, days=0.1)
    assert 7 * DAY_S < feed.units[-1].closed_at
    # The last one is in the second week, so one is missing in the first.
    assert ("learning", 14) == (feed.stream.phase, feed.stream.learn_days)
    feed = Feed().days(6.99, 0.8, per_day=90)
    assert 0 == needed(feed, feed.options)
    feed.add(0.8, days=0.02)
    assert ("watching", None) == (feed.stream.phase, needed(feed, feed.options))


def test_needed_units_of_a_noisy_stream():
    """The error is inversely proportional to the root of the number; after the longest time only 200 are needed."""
    feed = Feed().days(14.5, 0.5, sd=0.2, per_day=30)
    sd = np.std([unit.value for unit in feed.units])
    assert needed(feed, feed.options) == pytest.approx((2.576 * sd / 0.015) ** 2 - 435, abs=5)
    wide = Watch(min_drop=0.1)
    assert 0 <= needed(feed, wide) < 200
    feed = Feed().days(27, 0.5, sd=0.35, per_day=4)
    assert (28, 92) == (feed.stream.learn_days, needed(feed, feed.options))


def test_drop_alarms_once_and_recovery_closes_it():
    """One alarm for one drop, also if it lasts; the return to the reference is reported."""
    feed = Feed().days(8, 0.8)
    feed.days(4, 0.7)
    assert ["alarm"] == [event for event, _ in feed.events if event != "follow_up"]
    assert "alarm" == feed.stream.phase
    feed.days(4, 0.8)
    assert ["alarm", "follow_up", "recovered"] == [event for event, _ in feed.events]
    assert "watching" == feed.stream.phase
    feed.days(20, 0.8)
    assert 3 == len(feed.events)


def test_follow_up_is_due_after_150_units():
    """The size is estimated again from 150 units that did not decide."""
    feed = Feed().days(8, 0.8).days(3, 0.7)
    (_, alarm), (event, day) = feed.events
    assert ("follow_up", pytest.approx(alarm + 150 / 200, abs=0.011)) == (event, day)


def test_further_drop_alarms_again():
    """While an alarm is open, a fall of another `min_drop` raises the next one."""
    feed = Feed().days(8, 0.8)
    feed.worst = 0.74
    feed.days(1, 0.75)
    assert feed.stream.detector.reference == pytest.approx(0.69)
    assert feed.stream.recovery.reference == pytest.approx(0.785, abs=0.003)
    feed.days(2, 0.72)
    assert 1 == [e for e, _ in feed.events].count("alarm")
    feed.worst = 0.55
    feed.days(2, 0.6)
    assert 2 == [e for e, _ in feed.events].count("alarm")


def test_failures_are_watched_for_a_rise():
    """A stream of failures alarms if they rise, and not if they vanish."""
    feed = Feed(kind="failures")
    for i in range(1600):
        feed.add(0.8, failed=float(i % 33 == 0))
    assert "watching" == feed.stream.phase
    assert feed.stream.reference == pytest.approx(1 / 33 + 0.015, abs=0.002)
    for _ in range(800):
        feed.add(0.8, failed=0.0)
    assert [] == feed.events
    for i in range(800):
        feed.add(0.8, failed=float(i % 8 == 0))
    assert "alarm" == feed.events[0][0]


def test_lower_is_better_is_watched_for_a_rise():
    """A metric with lower values for better answers, in another range."""
    feed = Feed(scale=Scale(low=0.0, high=100.0, higher_is_better=False))
    for _ in range(1600):
        feed.add(float(np.clip(feed.rng.normal(20, 5), 0, 100)))
    assert feed.stream.reference == pytest.approx(0.215, abs=0.003)
    for _ in range(400):
        feed.add(5.0)
    assert [] == feed.events
    for _ in range(400):
        feed.add(40.0)
    assert ["alarm"] == [event for event, _ in feed.events][:1]


def test_target_is_the_reference_from_the_first_unit():
    """A target needs no learning; a new target replaces the detector, and without one the baseline counts again."""
    options = Watch(targets={"ccrs.qr": 0.75})
    feed = Feed(options=options).days(1, 0.8)
    assert ("watching", 0.75) == (feed.stream.phase, feed.stream.reference)
    feed.days(7, 0.8)
    assert 0.75 == feed.stream.reference
    feed.options = Watch()
    feed.days(0.1, 0.8)
    assert feed.stream.reference == pytest.approx(0.785, abs=0.002)
    feed.options = Watch(targets={"ccrs.qr": 0.9})
    feed.days(2, 0.8)
    assert "alarm" == feed.events[0][0]


@pytest.mark.parametrize("later", [{"ccrs.qr": 0.75}, {}])
def test_an_alarm_recovers_after_another_target(later):
    """Also if the target is removed: then from the baseline, if one is learned. A further drop is still found."""
    feed = Feed(options=Watch(targets={"ccrs.qr": 0.8})).days(8, 0.85)
    feed.days(2, 0.7)
    feed.options = Watch(targets=later)
    feed.days(1, 0.7)
    assert ["alarm"] == [event for event, _ in feed.events if event != "follow_up"]
    middle = (feed.stream.reference + feed.worst) / 2
    assert feed.stream.recovery.reference == pytest.approx(0.75 if later else middle)
    assert feed.stream.detector.reference == pytest.approx(feed.worst - 0.05)
    feed.days(3, 0.85)
    assert ("recovered", "watching") == (feed.events[-1][0], feed.stream.phase)


def test_an_alarm_about_a_removed_target_stays_until_a_baseline_is_learned():
    """The new reference is then that of the baseline."""
    feed = Feed(options=Watch(targets={"ccrs.qr": 0.8})).days(3, 0.7)
    feed.options = Watch()
    feed.days(3, 0.7)
    assert ("alarm", 0.8) == (feed.stream.phase, feed.stream.reference)
    feed.days(6, 0.7)
    assert ["alarm", "follow_up", "recovered"] == [event for event, _ in feed.events]
    assert feed.stream.reference == pytest.approx(0.685, abs=0.002)


def test_repeated_units_count_but_do_not_bet():
    """Units of a session seen before leave the evidence alone, apart from the budget."""
    feed = Feed().days(8, 0.8)
    before = feed.stream.detector.state()["m"]
    for _ in range(300):
        feed.add(0.0, repeated=True, days=0.0)
    assert before == feed.stream.detector.state()["m"]
    assert (300, False) == (feed.stream.n_repeated, feed.stream.is_covered)


def test_unequal_sampling_is_weighted():
    """Low scores that were sampled five times as often weigh a fifth."""
    feed = Feed().days(8, 0.8)
    feed.stream = Stream(KEY, "score", UNIT_SCALE, start=feed.day * DAY_S)
    for i in range(1600):
        low = i % 2 == 0
        feed.add(0.3 if low else 0.9, p=0.5 if low else 0.1)
    assert feed.stream.baseline.mean == pytest.approx((2 * 0.3 + 10 * 0.9) / 12, abs=1e-3)
    assert feed.stream.weight(2.0) == pytest.approx(feed.stream.weight(10.0) / 5)


def test_mean_at_the_end_of_the_range_is_blind():
    """A mean of 0 cannot fall."""
    assert "blind" == Feed().days(7.5, 0.0, sd=0.0).stream.phase


def test_relearn_starts_a_new_baseline():
    """After `accept`, the time since the change is the new baseline."""
    feed = Feed().days(8, 0.8).days(2, 0.7)
    feed.stream.relearn(8 * DAY_S)
    assert "learning" == feed.stream.phase
    feed.days(5.5, 0.7)
    assert "watching" == feed.stream.phase
    assert feed.stream.baseline.mean == pytest.approx(0.7, abs=0.005)


def test_idle_stream_does_not_share_the_budget():
    """A stream without a unit for seven days is not active, and one that learns is not either."""
    feed = Feed().days(7.5, 0.8)
    now = feed.day * DAY_S
    assert feed.stream.is_active(now + 7 * DAY_S)
    assert not feed.stream.is_active(now + 7.01 * DAY_S)
    assert not Stream(KEY, "score", UNIT_SCALE, start=0.0).is_active(0.0)


def test_state_is_small_and_continues_bit_for_bit():
    """A stream that is stored after every unit ends exactly as one that is not."""
    values = np.random.default_rng(5).normal(0.8, 0.05, 2400).clip(0, 1)
    values[1700:2000] -= 0.2
    whole, parted = Feed(), Feed()
    for x in map(float, values):
        whole.add(x)
        parted.add(x)
        text = json.dumps(parted.stream.state())
        assert len(text) < 1000
        parted.stream = Stream.from_state(KEY, "score", json.loads(text))
    assert whole.events == parted.events
    assert {"alarm", "recovered"} <= {event for event, _ in whole.events}
    assert whole.stream.state() == parted.stream.state()


def test_interval_of_the_mean_is_over_sessions():
    """It narrows with sessions and not with units of one session, weights count, and one session has no interval."""
    feed = Feed(seed=4).days(1, 0.8, sd=0.1)
    mean = feed.stream.mean_of(feed.units)
    low, high = feed.stream.interval_of(feed.units)
    assert low < mean < high
    assert high - low == pytest.approx(2 * 1.97 * 0.1 / np.sqrt(200), rel=0.2)
    same = [dataclasses.replace(unit, session=str(i // 20)) for i, unit in enumerate(feed.units)]
    wider = feed.stream.interval_of(same)
    assert wider[1] - wider[0] != pytest.approx(high - low, rel=0.01)
    assert feed.stream.interval_of([dataclasses.replace(unit, session="s") for unit in feed.units]) is None
    heavy = [dataclasses.replace(unit, weight=10.0, p_min=0.1) if unit.value < 0.8 else unit for unit in feed.units]
    feed.stream.p_floor = 0.1
    low, high = feed.stream.interval_of(heavy)
    assert low < feed.stream.mean_of(heavy) < high < mean
