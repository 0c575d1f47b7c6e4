"""Agreement: what is undefined, what is missing, and intervals; the values themselves are checked in tests/golden."""

from __future__ import annotations

import math

import numpy as np
import pytest

from intervals import ends
from ragstone.stats import (
    cohen_kappa,
    fleiss_kappa,
    flip_rate,
    krippendorff_alpha,
    landis_koch,
    percent_agreement,
    wilson_interval,
)


def test_cohen_worked_out_by_hand():
    """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed 0.7, expected 0.5, kappa 0.4."""
    first = ["yes"] * 25 + ["no"] * 25
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    found = cohen_kappa(first, second)
    assert (0.4, 0.7, 0.5) == pytest.approx((found.coefficient.value, found.observed, found.expected))
    assert found.coefficient.low < 0.4 < found.coefficient.high
    assert ("bootstrap", 50, 0, "fair") == (found.coefficient.method, found.n, found.n_left_out, found.words)


@pytest.mark.parametrize(
    "found",
    [
        cohen_kappa([1, 1, 1], [1, 1, 1]),
        fleiss_kappa([["a", "a"], ["a", "a"]]),
        krippendorff_alpha([[2, 2], [2, None]]),
        krippendorff_alpha([[0.1, 0.1], [0.1, 0.1]], scale="interval"),
        krippendorff_alpha([[0.1, 0.1], [0.1, 0.1]], scale="ordinal"),
    ],
)
def test_one_category_has_no_agreement_beyond_chance(found):
    """Everybody always says the same: undefined, neither 0 nor 1."""
    assert found.coefficient is None
    assert "undefined" == found.words


def test_nothing_rated_is_undefined():
    """No items, or none with two ratings: no coefficient, and the items are counted."""
    assert (None, 0, 2) == (
        (found := krippendorff_alpha([[1, None], [None, 2]])).coefficient,
        found.n,
        found.n_left_out,
    )
    assert (None, 0, 1) == ((found := cohen_kappa([None], [1])).coefficient, found.n, found.n_left_out)
    assert fleiss_kappa([]).coefficient is None
    assert percent_agreement([[1, None]]) is None


def test_missing_ratings_are_left_out_and_counted():
    """None and NaN say nothing; Cohen needs both raters, Krippendorff any two."""
    a, b = [1, 0, 1, None, math.nan, 0], [1, 0, 0, 1, 1, 0]
    found = cohen_kappa(a, b)
    assert (4, 2) == (found.n, found.n_left_out)
    assert cohen_kappa([1, 0, 1, 0], [1, 0, 0, 0]).coefficient.value == found.coefficient.value
    assert (4, 2) == ((alpha := krippendorff_alpha(list(zip(a, b, strict=True)))).n, alpha.n_left_out)


def test_weights_forgive_neighbours():
    """Raters one step apart agree better the more distance counts."""
    a, b = [1, 2, 3, 4, 5, 1, 2, 3, 4, 5], [1, 3, 3, 5, 5, 2, 2, 4, 4, 5]
    plain, linear, quadratic = (
        cohen_kappa(a, b, weights=weights).coefficient.value for weights in ("none", "linear", "quadratic")
    )
    assert plain < linear < quadratic < 1


def test_given_categories_set_the_distance():
    """An unused grade in the middle is a step all the same."""
    a, b = [0, 2, 0, 2, 0], [0, 2, 2, 2, 0]
    close = cohen_kappa(a, b, weights="linear")
    apart = cohen_kappa(["bad", "good", "bad"], ["bad", "good", "good"], categories=["bad", "fair", "good"])
    assert close.observed < cohen_kappa(a, b, weights="linear", categories=[0, 1, 2, 3, 4]).observed
    assert 3 == apart.n


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_percent_agreement_of_two_raters_is_a_proportion(level):
    """Seven of ten, with Wilson's interval at the wanted level."""
    found = percent_agreement([["a", "a"]] * 7 + [["a", "b"]] * 3, confidence_level=level)
    expected = wilson_interval(7, 10, confidence_level=level)
    assert (0.7, *ends(expected)) == pytest.approx((found.value, found.low, found.high))


def test_interval_of_kappa_covers_at_its_level():
    """Of 300 intervals at n = 100, about 95 in 100 hold the true kappa (0.6 by construction)."""
    rng = np.random.default_rng(3)
    covered = []
    for _ in range(300):
        a = rng.integers(0, 2, 100)
        b = np.where(rng.random(100) < 0.8, a, 1 - a)
        e = cohen_kappa(a.tolist(), b.tolist(), n_resamples=400).coefficient
        covered.append(e.low <= 0.6 <= e.high)
    assert 0.90 <= np.mean(covered) <= 0.985


