"""Step-down tests of many paired differences, against all signs counted one by one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from paper_test import tukey_p_values
from ragstone.stats import simultaneous_differences

NAN = math.nan
ROWS = [[3, NAN, 2], [5, 1, NAN], [4, 3, 0], [NAN, 0, 1], [9, NAN, 7], [2, 2, 2], [1, 0, 4]]
OTHER = [[0, 1, 0], [1, 1, 0], [1, NAN, 1], [0, 0, 1], [1, 0, 0], [0, 1, 1], [1, 0, NAN]]


def columns_of(tables, pairs, clusters, weights):
    """Weighted sums of differences and weights by cluster, one column for each table and pair."""
    names = list(dict.fromkeys(clusters))
    sums, sizes = [], []
    for table, (i, j) in itertools.product(tables, pairs):
        d = np.asarray(table, dtype=float)[:, i] - np.asarray(table, dtype=float)[:, j]
        by = {name: [0.0, 0.0] for name in names}
        for one, name, w in zip(d, clusters, weights, strict=True):
            if not math.isnan(one):
                by[name][0] += w * one
                by[name][1] += w
        sums.append([by[name][0] for name in names])
        sizes.append([by[name][1] for name in names])
    return np.array(sums), np.array(sizes)


def by_counting(sums, alternative):
    """Step-down p-values, and the critical value of all columns at 60%, from all signs."""

    def statistics(signs):
        raw = (sums * signs).sum(axis=1) / np.sqrt((sums**2).sum(axis=1))
        return {"two-sided": abs(raw), "greater": raw, "less": -raw}[alternative]

    drawn = np.array([statistics(np.array(s)) for s in itertools.product((1, -1), repeat=sums.shape[1])])
    observed = statistics(np.ones(sums.shape[1]))
    p, left, highest = np.zeros(len(sums)), list(range(len(sums))), 0.0
    while left:
        best = max(left, key=lambda i: observed[i])
        highest = max(highest, (drawn[:, left].max(axis=1) >= observed[best] - 1e-9).mean())
        p[best] = highest
        left.remove(best)
    ordered = np.sort(drawn.max(axis=1))
    return p, ordered[-1 - math.floor(0.4 * ordered.size + 1e-9)]


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("clusters", [None, ["a", "a", "b", None, "b", None, "c"]])
@pytest.mark.parametrize("weights", [None, [1, 4, 1, 2, 1, 1, 3]])
def test_p_values_are_those_of_all_signs(alternative, clusters, weights):
    """Step by step, with missing scores, clusters, weights and two metrics."""
    pairs = [(0, 1), (0, 2), (2, 1)]
    results = simultaneous_differences(
        [ROWS, OTHER], pairs=pairs, clusters=clusters, weights=weights, alternative=alternative, confidence_level=0.6
    )
    names = [name if name is not None else f"row {i}" for i, name in enumerate(clusters or [None] * 7)]
    sums, sizes = columns_of([ROWS, OTHER], pairs, names, weights or [1] * 7)
    expected, critical = by_counting(sums, alternative)
    found = [pair for result in results for pair in result.pairs]
    assert expected.tolist() == pytest.approx([pair.p_value for pair in found])
    assert [sums[i].sum() / sizes[i].sum() for i in range(6)] == pytest.approx([pair.difference for pair in found])
    assert all(result.exact for result in results)
    # A limit is the difference whose statistic is the critical value, or that of Student's t if it is larger.
    for pair, of_units, weight in zip(found, sums, sizes, strict=True):
        n = int((weight > 0).sum())
        t = stats.t.ppf(0.8 if alternative == "two-sided" else 0.6, n - 1)
        least = max(critical, t * math.sqrt(n / (n - 1 + t * t)))

        def ends(unseen, of_units=of_units, weight=weight, least=least, n=n, value=pair.difference):
            """Solve for the limits, with further units without a difference."""

            def excess(d):
                moved = of_units - d * weight
                return abs(moved.sum()) / math.sqrt((moved**2).sum() + unseen * (d * weight.sum() / n) ** 2) - least

            return brentq(excess, value - 1e4, value), brentq(excess, value, value + 1e4)

        if pair.low is not None or pair.high is not None:
            (low, high), further = ends(0), ends(2)
            reach = pair.difference - further[0] if pair.difference > 0 else further[1] - pair.difference
            expected_ends = min(low, pair.difference - reach), max(high, pair.difference + reach)
            assert pair.low in (None, pytest.approx(expected_ends[0]))
            assert pair.high in (None, pytest.approx(expected_ends[1]))
        assert (pair.low is None, pair.high is None) >= (alternative == "less", alternative == "greater")
    assert any(pair.low is not None or pair.high is not None for pair in found)


def test_an_interval_is_student_s_for_one_pair():
    """With many samples of one pair, the critical value of random signs is nearly that of Student's t."""
    d = np.random.default_rng(3).normal(0.1, 1, 400)
    (result,) = simultaneous_differences([np.stack([d, np.zeros(400)], axis=1)], n_resamples=40_000)
    low, high = stats.t.interval(0.95, 399, d.mean(), stats.sem(d))
    assert (low, high) == pytest.approx((result.pairs[0].low, result.pairs[0].high), abs=0.004)


