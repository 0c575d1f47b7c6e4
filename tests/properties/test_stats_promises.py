"""Promises of the offline statistics, kept in simulation: small versions of the tables in docs/explanation/intervals.md."""

from __future__ import annotations

import math

import numpy as np
import pytest

from intervals import ends
from ragstone.stats import (
    bootstrap_interval,
    hajek_mean,
    holm,
    mean_interval,
    simultaneous_differences,
    wilson_interval,
)

SCORES = {
    "smooth": (lambda rng, n: rng.beta(4, 2, n), 4 / 6),
    "binary": (lambda rng, n: (rng.random(n) < 0.85).astype(float), 0.85),
    "ceiling": (lambda rng, n: np.where(rng.random(n) < 0.85, 1.0, rng.random(n)), 0.925),
}


def share_covered(interval, kind, n, repeats):
    """How many of so many intervals hold the true mean."""
    draw, truth = SCORES[kind]
    rng = np.random.default_rng(n)
    return np.mean([low <= truth <= high for low, high in (interval(draw(rng, n)) for _ in range(repeats))])


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("n", [10, 30, pytest.param(100, marks=pytest.mark.slow)])
def test_the_default_interval_covers_whatever_the_scores(kind, n):
    """At least 95 in 100, less four standard errors of 150 and the point or two that Wilson and Student may be short."""
    assert share_covered(lambda x: ends(mean_interval(x)), kind, n, 150) >= 0.95 - 0.02 - 4 * 0.0178


@pytest.mark.slow
@pytest.mark.parametrize(("n", "least"), [(10, 0.84), (30, 0.87), (100, 0.90)])
def test_bootstrap_intervals_come_near_their_level_on_smooth_scores(n, least):
    """They are approximations: 89 to 93 in 100 at n = 10, 94 to 95 at n = 100; 400 repeats."""
    assert least <= share_covered(lambda x: ends(bootstrap_interval(x, low=0, high=1)), "smooth", n, 400) <= 0.985


@pytest.mark.parametrize("n", [10, 30, 100])
def test_the_interval_of_a_proportion_comes_near_its_level(n):
    """Coverage of any interval of a proportion oscillates with n and p; 1,000 repeats."""
    wilson = share_covered(lambda x: ends(wilson_interval(int(x.sum()), n)), "binary", n, 1000)
    assert 0.91 <= wilson <= 0.99


@pytest.mark.slow
def test_clusters_are_needed_where_there_are_any():
    """Forty clusters of five: as clusters the interval covers, as independent items it misses every fourth time."""
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(40), 5).tolist()
    whole = single = 0
    for _ in range(200):
        x = np.repeat(rng.normal(size=40), 5) + rng.normal(size=200)
        low, high = ends(hajek_mean(x, clusters=labels, low=-math.inf, high=math.inf))
        whole += low <= 0 <= high
        low, high = ends(mean_interval(x, low=-math.inf, high=math.inf))
        single += low <= 0 <= high
    assert whole >= 174
    assert single <= 170


def null_scores(rng, n_rows, n_metrics):
    """Six alike systems: easy and hard samples, discrete scores at the ceiling, metrics that go together."""
    z = (
        rng.normal(size=(n_rows, 1, 1))
        + 0.7 * rng.normal(size=(n_rows, 6, 1))
        + rng.normal(size=(n_rows, 6, n_metrics))
    )
    return np.clip(np.round((0.8 + 0.25 * z) * 20) / 20, 0, 1)


@pytest.mark.slow
def test_six_alike_systems_are_told_apart_one_time_in_twenty():
    """Any of the 15 pairs, in 200 sets of 20 samples: 5 in 100, plus three standard errors."""
    rng = np.random.default_rng(3)
    wrong = sum(
        min(
            pair.p_value
            for pair in simultaneous_differences([null_scores(rng, 20, 1)[:, :, 0]], n_resamples=199)[0].pairs
        )
        <= 0.05
        for _ in range(200)
    )
    assert wrong <= 200 * 0.05 + 3 * (200 * 0.05 * 0.95) ** 0.5


@pytest.mark.slow
def test_holm_over_five_metrics_holds_the_level_that_they_alone_do_not():
    """Smallest p-value of each of five metrics: uncorrected every fifth set has a false claim, corrected one in twenty."""
    rng = np.random.default_rng(5)
    uncorrected = corrected = 0
    for _ in range(60):
        x = null_scores(rng, 20, 5)
        least = [
            min(p.p_value for p in simultaneous_differences([x[:, :, k]], n_resamples=199)[0].pairs) for k in range(5)
        ]
        uncorrected += min(least) <= 0.05
        corrected += any(holm(least).rejected)
    assert corrected <= 60 * 0.05 + 3 * (60 * 0.05 * 0.95) ** 0.5
    assert uncorrected > corrected


def test_simultaneous_intervals_hold_all_differences_together():
    """Three systems 0.1 apart or equal, thirty samples: all three differences in at least 95 of 100, less three errors."""
    rng = np.random.default_rng(8)
    covered = 0
    for _ in range(200):
        x = rng.beta(4, 2, (30, 3)) + np.array([0.0, 0.1, 0.1])
        pairs = simultaneous_differences([x], n_resamples=399)[0].pairs
        covered += all(p.low <= d <= p.high for p, d in zip(pairs, (-0.1, -0.1, 0.0), strict=True))
    assert covered >= 200 * 0.95 - 3 * (200 * 0.05 * 0.95) ** 0.5
