"""Medians of skewed numbers, such as latencies, with intervals that hold for any distribution."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from ragstone._util.distributions import normal_quantile
from ragstone.stats._cluster import codes_of, effective_number
from ragstone.stats._mean import Estimate
from ragstone.stats._weight import estimate_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def estimate_median(
    values: Sequence[float] | NDArray[np.float64],
    *,
    low: float = -math.inf,
    high: float = math.inf,
    probabilities: Sequence[float] | NDArray[np.float64] | None = None,
    clusters: Sequence[Hashable] | None = None,
    confidence_level: float = 0.95,
) -> Estimate | None:
    """Estimate a median with an interval between two of the values, which assumes no distribution.

    The ranks of both values are those of the sign test. With sampling probabilities or clusters, they are those for the
    number of independent values whose share below the median would have the same error. Clusters with equal shares
    count as one value each. If there are too few values for the level (fewer than 6 for 95%), the interval is the whole
    range from `low` to `high` (method "range", otherwise "order_statistics").

    Source:
        Thompson 1936. Dependent values: Woodruff 1952.

    Examples:
        >>> estimate = estimate_median([1.2, 0.8, 0.9, 4.0, 1.1, 1.0, 0.7])
        >>> estimate.value, estimate.low, estimate.high
        (1.0, 0.7, 4.0)
    """
    import numpy as np

    x = np.asarray(values, dtype=float)
    if not x.size:
        return None
    order = np.argsort(x, kind="stable")
    weights = np.ones(x.size) if probabilities is None else 1 / np.asarray(probabilities, dtype=float)[order]
    shares, ordered = np.cumsum(weights) / weights.sum(), x[order]

    def rank(share: float) -> float:
        return float(ordered[min(int(np.searchsorted(shares, share * (1 - 1e-12))), x.size - 1)])

    middle, n = (rank(0.5) + rank(0.5 + 0.5 / x.size)) / 2, float(x.size)
    z = normal_quantile((1 + confidence_level) / 2)
    if clusters is not None or weights.min() < weights.max():
        below = estimate_mean(
            (x <= middle).astype(float),
            low=-math.inf,
            high=math.inf,
            probabilities=probabilities,
            clusters=clusters,
            confidence_level=confidence_level,
        )
        half = math.inf if below is None else (below.high - below.low) / 2
        if math.isfinite(half):
            n = min(n, (z / half / 2) ** 2) if half else n
        else:
            # All clusters have the same share below the median, so the error is unknown. Each counts as one value.
            codes = codes_of(x.size, clusters)[order]
            n = effective_number(np.bincount(codes, weights=weights).astype(float))
    k = math.floor((n + 1 - z * math.sqrt(n)) / 2)
    return Estimate(
        value=middle,
        low=rank(k / n) if k > 0 else low,
        high=rank(1 - (k - 1) / n) if k > 0 else high,
        confidence_level=confidence_level,
        method="order_statistics" if k > 0 else "range",
        n=x.size,
    )
