"""Agreement, correlation, populations, few labels and streams against other libraries and recomputable figures."""

from __future__ import annotations

import math

import krippendorff
import numpy as np
import pytest
from ppi_py import ppi_mean_ci, ppi_mean_pointestimate
from scipy import stats
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import aggregate_raters
from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_fleiss

from ragstone.stats import (
    cohen_kappa,
    describe,
    drawn_prediction_powered_mean,
    fisher_mean,
    fleiss_kappa,
    hajek_mean,
    kendall,
    krippendorff_alpha,
    landis_koch,
    pass_at_k,
    pearson,
)

FEW = {"n_resamples": 2}
SEEDS = range(60)


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
@pytest.mark.parametrize("seed", SEEDS)
def test_cohen_agrees_with_scikit_learn(seed, weights):
    """Unweighted and weighted, with categories that one rater never uses."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(4, 60)), int(rng.integers(2, 6))
    a = rng.integers(0, k, n)
    b = np.where(rng.random(n) < 0.6, a, rng.integers(0, k, n))
    if len(set(a) | set(b)) < 2:
        return
    expected = cohen_kappa_score(a, b, weights=None if weights == "none" else weights)
    found = cohen_kappa(a.tolist(), b.tolist(), weights=weights, **FEW).coefficient
    assert expected == pytest.approx(found.value, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_fleiss_agrees_with_statsmodels(seed):
    """Any number of raters and categories."""
    rng = np.random.default_rng(seed)
    n, m, k = (int(v) for v in rng.integers([3, 2, 2], [40, 7, 6]))
    common = rng.integers(0, k, (n, 1))
    ratings = np.where(rng.random((n, m)) < 0.5, common, rng.integers(0, k, (n, m)))
    if len(np.unique(ratings)) < 2:
        return
    expected = statsmodels_fleiss(aggregate_raters(ratings)[0])
    assert expected == pytest.approx(fleiss_kappa(ratings.tolist(), **FEW).coefficient.value, abs=1e-12)


@pytest.mark.parametrize("scale", ["nominal", "ordinal", "interval"])
@pytest.mark.parametrize("seed", SEEDS)
def test_krippendorff_agrees_with_the_library_of_that_name(seed, scale):
    """With a third of the ratings missing, and uneven distances between the categories."""
    rng = np.random.default_rng(seed)
    n, m = (int(v) for v in rng.integers([4, 2], [40, 6]))
    values = np.array([1.0, 2.0, 3.5, 7.0, 20.0])
    common = rng.integers(0, 5, (n, 1))
    ratings = values[np.where(rng.random((n, m)) < 0.5, common, rng.integers(0, 5, (n, m)))]
    ratings[rng.random((n, m)) < 0.33] = np.nan
    pairable = ratings[(~np.isnan(ratings)).sum(axis=1) >= 2]
    if len(np.unique(pairable[~np.isnan(pairable)])) < 2:
        return
    expected = krippendorff.alpha(reliability_data=ratings.T, level_of_measurement=scale)
    found = krippendorff_alpha(ratings.tolist(), scale=scale, **FEW)
    assert expected == pytest.approx(found.coefficient.value, abs=1e-10)
    assert (len(pairable), n - len(pairable)) == (found.n, found.n_left_out)


def test_krippendorffs_own_example():
    """Four observers and twelve units of Krippendorff 2011: nominal 0.743, ordinal 0.815, interval 0.849."""
    nan = math.nan
    raters = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, nan, nan, nan],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, nan, 3],
        [nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, nan],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, nan],
    ]
    items = [list(column) for column in zip(*raters, strict=True)]
    for scale, expected in (("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)):
        assert expected == round(krippendorff_alpha(items, scale=scale).coefficient.value, 3)


def test_fleiss_own_table():
    """The worked example with 10 subjects, 14 raters and 5 categories: 0.210."""
    counts = [
        (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
        (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
    ]  # fmt: skip
    ratings = [[c for c, times in enumerate(row) for _ in range(times)] for row in counts]
    assert 0.210 == round(fleiss_kappa(ratings, **FEW).coefficient.value, 3)


def test_the_word_for_a_kappa_of_085():
    """UDCG calls 0.85 substantial; by Landis and Koch it is almost perfect."""
    assert "almost perfect" == landis_koch(0.85)


@pytest.mark.parametrize("seed", SEEDS)
def test_correlations_agree_with_scipy(seed):
    """Pearson and tau-b, with many ties and with none."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 50))
    x, y = rng.integers(0, int(rng.integers(2, 10)), (2, n)).astype(float)
    if seed % 2:
        x = rng.normal(size=n) * 10.0 ** rng.integers(-200, 200)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return
    assert stats.pearsonr(x / np.abs(x).max(), y).statistic == pytest.approx(pearson(x, y), abs=1e-12)
    assert stats.kendalltau(x, y).statistic == pytest.approx(kendall(x, y), abs=1e-12)


