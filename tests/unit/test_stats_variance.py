"""Variance components: planted variances are recovered, and the intervals cover them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ragstone.stats import split_variance

FACTORS = ("question", "judge", "wording")
SD = {
    ("question",): 0.25,
    ("judge",): 0.06,
    ("wording",): 0.04,
    ("question", "judge"): 0.08,
    ("question", "wording"): 0.05,
    ("judge", "wording"): 0.02,
    ("question", "judge", "wording"): 0.04,
    ("repeat",): 0.05,
}


def planted(rng, shape, sd=SD):
    """Values of a crossed design: one normal effect for each combination of levels."""
    axes = (*FACTORS, "repeat")
    x = np.zeros(shape)
    for factors, deviation in sd.items():
        levels = (
            shape
            if factors == ("repeat",)
            else [n if axis in factors else 1 for axis, n in zip(axes, shape, strict=True)]
        )
        x = x + rng.normal(0, deviation, levels)
    return x


def test_hand_computed_split():
    """The textbook's mean squares of two questions, two wordings and two repeats."""
    x = np.array([[[1.0, 1.2], [2.0, 2.6]], [[4.0, 4.2], [6.5, 6.7]]])
    split = split_variance(x, ("question", "wording"))
    means = x.mean(axis=2)
    ms_q = 4 * ((means.mean(axis=1) - means.mean()) ** 2).sum()
    ms_w = 4 * ((means.mean(axis=0) - means.mean()) ** 2).sum()
    residual = means - means.mean(axis=1)[:, None] - means.mean(axis=0) + means.mean()
    ms_qw = 2 * (residual**2).sum()
    ms_e = ((x - means[..., None]) ** 2).sum() / 4
    expected = [(ms_q - ms_qw) / 4, (ms_w - ms_qw) / 4, (ms_qw - ms_e) / 2, ms_e]
    assert expected == pytest.approx([c.variance.value for c in split.components])
    assert [("question", 1), ("wording", 1), ("question x wording", 1), ("repeat", 4)] == [
        (c.name, c.df) for c in split.components
    ]
    assert 1 == pytest.approx(sum(c.share for c in split.components))
    assert math.sqrt(ms_e) == pytest.approx(split.component("repeat").sd.value)


def test_estimates_are_unbiased_and_intervals_cover():
    """300 designs of 30 x 3 x 3 x 2: the mean estimate is the planted variance, and 95% of the intervals contain it."""
    rng = np.random.default_rng(3)
    values, covered = {key: [] for key in SD}, {key: [] for key in SD}
    for _ in range(300):
        for c in split_variance(planted(rng, (30, 3, 3, 2)), FACTORS).components:
            true = SD[c.factors] ** 2
            values[c.factors].append(c.variance.value)
            covered[c.factors].append(c.variance.low <= true <= c.variance.high)
    for key, deviation in SD.items():
        error = np.std(values[key]) / math.sqrt(300)
        # Estimates that are cut at 0 are slightly too large on average.
        assert np.mean(values[key]) == pytest.approx(deviation**2, abs=4 * error + 0.1 * deviation**2), key
        assert np.mean(covered[key]) >= 0.915, key


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(50, 1, 3, 2), (50, 2, 3, 1), (20, 2, 2, 3)])
def test_coverage_of_other_designs(shape):
    """2,000 designs each, with one judge, without repeats, and small."""
    rng = np.random.default_rng(4)
    covered = {}
    for _ in range(2000):
        for c in split_variance(planted(rng, shape), FACTORS).components:
            # Factors with one level are parts of the others.
            hidden = [name for name, n in zip(FACTORS, shape[:-1], strict=True) if n == 1]
            if shape[-1] == 1 and len(c.factors) == 3:
                hidden.append("repeat")
            sums = [SD[key] ** 2 for key in SD if set(key) - set(hidden) == set(c.factors)]
            if "repeat" in hidden:
                sums.append(SD[("repeat",)] ** 2)
            covered.setdefault(c.factors, []).append(c.variance.low <= sum(sums) <= c.variance.high)
    for key, hits in covered.items():
        assert 0.925 <= np.mean(hits) <= 0.985, key


@pytest.mark.slow
def test_coverage_with_bounded_scores():
    """Questions that are right or wrong instead of normal: the intervals of wording and repeat still cover."""
    rng = np.random.default_rng(5)
    covered = {"wording": [], "question x wording": [], "repeat": []}
    sd = {key: value for key, value in SD.items() if key != ("question",)}
    true = {"wording": 0.04**2 + 0.02**2, "question x wording": 0.05**2 + 0.04**2, "repeat": 0.05**2}
    for _ in range(2000):
        x = planted(rng, (50, 1, 3, 2), sd) + rng.choice([0.2, 0.8], (50, 1, 1, 1))
        for c in split_variance(x, FACTORS).components:
            if c.name in covered:
                covered[c.name].append(c.variance.low <= true[c.name] <= c.variance.high)
    for name, hits in covered.items():
        assert np.mean(hits) >= 0.925, name


def test_factors_with_one_level_are_omitted():
    """One judge does not have a variance between judges."""
    split = split_variance(planted(np.random.default_rng(1), (10, 1, 3, 2)), FACTORS)
    assert split.component("judge") is None
    assert split.component("question", "judge") is None
    assert {"question": 10, "judge": 1, "wording": 3, "repeat": 2} == split.n_levels
    assert not split.is_confounded


def test_without_repeats_the_last_interaction_contains_them():
    """They cannot be separated with one value in each cell."""
    split = split_variance(planted(np.random.default_rng(1), (10, 1, 3, 1)), FACTORS)
    assert split.is_confounded
    assert ["question", "wording", "question x wording"] == [c.name for c in split.components]
    assert split.component("repeat") is None


def test_equal_values():
    """No component has a variance, and no share is undefined."""
    split = split_variance(np.ones((4, 2, 2)), ("question", "wording"))
    assert [0.0] * 4 == [c.share for c in split.components]
    assert all(c.variance.low == c.variance.value == c.variance.high == 0 for c in split.components)


def test_a_higher_confidence_level_gives_wider_intervals():
    """For every component."""
    x = planted(np.random.default_rng(2), (20, 2, 3, 2))
    narrow, wide = (split_variance(x, FACTORS, confidence_level=level) for level in (0.8, 0.99))
    for a, b in zip(narrow.components, wide.components, strict=True):
        assert b.variance.low <= a.variance.low <= a.variance.value <= a.variance.high < b.variance.high


@pytest.mark.parametrize(
    ("values", "factors", "options", "message"),
    [
        ([1.0, 2.0], ("a",), {}, r"one axis for each of the factors \(a\) and one for repeats, got shape \(2,\)"),
        ([[1.0, math.nan], [1.0, 2.0]], ("a",), {}, "values must be finite"),
        ([[1.0, 2.0]], ("a",), {}, "the factor 'a' needs at least two levels, got 1"),
        ([[1.0], [2.0]], ("a",), {"confidence_level": 1.0}, r"confidence_level must be in \(0, 1\), got 1.0"),
    ],
)
def test_invalid_arguments(values, factors, options, message):
    """The message has the value and the rule."""
    with pytest.raises(ValueError, match=message):
        split_variance(values, factors, **options)


def test_a_negative_estimate_is_0():
    """Each wording is better for one of two questions, so that all variance is of the interaction."""
    split = split_variance([[[0.0], [1.0]], [[1.0], [0.0]]], ("question", "wording"))
    assert [0.0, 0.0, 1.0] == [c.share for c in split.components]
    assert [0.0, 0.0] == [c.variance.value for c in split.components[:2]]
