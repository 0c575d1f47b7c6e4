"""Rank correlation against scipy; sums of intervals against the published form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ragstone.stats import (
    WeightedTerm,
    kendall,
    mean_interval,
    spearman,
    weighted_sum_interval,
)


@pytest.mark.parametrize("seed", range(40))
def test_ranks_and_correlation_agree_with_scipy(seed):
    """Average ranks, with many ties and with none."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    x, y = rng.integers(0, int(rng.integers(2, 12)), (2, n)).astype(float)
    if seed % 2:
        x = rng.normal(size=n)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert spearman(x, y) is None
    else:
        assert float(stats.spearmanr(x, y).statistic) == pytest.approx(spearman(x, y), abs=1e-12)


@pytest.mark.parametrize(("x", "y"), [([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [0, 0, 0]), ([1], [2]), ([], [])])
def test_constant_input_is_undefined(x, y):
    """Not 0, not NaN, no warning."""
    assert spearman(x, y) is None


def test_bad_input_is_refused():
    """NaN has no rank, and pairs come in pairs."""
    with pytest.raises(ValueError, match="NaN"):
        spearman([1, float("nan")], [1, 2])
    with pytest.raises(ValueError, match="same length"):
        spearman([1, 2], [1])


def test_sum_of_intervals_worked_out_by_hand():
    """Squares add for estimates, widths for bounds; a negative weight turns an interval round."""
    terms = [
        WeightedTerm(weight=2.0, value=0.5, low=0.4, high=0.8, certain=False),
        WeightedTerm(weight=-1.0, value=0.3, low=0.1, high=0.4, certain=False),
        WeightedTerm(weight=0.5, value=0.6, low=0.5, high=0.8, certain=True),
    ]
    value, low, high = weighted_sum_interval(terms)
    assert 1.0 - 0.3 + 0.3 == pytest.approx(value)
    assert value - math.hypot(0.2, 0.1) - 0.05 == pytest.approx(low)
    assert value + math.hypot(0.6, 0.2) + 0.1 == pytest.approx(high)


def test_difference_of_proportions_as_newcombe_has_it():
    """For two Wilson intervals the method is Newcombe's; 56/70 - 48/80 = 0.20 [0.0524, 0.3339] in his table II."""
    one = mean_interval([1.0] * 56 + [0.0] * 14)
    two = mean_interval([1.0] * 48 + [0.0] * 32)
    terms = [
        WeightedTerm(weight=w, value=e.value, low=e.low, high=e.high, certain=False) for w, e in ((1, one), (-1, two))
    ]
    _, low, high = weighted_sum_interval(terms)
    assert (0.0524, 0.3339) == (round(low, 4), round(high, 4))


def test_sums_of_nonsense_are_refused():
    """A value outside its interval, or infinite."""
    with pytest.raises(ValueError, match="in its interval"):
        weighted_sum_interval([WeightedTerm(weight=1, value=0.9, low=0, high=0.5, certain=True)])
    with pytest.raises(ValueError, match="finite"):
        weighted_sum_interval([WeightedTerm(weight=math.inf, value=0, low=0, high=0.5, certain=True)])
    assert (0.0, 0.0, 0.0) == weighted_sum_interval([])


def test_combined_wilson_intervals_cover():
    """Five drawn probabilities, weighted as UDCG weighs them: the interval holds the truth about 95 times in 100."""
    rng = np.random.default_rng(2)
    p = np.array([0.02, 0.3, 0.5, 0.9, 0.98])
    weights = np.array([1, 1, -1 / 3, -1 / 3, -1 / 3]) / 5
    truth, covered = float(weights @ p), []
    intervals = {k: mean_interval([1.0] * k + [0.0] * (20 - k)) for k in range(21)}
    for _ in range(2000):
        found = [intervals[int(k)] for k in rng.binomial(20, p)]
        terms = [
            WeightedTerm(weight=w, value=e.value, low=e.low, high=e.high, certain=False)
            for w, e in zip(weights, found, strict=True)
        ]
        _, low, high = weighted_sum_interval(terms)
        covered.append(low <= truth <= high)
    assert 0.93 <= np.mean(covered) <= 0.985


def test_kendall_is_tau_b_by_its_definition():
    """Concordant minus discordant pairs, divided by the root of the numbers of pairs without a tie in x and in y."""
    x, y = np.array([1, 2, 2, 3, 3, 3, 0]), np.array([1, 1, 2, 2, 3, 1, 1])
    a, b = (np.sign(np.subtract.outer(v, v)) for v in (x, y))
    assert (a * b).sum() / math.sqrt((a**2).sum() * (b**2).sum()) == pytest.approx(kendall(x, y))
    assert kendall(x, -y) == pytest.approx(-kendall(x, y))
    assert kendall(x, np.ones(7)) is None
    assert kendall(np.ones(7), y) is None
