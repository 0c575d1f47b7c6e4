"""The randomized Tukey test against every arrangement counted out, and what it does with data no one should send."""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import stats

from ragstone.stats import _arrange, randomized_tukey

NAN = math.nan


def paired_differences(x, family):
    """Mean of the differences over common rows, and their number."""
    found = []
    for i, j in family:
        d = x[:, i] - x[:, j]
        d = d[~np.isnan(d)]
        found.append((d.mean() if d.size else 0.0, d.size))
    return found


def by_counting(x, family, alternative):
    """Adjusted p-values from all arrangements of the present cells of each row, written down one by one."""
    present = [np.flatnonzero(~np.isnan(row)) for row in x]

    def statistics(table):
        scaled = [math.sqrt(n) * d for d, n in paired_differences(table, family)]
        return {"two-sided": np.abs(scaled), "greater": np.array(scaled), "less": -np.array(scaled)}[alternative]

    observed = statistics(x)
    count = np.zeros(len(family))
    total = 0
    for orders in itertools.product(*(itertools.permutations(columns) for columns in present)):
        table = x.copy()
        for row, (columns, order) in enumerate(zip(present, orders, strict=True)):
            table[row, columns] = x[row, list(order)]
        count += statistics(table).max() >= observed - 1e-9
        total += 1
    return count / total


CASES = [
    ([[0.9, 0.4], [0.8, 0.3], [0.7, 0.3], [0.2, 0.6]], None, "two-sided"),
    ([[3, 1, 2], [5, 1, 1], [4, 4, 0], [2, 0, 1]], None, "two-sided"),
    ([[3, 1, 2], [5, 1, 1], [4, 4, 0], [2, 0, 1]], [(0, 1), (2, 1)], "greater"),
    ([[3, 1, 2], [5, 1, 1], [4, 4, 0], [2, 0, 1]], [(1, 0), (1, 2)], "less"),
    ([[3, 1, 2], [5, 1, 1], [4, 4, 0], [2, 0, 1]], [(0, 2)], "two-sided"),
    ([[3, NAN, 2], [5, 1, NAN], [4, 3, 0], [NAN, 0, 1], [NAN, NAN, 7], [2, 2, 2]], None, "two-sided"),
    ([[3, NAN, 2], [5, 1, NAN], [4, 3, 0], [NAN, 0, 1], [9, NAN, 7], [2, 2, 2]], [(0, 1), (0, 2)], "greater"),
    ([[0, 0, 0, 1], [0, 1, 0, 1], [1, 1, 0, 0]], None, "two-sided"),
]


@pytest.mark.parametrize(("rows", "pairs", "alternative"), CASES)
def test_enumeration_is_every_arrangement_counted(rows, pairs, alternative):
    """With ties, missing cells, rows that say nothing, smaller and directed families."""
    x = np.array(rows, dtype=float)
    result = randomized_tukey(x, pairs=pairs, alternative=alternative)
    family = pairs or list(itertools.combinations(range(x.shape[1]), 2))
    assert result.exact
    assert by_counting(x, family, alternative).tolist() == pytest.approx([p.p_value for p in result.pairs], abs=1e-12)
    assert [p.mc_error for p in result.pairs] == [0.0] * len(family)
    for (d, n), pair in zip(paired_differences(x, family), result.pairs, strict=True):
        assert (pytest.approx(d), n) == (pair.difference, pair.n)


@pytest.mark.parametrize(("rows", "pairs", "alternative"), CASES)
def test_drawing_comes_near_enumeration(rows, pairs, alternative):
    """The same data repeated beyond enumeration's limit, drawn: within five Monte-Carlo errors of all arrangements."""
    x = np.array(rows, dtype=float)
    total = randomized_tukey(x, pairs=pairs, alternative=alternative).n_resamples
    exact = randomized_tukey(x, pairs=pairs, alternative=alternative, n_resamples=total)
    drawn = randomized_tukey(x, pairs=pairs, alternative=alternative, n_resamples=total - 1)
    many = [
        randomized_tukey(x, pairs=pairs, alternative=alternative, n_resamples=total - 1, seed=seed)
        for seed in range(200)
    ]
    assert (True, False) == (exact.exact, drawn.exact)
    for k, pair in enumerate(exact.pairs):
        # The + 1 counts the data among the drawn ones: take it away to compare.
        counts = [run.pairs[k].p_value * total - 1 for run in many]
        mean, error = np.mean(counts) / (total - 1), np.std(counts) / (total - 1) / math.sqrt(200)
        assert pair.p_value == pytest.approx(mean, abs=5 * error + 1e-12)