def test_few_possible_values_do_not_make_an_interval_short():
    """Six equal signs have only seven sums, of which the second largest is far below the limit of Student's t."""
    d = [0.5, 0.4, 0.4, 0.3, 0.3, 0.4]
    (result,) = simultaneous_differences([[[one, 0.0] for one in d]])
    low, high = stats.t.interval(0.95, 5, np.mean(d), stats.sem(d))
    assert result.pairs[0].low < low < high < result.pairs[0].high


def test_equal_differences_have_an_interval():
    """Of nine samples that all differ by 1, the interval has a width, and more samples make it shorter."""
    ends = [simultaneous_differences([[[1.0, 0.0]] * n])[0].pairs[0].low for n in (9, 30, 300)]
    assert ends == pytest.approx([0.72, 0.91, 0.99], abs=0.01)


def test_a_noisy_system_costs_little():
    """A difference of two systems stays significant beside a third one that varies much more, where the test of CCRS loses it."""
    rng = np.random.default_rng(1)
    base, noise = rng.normal(size=80), rng.normal(size=80)
    quiet = np.stack([base, base + 0.3 + 0.5 * rng.normal(size=80)], axis=1)
    noisy = np.column_stack([quiet, 20 * noise])
    (two,), (three,) = simultaneous_differences([quiet]), simultaneous_differences([noisy])
    alone, beside = two.pairs[0], three.pairs[0]
    assert alone.p_value < 0.001
    assert beside.p_value < 0.005
    assert beside.high - beside.low < 1.35 * (alone.high - alone.low)
    assert tukey_p_values(noisy)[0][1] > 0.5


def test_a_rejected_pair_leaves_the_family():
    """A p-value of 0.03 alone is the same beside a clear difference, which no longer counts, and an interval covers both."""
    rng = np.random.default_rng(0)
    d = rng.normal(size=60)
    weak = (d - d.mean() + 0.28) / d.std()
    clear = rng.normal(5, 1, size=60)
    x = [np.stack([one, np.zeros(60)], axis=1) for one in (weak, clear)]
    (alone,), (one, other) = simultaneous_differences(x[:1]), simultaneous_differences(x)
    assert one.pairs[0].p_value == pytest.approx(alone.pairs[0].p_value, abs=0.01)
    assert alone.pairs[0].p_value < 0.05
    assert other.pairs[0].p_value < 0.001
    assert one.pairs[0].low < alone.pairs[0].low


