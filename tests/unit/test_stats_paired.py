"""Two systems on the same samples: test, bootstrap and effect size, by hand and with data no one should send."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ragstone.stats import paired_effect, sign_flip_test

A = [0.9, 0.8, 0.7, 0.9, 0.8]
B = [0.4, 0.3, 0.3, 0.6, 0.5]


def test_sign_flips_worked_out_by_hand():
    """Five differences of one sign: 2 of 32 flips reach them two-sided, 1 in the direction claimed, all against it."""
    two, up, down = (sign_flip_test(A, B, alternative=side) for side in ("two-sided", "greater", "less"))
    assert (2 / 32, 1 / 32, 1.0) == (two.p_value, up.p_value, down.p_value)
    assert (pytest.approx(0.4), 5, 0, 32, True, 0.0) == (
        two.difference, two.n, two.n_missing, two.n_resamples, two.exact, two.mc_error
    )  # fmt: skip
    # A sixteenth is more than a twentieth: nothing can be rejected, so nothing is bounded.
    assert (None, None) == (two.low, two.high)
    assert up.low > 0
    assert up.high is None


def test_missing_scores_are_left_out_and_counted():
    """As if their rows were not there."""
    nan = math.nan
    full, holes = sign_flip_test(A, B), sign_flip_test([*A, nan, 0.1, nan], [*B, 0.3, nan, nan])
    assert (0, 3) == (full.n_missing, holes.n_missing)
    assert (full.difference, full.p_value, full.low, full.n) == (holes.difference, holes.p_value, holes.low, holes.n)


def test_p_is_never_0():
    """Not where no resample reached the data; the claim is 1 in B + 1 at most."""
    a = np.random.default_rng(0).random(100)
    assert 1 / 1001 == sign_flip_test(a + 1, a * 0.9, n_resamples=1000).p_value


def test_effect_size_worked_out_by_hand():
    """Differences 0.5, 0.5, 0.4, 0: mean 0.35, standard deviation 0.238."""
    found = paired_effect([0.9, 0.8, 0.7, 0.5, math.nan], [0.4, 0.3, 0.3, 0.5, 0.5])
    assert (0.35, 0.2380, 1.4703) == pytest.approx((found.difference, found.sd, found.d_z), abs=1e-4)
    assert (3, 1, 0, 4, 1, 0.875) == (
        found.n_better, found.n_equal, found.n_worse, found.n, found.n_missing, found.superiority
    )  # fmt: skip
    # Hedges' factor for 3 degrees of freedom.
    assert 0.7236 * 1.4703 == pytest.approx(found.g_z, abs=1e-3)


def test_effect_size_without_spread_is_undefined():
    """Equal differences, and a single one: no standard deviation to measure by, but a direction."""
    equal = paired_effect([0.6] * 7, [0.5] * 7)
    assert (0.0, None, None, 1.0) == (equal.sd, equal.d_z, equal.g_z, equal.superiority)
    single = paired_effect([0.6], [0.5])
    assert (None, None, None, 1.0) == (single.sd, single.d_z, single.g_z, single.superiority)
    two = paired_effect([0.6, 0.9], [0.5, 0.5])
    assert two.d_z > 0
    assert two.g_z is None


@pytest.mark.parametrize("call", [sign_flip_test, paired_effect])
@pytest.mark.parametrize(
    ("a", "b", "match"),
    [
        ([0.5], [0.5, 0.6], r"shape \(1,\) and \(2,\)"),
        ([], [], "none of the 0 samples"),
        ([math.nan, 0.5], [0.5, math.nan], "none of the 2 samples has scores of both systems"),
        ([math.inf], [0.5], "infinite"),
        ([[0.5]], [[0.5]], "shape"),
    ],
)
def test_bad_scores_are_named(call, a, b, match):
    """The message has what is wrong."""
    with pytest.raises(ValueError, match=match):
        call(a, b)


@pytest.mark.parametrize("option", [{"alternative": "larger"}, {"n_resamples": 0}, {"confidence_level": 1.0}])
def test_bad_options_are_named(option):
    """Name and value."""
    with pytest.raises(ValueError, match=next(iter(option))):
        sign_flip_test(A, B, **option)
