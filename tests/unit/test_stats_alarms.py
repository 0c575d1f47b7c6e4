"""`CalendarDetector` and `AlarmBudget`: arithmetic, state and refusals. Their promise is simulated in tests/properties."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alarm_streams import DetectorArray
from ragstone.stats import AlarmBudget, CalendarDetector
from ragstone.stats._alarms import QUARTER_S

DAY_S = 86_400.0
UNIT = st.tuples(st.floats(0, 1), st.floats(0, 0.2), st.floats(0, 1))


@given(units=st.lists(UNIT, max_size=80), reference=st.floats(0.05, 0.95), direction=st.sampled_from(["drop", "rise"]))
def test_class_and_array_are_equal_bit_for_bit(units, reference, direction):
    """The simulations run on arrays: their arithmetic is that of the class."""
    detector = CalendarDetector(reference, direction=direction)
    array = DetectorArray(np.array([reference]), direction=direction)
    for x, spend, weight in units:
        alarm = detector.update(x, spend=spend, weight=weight)
        assert [alarm] == array.update(np.array([x]), spend=spend, weight=weight).tolist()
        assert detector.state()["m"] == [float(m[0]) for m in array.m]


def test_arithmetic_of_one_unit():
    """The budget is added after the unit has been weighed, and a unit without weight only adds it."""
    detector = CalendarDetector(0.8)
    assert not detector.update(0.3, spend=0.01)
    assert [0.01] * 6 == detector.state()["m"]
    assert not detector.update(0.3, spend=0.02, weight=0.5)
    # (0.8 - 0.3) / 0.2 * 0.5 = 1.25
    expected = [0.01 * (1 + bet * 1.25) + 0.02 for bet in (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)]
    assert expected == pytest.approx(detector.state()["m"])
    before = detector.state()["m"]
    assert not detector.update(0.0, spend=0.0, weight=0.0)
    assert before == detector.state()["m"]


def test_alarm_resets_the_evidence_and_is_counted():
    """After an alarm the detector starts again from 0."""
    detector = CalendarDetector(0.8)
    assert detector.update(0.8, spend=1.0)
    assert (0.0, 1) == (detector.evidence, detector.n_alarms)
    assert not detector.update(0.0, spend=0.0)
    assert 0.0 == detector.evidence


@pytest.mark.parametrize(("direction", "other"), [("drop", "rise"), ("rise", "drop")])
def test_only_its_direction_is_found(direction, other):
    """A detector of drops finds drops, one of rises finds rises."""
    worse = 0.5 if direction == "drop" else 0.95
    budget = AlarmBudget(1.0, start=0.0)
    found, blind = CalendarDetector(0.8, direction=direction), CalendarDetector(0.8, direction=other)
    for i in range(1, 200):
        spend = budget.take((i - 1) * 3600.0, i * 3600.0, n_streams=1)
        found.update(worse, spend=spend)
        assert not blind.update(worse, spend=spend)
    assert found.n_alarms >= 1


def test_range_of_scores_does_not_matter():
    """A score from 0 to 100 is the same as from 0 to 1."""
    plain, wide = CalendarDetector(0.75), CalendarDetector(50.0, low=-100.0, high=100.0)
    for x in (0.25, 0.5, 1.0, 0.0) * 5:
        plain.update(x, spend=0.001)
        wide.update(-100 + 200 * x, spend=0.001)
    assert plain.state()["m"] == pytest.approx(wide.state()["m"])


@given(units=st.lists(UNIT, min_size=1, max_size=30), cut=st.integers(0, 30))
def test_state_survives_json_bit_for_bit(units, cut):
    """A detector and a budget that were stored continue exactly as those that were not."""
    whole, parted = CalendarDetector(0.6), CalendarDetector(0.6)
    kept, saved = AlarmBudget(1.0, start=0.0), AlarmBudget(1.0, start=0.0)
    for i, (x, hours, weight) in enumerate(units):
        if i == cut:
            assert len(json.dumps(parted.state())) < 1000
            parted = CalendarDetector.from_state(json.loads(json.dumps(parted.state())))
            saved = AlarmBudget.from_state(json.loads(json.dumps(saved.state())))
        at = (i + hours) * 3600.0
        assert whole.update(x, spend=kept.take(0.0, at, n_streams=3), weight=weight) == parted.update(
            x, spend=saved.take(0.0, at, n_streams=3), weight=weight
        )
    assert (whole.state(), kept.state()) == (parted.state(), saved.state())


def test_budget_of_one_stream_is_the_elapsed_time():
    """One stream gets all that accrues, and no more than seven days at once."""
    budget = AlarmBudget(2.0, start=0.0)
    assert budget.take(0.0, DAY_S, n_streams=1) == pytest.approx(2 * DAY_S / QUARTER_S)
    assert budget.take(DAY_S, DAY_S, n_streams=1) == 0.0
    assert budget.take(DAY_S, 100 * DAY_S, n_streams=1) == pytest.approx(2 * 7 * DAY_S / QUARTER_S)


@given(
    visits=st.lists(st.tuples(st.integers(0, 4), st.floats(0, 40), st.integers(1, 5)), max_size=60),
    start=st.floats(0, 2e9),
)
def test_parts_never_exceed_the_budget(visits, start):
    """Whatever streams sleep, wake and arrive late: the parts sum to at most what has accrued."""
    budget, last, now, taken = AlarmBudget(1.0, start=start), {}, start, 0.0
    for stream, days, n in visits:
        now += days * DAY_S
        part = budget.take(last.get(stream, start), now, n_streams=n)
        assert 0 <= part <= 7 * DAY_S / QUARTER_S * (1 + 1e-12)
        last[stream] = now
        taken += part
        assert taken <= (now - start) / QUARTER_S * (1 + 1e-9) + 1e-12


def test_streams_that_wake_together_share_what_was_saved():
    """Twelve streams that wake once a month get seven days together, not seven days each."""
    budget, taken = AlarmBudget(1.0, start=0.0), 0.0
    for month in range(1, 13):
        for stream in range(12):
            at = month * 30 * DAY_S + stream
            taken += budget.take(at - 30 * DAY_S, at, n_streams=stream + 1)
    assert taken <= 12 * (7 * DAY_S + 12) / QUARTER_S


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CalendarDetector(1.0), "strictly between"),
        (lambda: CalendarDetector(0.5, direction="up"), "'drop' or 'rise'"),
        (lambda: CalendarDetector(0.5, low=1.0, high=0.0), "low < high"),
        (lambda: CalendarDetector(0.5).update(1.2, spend=0.0), "every value"),
        (lambda: CalendarDetector(0.5).update(0.2, spend=-0.1), "spend must be 0 or more"),
        (lambda: CalendarDetector(0.5).update(0.2, spend=float("nan")), "spend must be 0 or more"),
        (lambda: CalendarDetector(0.5).update(0.2, spend=0.0, weight=1.1), "a weight must be"),
        (lambda: CalendarDetector.from_state({"kind": "alarm_budget"}), "expected 'calendar'"),
        (lambda: AlarmBudget(0.0, start=0.0), "must be positive, got 0"),
        (lambda: AlarmBudget(1.0, start=float("inf")), "start must be a finite"),
        (lambda: AlarmBudget.from_state({"kind": "calendar"}), "expected 'alarm_budget'"),
    ],
)
def test_bad_input_is_refused(call, message):
    """A value out of range names the rule."""
    with pytest.raises(ValueError, match=message):
        call()


def test_streams_share_the_budget():
    """Of the budget of a day, each of four streams gets a quarter."""
    day = 86_400.0
    budget = AlarmBudget(2.0, start=0.0)
    parts = [budget.take(0.0, day, n_streams=4) for _ in range(4)]
    assert [2.0 * day / QUARTER_S / 4] * 4 == pytest.approx(parts)
    assert budget.take(0.0, day, n_streams=4) == pytest.approx(0.0, abs=1e-12)


def test_a_budget_goes_on_if_the_clock_was_ahead():
    """It accrues again from the time that is put back, keeps what it had saved, and a later time changes nothing."""
    budget = AlarmBudget(1.0, start=0.0)
    budget.take(0.0, 100 * DAY_S, n_streams=2)
    saved = budget.state()["left"]
    budget.put_back(DAY_S)
    assert (DAY_S, saved) == (budget.state()["at"], budget.state()["left"])
    budget.put_back(3 * DAY_S)
    budget.take(2 * DAY_S, 2 * DAY_S, n_streams=2)
    assert saved + DAY_S / QUARTER_S == pytest.approx(budget.state()["left"])
