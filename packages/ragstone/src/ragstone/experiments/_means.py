"""Means of scores with sampling probabilities and clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragstone.stats import Estimate, Side, cluster_codes, hajek_mean, mean_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["estimate_mean"]


def estimate_mean(
    values: Sequence[float] | NDArray[np.float64],
    *,
    low: float,
    high: float,
    probabilities: Sequence[float] | NDArray[np.float64] | None = None,
    clusters: Sequence[str | None] | None = None,
    confidence_level: float = 0.95,
    side: Side = "two-sided",
) -> Estimate | None:
    """Estimate a mean: weighted if sampling probabilities differ, over clusters if items share one.

    Args:
        values: Scores in [low, high].
        low: Smallest possible score, or -infinity.
        high: Largest possible score, or infinity.
        probabilities: Sampling probability of each score. None: all equal.
        clusters: Cluster of each score. Each None is a cluster of its own. None: independent scores.
        confidence_level: Nominal coverage, in (0, 1).
        side: "two-sided", "lower" (the interval ends at `high`) or "upper" (the interval begins at `low`).

    Returns:
        The estimate, or None without scores. If all scores are in one cluster, the interval is the whole range (method
        "range").
    """
    import numpy as np

    x = np.asarray(values, dtype=float)
    if not x.size:
        return None
    p = None if probabilities is None else np.asarray(probabilities, dtype=float)
    n_clusters = x.size if clusters is None else int(cluster_codes(clusters).max()) + 1
    grouped = n_clusters < x.size
    if x.size == 1 or not (grouped or (p is not None and p.min() < p.max())):
        return mean_interval(x, low=low, high=high, confidence_level=confidence_level, side=side)
    if n_clusters == 1:
        mean = float(np.average(x, weights=None if p is None else 1 / p))
        return Estimate(
            value=mean, low=low, high=high, confidence_level=confidence_level, method="range", n=int(x.size)
        )
    return hajek_mean(
        x,
        p,
        clusters=clusters if grouped else None,
        low=low,
        high=high,
        confidence_level=confidence_level,
        side=side,
    )