def test_what_has_no_scores_takes_no_part():
    """A metric without a score, a pair without a common score and equal scores do not change the others."""
    rng = np.random.default_rng(2)
    x = rng.random((40, 2))
    absent, equal = np.full((40, 2), NAN), np.ones((40, 2))
    (alone,) = simultaneous_differences([x])
    found, without, same = simultaneous_differences([x, absent, equal])
    assert alone.pairs[0].p_value == found.pairs[0].p_value
    assert alone.pairs[0].low == pytest.approx(found.pairs[0].low)
    assert (0, None, None, None) == (
        without.pairs[0].n,
        without.pairs[0].difference,
        without.pairs[0].p_value,
        without.pairs[0].low,
    )
    assert (40, 0.0, 1.0, None) == (
        same.pairs[0].n,
        same.pairs[0].difference,
        same.pairs[0].p_value,
        same.pairs[0].low,
    )
    # A one-sided statistic of 0 would be larger than a negative one.
    worse = x - np.array([0.05, 0.0])
    side = {"pairs": [(0, 1)], "alternative": "greater"}
    (alone,), (found, _) = simultaneous_differences([worse], **side), simultaneous_differences([worse, absent], **side)
    assert 0.5 < found.pairs[0].p_value < 1
    assert alone.pairs[0].p_value == found.pairs[0].p_value
    (nothing,) = simultaneous_differences([absent])
    assert nothing.pairs[0].p_value is None


@pytest.mark.parametrize("clusters", [None, [i // 3 for i in range(90)]])
def test_the_order_of_samples_and_of_systems_does_not_matter(clusters):
    """Shuffled samples give the same result, and systems in the other order the opposite one."""
    rng = np.random.default_rng(5)
    x, order = rng.random((90, 2)), rng.permutation(90)
    (one,) = simultaneous_differences([x], clusters=clusters)
    (shuffled,) = simultaneous_differences([x[order]], clusters=clusters and [clusters[i] for i in order])
    assert one.pairs[0].p_value == shuffled.pairs[0].p_value
    assert one.pairs[0].low == pytest.approx(shuffled.pairs[0].low)
    (turned,) = simultaneous_differences([x], pairs=[(1, 0)], clusters=clusters)
    assert one.pairs[0].p_value == pytest.approx(turned.pairs[0].p_value, abs=0.02)
    assert one.pairs[0].low == pytest.approx(-turned.pairs[0].high, abs=0.01)


def test_many_samples_are_joined_to_blocks():
    """The result of 40,000 samples is that of the normal limit."""
    d = np.random.default_rng(6).normal(0.008, 1, 40_000)
    (result,) = simultaneous_differences([np.stack([d, np.zeros(d.size)], axis=1)], n_resamples=2000)
    assert 1 << 14 == result.n_units
    assert result.pairs[0].difference == pytest.approx(d.mean())
    assert result.pairs[0].p_value == pytest.approx(2 * stats.norm.sf(abs(d.mean()) / stats.sem(d)), abs=0.03)


def test_rounding_does_not_make_a_difference():
    """Differences that cancel within a cluster are 0, although their sum in floating point is not."""
    x = [[0.3, 0.0], [0.0, 0.1], [0.0, 0.2], [0.5, 0.0], [0.1, 0.0]]
    (result,) = simultaneous_differences([x], clusters=["a", "a", "a", "b", "c"])
    assert 2 == result.n_units


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [1.0, 0.0]}, "finite weight above 0"),
        ({"weights": [1.0]}, "each of 2 samples needs a finite weight"),
        ({"clusters": ["a"]}, "each of 2 items needs a cluster, got 1"),
        ({"n_resamples": 0}, "n_resamples must be at least 1"),
        ({"confidence_level": 1.0}, "confidence_level must be in"),
        ({"alternative": "less"}, "requires pairs"),
        ({"pairs": [(0, 2)]}, "two different columns from 0 to 1"),
    ],
)
def test_invalid_options_are_refused(options, message):
    """Each is named with the rule."""
    with pytest.raises(ValueError, match=message):
        simultaneous_differences([[[1.0, 0.0], [0.5, 0.0]]], **options)


def test_tables_of_different_samples_are_refused():
    """All metrics have the same samples."""
    with pytest.raises(ValueError, match="the same samples and systems"):
        simultaneous_differences([[[1.0, 0.0]], [[1.0, 0.0], [0.5, 0.0]]])
