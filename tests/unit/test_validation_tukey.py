"""The randomized Tukey test of `validate-metrics`."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from paper_test import tukey_p_values as paper_p_values
from ragstone_lab._validation.tukey import tukey_p_values

PAIRS = list(itertools.combinations(range(3), 2))


def exact(x):
    """All permutations of the scores of each sample."""
    orders = list(itertools.permutations(range(3)))
    spreads = [
        np.ptp(np.array([x[i][list(o)] for i, o in enumerate(rows)]).mean(axis=0))
        for rows in itertools.product(orders, repeat=len(x))
    ]
    means = x.mean(axis=0)
    return {(i, j): np.mean(np.array(spreads) >= abs(means[i] - means[j]) - 1e-12) for i, j in PAIRS}


def test_p_values_are_those_of_all_permutations():
    """Up to the error of 40,000 drawn ones."""
    x = np.random.default_rng(1).normal([0, 0.5, 1.5], 1, (4, 3))
    found = tukey_p_values(x.tolist(), None, n_resamples=40_000, seed=1)
    assert exact(x) == pytest.approx(found, abs=0.01)


def test_p_values_are_those_of_the_paper():
    """Of six systems, by the loop of its appendix."""
    x = np.random.default_rng(2).beta(4, 2, (200, 6)) + np.linspace(0, 0.05, 6)
    found = tukey_p_values(x.tolist(), None, n_resamples=4_000, seed=3)
    assert [p for _, p in paper_p_values(x, n_resamples=4_000)] == pytest.approx(list(found.values()), abs=0.04)


def test_a_missing_score_stays_missing():
    """Its sample is permuted among the other systems, and a sample with one score changes nothing but a mean."""
    x = np.random.default_rng(3).normal([0, 0, 1], 1, (60, 3))
    x[:20, 2] = math.nan
    found = tukey_p_values(x.tolist(), None, n_resamples=2_000, seed=1)
    assert found[0, 2] < 0.01
    assert found[0, 1] > 0.05


def test_a_system_without_a_score_has_no_p_value():
    """And does not take part in the largest difference."""
    x = np.random.default_rng(5).normal([0, 1, 9], 1, (40, 3))
    without = tukey_p_values(x[:, :2].tolist(), None, n_resamples=500, seed=1)
    x[:, 2] = math.nan
    found = tukey_p_values(x.tolist(), None, n_resamples=500, seed=1)
    assert {(0, 2): None, (1, 2): None} == {pair: found[pair] for pair in [(0, 2), (1, 2)]}
    assert without[0, 1] == pytest.approx(found[0, 1], abs=0.05)


def test_samples_of_a_cluster_are_permuted_together():
    """Ten copies of six samples say as much as the six."""
    x = np.random.default_rng(4).normal([0, 0.4, 0.8], 1, (6, 3))
    alone = tukey_p_values(x.tolist(), None, n_resamples=20_000, seed=1)
    copies = tukey_p_values(np.tile(x, (10, 1)).tolist(), [*range(6)] * 10, n_resamples=20_000, seed=2)
    assert alone == pytest.approx(copies, abs=0.02)