def test_the_plain_loop_gives_the_same_p_values():
    """Rows shuffled one by one in Python, as CCRS's listing does it, with (count + 1) / (B + 1)."""
    rng = np.random.default_rng(2)
    x = rng.integers(0, 11, (60, 4)) / 10 + np.array([0.1, 0.0, 0.05, 0.02])
    n_resamples = 2000
    shuffled = np.empty(n_resamples)
    for b in range(n_resamples):
        means = np.array([rng.permutation(row) for row in x]).mean(axis=0)
        shuffled[b] = means.max() - means.min()
    for pair in randomized_tukey(x, n_resamples=n_resamples).pairs:
        expected = ((shuffled >= abs(pair.difference) - 1e-9).sum() + 1) / (n_resamples + 1)
        assert expected == pytest.approx(pair.p_value, abs=5 * pair.mc_error + 1e-3)


@pytest.mark.parametrize("m", [2, 5, 7, 8, 9])
def test_every_number_of_systems_has_a_way(m):
    """Tabled orders up to seven, shuffled cells beyond: the limit distribution is near for all."""
    x = np.random.default_rng(m).normal(size=(150, m))
    drawn = randomized_tukey(x, n_resamples=1500)
    sigma = math.sqrt(x.var(axis=1, ddof=1).sum()) / len(x)
    width = 2 * stats.studentized_range.ppf(0.95, m, 1e6) * sigma
    assert list(itertools.combinations(range(m), 2)) == [(pair.first, pair.second) for pair in drawn.pairs]
    for pair in drawn.pairs:
        expected = stats.studentized_range.sf(abs(pair.difference) / sigma, m, 1e6)
        assert expected == pytest.approx(pair.p_value, abs=0.06)
        assert width == pytest.approx(pair.high - pair.low, rel=0.08)


def test_blocks_of_rows_give_the_same_test(monkeypatch):
    """Rows beyond a limit are permuted in blocks: fewer units, p-values and intervals as before up to noise."""
    x = np.random.default_rng(7).random((4000, 3)) + np.array([0, 0.01, 0.012])
    x[::5, 1] = NAN
    rows = randomized_tukey(x, n_resamples=4000)
    monkeypatch.setattr(_arrange, "_MAX_UNITS", 500)
    blocks = randomized_tukey(x, n_resamples=4000)
    assert 4000 == rows.n_units
    assert 500 <= blocks.n_units <= 501
    for one, other in zip(rows.pairs, blocks.pairs, strict=True):
        assert one.p_value == pytest.approx(other.p_value, abs=0.05)
        assert one.high - one.low == pytest.approx(other.high - other.low, rel=0.08)
        assert one.difference == other.difference


def test_a_million_rows_are_no_trouble():
    """One system ahead by 0.002 of scores in [0, 1]: seen, in seconds, from blocks."""
    x = np.random.default_rng(0).random((1_000_000, 3))
    x[:, 2] += 0.002
    result = randomized_tukey(x, n_resamples=500)
    assert 16_384 == result.n_units
    assert result.pairs[1].p_value < 0.01
    assert result.pairs[1].low < -0.002 < result.pairs[1].high < 0
    assert result.pairs[0].p_value > 0.05


def test_hard_samples_do_not_make_a_system_that_skips_them_better():
    """The second system fails on the hard half; where both answered they are equal, and so is the comparison."""
    x = np.array([[0.9, 0.9], [0.8, 0.8], [0.1, NAN], [0.2, NAN]])
    (pair,) = randomized_tukey(x).pairs
    assert (0.0, 2, 1.0) == (pair.difference, pair.n, pair.p_value)


def test_a_pair_with_few_rows_does_not_hide_the_others():
    """A third system with two common rows and large differences leaves the p-value of a clear difference small."""
    rng = np.random.default_rng(3)
    x = np.full((200, 3), NAN)
    x[:, 0] = rng.random(200)
    x[:, 1] = x[:, 0] + 0.1 + 0.1 * rng.random(200)
    x[:2, 2] = x[:2, 0] + [0.9, -0.8]
    result = randomized_tukey(x, n_resamples=2000)
    assert result.pairs[0].p_value < 0.01
    assert 2 == result.pairs[1].n


