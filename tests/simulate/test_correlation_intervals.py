"""Coverage of the intervals of correlations: the tables of docs/explanation/intervals.md."""

from __future__ import annotations

import math

import pytest

from correlated_scores import KINDS, MEASURES, coverage

RUNS = 1000
LIMIT = 0.93 - 3.5 * math.sqrt(0.93 * 0.07 / RUNS)
"""At least 93 in 100, for about 250 cells of the table."""


@pytest.mark.parametrize("n", [20, 50, 100, 400])
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_correlations(kind, measure, n):
    """Independent pairs, with a correlation of 0, 0.5 and 0.8 of the normal numbers behind them."""
    for rho in (0.0,) if kind.startswith("shared") else (0.0, 0.5, 0.8):
        covered, width, stated = coverage(kind, rho, measure, n, runs=RUNS)
        print(f"{kind} | {measure} | {n} | {rho} | {100 * covered:.1f} ({width:.2f}) | {100 * stated:.0f}")
        assert covered >= LIMIT or stated < 0.05, (rho, covered)


@pytest.mark.parametrize("n_clusters", [10, 30, 100])
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("kind", ["smooth", "five", "high", "ceiling"])
def test_intervals_of_correlations_over_clusters(kind, measure, n_clusters):
    """Clusters of five with an intraclass correlation of 0.5 of both scores."""
    for rho in (0.0, 0.5):
        covered, width, stated = coverage(kind, rho, measure, 5 * n_clusters, runs=RUNS, icc=0.5, size=5)
        print(f"clusters | {kind} | {measure} | {n_clusters} | {rho} | {100 * covered:.1f} ({width:.2f})")
        assert covered >= LIMIT or stated < 0.05, (rho, covered)