@pytest.mark.parametrize(
    ("per_system", "expected"),
    [
        ([0.822, 0.814, 0.734, 0.713, 0.701, 0.726], 0.756),  # AC and IR
        ([0.218, 0.226, 0.237, 0.195, 0.159, 0.170], 0.201),  # CC and AC
        ([0.343, 0.377, 0.528, 0.511, 0.462, 0.477], 0.452),  # CC and IR
        ([0.451, 0.437, 0.687, 0.585, 0.361, 0.382], 0.494),  # QR and ID
    ],
)
def test_fisher_z_means_of_ccrs(per_system, expected):
    """Tables 7 to 12 averaged over systems A to F give the figures of the text and of figure 3(a)."""
    assert expected == round(fisher_mean(per_system).value, 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_population_agrees_with_scipy_and_numpy(seed):
    """Moment skew, excess kurtosis, type-7 quartiles, ddof 1, geometric mean."""
    rng = np.random.default_rng(seed)
    x = rng.beta(0.5, 0.3, int(rng.integers(3, 200)))
    found = describe(x.tolist(), low=0, high=1)
    quartiles = np.quantile(x, [0.25, 0.5, 0.75], method="linear")
    expected = (x.mean(), x.std(ddof=1), *quartiles, stats.skew(x), stats.kurtosis(x), stats.gmean(x))
    actual = (
        found.mean, found.sd, found.q1, found.median, found.q3, found.skewness, found.kurtosis, found.geometric_mean,
    )  # fmt: skip
    assert expected == pytest.approx(actual, rel=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_prediction_powered_mean_agrees_with_ppi_python(seed):
    """Points and intervals to the small differences of weights, t and n - 1."""
    rng = np.random.default_rng(seed)
    n, rest = 200, int(rng.integers(300, 3000))
    truth = rng.beta(2, 1, n + rest)
    judge = np.clip(truth + rng.normal(0.05, rng.uniform(0.05, 0.5), n + rest), 0, 1)
    y, f, g = truth[:n], judge[:n], judge[n:]
    found = drawn_prediction_powered_mean([*y.tolist(), *[None] * rest], judge.tolist(), [1.0] * (n + rest))
    low, high = (float(np.squeeze(end)) for end in ppi_mean_ci(y, f, g, alpha=0.05))
    point = float(np.squeeze(ppi_mean_pointestimate(y, f, g)))
    assert point == pytest.approx(found.estimate.value, abs=0.2 * (high - low))
    assert (high - low) == pytest.approx(found.estimate.high - found.estimate.low, rel=0.03)


def test_weighted_mean_agrees_with_statsmodels():
    """The point of `DescrStatsW`; with equal probabilities the ordinary mean and its ordinary error."""
    from statsmodels.stats.weightstats import DescrStatsW

    rng = np.random.default_rng(0)
    x, p = rng.random(50), rng.uniform(0.05, 1, 50)
    assert DescrStatsW(x, weights=1 / p).mean == pytest.approx(hajek_mean(x.tolist(), p.tolist()).value)
    equal = hajek_mean(x.tolist(), [0.1] * 50, low=-math.inf, high=math.inf)
    expected = stats.t.interval(0.95, 49, loc=x.mean(), scale=x.std(ddof=1) / math.sqrt(50))
    assert expected == pytest.approx((equal.low, equal.high))


@pytest.mark.parametrize(("n", "c", "k"), [(10, 3, 1), (10, 3, 5), (200, 7, 100), (5, 0, 3), (5, 5, 1), (8, 6, 4)])
def test_pass_at_k_is_hypergeometric(n, c, k):
    """One minus the chance to draw no correct answer without replacement."""
    assert float(stats.hypergeom(n, c, k).sf(0)) == pytest.approx(pass_at_k(n, c, k), abs=1e-12)
    assert 1 - math.comb(n - c, k) / math.comb(n, k) == pytest.approx(pass_at_k(n, c, k))
