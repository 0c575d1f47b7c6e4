"""Laws of the offline statistics: order, shift and scale, monotonicity, bounds, and claims that follow from each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.stats import (
    bootstrap_interval,
    discriminative_power,
    holm,
    mean_interval,
    paired_effect,
    simultaneous_differences,
)

cells = st.one_of(st.integers(0, 4).map(float), st.just(math.nan))
tables = st.integers(2, 4).flatmap(
    lambda m: st.lists(st.lists(cells, min_size=m, max_size=m), min_size=1, max_size=7).map(np.array)
)
p_values = st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=12)
scores = st.lists(st.floats(0, 1), min_size=1, max_size=25)
pairs_of_scores = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30).map(
    lambda rows: np.array(rows, dtype=float).T
)


def differ(x, n_resamples=200, **options):
    return simultaneous_differences([x], n_resamples=n_resamples, **options)[0]


def facts(result):
    return [(p.first, p.second, p.n, p.p_value) for p in result.pairs]


def differences(result):
    return [math.nan if p.difference is None else p.difference for p in result.pairs]


@given(tables)
def test_a_p_value_is_never_0_and_an_interval_holds_its_difference(x):
    """P-values lie in (0, 1], of which 1 / B is the least; untestable is None on all counts."""
    result = differ(x)
    for pair in result.pairs:
        if pair.n == 0:
            assert pair.difference is pair.p_value is pair.low is pair.high is None
            continue
        assert 1 / (result.n_resamples + 1) <= pair.p_value <= 1
        if pair.low is not None:
            assert pair.low <= pair.difference <= pair.high
            # A step may reject what the interval of all pairs does not.
            assert pair.low <= 0 <= pair.high or pair.p_value <= 0.05 + 1e-12
        else:
            assert pair.high is None


@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_the_samples_does_not_matter(x, random):
    """Drawn or enumerated, the p-values are the same to the last digit."""
    shuffled = x[random.sample(range(len(x)), len(x))]
    assert facts(differ(x)) == facts(differ(shuffled))


@given(tables, st.sampled_from([0.125, 1.0, 3.0, 1e-9, 1e9]), st.integers(-3, 3), st.data())
def test_shift_of_a_sample_and_scale_of_all_do_not_matter(x, scale, shift, data):
    """A hard sample is hard for all systems, and points are not p-values; where all permutations are looked at."""
    x = x[:3, :3]
    hard = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(x), max_size=len(x))), dtype=float)
    one, other = differ(x, 10_000), differ((x + hard[:, None] + shift) * scale, 10_000)
    assert one.exact
    assert facts(one) == facts(other)
    assert differences(one) == pytest.approx([d / scale for d in differences(other)], abs=1e-9, nan_ok=True)


@given(tables)
def test_a_sample_with_one_score_says_nothing(x):
    """Nor does one with none, or with equal scores where all pairs are complete."""
    silent = np.full((2, x.shape[1]), math.nan)
    silent[0, 0] = 3.0
    assert facts(differ(x)) == facts(differ(np.vstack([x, silent])))


@given(tables)
def test_systems_may_change_their_columns_where_all_is_enumerated(x):
    """Names are arbitrary: reversed columns give reversed pairs, with the sign of the difference turned."""
    x = x[:3, :3]
    one, other = differ(x, 10_000), differ(x[:, ::-1], 10_000)
    assert one.exact
    last = x.shape[1] - 1
    mirrored = {(last - p.second, last - p.first): p for p in other.pairs}
    for pair in one.pairs:
        twin = mirrored[pair.first, pair.second]
        assert (pair.n, pair.p_value) == (twin.n, twin.p_value)
        if pair.n:
            assert pair.difference == pytest.approx(-twin.difference, abs=1e-12)


@given(tables)
def test_a_smaller_family_has_no_larger_p_value(x):
    """The same permutations, a maximum over less; a directed claim is at most as hard as both directions."""
    whole = differ(x)
    first = whole.pairs[0]
    if first.n == 0:
        return
    (alone,) = differ(x, pairs=[(first.first, first.second)]).pairs
    assert alone.p_value <= first.p_value
    directed = [
        differ(x, pairs=[(first.first, first.second)], alternative=side).pairs[0].p_value
        for side in ("greater", "less")
    ]
    assert min(directed) <= alone.p_value


@given(p_values, st.floats(0.5, 0.999))
def test_holm_only_raises_p_values_and_keeps_their_order(p, level):
    """Between the raw p-value and Bonferroni's, in the same order; what is rejected is what is small enough."""
    found = holm(p, confidence_level=level)
    known = [1.0 if q is None else q for q in p]
    for raw, adjusted, rejected in zip(known, found.adjusted, found.rejected, strict=True):
        assert raw <= adjusted <= min(1.0, raw * len(p)) + 1e-15
        assert rejected == (adjusted <= (1 - level) * (1 + 1e-12))
    order = sorted(range(len(p)), key=lambda i: known[i])
    ordered = [found.adjusted[i] for i in order]
    assert ordered == sorted(ordered)
    assert found.adjusted == tuple(holm(p[::-1], confidence_level=level).adjusted[::-1])


@given(p_values, st.floats(0.01, 0.5))
def test_discriminative_power_is_where_the_curve_crosses_alpha(p, alpha):
    """The curve ascends, and holds every pair."""
    found = discriminative_power(p, confidence_level=1 - alpha)
    assert list(found.asl) == sorted(found.asl)
    assert len(p) == found.n_pairs == len(found.asl)
    if not any(q is not None for q in p):
        assert found.value is None  # no pair can be tested
        return
    assert found.value == sum(q < (1 - (1 - alpha)) * (1 - 1e-12) for q in found.asl) / len(p)
    assert 0 <= found.value <= discriminative_power(p, confidence_level=1 - min(0.99, alpha * 1.5)).value <= 1


@settings(max_examples=40)
@given(scores, st.floats(0.6, 0.9))
def test_intervals_hold_their_estimate_and_grow_with_the_level(x, level):
    """In range; a higher level never narrows."""

    def interval(at):
        return bootstrap_interval(x, low=0.0, high=1.0, confidence_level=at, n_resamples=200)

    narrow, wide = interval(level), interval(0.95)
    assert 0 <= narrow.low <= narrow.value <= narrow.high <= 1 + 1e-12
    if narrow.method == wide.method:
        assert wide.low <= narrow.low + 1e-12
        assert narrow.high <= wide.high + 1e-12


@settings(max_examples=40)
@given(st.lists(st.integers(0, 100), min_size=2, max_size=25), st.floats(0.5, 20), st.integers(-50, 50))
def test_intervals_move_with_the_data(x, scale, shift):
    """Scaled and shifted scores have the scaled and shifted interval."""
    moved = [scale * v + shift for v in x]
    for interval in (
        lambda v: bootstrap_interval(v, n_resamples=200),
        lambda v: mean_interval(v, low=-math.inf, high=math.inf),
    ):
        one, other = interval(x), interval(moved)
        assert one.method == other.method
        if one.method != "range":
            assert (scale * one.low + shift, scale * one.high + shift) == pytest.approx(
                (other.low, other.high), abs=1e-6
            )


@given(pairs_of_scores)
def test_swapping_two_systems_changes_the_sign_of_the_effect(x):
    """The effect has the sign of the mean difference, and is at most Cohen's d_z."""
    differences = np.subtract(*x)
    effect, reverse = paired_effect(differences), paired_effect(-differences)
    assert (effect is None) == (reverse is None)
    if effect is not None:
        assert effect == pytest.approx(-reverse)
        assert abs(effect) <= abs(differences.mean() / differences.std(ddof=1))
