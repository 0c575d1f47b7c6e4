"""Intervals of correlations: influences against scipy, ties, rare pairs, clusters, limits and cost."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from correlated_scores import MEASURES, coverage, draw
from intervals import ends
from ragstone.stats import _correlation, correlate

UNIT = {"x_range": (0, 1), "y_range": (0, 1)}


def pairs(kind, n, rho=0.5, seed=0):
    return draw(kind, rho, n, np.random.default_rng(seed))[:2]


def influences(x, y, kind, ends_=(0.0, 1.0)):
    corners = np.array([(a, b) for a in ends_ for b in ends_]).T
    return _correlation._influences(np.asarray(x), np.asarray(y), kind, corners)


@pytest.mark.parametrize("kind", ["five", "ceiling", "smooth", "even"])
@pytest.mark.parametrize("measure", MEASURES)
def test_influences_are_the_derivatives_of_what_scipy_computes(measure, kind):
    """One more pair in 200 copies of the data, of a pair that exists and of one at each corner of the range."""
    x, y = pairs(kind, 40)
    own, corner = influences(x, y, measure)
    copies = 200
    # The tau of copies contains pairs of equal pairs, which neither its own formula nor that of one sample counts.
    many = np.tile(x, copies), np.tile(y, copies)
    scipy = MEASURES[measure]
    base = scipy(*many).statistic
    added = [*zip(x[:6], y[:6], strict=True), (0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]
    found = [
        (scipy(*(np.append(v, e) for v, e in zip(many, one, strict=True))).statistic - base) * (40 * copies + 1)
        for one in added
    ]
    assert [*own[:6], *corner] == pytest.approx(found, rel=0.03, abs=0.03)
    assert abs(own.mean()) < 1e-9


@pytest.mark.parametrize(
    ("kind", "measure", "rho", "n", "fisher"),
    [
        ("even", "kendall", 0.0, 100, 0.50),
        ("high", "kendall", 0.0, 100, 0.50),
        ("ceiling", "spearman", 0.0, 50, 0.70),
        ("shared 1%", "pearson", 0.0, 100, 0.62),
        ("five", "spearman", 0.5, 20, None),
        ("smooth", "kendall", 0.8, 20, None),
    ],
)
def test_intervals_cover_ties_and_rare_pairs(kind, measure, rho, n, fisher):
    """Fisher's z covered about as often as `fisher` says. tests/simulate has the whole table."""
    covered, width, stated = coverage(kind, rho, measure, n, runs=300)
    assert covered >= 0.93 - 2.5 * math.sqrt(0.05 * 0.95 / 300)
    assert width < 1.9 or measure == "pearson"
    assert stated > 0.5
    assert fisher is None or covered > fisher + 0.1


@pytest.mark.parametrize("measure", MEASURES)
def test_many_pairs_without_ties_have_the_width_of_fisher(measure):
    """Normal pairs, n = 2,000: Pearson 1 / sqrt(n - 3), Spearman by Bonett and Wright, Kendall by Fieller and others."""
    rng = np.random.default_rng(4)
    x, noise = rng.standard_normal((2, 2000))
    found = correlate(x, 0.4 * x + math.sqrt(0.84) * noise, measure)
    r = found.value
    error = {
        "pearson": 1 / math.sqrt(1997),
        "spearman": math.sqrt((1 + r * r / 2) / 1997),
        "kendall": math.sqrt(0.437 / 1996),
    }[measure]
    expected = math.tanh(math.atanh(r) - 1.96 * error), math.tanh(math.atanh(r) + 1.96 * error)
    assert "student_t" == found.method
    assert ends(found) == pytest.approx(expected, abs=0.12 * (found.high - found.low))


@pytest.mark.parametrize("measure", MEASURES)
def test_the_limits_by_hand(measure):
    """Student's t on Fisher's z, with the variance of the influences, for the two parameters of a line, and their kurtosis."""
    x, y = pairs("five", 60)
    psi, _ = influences(x, y, measure)
    found = correlate(x, y, measure, **UNIT)
    assert "student_t" == found.method
    r, variance = MEASURES[measure](x, y).statistic, (psi**2).mean()
    freedom = min(60, 2 * 60 / ((psi**4).mean() / variance**2 - 1)) - 1
    half = stats.t.ppf(0.975, freedom) * math.sqrt(variance / 58) / (1 - r * r)
    assert ends(found) == pytest.approx((math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)), abs=1e-9)


def test_skewed_influences_have_no_symmetric_interval(monkeypatch):
    """Of 100 scores at the ceiling few differ. Student's t would be used if only single further pairs counted."""
    x, y = pairs("ceiling", 100, rho=0.0)
    found = correlate(x, y, "spearman", **UNIT)
    assert "gaffke" == found.method
    monkeypatch.setattr(_correlation, "_COCHRAN", 0)
    symmetric = correlate(x, y, "spearman", **UNIT)
    assert "student_t" == symmetric.method
    assert found.high > symmetric.high + 0.02


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("measure", MEASURES)
def test_a_perfect_order_is_not_certain(measure, sign):
    """Thirty pairs in the same or the opposite order: the value is 1, the limit below it."""
    x = np.linspace(0, 1, 30)
    found = correlate(x, x if sign > 0 else 1 - x, measure, **UNIT)
    inner = found.low if sign > 0 else -found.high
    assert (found.value, max(ends(found), key=abs)) == pytest.approx((sign, sign))
    assert 0.2 < inner < 0.9


@pytest.mark.parametrize("measure", MEASURES)
def test_one_shared_failure_of_twenty_shows_nothing(measure):
    """The correlation is 1, from one pair. Fisher's z was replaced by [0.84, 1] there."""
    x = [0.0] + [1.0] * 19
    found = correlate(x, x, measure, **UNIT)
    assert 1.0 == pytest.approx(found.value)
    assert found.low < -0.3


