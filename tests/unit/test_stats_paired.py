"""Effect sizes of two systems on the same samples, by hand and with data no one should send."""

from __future__ import annotations

import math

import pytest

from ragstone.stats import paired_effect


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
def test_bad_scores_are_named(a, b, match):
    """The message has what is wrong."""
    with pytest.raises(ValueError, match=match):
        paired_effect(a, b)