def test_the_interval_excludes_0_exactly_where_the_test_rejects():
    """Enumerated and drawn, at levels whose share of permutations is whole and not."""
    rng = np.random.default_rng(5)
    seen = set()
    for seed in range(60):
        x = rng.integers(0, 5, (int(rng.integers(3, 12)), 3)) + np.array([0.0, 0.7, 1.2])
        for level in (0.5, 0.8, 0.95):
            for pair in randomized_tukey(x, confidence_level=level, n_resamples=499, seed=seed).pairs:
                rejected = pair.p_value <= 1 - level + 1e-12
                excluded = pair.low is not None and not pair.low <= 0 <= pair.high
                assert rejected == excluded
                seen.add(rejected)
    assert {True, False} == seen


def test_directed_pairs_have_one_end():
    """A claim of "greater" has a lower end, one of "less" an upper one; the other is open."""
    x = np.random.default_rng(1).random((40, 2)) + np.array([0.5, 0.0])
    (up,) = randomized_tukey(x, pairs=[(0, 1)], alternative="greater").pairs
    (down,) = randomized_tukey(x, pairs=[(1, 0)], alternative="less").pairs
    (wrong,) = randomized_tukey(x, pairs=[(1, 0)], alternative="greater").pairs
    assert 0 < up.low < up.difference
    assert up.high is None
    assert (None, -up.difference) == (down.low, down.difference)
    assert down.high < 0
    assert up.p_value < 0.001
    assert wrong.p_value > 0.99


def test_too_few_arrangements_reject_nothing_and_bound_nothing():
    """One sample; three samples at 95 %; and fewer permutations drawn than a twentieth needs."""
    (one,) = randomized_tukey([[0.9, 0.1]]).pairs
    assert (1.0, None, None) == (one.p_value, one.low, one.high)
    (three,) = randomized_tukey([[0.9, 0.1]] * 3).pairs
    assert (0.25, None, None) == (three.p_value, three.low, three.high)
    x = np.random.default_rng(0).random((50, 2)) + np.array([1.0, 0.0])
    assert (0.1, None) == (
        randomized_tukey(x, n_resamples=9).pairs[0].p_value,
        randomized_tukey(x, n_resamples=9).pairs[0].low,
    )
    assert randomized_tukey(x, n_resamples=19).pairs[0].low is not None


def test_equal_systems_differ_in_nothing():
    """The same score everywhere: one arrangement, p = 1, no interval from what never varies."""
    result = randomized_tukey([[0.5, 0.5, 0.5]] * 10)
    assert (True, 1, 0) == (result.exact, result.n_resamples, result.n_units)
    assert [(0.0, 1.0, None, 10)] * 3 == [(p.difference, p.p_value, p.low, p.n) for p in result.pairs]


def test_a_system_without_scores_cannot_be_tested():
    """Its pairs say None; the others are as without it. So are all pairs of no rows at all."""
    x = np.random.default_rng(4).random((30, 3))
    x[:, 2] = NAN
    first, *others = randomized_tukey(x).pairs
    assert first.p_value == pytest.approx(randomized_tukey(x[:, :2]).pairs[0].p_value, abs=0.03)
    assert [(None, None, None, None, 0)] * 2 == [(p.difference, p.p_value, p.mc_error, p.low, p.n) for p in others]
    assert [None] * 3 == [p.p_value for p in randomized_tukey(np.empty((0, 3))).pairs]
    assert [None] * 3 == [p.p_value for p in randomized_tukey(np.full((5, 3), NAN)).pairs]


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
        randomized_tukey(scores, **options)


def test_the_seed_is_all_the_chance_there_is():
    """The same seed gives the same result, in whatever thread and order; another seed another one."""
    x = np.random.default_rng(9).random((300, 4))
    alone = [randomized_tukey(x, n_resamples=1000, seed=seed) for seed in range(6)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: randomized_tukey(x, n_resamples=1000, seed=seed), reversed(range(6))))
    assert alone == together[::-1]
    assert len({one.pairs for one in alone}) == 6


def test_chunks_of_an_enumeration_do_not_show(monkeypatch):
    """One arrangement at a time or all at once: the same p-values."""
    x = np.array(CASES[5][0])
    whole = randomized_tukey(x)
    monkeypatch.setattr(_arrange, "_CELLS", 1)
    assert whole == randomized_tukey(x)


def test_rounding_breaks_no_ties():
    """Tenths have no exact binary form, and their sums depend on the order: they are the ties that whole numbers are."""
    rng = np.random.default_rng(6)
    for _ in range(30):
        x = rng.integers(0, 4, (9, 2)).astype(float)
        whole, tenths = randomized_tukey(x), randomized_tukey(x / 10 + 0.3)
        assert [p.p_value for p in whole.pairs] == [p.p_value for p in tenths.pairs]