def test_scores_without_failures_do_not_restrict_pearson():
    """A shared 0 would make it about 1, a 0 of one side alone about 0: [-1, 1] with the method "range" says so."""
    x, y = 0.9 + np.random.default_rng(2).random((2, 30)) / 10
    found = correlate(x, y, **UNIT)
    assert ((-1.0, 1.0), "range") == (ends(found), found.method)
    assert "range" != correlate(x, y).method
    assert "range" != correlate(x, y, "spearman", **UNIT).method


@pytest.mark.parametrize("measure", MEASURES)
def test_few_pairs_or_clusters_have_no_interval(measure):
    """Three, whatever the number of pairs in them. A constant has no correlation."""
    x, y = pairs("smooth", 12)
    assert "range" == correlate(x[:3], y[:3], measure).method
    assert "range" == correlate(x, y, measure, clusters=list("aaaabbbbcccc")).method
    assert "range" != correlate(x, y, measure).method
    assert correlate([1.0, 1.0], [0.0, 1.0], measure) is None
    assert correlate([], [], measure) is None


@pytest.mark.parametrize("kind", ["smooth", "ceiling", "even"])
@pytest.mark.parametrize("measure", MEASURES)
def test_copies_in_clusters_do_not_narrow_the_interval(measure, kind):
    """Four copies of each pair, in one cluster: the interval of the single pairs, up to that tau counts ties of copies."""
    x, y = pairs(kind, 60)
    alone = correlate(x, y, measure, **UNIT)
    copied = correlate(np.repeat(x, 4), np.repeat(y, 4), measure, clusters=np.repeat(np.arange(60), 4).tolist(), **UNIT)
    assert ends(alone) == pytest.approx(ends(copied), abs=0.03)
    blind = correlate(np.repeat(x, 4), np.repeat(y, 4), measure, **UNIT)
    assert blind.high - blind.low < 0.7 * (copied.high - copied.low)
    assert alone == correlate(x, y, measure, clusters=[None] * 60, **UNIT)


@pytest.mark.parametrize("sizes", ["equal", "one large"])
@pytest.mark.parametrize("kind", ["smooth", "high"])
def test_intervals_cover_over_clusters(kind, sizes):
    """Thirty clusters of five with an intraclass correlation of 0.5. Without them, 80 of 100 intervals contain it."""
    covered, _, _ = coverage(kind, 0.5, "spearman", 150, runs=200, icc=0.5, size=5)
    assert covered >= 0.93 - 2.5 * math.sqrt(0.05 * 0.95 / 200)
    x, y = pairs(kind, 60)
    clusters = [0] * 30 + list(range(1, 31)) if sizes == "one large" else list(range(60))
    found = correlate(x, y, "spearman", clusters=clusters, **UNIT)
    alone = correlate(x, y, "spearman", **UNIT)
    assert (found.high - found.low > 1.15 * (alone.high - alone.low)) == (sizes == "one large")


def test_levels_and_influences_are_merged_beyond_a_number(monkeypatch):
    """Of many different values, neighbors count together. Limits change by less than 1% of the width."""
    x, y = pairs("smooth", 1500)
    exact = correlate(x, y, "kendall", **UNIT)
    monkeypatch.setattr(_correlation, "_LEVELS", 100)
    assert ends(exact) == pytest.approx(ends(correlate(x, y, "kendall", **UNIT)), abs=0.01 * (exact.high - exact.low))
    x, y = pairs("shared 1%", 1500)
    exact = correlate(x, y, **UNIT)
    assert "gaffke" == exact.method
    monkeypatch.setattr(_correlation, "_CHUNKS", 700)
    assert ends(exact) == pytest.approx(ends(correlate(x, y, **UNIT)), abs=0.02)


def test_confidence_level_and_mirror_image():
    """A higher level is wider, and the sign of a side turns the interval around."""
    for kind in ("smooth", "ceiling"):
        x, y = pairs(kind, 40)
        for measure in MEASURES:
            found = [correlate(x, y, measure, confidence_level=level, **UNIT) for level in (0.8, 0.95, 0.99)]
            widths = [one.high - one.low for one in found]
            assert sorted(widths) == widths
            mirrored = correlate(x, 1 - y, measure, **UNIT)
            assert (-found[1].high, -found[1].low) == pytest.approx(ends(mirrored), abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([1, 2], [1]), {}, "same length"),
        (([1, math.nan], [1, 2]), {}, "finite"),
        (([1, 2], [1, 2], "tau"), {}, "'tau'"),
        (([1, 2], [1, 2]), {"confidence_level": 1}, "confidence_level"),
        (([0, 2], [0, 1]), {"x_range": (0, 1)}, r"\[0, 1\], got 0.0 to 2.0"),
        (([0, 2], [0, 1]), {"clusters": ["a"]}, "each of 2 items needs a cluster, got 1"),
    ],
)
def test_invalid_input_is_refused(arguments, options, message):
    """The message states the value and the rule."""
    with pytest.raises(ValueError, match=message):
        correlate(*arguments, **options)


def test_the_interval_of_a_higher_level_contains_that_of_a_lower_one():
    """For 12 draws with ties. A method that depended on the level gave a shorter interval at 99% than at 95%."""
    rng = np.random.default_rng(1)
    for _ in range(12):
        x = np.round(rng.random(20), 1)
        y = np.round(np.clip(x + rng.normal(0, 0.3, 20), 0, 1), 1)
        found = [correlate(x, y, "spearman", confidence_level=level) for level in (0.9, 0.95, 0.99)]
        for lower, higher in itertools.pairwise(found):
            assert higher.low <= lower.low + 1e-6
            assert higher.high >= lower.high - 1e-6
