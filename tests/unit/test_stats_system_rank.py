"""Rank correlation of systems: values, ties, clusters, coverage, and arguments that cannot be used."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau

from ragstone.stats import kendall_of_means


def table(rng, n=40, k=5, spread=0.2, noise=0.2):
    """Scores of `k` systems on `n` topics by two metrics."""
    means = rng.normal(0.5, spread, k)
    topic = rng.normal(0, 0.1, (n, 1))
    return tuple(means + topic + rng.normal(0, noise, (n, k)) for _ in range(2))


@pytest.mark.parametrize("seed", range(5))
def test_the_value_is_kendalls_tau_of_the_means(seed):
    """As SciPy computes it, also with ties."""
    first, second = table(np.random.default_rng(seed), k=7)
    first[:, 3] = first[:, 4]
    found = kendall_of_means(first, second, n_resamples=50)
    assert pytest.approx(kendalltau(first.mean(axis=0), second.mean(axis=0)).statistic) == found.value
    assert -1 <= found.low <= found.value <= found.high <= 1
    assert 40 == found.n


def test_equal_means_have_no_ranking():
    """Rounding does not make an order."""
    x = np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.2, 0.2, 0.2]])
    assert kendall_of_means(x, [[1, 2, 3]] * 3) is None


def test_a_ranking_that_no_resample_changes():
    """Its interval is not a point: other topics could show another order."""
    x = [[0.0, 1.0, 2.0]] * 8
    for y, value in ((x, 1.0), ([row[::-1] for row in x], -1.0)):
        found = kendall_of_means(x, y)
        assert (value, "wilson") == (found.value, found.method)
        assert 0.1 < found.high - found.low < 1


def test_rare_changes_of_the_order_widen_the_interval():
    """About 1% of the resamples exchange two systems, which a percentile interval does not show."""
    difference = [1.31 if i % 2 else -0.69 for i in range(50)]
    found = kendall_of_means([[0.0, d, 10.0] for d in difference], [[0.0, 1.0, 2.0]] * 50)
    assert (1.0, 1.0, "bootstrap") == (found.value, found.high, found.method)
    assert 0.5 < found.low < 0.95


def test_clusters_are_resampled_as_a_whole():
    """Topics that are copied four times are not four times as many; a cluster of one topic each changes nothing."""
    rng = np.random.default_rng(1)
    first, second = table(rng, n=20, k=8, spread=0.05)
    alone = kendall_of_means(first, second)
    copied = [np.repeat(x, 4, axis=0) for x in (first, second)]
    naive = kendall_of_means(*copied)
    clustered = kendall_of_means(*copied, [f"c{n}" for n in range(20) for _ in range(4)])
    assert naive.high - naive.low < 0.8 * (alone.high - alone.low)
    assert pytest.approx((alone.low, alone.high)) == (clustered.low, clustered.high)
    assert alone == kendall_of_means(first, second, [None] * 20)


def test_the_mean_over_topics_counts_each_topic():
    """Also if clusters have different sizes."""
    x = [[0.0, 0.4], [0.0, 0.4], [0.0, 0.4], [1.0, 0.0]]
    found = kendall_of_means(x, [[0, 1]] * 4, ["a", "a", "a", "b"])
    assert 1.0 == found.value


def test_more_confidence_is_wider_and_a_seed_repeats():
    """The options reach the interval."""
    first, second = table(np.random.default_rng(2), k=8, spread=0.1)
    narrow, wide = (kendall_of_means(first, second, confidence_level=level) for level in (0.8, 0.99))
    assert wide.high - wide.low > narrow.high - narrow.low
    assert wide == kendall_of_means(first, second, confidence_level=0.99)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([[1, 2]], [[1, 2, 3]]), "shapes"),
        (([[1], [2]], [[1], [2]]), "at least 2 systems"),
        (([[1, float("nan")], [1, 2]], [[1, 2], [1, 2]]), "finite"),
        (([[1, 2]], [[1, 2]]), "at least 2 clusters"),
        (([[1, 2], [2, 1]], [[1, 2], [2, 1]], ["a", "a"]), "at least 2 clusters"),
        (([[1, 2], [2, 1]], [[1, 2], [2, 1]], ["a"]), "cluster of each"),
    ],
)
def test_impossible_arguments(arguments, words):
    """The message names the rule."""
    with pytest.raises(ValueError, match=words):
        kendall_of_means(*arguments)
    with pytest.raises(ValueError, match="n_resamples must be at least 2"):
        kendall_of_means([[1, 2], [2, 1]], [[1, 2], [2, 1]], n_resamples=1)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "n", "spread"), [(3, 30, 0.05), (6, 100, 0.15), (12, 30, 0.05), (24, 100, 0.05)])
def test_coverage(k, n, spread):
    """Of the mean of tau over sets of as many topics."""
    rng = np.random.default_rng(k * n)
    hits = 0
    for repeat in range(120):
        one = rng.normal(0.6, spread, k)
        two = 0.6 + 0.8 * (one - 0.6) + rng.normal(0, 0.6 * spread, k)

        def tau(n_sets, one=one, two=two):
            sets = [means + rng.normal(0, 0.25 / n**0.5, (n_sets, k)) for means in (one, two)]
            return np.mean([kendalltau(a, b).statistic for a, b in zip(*sets, strict=True)])

        topic = rng.normal(0, 0.15, (n, 1))
        first, second = (means + topic + rng.normal(0, 0.25, (n, k)) for means in (one, two))
        found = kendall_of_means(first, second, n_resamples=400, seed=repeat)
        hits += found.low <= tau(60) <= found.high
    assert hits >= 0.88 * 120


def test_means_that_differ_by_rounding_are_tied():
    """0.1 + 0.2 is 0.3: two of three systems are tied in the first metric."""
    first = [[0.1 + 0.2, 0.3, 0.9]] * 4
    second = [[0.1, 0.2, 0.3]] * 4
    assert kendall_of_means(first, second).value == pytest.approx(2 / 6**0.5)


def test_few_topics_have_students_interval():
    """The value plus and minus Student's t times the standard deviation of the resampled taus."""
    from scipy import stats

    rng = np.random.default_rng(5)
    first, second = rng.random((2, 4, 30)) + np.arange(30) / 60
    found = kendall_of_means(first, second, n_resamples=3000, seed=4)
    counts = np.random.default_rng(4).multinomial(4, np.full(4, 1 / 4), size=3000)
    taus = [stats.kendalltau(row @ first, row @ second).statistic for row in counts]
    half = stats.t.ppf(0.975, 3) * np.std(taus, ddof=1)
    ends = np.quantile(taus, [0.025, 0.975])
    assert (found.low, found.high) == pytest.approx(
        (max(-1, min(ends[0], found.value - half)), min(1, max(ends[1], found.value + half)))
    )
    assert found.value + half == pytest.approx(found.high)
    assert found.high < 1
