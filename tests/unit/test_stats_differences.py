"""Paired differences of systems: what the test does with many samples, few, none, and data no one should send."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ragstone.stats import _sign_flips, simultaneous_differences

NAN = math.nan


def differ(x, **options):
    (result,) = simultaneous_differences([x], **options)
    return result


def test_blocks_of_rows_give_the_same_test(monkeypatch):
    """Rows beyond a limit are permuted in blocks: fewer units, p-values and intervals as before up to noise."""
    x = np.random.default_rng(7).random((4000, 3)) + np.array([0, 0.01, 0.012])
    x[::5, 1] = NAN
    rows = differ(x, n_resamples=4000)
    monkeypatch.setattr(_sign_flips, "_MAX_UNITS", 500)
    blocks = differ(x, n_resamples=4000)
    assert 4000 == rows.n_units
    assert 500 <= blocks.n_units <= 501
    for one, other in zip(rows.pairs, blocks.pairs, strict=True):
        assert one.p_value == pytest.approx(other.p_value, abs=0.05)
        assert one.high - one.low == pytest.approx(other.high - other.low, rel=0.08)
        assert one.difference == pytest.approx(other.difference)


def test_a_million_rows_are_no_trouble():
    """One system ahead by 0.002 of scores in [0, 1]: seen, in seconds, from blocks."""
    x = np.random.default_rng(0).random((1_000_000, 3))
    x[:, 2] += 0.002
    result = differ(x, n_resamples=500)
    assert 16_384 == result.n_units
    assert result.pairs[1].p_value < 0.01
    assert result.pairs[1].low < -0.002 < result.pairs[1].high < 0
    assert result.pairs[0].p_value > 0.05


def test_hard_samples_do_not_make_a_system_that_skips_them_better():
    """The second system fails on the hard half; where both answered they are equal, and so is the comparison."""
    x = np.array([[0.9, 0.9], [0.8, 0.8], [0.1, NAN], [0.2, NAN]])
    (pair,) = differ(x).pairs
    assert (0.0, 2, 1.0) == (pair.difference, pair.n, pair.p_value)


def test_a_pair_with_few_rows_does_not_hide_the_others():
    """A third system with two common rows and large differences leaves the p-value of a clear difference small."""
    rng = np.random.default_rng(3)
    x = np.full((200, 3), NAN)
    x[:, 0] = rng.random(200)
    x[:, 1] = x[:, 0] + 0.1 + 0.1 * rng.random(200)
    x[:2, 2] = x[:2, 0] + [0.9, -0.8]
    result = differ(x, n_resamples=2000)
    assert result.pairs[0].p_value < 0.01
    assert 2 == result.pairs[1].n


def test_directed_pairs_have_one_end():
    """A claim of "greater" has a lower end, one of "less" an upper one; the other is open."""
    x = np.random.default_rng(1).random((40, 2)) + np.array([0.5, 0.0])
    (up,) = differ(x, pairs=[(0, 1)], alternative="greater").pairs
    (down,) = differ(x, pairs=[(1, 0)], alternative="less").pairs
    (wrong,) = differ(x, pairs=[(1, 0)], alternative="greater").pairs
    assert 0 < up.low < up.difference
    assert up.high is None
    assert (None, -up.difference) == (down.low, down.difference)
    assert down.high < 0
    assert up.p_value < 0.001
    assert wrong.p_value > 0.99


def test_too_few_sign_flipsments_reject_nothing_and_bound_nothing():
    """One sample; three samples at 95 %; and fewer permutations drawn than a twentieth needs."""
    (one,) = differ([[0.9, 0.1]]).pairs
    assert (1.0, None, None) == (one.p_value, one.low, one.high)
    (three,) = differ([[0.9, 0.1]] * 3).pairs
    assert (0.25, None, None) == (three.p_value, three.low, three.high)
    x = np.random.default_rng(0).random((50, 2)) + np.array([1.0, 0.0])
    assert (0.1, None) == (
        differ(x, n_resamples=9).pairs[0].p_value,
        differ(x, n_resamples=9).pairs[0].low,
    )
    assert differ(x, n_resamples=19).pairs[0].low is not None


def test_equal_systems_differ_in_nothing():
    """The same score everywhere: one arrangement, p = 1, no interval from what never varies."""
    result = differ([[0.5, 0.5, 0.5]] * 10)
    assert (True, 1, 0) == (result.exact, result.n_resamples, result.n_units)
    assert [(0.0, 1.0, None, 10)] * 3 == [(p.difference, p.p_value, p.low, p.n) for p in result.pairs]


def test_a_system_without_scores_cannot_be_tested():
    """Its pairs say None; the others are as without it. So are all pairs of no rows at all."""
    x = np.random.default_rng(4).random((30, 3))
    x[:, 2] = NAN
    first, *others = differ(x).pairs
    assert first.p_value == pytest.approx(differ(x[:, :2]).pairs[0].p_value, abs=0.03)
    assert [(None, None, None, None, 0)] * 2 == [(p.difference, p.p_value, p.mc_error, p.low, p.n) for p in others]
    assert [None] * 3 == [p.p_value for p in differ(np.empty((0, 3))).pairs]
    assert [None] * 3 == [p.p_value for p in differ(np.full((5, 3), NAN)).pairs]


@pytest.mark.parametrize(
    ("scores", "options", "match"),
    [
        ([[0.5], [0.6]], {}, r"at least two systems, got an array of shape \(2, 1\)"),
        ([], {}, "at least two systems"),
        ([0.5, 0.6], {}, "samples by systems"),
        ([[0.5, 0.6], [0.5]], {}, "one cell per system for every sample"),
        ([[0.5, 0.6], [0.5, math.inf]], {}, "got inf in row 1 of system 1"),
        ([[0.5, 0.6]], {"pairs": [(0, 2)]}, r"from 0 to 1, got \(0, 2\)"),
        ([[0.5, 0.6]], {"pairs": [(-1, 0)]}, r"got \(-1, 0\)"),
        ([[0.5, 0.6]], {"pairs": [(1, 1)]}, "two different columns"),
        ([[0.5, 0.6]], {"pairs": []}, "must not be empty"),
        ([[0.5, 0.6]], {"alternative": "greater"}, "requires pairs="),
        ([[0.5, 0.6]], {"alternative": "larger", "pairs": [(0, 1)]}, "got 'larger'"),
        ([[0.5, 0.6]], {"confidence_level": 1.0}, "level must be in"),
        ([[0.5, 0.6]], {"n_resamples": 0}, "n_resamples must be at least 1"),
    ],
)
def test_bad_input_is_named(scores, options, match):
    """The message has the value, the rule and where it stands."""
    with pytest.raises(ValueError, match=match):
        differ(scores, **options)


def test_the_seed_is_all_the_chance_there_is():
    """The same seed gives the same result, in whatever thread and order; another seed another one."""
    x = np.random.default_rng(9).random((300, 4))
    alone = [differ(x, n_resamples=1000, seed=seed) for seed in range(6)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: differ(x, n_resamples=1000, seed=seed), reversed(range(6))))
    assert alone == together[::-1]
    assert len({one.pairs for one in alone}) == 6


def test_rounding_breaks_no_ties():
    """Tenths have no exact binary form, and their sums depend on the order: they are the ties that whole numbers are."""
    rng = np.random.default_rng(6)
    for _ in range(30):
        x = rng.integers(0, 4, (9, 2)).astype(float)
        whole, tenths = differ(x), differ(x / 10 + 0.3)
        assert [p.p_value for p in whole.pairs] == [p.p_value for p in tenths.pairs]