def test_interval_of_alpha_is_that_of_kappa_where_both_mean_the_same():
    """Two raters, no missing ratings, many items: the three coefficients and their intervals nearly agree."""
    rng = np.random.default_rng(5)
    a = rng.integers(0, 3, 1500)
    b = np.where(rng.random(1500) < 0.7, a, rng.integers(0, 3, 1500))
    pairs = np.stack([a, b], axis=1).tolist()
    found = [cohen_kappa(a.tolist(), b.tolist()), fleiss_kappa(pairs), krippendorff_alpha(pairs)]
    for other in found[1:]:
        assert found[0].coefficient.value == pytest.approx(other.coefficient.value, abs=0.002)
        assert found[0].coefficient.low == pytest.approx(other.coefficient.low, abs=0.01)
        assert found[0].coefficient.high == pytest.approx(other.coefficient.high, abs=0.01)


@pytest.mark.parametrize(
    ("kappa", "word"),
    [
        (-0.1, "poor"), (0.0, "slight"), (0.005, "slight"), (0.2, "slight"), (0.204, "slight"), (0.21, "fair"),
        (0.4, "fair"), (0.41, "moderate"), (0.6, "moderate"), (0.61, "substantial"), (0.8, "substantial"),
        (0.81, "almost perfect"), (0.85, "almost perfect"), (1.0, "almost perfect"),
    ],
)  # fmt: skip
def test_words(kappa, word):
    """The bands touch: 0 to 0.20 is slight, with nothing unassigned."""
    assert word == landis_koch(kappa)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cohen_kappa([1], [1, 2]), "1 and 2"),
        (lambda: cohen_kappa([1], [1], weights="cubic"), "cubic"),
        (lambda: cohen_kappa([1, 2], [1, 3], categories=[1, 2]), "got 3"),
        (lambda: cohen_kappa([1, "a"], [1, 2]), "both"),
        (lambda: cohen_kappa([1], [1], n_resamples=0), "n_resamples"),
        (lambda: fleiss_kappa([[1, None], [1, 2]]), "krippendorff_alpha"),
        (lambda: fleiss_kappa([[1], [1]]), "at least 2"),
        (lambda: fleiss_kappa([[1, 2], [1]]), "1, 2"),
        (lambda: krippendorff_alpha([["a", "b"], ["a", "a"]], scale="ordinal"), "needs numbers"),
        (lambda: krippendorff_alpha([[1, 2]], scale="ratio"), "ratio"),
        (lambda: landis_koch(math.nan), "nan"),
        (lambda: flip_rate([[1, 2]], threshold=-1), "-1"),
    ],
)
def test_bad_input_is_refused(call, message):
    """The message names the value."""
    with pytest.raises(ValueError, match=message):
        call()


def test_flip_rate_by_hand():
    """Of three repeats with one odd one out two of three pairs differ; items with one repeat are left out."""
    found = flip_rate([[1.0, 1.0, 0.0], [0.5, 0.5], [0.7], [None, 0.2, math.nan], [0.0, 0.0, 0.0]])
    assert 2 / 9 == pytest.approx(found.pairs.value)
    assert 1 / 3 == pytest.approx(found.items.value)
    assert ends(wilson_interval(1, 3)) == pytest.approx((found.items.low, found.items.high))
    assert (3, 2, 8) == (found.n, found.n_left_out, found.n_replies)
    assert math.sqrt((2 / 3) / 5) == pytest.approx(found.spread)


def test_flip_rate_has_a_threshold():
    """A difference of exactly the threshold is no flip, nor is a rounding error."""
    assert 0 == flip_rate([[0.1 + 0.2, 0.3]]).pairs.value
    assert 0 == flip_rate([[0.2, 0.3]], threshold=0.1).pairs.value
    assert 1 == flip_rate([[0.2, 0.3]], threshold=0.09).pairs.value
    assert flip_rate([[1.0], []]) is None


def test_a_constant_rater_leaves_kappa_unknown():
    """The coefficient is 0 in every resample, which says nothing about its error."""
    for n in (1, 50):
        found = cohen_kappa(["a", "a"] * n, ["a", "b"] * n).coefficient
        assert (0.0, -1.0, 1.0, "range") == (found.value, found.low, found.high, found.method)


