"""When, by how much and in which slices a mean changed."""

from __future__ import annotations

import numpy as np
import pytest

from ragstone.watch._change import drop_between, find_change, find_slices

ONES = np.ones


def stream(before, after, *, drop, seed=0, level=0.8, sd=0.1):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(level, sd, before), rng.normal(level - drop, sd, after)])


def test_change_is_found_where_it_is():
    """A clear change has a narrow interval of starts and the right size."""
    change = find_change(stream(400, 100, drop=0.2), ONES(500))
    assert change.first <= 400 <= change.last
    assert change.last - change.first < 12
    assert change.low <= 0.2 <= change.high
    assert change.before == pytest.approx(0.8, abs=0.02)
    assert change.after == pytest.approx(0.6, abs=0.04)


def test_rise_is_found_with_the_other_sign():
    """For failures, worse is higher."""
    x = 1 - stream(300, 60, drop=0.2)
    assert find_change(x, ONES(360), sign=-1).start == pytest.approx(300, abs=5)
    falling = find_change(x, ONES(360), sign=1)
    assert falling is None or falling.drop < 0.1


def test_scale_of_the_weights_does_not_matter():
    """Weights are relative."""
    x, w = stream(200, 50, drop=0.1), np.random.default_rng(3).uniform(0.1, 1.0, 250)
    one, other = find_change(x, w), find_change(x, 0.1 * w)
    assert (one.start, one.first, one.last) == (other.start, other.first, other.last)
    assert (one.low, one.high) == pytest.approx((other.low, other.high))


@pytest.mark.parametrize("drop", [0.05, 0.1])
def test_starts_and_sizes_cover_the_truth(drop):
    """The interval of starts holds the true one in most streams, also for a small change."""
    hits = sizes = 0
    for seed in range(60):
        change = find_change(stream(300, 120, drop=drop, seed=seed, sd=0.12), ONES(420))
        hits += change.first <= 300 <= change.last
        sizes += change.low <= drop <= change.high
    assert hits >= 54
    assert sizes >= 54


def test_too_few_units_and_no_change():
    """Without units before it, or without a lower mean after it, nothing is found."""
    assert find_change(np.full(20, 0.5), ONES(20)) is None
    assert find_change(np.linspace(0.1, 0.9, 100), ONES(100)) is None


def test_follow_up_adds_both_errors():
    """The interval of the loss has the errors before and after the change."""
    drop, low, high = drop_between(np.array([0.5, 0.7] * 50), ONES(100), before=0.8, before_se=0.03)
    assert drop == pytest.approx(0.2)
    error = np.hypot(0.03, 0.1 / np.sqrt(99))
    assert (low, high) == pytest.approx((0.2 - 1.96 * error, 0.2 + 1.96 * error), rel=1e-3)


def test_a_loss_is_at_most_the_range():
    """Also if very few units follow the change."""
    for low, high in (
        drop_between(np.array([0.0, 1.0]), ONES(2), before=0.6, before_se=0.0)[1:],
        (find_change(np.array([0.0, 1.0] * 3 + [0.0]), ONES(7), min_before=3).low, 1.0),
    ):
        assert -1 <= low < high <= 1


def labels(n, *, fields=3, values=4, seed=1):
    rng = np.random.default_rng(seed)
    return [{f"f{i}": f"v{rng.integers(values)}" for i in range(fields)} for _ in range(n)]


def test_slice_that_carries_the_drop_is_named():
    """One of four values falls: it has the whole excess, and is the only significant one."""
    names = labels(1600)
    rng = np.random.default_rng(2)
    x = np.array([rng.normal(0.8 - 0.2 * (i >= 800 and n["f1"] == "v2"), 0.1) for i, n in enumerate(names)])
    slices = find_slices(x, ONES(1600), names, start=800, fields=("f0", "f1", "f2"))
    assert 12 == len(slices)
    assert "f1=v2" == slices[0].name
    assert slices[0].excess == pytest.approx(0.2, abs=0.03)
    assert [s.name for s in slices if s.p <= 0.05] == ["f1=v2"]


def test_uniform_drop_names_nothing():
    """If all fall, none is named, in nearly all streams."""
    named = 0
    for seed in range(30):
        x = stream(600, 300, drop=0.1, seed=seed)
        named += find_slices(x, ONES(900), labels(900, seed=seed), start=600, fields=("f0", "f1", "f2"))[0].p <= 0.05
    assert named <= 4


def test_new_value_is_compared_with_everything_before():
    """A release that did not exist before has all units as its past."""
    names = [{"release": "1" if i < 500 or i % 2 else "2"} for i in range(800)]
    x = np.array([0.5 if n["release"] == "2" else 0.8 for n in names])
    x += np.random.default_rng(0).normal(0, 0.05, 800)
    slices = find_slices(x, ONES(800), names, start=500, fields=("release",))
    assert [("release=2", 150)] == [(s.name, s.n) for s in slices if s.p <= 0.05]
    assert slices[0].drop == pytest.approx(0.3, abs=0.02)


def test_small_slices_and_missing_fields_are_left_out():
    """A slice needs 30 units after the change, and a missing field is not a value."""
    names = [{"a": "rare"} if i % 20 == 0 else {} for i in range(400)]
    assert [] == find_slices(np.full(400, 0.5), ONES(400), names, start=200, fields=("a", "b"))


def test_values_of_a_field_are_bounded():
    """Of a field with many values, the 20 with the most sessions are compared, so that a user id cannot flood the list."""
    rng = np.random.default_rng(5)
    names = [{"f": f"v{min(int(rng.exponential(20)), 99)}"} for _ in range(12000)]
    x = rng.normal(0.8, 0.1, 12000) - 0.1 * (np.arange(12000) >= 6000)
    slices = find_slices(x, ONES(12000), names, start=6000, fields=("f",))
    assert 20 == len(slices)
    assert {f"f=v{i}" for i in range(12)} <= {s.name for s in slices}
