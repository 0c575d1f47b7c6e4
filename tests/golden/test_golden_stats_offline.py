"""Tests and intervals against scipy and statsmodels, and the figures of CCRS that its tables let one recompute."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from intervals import ends
from paper_test import tukey_p_values
from ragstone.stats import (
    bootstrap_interval,
    discriminative_power,
    holm,
    paired_effect,
    simultaneous_differences,
    wilson_interval,
)

# CCRS, tables 20 to 24: p-values of the fifteen pairs; "< 0.0001" as 0.
CCRS_P = {
    "cc": [0.8236, 0, 0, 0, 0, 0, 0, 0, 0, 0.1017, 0.4446, 0, 0.9736, 0.0417, 0.0036],
    "qr": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0037, 0, 0, 0.9553, 0],
    "id": [0.9998, 0, 0, 0, 0, 0, 0, 0, 0, 0.0004, 0.0032, 0.0004, 0.9932, 1, 0.9891],
    "ac": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.9025, 0.5122, 0, 0.0020, 0.0620],
    "ir": [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.2123, 0.0006, 0, 0.6418, 0],
}
# Means of A to F less that of A, in points, and the one sigma of the studentized range that fits the non-zero p-values.
CCRS_CC = [0.0, 0.66, -20.06, -18.66, -19.07, -17.07]
CCRS_CC_SIGMA = 0.382


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("seed", range(8))
def test_two_systems_are_scipy_s_exact_paired_permutation_test(seed, alternative):
    """Also with ties within and between rows."""
    rng = np.random.default_rng(seed)
    # Whole numbers: scipy tells ties apart that differ by rounding alone.
    x = rng.integers(0, 6, (int(rng.integers(3, 11)), 2)).astype(float)
    expected = stats.permutation_test(
        (x[:, 0], x[:, 1]),
        lambda a, b, axis: (a - b).mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
        alternative=alternative,
    )
    (result,) = simultaneous_differences([x], pairs=[(0, 1)], alternative=alternative)
    assert result.exact
    assert expected.pvalue == pytest.approx(result.pairs[0].p_value, abs=1e-12)
    assert expected.statistic == pytest.approx(result.pairs[0].difference, abs=1e-12)


def ccrs_like(means, sigma, n_rows):
    """Rows whose differences and spread are a table's: every rotation of six values equally often, plus the means."""
    base = np.array([-3.0, -1.5, 0.0, 0.5, 1.5, 2.5])
    rotations = np.stack([np.roll(base, k) for k in range(6)])
    spread_of_means = np.var(means, ddof=1)
    # sigma = sqrt(variance within a row / number of rows), and the means are part of that variance.
    scale = math.sqrt((sigma**2 * n_rows - spread_of_means) / np.var(base, ddof=1))
    return np.tile(rotations, (n_rows // 6, 1)) * scale + np.array(means)


def test_the_p_values_of_table_20_come_back():
    """CCRS, table 20: its differences and one sigma give its p-values, by the limit and by permutations of 4,716 rows."""
    x = ccrs_like(CCRS_CC, CCRS_CC_SIGMA, 4716)
    sigma = math.sqrt(x.var(axis=1, ddof=1).sum()) / len(x)
    permuted = tukey_p_values(x)
    for printed, (difference, p) in zip(CCRS_P["cc"], permuted, strict=True):
        near = stats.studentized_range.sf(abs(difference) / sigma, 6, 1e6)
        # The differences are printed to 0.01 points, which is 0.02 in the p-value where its curve is steepest.
        assert printed == pytest.approx(near, abs=0.02)
        assert printed == pytest.approx(p, abs=0.02 + 3 * math.sqrt(p / 2000))
        assert (printed < 0.05) == (p < 0.05)
    assert 11 == discriminative_power([p for _, p in permuted]).n_significant


def test_compare_finds_what_table_20_finds():
    """CCRS, table 20: `compare` finds the significant differences of the paper, and one more."""
    (result,) = simultaneous_differences([ccrs_like(CCRS_CC, CCRS_CC_SIGMA, 4716)])
    found = [pair.p_value < 0.05 for pair in result.pairs]
    assert all(ours or printed >= 0.05 for ours, printed in zip(found, CCRS_P["cc"], strict=True))
    assert 12 == sum(found)


@pytest.mark.parametrize(("metric", "expected"), [("qr", 14), ("ir", 13), ("ac", 12), ("cc", 11), ("id", 11)])
def test_discriminative_power_of_table_2(metric, expected):
    """CCRS, table 2, from the p-values of its tables 20 to 24."""
    found = discriminative_power(CCRS_P[metric])
    assert (expected, 15, expected / 15) == (found.n_significant, found.n_pairs, found.value)
    assert sorted(CCRS_P[metric]) == list(found.asl)


def test_the_adjusted_p_value_of_hypothesis_3():
    """CCRS, section 4.2: five metrics' smallest p = 0.0014 by Bonferroni, then Holm with H1 and H2 below 0.0001."""
    adjusted = holm([0.00005, 0.00005, min(1.0, 5 * 0.0014)]).adjusted
    assert 0.0070 == pytest.approx(adjusted[2], abs=1e-12)
    assert max(adjusted[:2]) < 0.0002


@pytest.mark.parametrize("seed", range(20))
def test_holm_agrees_with_statsmodels(seed):
    """Adjusted p-values and rejections, with ties."""
    rng = np.random.default_rng(seed)
    p = np.round(rng.random(int(rng.integers(1, 20))) ** 3, 2)
    reject, adjusted, _, _ = multipletests(p, alpha=0.05, method="holm")
    found = holm(p.tolist())
    assert adjusted.tolist() == pytest.approx(list(found.adjusted), abs=1e-12)
    assert reject.tolist() == list(found.rejected)


def test_holm_does_not_reject_what_could_not_be_tested():
    """A NaN counts as 1; handed to statsmodels as it is, the NaN itself is rejected."""
    raw = multipletests([math.nan, 0.01, 0.02], method="holm")
    assert raw[0][0]
    found = holm([math.nan, 0.01, 0.02])
    assert multipletests([1.0, 0.01, 0.02], method="holm")[1].tolist() == pytest.approx(list(found.adjusted))
    assert (False, True, True) == found.rejected


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("n", [1, 7, 40])
def test_proportions_agree_with_statsmodels(n, level):
    """Wilson, for every count of successes."""
    for k in range(n + 1):
        wilson = proportion_confint(k, n, alpha=1 - level, method="wilson")
        assert wilson == pytest.approx(ends(wilson_interval(k, n, confidence_level=level)), abs=1e-12)


@pytest.mark.parametrize("statistic", [np.mean, np.median, np.std], ids=["mean", "median", "sd"])
def test_bootstrap_agrees_with_scipy(statistic):
    """To the last digits, because both draw the same resamples from the same seed."""
    x = np.random.default_rng(8).gamma(1.5, size=23)
    expected = stats.bootstrap(
        (x,),
        statistic,
        n_resamples=2000,
        vectorized=False,
        method="percentile",
        rng=np.random.default_rng(5),
    ).confidence_interval
    found = bootstrap_interval(x, None if statistic is np.mean else statistic, seed=5)
    assert tuple(expected) == pytest.approx((found.low, found.high), abs=1e-12)
    assert "percentile" == found.method


def test_bootstrap_of_a_correlation_agrees_with_scipy():
    """Rows of pairs stay pairs."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=30)
    y = x + rng.normal(size=30)

    def pearson(a, b):
        return stats.pearsonr(a, b).statistic

    expected = stats.bootstrap(
        (x, y),
        pearson,
        paired=True,
        vectorized=False,
        n_resamples=2000,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    found = bootstrap_interval(np.stack([x, y], axis=1), lambda rows: pearson(rows[:, 0], rows[:, 1]))
    assert tuple(expected) == pytest.approx((found.low, found.high), abs=1e-12)


def test_effect_size_is_the_paired_t_statistic_by_root_n():
    """Golden: `scipy.stats.ttest_rel`, and Hedges' factor from its definition by the gamma function."""
    rng = np.random.default_rng(9)
    a, b = rng.random((2, 12))
    d = stats.ttest_rel(a, b).statistic / math.sqrt(12)
    assert d * math.gamma(5.5) / (math.sqrt(5.5) * math.gamma(5)) == pytest.approx(paired_effect(a - b))
