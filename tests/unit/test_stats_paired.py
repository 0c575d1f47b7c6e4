"""The effect size of the difference of two systems on the same samples, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ragstone.stats import paired_effect


def test_effect_size_worked_out_by_hand():
    """Differences 0.5, 0.5, 0.4, 0: mean 0.35, standard deviation 0.238, and Hedges' factor for 3 degrees of freedom."""
    effect = paired_effect(np.array([0.5, 0.5, 0.4, 0.0]))
    assert 0.7236 * 0.35 / 0.2380 == pytest.approx(effect, abs=1e-3)


@pytest.mark.parametrize("differences", [[0.1] * 7, [0.1], [0.1, 0.4], []])
def test_effect_size_without_spread_is_undefined(differences):
    """Equal differences have no standard deviation to measure by, and fewer than three no correction."""
    assert paired_effect(np.array(differences)) is None
