"""Coverage of the intervals of means of independent scores: the table "Means" of docs/explanation/intervals.md."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from clustered_scores import QUANTILES
from ragstone.stats import bootstrap_interval, hajek_mean, mean_interval

RUNS = 1000
TABLE = {("smooth", 10), ("high", 30), ("ceiling", 10), ("ceiling", 30), ("ceiling", 100)}
"""Rows of the page, with a bootstrap interval, which takes longer."""
NARROW = {"one in 20": 0.05, "one in 50": 0.02, "one in 100": 0.01}
"""Scores from 0.9 to 1, of which this share is 0."""
KINDS = (*QUANTILES, "five", *NARROW)
PROPORTIONS = {"even", "high", "rare"}
N_TRUTH = 1_000_000


def least(promised):
    """A promised share less 3.5 standard errors."""
    return promised - 3.5 * math.sqrt(promised * (1 - promised) / RUNS)


def promise(kind, n, level=0.95):
    """Two points below the level, or the exact coverage of Wilson's interval, which varies with n and the proportion."""
    if kind not in PROPORTIONS:
        return level - 0.02
    k, p = np.arange(n + 1), mean_of(kind)
    inside = np.abs(k - n * p) <= norm.ppf((1 + level) / 2) * math.sqrt(n * p * (1 - p))
    return float(binom.pmf(k, n, p)[inside].sum())


def scores(kind, u):
    """Scores from uniform numbers."""
    if kind == "five":
        return np.minimum(np.floor(np.sqrt(u) * 5), 4) / 4
    if kind in NARROW:
        return np.where(u < NARROW[kind], 0.0, 0.9 + 0.1 * (u - NARROW[kind]) / (1 - NARROW[kind]))
    return QUANTILES[kind](u)


@functools.cache
def mean_of(kind):
    return float(scores(kind, (np.arange(N_TRUTH) + 0.5) / N_TRUTH).mean())


def cover(found, kind):
    """Share of the intervals that contain the mean, and their mean width in the range."""
    low, high = np.clip([(one.low, one.high) for one in found], 0, 1).T
    truth = mean_of(kind)
    return np.mean((low - 1e-9 <= truth) & (truth <= high + 1e-9)), np.mean(high - low)


@pytest.mark.parametrize("n", [10, 30, 100, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_means(kind, n):
    """At least 93 in 100, beside Student's t and the bootstrap, which miss more for few scores and scores at a bound."""
    rng = np.random.default_rng(n)
    samples = [scores(kind, rng.random(n)) for _ in range(RUNS)]
    row = [
        cover([mean_interval(x) for x in samples], kind),
        cover([mean_interval(x, low=-math.inf, high=math.inf) for x in samples], kind),
    ]
    if (kind, n) in TABLE:
        row.append(cover([bootstrap_interval(x, low=0, high=1) for x in samples], kind))
    print(f"{kind} | {n} | " + " | ".join(f"{100 * share:.1f} ({width:.3f})" for share, width in row))
    (covered, width), (of_student, _) = row[:2]
    assert covered >= least(promise(kind, n))
    assert n < 1000 or width <= 1.15 * 3.92 * np.mean([x.std() for x in samples]) / math.sqrt(n)
    assert (kind, n) != ("ceiling", 30) or of_student <= 0.92


@pytest.mark.parametrize("n", [30, 100, 400])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_means_at_other_levels(kind, n):
    """Of one sample, the interval of 99% contains that of 90%."""
    rng = np.random.default_rng(n)
    samples = [scores(kind, rng.random(n)) for _ in range(RUNS)]
    narrow, wide = ([mean_interval(x, confidence_level=level) for x in samples] for level in (0.9, 0.99))
    of_90, of_99 = cover(narrow, kind)[0], cover(wide, kind)[0]
    print(f"levels | {kind} | {n} | {100 * of_90:.1f} | {100 * of_99:.1f}")
    assert of_90 >= least(promise(kind, n, 0.9))
    assert of_99 >= least(promise(kind, n, 0.99))
    assert all(b.low <= a.low and a.high <= b.high for a, b in zip(narrow, wide, strict=True))


@pytest.mark.parametrize("n", [30, 100, 400])
@pytest.mark.parametrize("chosen", ["at random", "by score"])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_weighted_means(kind, chosen, n):
    """Items kept with 100% or 20%: either half of them, or low scores with 100%, which moves the mean without weights.

    If few scores are far from all others, a sample often has none of them. Gaffke's limits allow for them.
    """
    rng, weighted, plain = np.random.default_rng(n), [], []
    for _ in range(RUNS):
        x = scores(kind, rng.random(8 * n))
        p = np.where(rng.random(x.size) < 0.5 if chosen == "at random" else x < 0.5, 1.0, 0.2)
        kept = np.flatnonzero(rng.random(x.size) < p)[:n]
        weighted.append(hajek_mean(x[kept], p[kept]))
        plain.append(hajek_mean(x[kept]))
    (covered, width), (without, _) = cover(weighted, kind), cover(plain, kind)
    print(f"weighted, {chosen} | {kind} | {n} | {100 * covered:.1f} ({width:.3f}) | {100 * without:.1f}")
    assert covered >= least(0.93)
    assert chosen == "at random" or kind in NARROW or without <= 0.25
