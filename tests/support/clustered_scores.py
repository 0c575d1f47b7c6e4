"""Simulated scores of items that resemble each other within clusters, and how often intervals of them miss the truth.

The scores of an item come from a normal number, of which a share `icc` of the variance is common to the items of a cluster.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr
from scipy.stats import beta

from ragstone.stats import (
    compare_groups,
    estimate_mean,
    flip_rate,
    percent_agreement,
    simultaneous_differences,
)
from value_groups import compare_value_groups

__all__ = ["ESTIMATORS", "KINDS", "QUANTILES", "Setting", "miss_rates"]

SIZE = 5
"""Mean number of items of a cluster."""
N_REPEATS = 3
"""Judge scores of an item whose flips are counted."""
N_GRID = 20_001

QUANTILES: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "smooth": beta(4, 2).ppf,
    "even": lambda u: (u < 0.5).astype(float),
    "high": lambda u: (u < 0.85).astype(float),
    "rare": lambda u: (u < 0.95).astype(float),
    "ceiling": lambda u: np.where(u > 0.15, 1.0, u / 0.15),
}
KINDS = tuple(QUANTILES)
"""Kinds of scores, as in docs/explanation/intervals.md. "rare": 0 or 1, with 0.95."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How a sample is drawn."""

    icc: float
    n_clusters: int
    kind: str = "ceiling"
    equal: bool = True
    """Whether each cluster has the same number of items. Otherwise a geometric number with the same mean."""


def _codes(setting: Setting, rng: np.random.Generator) -> np.ndarray:
    sizes = np.full(setting.n_clusters, SIZE)
    if not setting.equal:
        sizes = np.minimum(rng.geometric(1 / SIZE, setting.n_clusters), 10 * SIZE)
    return np.repeat(np.arange(setting.n_clusters), sizes)


def _latent(codes: np.ndarray, icc: float, rng: np.random.Generator) -> np.ndarray:
    common = rng.standard_normal(codes[-1] + 1)[codes]
    return np.sqrt(icc) * common + np.sqrt(1 - icc) * rng.standard_normal(codes.size)


def _scores(setting: Setting, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    codes = _codes(setting, rng)
    return QUANTILES[setting.kind](ndtr(_latent(codes, setting.icc, rng))), codes


@functools.cache
def _mean_of(kind: str) -> float:
    return float(QUANTILES[kind]((np.arange(N_GRID) + 0.5) / N_GRID).mean())


def _misses(estimate, truth: float) -> bool:
    return estimate is None or not estimate.low - 1e-9 <= truth <= estimate.high + 1e-9


def _mean(setting: Setting, rng: np.random.Generator) -> dict[str, bool]:
    """The mean of `evaluate`, `status` and `report`, and both limits that a gate decides with."""
    x, codes = _scores(setting, rng)
    truth = _mean_of(setting.kind)
    found = {
        side: estimate_mean(x, low=0.0, high=1.0, clusters=codes.tolist(), side=side)
        for side in ("two-sided", "lower", "upper")
    }
    return {
        "mean": _misses(found["two-sided"], truth),
        "lower limit": _misses(found["lower"], truth),
        "upper limit": _misses(found["upper"], truth),
    }


def _weighted_mean(setting: Setting, rng: np.random.Generator) -> dict[str, bool]:
    """The mean of a store in which half of the clusters were kept with a probability of 20%, item by item."""
    truth = _mean_of(setting.kind)
    for _ in range(100):
        x, codes = _scores(setting, rng)
        p = np.where(codes % 2 == 0, 1.0, 0.2)
        kept = rng.random(codes.size) < p
        if np.unique(codes[kept]).size > 1:
            break
    found = estimate_mean(x[kept], low=0.0, high=1.0, probabilities=p[kept], clusters=codes[kept].tolist())
    return {"weighted mean": _misses(found, truth)}


@functools.cache
def _flip_truths() -> tuple[float, float]:
    q = ndtr(1.5 * np.linspace(-8, 8, N_GRID))
    w = np.exp(-(np.linspace(-8, 8, N_GRID) ** 2) / 2)
    w /= w.sum()
    return float(w @ (2 * q * (1 - q))), float(w @ (1 - q**N_REPEATS - (1 - q) ** N_REPEATS))


def _flips(setting: Setting, rng: np.random.Generator) -> dict[str, bool]:
    """Flip rates of three yes-no replies whose probability resembles that of the cluster's other items."""
    codes = _codes(setting, rng)
    q = ndtr(1.5 * _latent(codes, setting.icc, rng))
    replies = (rng.random((codes.size, N_REPEATS)) < q[:, None]).astype(float)
    found = flip_rate(replies.tolist(), clusters=codes.tolist())
    pairs, items = _flip_truths()
    return {"flipped pairs": _misses(found.pairs, pairs), "flipped items": _misses(found.items, items)}


def _agreement(setting: Setting, rng: np.random.Generator) -> dict[str, bool]:
    """Percent agreement of two raters, who agree on an item as often as the kind's mean says."""
    codes = _codes(setting, rng)
    agrees = ndtr(_latent(codes, setting.icc, rng)) < _mean_of(setting.kind)
    ratings = [["a", "a" if same else "b"] for same in agrees]
    return {"agreement": _misses(percent_agreement(ratings, clusters=codes.tolist()), _mean_of(setting.kind))}


def _groups(setting: Setting, rng: np.random.Generator) -> dict[str, bool]:
    """Two equal groups, as in `topicality` and between sampled periods: difference and superiority."""
    (x, a), (y, b) = _scores(setting, rng), _scores(setting, rng)
    found = compare_groups(x, y, low=0.0, high=1.0, clusters=(a.tolist(), b.tolist()), n_resamples=1)
    return {"group difference": _misses(found.difference, 0.0), "superiority": _misses(found.superiority, 0.5)}


def _pairs(setting: Setting, rng: np.random.Generator) -> dict[str, bool]:
    """Two equal systems on the same items: false claims of the paired test."""
    codes = _codes(setting, rng)
    x, y = (QUANTILES[setting.kind](ndtr(_latent(codes, setting.icc, rng))) for _ in range(2))
    seed = int(rng.integers(1 << 30))
    (found,) = simultaneous_differences([np.stack([x, y], axis=1)], clusters=codes.tolist(), n_resamples=399, seed=seed)
    return {"sign flips": _claims(found.pairs[0].p_value)}


def _traffic(setting: Setting, rng: np.random.Generator) -> dict[str, bool]:
    """Two equal groups of traffic: false claims of the unpaired test."""
    (x, a), (y, b) = _scores(setting, rng), _scores(setting, rng)
    seed = int(rng.integers(1 << 30))
    (pair,) = compare_value_groups([x, y], clusters=[a.tolist(), b.tolist()], n_resamples=399, seed=seed).pairs
    return {"unpaired test": _claims(pair.p_value)}


def _claims(p_value: float | None) -> bool:
    return p_value is not None and p_value <= 0.05


ESTIMATORS: Mapping[str, Callable[[Setting, np.random.Generator], dict[str, bool]]] = {
    "means": _mean,
    "weighted means": _weighted_mean,
    "flip rates": _flips,
    "agreement": _agreement,
    "groups": _groups,
    "pairs": _pairs,
    "traffic": _traffic,
}


def miss_rates(estimator: str, setting: Setting, *, runs: int, seed: int = 5) -> dict[str, float]:
    """Return the share of simulated samples in which each interval misses the truth, or each test claims falsely."""
    rng = np.random.default_rng(seed)
    found = [ESTIMATORS[estimator](setting, rng) for _ in range(runs)]
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}
