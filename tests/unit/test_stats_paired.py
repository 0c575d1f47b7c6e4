"""Two systems on the same samples: test, bootstrap and effect size, by hand and with data no one should send."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtri, stdtr

from ragstone.stats import paired_bootstrap, paired_effect, sign_flip_test

A = [0.9, 0.8, 0.7, 0.9, 0.8]
B = [0.4, 0.3, 0.3, 0.6, 0.5]


def test_sign_flips_worked_out_by_hand():
    """Five differences of one sign: 2 of 32 flips reach them two-sided, 1 in the direction claimed, all against it."""
    two, up, down = (sign_flip_test(A, B, alternative=side) for side in ("two-sided", "greater", "less"))
    assert (2 / 32, 1 / 32, 1.0) == (two.p_value, up.p_value, down.p_value)
    assert (pytest.approx(0.4), "sign_flip", 5, 0, 32, True, 0.0) == (
        two.difference, two.method, two.n, two.n_missing, two.n_resamples, two.exact, two.mc_error
    )  # fmt: skip
    # A sixteenth is more than a twentieth: nothing can be rejected, so nothing is bounded.
    assert (None, None) == (two.low, two.high)
    assert up.low > 0
    assert up.high is None


@pytest.mark.parametrize("test", [sign_flip_test, paired_bootstrap])
def test_missing_scores_are_left_out_and_counted(test):
    """As if their rows were not there."""
    nan = math.nan
    full, holes = test(A, B), test([*A, nan, 0.1, nan], [*B, 0.3, nan, nan])
    assert (0, 3) == (full.n_missing, holes.n_missing)
    assert (full.difference, full.p_value, full.low, full.n) == (holes.difference, holes.p_value, holes.low, holes.n)


def test_the_bootstrap_and_its_p_value_agree():
    """The p-value is at most 5 % where the 95 % interval leaves 0 out, one-sided and two-sided, up to one resample."""
    rng = np.random.default_rng(3)
    for shift in np.linspace(0, 0.3, 13):
        a, b = rng.random((2, 30))
        for side in ("two-sided", "greater", "less"):
            found = paired_bootstrap(a + shift, b, alternative=side, n_resamples=1999)
            excluded = (found.low is not None and found.low > 0) or (found.high is not None and found.high < 0)
            if abs(found.p_value - 0.05) > 0.003:
                assert excluded == (found.p_value < 0.05)
    assert "paired_bootstrap" == found.method
    assert not found.exact


@pytest.mark.parametrize(("a", "b"), [([0.9], [0.1]), ([0.9] * 20, [0.8] * 20), ([0.5] * 5, [0.5] * 5)])
def test_a_bootstrap_without_spread_claims_nothing(a, b):
    """One sample would otherwise give p = 0.0001; flips tell what is known."""
    found = paired_bootstrap(a, b)
    assert (None, None, None, None) == (found.p_value, found.mc_error, found.low, found.high)
    assert pytest.approx(a[0] - b[0]) == found.difference
    if a != b:
        assert max(2 ** (1 - len(a)), 1 / 10_001) == pytest.approx(sign_flip_test(a, b).p_value, rel=0.2)


def test_p_is_never_0():
    """Not where no resample reached the data; the claim is 1 in B + 1 at most."""
    a = np.random.default_rng(0).random(100)
    assert 1 / 1001 == sign_flip_test(a + 1, a * 0.9, n_resamples=1000).p_value
    least = stdtr(99, ndtri(1 / 1001) * math.sqrt(99 / 100))
    assert 2 * least == pytest.approx(paired_bootstrap(a + 1, a * 0.9, n_resamples=1000).p_value)
    assert least == pytest.approx(paired_bootstrap(a + 1, a * 0.9, n_resamples=1000, alternative="greater").p_value)


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


@pytest.mark.parametrize("call", [sign_flip_test, paired_bootstrap, paired_effect])
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


@pytest.mark.parametrize("test", [sign_flip_test, paired_bootstrap])
@pytest.mark.parametrize("option", [{"alternative": "larger"}, {"n_resamples": 0}, {"confidence_level": 1.0}])
def test_bad_options_are_named(test, option):
    """Name and value."""
    with pytest.raises(ValueError, match=next(iter(option))):
        test(A, B, **option)


def test_a_resample_without_a_difference_is_for_neither_side():
    """One better, one worse by as much: half the resamples are equal, so three quarters are not ahead, either way.

    Of two units, that is the share of Student's t with one degree of freedom.
    """
    a, b = [0.4, 0.1], [0.1, 0.4]
    for side in ("greater", "less"):
        assert stdtr(1, ndtri(0.75) / math.sqrt(2)) == pytest.approx(
            paired_bootstrap(a, b, alternative=side).p_value, abs=0.02
        )
    assert 1.0 == paired_bootstrap(a, b).p_value


@pytest.mark.parametrize(
    ("weights", "clusters", "n_units"),
    [
        (None, None, 40),
        ([1.0] * 20 + [3.0] * 20, None, 32),
        (None, [i // 4 for i in range(40)], 10),
        (None, [0] * 20 + list(range(1, 21)), 1600 / 420),
    ],
    ids=["rows", "weighted", "equal clusters", "one large cluster"],
)
def test_the_bootstrap_counts_effective_units(weights, clusters, n_units):
    """Its limits are the quantiles of the resampled means that Student's t of Kish's effective number of units asks for."""
    from ragstone.stats import cluster_codes
    from ragstone.stats._bootstrap import resampled_means
    from ragstone.stats._paired import expanded_tail

    a, b = np.random.default_rng(3).random((2, 40))
    found = paired_bootstrap(a, b, weights=weights, clusters=clusters, n_resamples=4000)
    w = np.ones(40) if weights is None else np.array(weights)
    codes = np.arange(40) if clusters is None else cluster_codes(clusters)
    totals = np.bincount(codes, weights=w)
    assert totals.sum() ** 2 / (totals @ totals) == pytest.approx(n_units)
    means = np.bincount(codes, weights=w * (a - b)) / totals
    of_units = None if clusters is None and weights is None else totals
    drawn = resampled_means(means, 4000, np.random.default_rng(0), weights=of_units)
    tail = expanded_tail(0.025, n_units)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, (tail, 1 - tail))))


@pytest.mark.parametrize("n", [8, 30.5, 400])
def test_p_value_and_interval_of_the_bootstrap_agree(n):
    """The corrected share of resamples beyond a limit is the tail of the limit."""
    from ragstone.stats._paired import expanded_tail

    for tail in (0.001, 0.025, 0.2):
        share = expanded_tail(tail, n)
        assert share < tail
        assert stdtr(n - 1, ndtri(share) * math.sqrt((n - 1) / n)) == pytest.approx(tail)
    assert expanded_tail(0.025, 1e9) == pytest.approx(0.025)
    x = np.random.default_rng(4).normal(0.1, 0.3, 35)
    found = paired_bootstrap(x, np.zeros(35), n_resamples=20_000)
    at = paired_bootstrap(x - found.low, np.zeros(35), n_resamples=20_000)
    assert at.p_value == pytest.approx(0.05, abs=0.003)


@pytest.mark.parametrize("sizes", ["one", "random"])
def test_few_clusters_are_not_claimed_to_differ_too_often(sizes):
    """30 clusters, no difference: 6% at most, plus two standard errors; the percentile interval claims in 7 to 9%."""
    rng = np.random.default_rng(23)
    claims, runs = 0, 1500
    for _ in range(runs):
        size = np.ones(30) if sizes == "one" else 1.0 + rng.geometric(0.2, 30)
        ceiling = [np.where(rng.random(30) < 0.62, 1.0, rng.beta(2, 1.5, 30)) for _ in range(2)]
        found = paired_bootstrap(*ceiling, clusters=list(range(30)), weights=size, n_resamples=800)
        claims += found.p_value is not None and found.p_value <= 0.05
    assert claims <= (0.06 + 2 * 0.0061) * runs


def test_weights_and_clusters_make_a_ratio_of_sums():
    """The mean is weighted, and a cluster counts with the sum of its weights."""
    first, second = np.array([1.0, 0.0, 1.0, 0.5, np.nan]), np.array([0.0, 0.5, 0.5, 0.5, 1.0])
    weights, clusters = [1.0, 2.0, 4.0, 1.0, 9.0], ["a", "a", "b", None, "c"]
    found = paired_bootstrap(first, second, weights=weights, clusters=clusters, n_resamples=4000)
    assert found.difference == pytest.approx((1 - 1 + 2 + 0) / 8)
    assert (4, 1) == (found.n, found.n_missing)
    # Three clusters with differences 0, .5 and 0: the largest resample draws the second only.
    assert (found.low, found.high) == pytest.approx((0.0, 0.5))
    # Weights of equal size change nothing.
    x = np.random.default_rng(0).random((50, 2)).T
    equal, none = paired_bootstrap(*x, weights=[3.0] * 50), paired_bootstrap(*x)
    assert (none.low, none.high, none.p_value) == pytest.approx((equal.low, equal.high, equal.p_value))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [1.0, 0.0]}, "finite weight above 0"),
        ({"weights": [1.0]}, "each of 2 samples needs a finite weight"),
        ({"clusters": ["a"]}, "each of 2 samples needs a cluster, got 1"),
    ],
)
def test_weights_and_clusters_fit_the_samples(options, message):
    """Each sample has a weight and a cluster."""
    with pytest.raises(ValueError, match=message):
        paired_bootstrap([1.0, 0.5], [0.5, 0.0], **options)
