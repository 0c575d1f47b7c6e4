"""Power, false claims and coverage of comparisons of three systems: the tables of docs/explanation/intervals.md."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from paper_test import tukey_p_values
from ragstone.stats import simultaneous_differences

RUNS = 1000
FALSE = 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / RUNS)
SIZES = (30, 100, 300)
GAINS = {"smooth": (0.45, 0.25, 0.14), "even": (0.8, 0.45, 0.25), "ceiling": (0.9, 0.5, 0.27)}
"""Gain of the second system by number of samples, in standard deviations of the normal numbers behind the scores."""


def scores(kind, numbers):
    """Scores from normal numbers: uniform, 0 or 1 with 0.5 or 0.97, or 1 in 85 of 100."""
    share = norm.cdf(numbers)
    match kind:
        case "even":
            return (share > 0.5) * 1.0
        case "rare":
            return (share > 0.03) * 1.0
        case "ceiling":
            return np.where(share > 0.15, 1.0, share / 0.15)
    return share


def draw(kind, rng, n, gains, spread, *, size=1, metrics=1):
    """Tables of systems that share the difficulty of a sample, unless their numbers have a larger spread. `size`: of clusters."""
    k, spreads = len(gains), np.asarray(spread, dtype=float)
    shared = np.where(spreads > 1, 0.0, 0.5)
    item, common = rng.standard_normal((n // size, 1)), rng.standard_normal((n // size, k))
    tables = []
    for _ in range(metrics):
        own = rng.standard_normal((n, k))
        if size > 1 or metrics > 1:
            own = np.sqrt(0.5) * (own + np.repeat(common, size, axis=0))
        numbers = np.sqrt(shared) * np.repeat(item, size, axis=0) + np.sqrt(1 - shared) * own + gains
        tables.append(scores(kind, numbers * np.maximum(spreads, 1.0)))
    return tables


def simulate(test, kind, n, gains, spread, *, size=1, metrics=1, weighted=False):
    """Return the shares of experiments with a false difference, with all differences in the intervals, and by pair the power."""
    rng = np.random.default_rng(5)
    means = draw(kind, np.random.default_rng(99), 400_000, gains, spread)[0].mean(axis=0)
    false, covered, stated, power = 0, 0, 0, 0
    clusters = None if size == 1 else np.repeat(np.arange(n // size), size).tolist()
    for _ in range(RUNS):
        tables = draw(kind, rng, n, gains, spread, size=size, metrics=metrics)
        weights = rng.choice([1.0, 4.0], n) if weighted else None
        results = test(tables, clusters=clusters, weights=weights, n_resamples=999)
        pairs = [pair for result in results for pair in result.pairs]
        true = [0.0 if gains[p.first] == gains[p.second] else means[p.first] - means[p.second] for p in pairs]
        claimed = [p.p_value <= 0.05 for p in pairs]
        false += any(c and p.difference * d <= 0 for c, p, d in zip(claimed, pairs, true, strict=True))
        ends = [(p.low, p.high, d) for p, d in zip(pairs, true, strict=True) if p.low is not None]
        stated += bool(ends)
        covered += bool(ends) and all(low - 1e-9 <= d <= high + 1e-9 for low, high, d in ends)
        power += claimed[0]
    return false / RUNS, covered / max(stated, 1), power / RUNS


def power_of_the_paper(kind, n, gains, spread):
    """Return the share of experiments in which the test of the paper finds the first difference."""
    rng = np.random.default_rng(5)
    drawn = (draw(kind, rng, n, gains, spread)[0] for _ in range(RUNS))
    return sum(tukey_p_values(x, n_resamples=999)[0][1] <= 0.05 for x in drawn) / RUNS


@pytest.mark.parametrize("kind", GAINS)
@pytest.mark.parametrize("n", SIZES)
def test_a_noisy_system_costs_little_power(kind, n):
    """The second system is better than the first. The third one is worse, and its normal numbers vary four times as much."""
    gain = GAINS[kind][SIZES.index(n)]
    alone = simulate(simultaneous_differences, kind, n, (0, gain), (1, 1))[2]
    before = power_of_the_paper(kind, n, (0, gain, -0.3), (1, 1, 4))
    beside = simulate(simultaneous_differences, kind, n, (0, gain, -0.3), (1, 1, 4))[2]
    print(f"power | {kind} | {n} | {100 * alone:.0f} | {100 * before:.0f} | {100 * beside:.0f}")
    assert beside > 0.75 * alone
    assert beside > before


@pytest.mark.parametrize("kind", ["smooth", "even", "ceiling", "rare"])
@pytest.mark.parametrize("n", SIZES)
def test_false_differences(kind, n):
    """Of three equal systems on one metric and on five, and of two equal ones beside a worse and noisier one."""
    few = 2 if n == 30 else 5
    cases = {
        "equal": simulate(simultaneous_differences, kind, n, (0, 0, 0), (1, 1, 1)),
        "five metrics": simulate(simultaneous_differences, kind, n, (0, 0, 0), (1, 1, 1), metrics=5),
        "one worse": simulate(simultaneous_differences, kind, n, (0, 0, -0.8), (1, 1, 3)),
        "clusters": simulate(simultaneous_differences, kind, n, (0, 0, -0.8), (1, 1, 3), size=few),
        "weights": simulate(simultaneous_differences, kind, n, (0, 0, -0.8), (1, 1, 3), weighted=True),
    }
    print(f"false | {kind} | {n} | " + " | ".join(f"{100 * f:.1f} ({100 * c:.1f})" for f, c, _ in cases.values()))
    assert all(false <= FALSE for false, _, _ in cases.values()), cases


@pytest.mark.parametrize("kind", ["smooth", "even", "ceiling", "rare"])
def test_false_differences_of_ten_samples(kind):
    """Of three equal systems on five metrics, which have few different signs."""
    false = simulate(simultaneous_differences, kind, 10, (0, 0, 0), (1, 1, 1), metrics=5)[0]
    print(f"false | {kind} | 10 | five metrics {100 * false:.1f}")
    assert false <= FALSE
