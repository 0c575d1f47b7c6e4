"""Simulated pairs of scores that correlate, and how often intervals of their correlation contain it.

Both scores come from normal numbers with a correlation `rho`. The score kinds are those of docs/explanation/intervals.md.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy import stats
from scipy.special import ndtr

from clustered_scores import QUANTILES
from ragstone.stats import correlate

__all__ = ["KINDS", "MEASURES", "N_TRUTH", "coverage", "draw", "truth"]

SHARED = {"shared 1%": 0.01, "shared 5%": 0.05}
"""Independent scores from 0.9 to 1, except that both are 0 for this share."""
KINDS = ("smooth", "five", "even", "high", "ceiling", *SHARED)
MEASURES = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}
N_TRUTH = 2_000_000
"""Pairs from which the true correlation is computed: its standard error is below 0.001."""


def _scores(kind: str, latent: np.ndarray) -> np.ndarray:
    if kind == "five":
        return np.minimum(np.floor(np.sqrt(ndtr(latent)) * 5), 4) / 4
    return QUANTILES[kind](ndtr(latent))


def draw(
    kind: str, rho: float, n: int, rng: np.random.Generator, *, icc: float = 0.0, size: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return `n` pairs and their clusters of `size`, whose members share `icc` of the variance of both normal numbers."""
    codes = np.arange(n) // size
    if kind in SHARED:
        failed = rng.random(n) < SHARED[kind]
        return *(np.where(failed, 0.0, 0.9 + 0.1 * rng.random(n)) for _ in range(2)), codes
    common, own = rng.standard_normal((2, codes[-1] + 1))[:, codes], rng.standard_normal((2, n))
    a, b = math.sqrt(icc) * common + math.sqrt(1 - icc) * own
    return _scores(kind, a), _scores(kind, rho * a + math.sqrt(1 - rho * rho) * b), codes


@functools.cache
def truth(kind: str, rho: float, measure: str) -> float:
    x, y, _ = draw(kind, rho, N_TRUTH, np.random.default_rng(99))
    return float(MEASURES[measure](x, y).statistic)


def coverage(
    kind: str, rho: float, measure: str, n: int, *, runs: int, icc: float = 0.0, size: int = 1, seed: int = 3
) -> tuple[float, float, float]:
    """Return the share of intervals that contain the correlation, their mean width, and the share with an interval.

    Samples in which the correlation is undefined, and intervals that are the whole range, count as without an interval.
    """
    rng, expected = np.random.default_rng(seed), truth(kind, rho, measure)
    found = []
    for _ in range(runs):
        x, y, codes = draw(kind, rho, n, rng, icc=icc, size=size)
        found.append(correlate(x, y, measure, clusters=codes.tolist(), x_range=(0, 1), y_range=(0, 1)))
    stated = [one for one in found if one is not None and one.method != "range"]
    if not stated:
        return math.nan, math.nan, 0.0
    covered = [one.low - 1e-9 <= expected <= one.high + 1e-9 for one in stated]
    return float(np.mean(covered)), float(np.mean([one.high - one.low for one in stated])), len(stated) / runs
