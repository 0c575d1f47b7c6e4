"""Coverage of the intervals of medians: the table of docs/explanation/intervals.md."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ragstone.stats import estimate_median

RUNS = 1500
LIMIT = 0.93 - 3 * math.sqrt(0.93 * 0.07 / RUNS)


def draw(kind, z):
    """Numbers whose median is 1, from normal ones."""
    return np.round(np.exp(z / 2)) if kind == "rounded" else np.exp({"skewed": 0.5, "very skewed": 1.0}[kind] * z)


@pytest.mark.parametrize("n", [6, 10, 20, 50, 100, 400])
@pytest.mark.parametrize("kind", ["skewed", "very skewed", "rounded"])
def test_intervals_of_medians(kind, n):
    """At least 93 in 100 for any distribution and number of values."""
    rng = np.random.default_rng(n)
    found = [estimate_median(draw(kind, rng.standard_normal(n))) for _ in range(RUNS)]
    covered = sum(e.low <= 1 <= e.high for e in found) / RUNS
    print(f"{kind} | {n} | {100 * covered:.1f}")
    assert covered >= LIMIT


@pytest.mark.parametrize("n", [10, 30, 100])
@pytest.mark.parametrize("icc", [0.2, 0.5])
def test_intervals_of_medians_over_clusters(icc, n):
    """Clusters of five on average, with this intraclass correlation."""
    rng = np.random.default_rng(n)
    covered = 0
    for _ in range(RUNS):
        codes = np.repeat(np.arange(n), np.maximum(1, rng.poisson(5, n)))
        z = math.sqrt(icc) * rng.standard_normal(n)[codes] + math.sqrt(1 - icc) * rng.standard_normal(codes.size)
        found = estimate_median(draw("skewed", z), clusters=codes.tolist())
        covered += found.low <= 1 <= found.high
    print(f"clusters | {icc} | {n} | {100 * covered / RUNS:.1f}")
    assert covered / RUNS >= LIMIT