@pytest.mark.parametrize("n", [2, 3, 30])
def test_perfect_agreement_of_few_items_is_not_certain(n):
    """No resample can doubt it, so the interval is that of a share of n in n, of which some agree by chance."""
    ratings = [[i % 2, i % 2] for i in range(n)]
    first, second = zip(*ratings, strict=True)
    chance = ((n + 1) // 2 / n) ** 2 + (n // 2 / n) ** 2
    least = (n / (n + 1.959964**2) - chance) / (1 - chance)
    for found in (cohen_kappa(first, second), fleiss_kappa(ratings), krippendorff_alpha(ratings, scale="interval")):
        e = found.coefficient
        assert (1.0, 1.0, "wilson") == (e.value, e.high, e.method)
        assert least == pytest.approx(e.low)
    # One disagreement, and the bootstrap knows better than nothing.
    assert "bootstrap" == cohen_kappa([*first, 0, 0], [*second, 1, 0]).coefficient.method


COPIES = 4


def clustered(n_clusters, icc, rng, *, size=5, agree=0.8):
    """Yes/no ratings of two raters with kappa 2 * agree - 1; the items of a cluster share their ratings with this correlation."""
    groups = np.repeat(np.arange(n_clusters), size)
    shared = rng.random(groups.size) < icc**0.5

    def mixed(draw):
        return np.where(shared, draw(n_clusters)[groups], draw(groups.size))

    a = mixed(lambda n: (rng.random(n) < 0.5).astype(int))
    b = np.where(mixed(rng.random) < agree, a, 1 - a)
    return a.tolist(), b.tolist(), groups.tolist()


@pytest.mark.parametrize("measure", ["cohen", "weighted", "fleiss", "krippendorff", "percent"])
def test_copies_of_items_do_not_narrow_an_interval(measure):
    """Four copies of each item in one cluster: the coefficient stays, and so does its jackknife interval over clusters."""
    rng = np.random.default_rng(1)
    a = rng.integers(0, 3, 40).tolist()
    b = [x if keep else (x + 1) % 3 for x, keep in zip(a, rng.random(40) < 0.7, strict=True)]

    def found(first, second, clusters):
        pairs = list(zip(first, second, strict=True))
        match measure:
            case "cohen":
                return cohen_kappa(first, second, clusters=clusters).coefficient
            case "weighted":
                return cohen_kappa(first, second, weights="quadratic", clusters=clusters).coefficient
            case "fleiss":
                return fleiss_kappa(pairs, clusters=clusters).coefficient
            case "krippendorff":
                return krippendorff_alpha(pairs, clusters=clusters).coefficient
            case _:
                return percent_agreement(pairs, clusters=clusters)

    once, alone = found(a, b, None), found(a * COPIES, b * COPIES, None)
    clusters = found(a * COPIES, b * COPIES, list(range(40)) * COPIES)
    assert clusters.value == pytest.approx(once.value, abs=0.01)
    assert clusters.method == ("cluster" if measure == "percent" else "jackknife")
    assert clusters.high - clusters.low == pytest.approx(once.high - once.low, rel=0.15)
    assert clusters.high - clusters.low > 1.7 * (alone.high - alone.low)
    # Clusters of one item are no clusters.
    assert found(a, b, list(range(40))) == once


def test_missing_ratings_leave_their_clusters():
    """A cluster of only unrated items does not count, and labels stay with their items."""
    a, b, groups = clustered(12, 0.5, np.random.default_rng(3))
    whole = cohen_kappa(a, b, clusters=groups)
    more = cohen_kappa([None, *a, 1], [1, *b, math.nan], clusters=["x", *groups, 0])
    assert (whole.coefficient, 2) == (more.coefficient, more.n_left_out)
    pairs = [[1, None], *map(list, zip(a, b, strict=True))]
    alpha = krippendorff_alpha(pairs[1:], clusters=groups).coefficient
    assert alpha == krippendorff_alpha(pairs, clusters=["x", *groups]).coefficient


def test_the_jackknife_of_kappa_by_hand():
    """Kappa without each of five clusters, the variance (n - 1) / n times the squares, Student's t with 4 degrees."""
    a, b, groups = clustered(5, 0.3, np.random.default_rng(8), size=8)
    found = cohen_kappa(a, b, clusters=groups).coefficient
    kept = [[i for i, g in enumerate(groups) if g != left] for left in range(5)]
    without = [cohen_kappa([a[i] for i in ids], [b[i] for i in ids]).coefficient.value for ids in kept]
    error = 2.776445 * math.sqrt(4 / 5 * sum((one - found.value) ** 2 for one in without))
    assert (found.value - error, min(1.0, found.value + error)) == pytest.approx(ends(found), abs=1e-6)


def test_agreement_of_all_counts_clusters():
    """Ten clusters without a disagreement show less than a hundred items, and two clusters show nothing of a coefficient."""
    a = [0, 1] * 50
    found = cohen_kappa(a, a, clusters=[i // 10 for i in range(100)]).coefficient
    assert (1.0, pytest.approx(2 * wilson_interval(10, 10).low - 1), 100) == (found.value, found.low, found.n)
    b = [1, 1, *a[2:]]
    assert "range" == cohen_kappa(a, b, clusters=[i // 50 for i in range(100)]).coefficient.method


@pytest.mark.parametrize("icc", [0.0, pytest.param(0.3, marks=pytest.mark.slow), 0.5])
def test_kappa_over_clusters_covers(icc):
    """30 clusters of five: about 95 in 100 intervals hold the true kappa (0.6), of independent items far fewer."""
    rng = np.random.default_rng(17)
    over, alone, runs = 0, 0, 400
    for _ in range(runs):
        a, b, groups = clustered(30, icc, rng)
        found = cohen_kappa(a, b, clusters=groups).coefficient
        over += found.low <= 0.6 <= found.high
        plain = cohen_kappa(a, b, n_resamples=200).coefficient
        alone += plain.low <= 0.6 <= plain.high
    assert over >= 0.92 * runs
    if icc == 0.5:
        assert alone <= 0.88 * runs


def test_flips_of_a_session_are_not_independent():
    """Copies of an item in one cluster do not narrow the interval of the flip rate."""
    rows = [[1.0, float(i % 3 > 0)] for i in range(30)]
    once, copied = flip_rate(rows), flip_rate(rows * COPIES, clusters=list(range(30)) * COPIES)
    assert copied.pairs.value == pytest.approx(once.pairs.value)
    assert copied.items.high - copied.items.low == pytest.approx(once.items.high - once.items.low, rel=0.1)
    left_out = flip_rate([[1.0], *rows * COPIES], clusters=["x", *list(range(30)) * COPIES])
    assert (left_out.pairs, 1) == (copied.pairs, left_out.n_left_out)


@pytest.mark.parametrize(
    "call",
    [
        lambda: cohen_kappa([1, 0], [1, 0], clusters=["a"]),
        lambda: fleiss_kappa([[1, 0], [1, 1]], clusters=["a"]),
        lambda: krippendorff_alpha([[1, 0], [1, 1]], clusters=["a"]),
        lambda: percent_agreement([[1, 0], [1, 1]], clusters=["a"]),
        lambda: flip_rate([[1, 0], [1, 1]], clusters=["a"]),
    ],
)
def test_each_item_needs_a_cluster(call):
    """The message has both numbers."""
    with pytest.raises(ValueError, match="each of 2 items needs a cluster, got 1 clusters"):
        call()


def test_nominal_alpha_by_its_definition():
    """Disagreeing pairs of ratings within items, and of all ratings, with missing ones and an item of one rating."""
    ratings = [["a", "a", "b"], ["b", "b", None], ["a", None, None], ["c", "c", "a"], ["b", "c", "b"]]
    items = [[r for r in row if r is not None] for row in ratings]
    items = [row for row in items if len(row) > 1]
    pooled = [r for row in items for r in row]

    def disagreeing(values):
        return sum(v != w for v in values for w in values)

    n = len(pooled)
    observed = sum(disagreeing(row) / (len(row) - 1) for row in items) / n
    expected = disagreeing(pooled) / (n * (n - 1))
    found = krippendorff_alpha(ratings)
    assert (1 - observed / expected, 1 - observed, 1 - expected) == pytest.approx(
        (found.coefficient.value, found.observed, found.expected)
    )
    assert (4, 1) == (found.n, found.n_left_out)


def test_ordinal_alpha_by_its_definition():
    """The distance of two ratings is the number of ratings between them, with half of those that equal one of both."""
    ratings = [[1, 1, 2], [2, 4, None], [4, 4, 4], [1, 2, 1], [7, 4, None], [2, 2, 2]]
    items = [[r for r in row if r is not None] for row in ratings]
    pooled = [r for row in items for r in row]

    def distance(values):
        total = 0.0
        for v in values:
            for w in values:
                low, high = min(v, w), max(v, w)
                between = sum(low <= r <= high for r in pooled) - (pooled.count(low) + pooled.count(high)) / 2
                total += between**2 if v != w else 0.0
        return total

    n = len(pooled)
    observed = sum(distance(row) / (len(row) - 1) for row in items) / n
    found = krippendorff_alpha(ratings, scale="ordinal").coefficient
    assert 1 - observed / (distance(pooled) / (n * (n - 1))) == pytest.approx(found.value)
