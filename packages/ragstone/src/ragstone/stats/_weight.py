"""Means of dependent items, and of traffic of which only a sample, with known sampling probabilities, was scored."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from ragstone.stats._cluster import cluster_codes, cluster_interval, codes_of
from ragstone.stats._mean import Estimate, Side, check_level, mean_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def hajek_mean(
    values: Sequence[float] | NDArray[np.float64],
    probabilities: Sequence[float] | NDArray[np.float64] | None = None,
    *,
    clusters: Sequence[Hashable] | None = None,
    low: float = 0.0,
    high: float = 1.0,
    confidence_level: float = 0.95,
    side: Side = "two-sided",
) -> Estimate:
    """Estimate the mean of all traffic from sampled items, or from items of clusters that resemble each other.

    Hajek's mean weights each item by 1 / probability, and does not change if all probabilities are scaled. Its error is
    the variation between clusters: whole clusters are independent, the items of one cluster are not. Without clusters,
    each item is a cluster of its own.

    The interval uses the jackknife variance over clusters and Student's t with Satterthwaite's degrees of freedom. For
    bounded values it has the form of Wilson's interval, which keeps its coverage for scores at a bound of the range.

    Args:
        values: Scores of the sampled items, in [low, high].
        probabilities: Sampling probability of each item, in (0, 1], independent of the other items. Probabilities that
            depend on earlier scores are not supported. None: all equal.
        clusters: Label of the cluster of each item, such as its session, user or document. Each None is a cluster of
            its own. None: the items are independent.
        low: Smallest possible score. The interval is cut there.
        high: Largest possible score.
        confidence_level: Nominal coverage, in (0, 1).
        side: "two-sided", "lower" (the interval ends at `high`) or "upper" (the interval begins at `low`).

    Returns:
        An estimate with method "hajek", "cluster" (equal probabilities) or "hajek_cluster". `n` counts items.

    Raises:
        ValueError: If the lengths differ, there are fewer than two items or clusters, or a value or probability is out
            of range or not a number.

    Source:
        Hajek 1971. Linearized variance of a ratio: Sarndal, Swensson and Wretman 1992, section 5.7. Clusters: Bell and
        McCaffrey 2002. Wilson's interval with an effective number of items: Korn and Graubard 1998.

    Examples:
        >>> estimate = hajek_mean([1.0, 0.0, 1.0, 1.0], [0.1, 1.0, 0.1, 0.1])
        >>> round(estimate.value, 4)
        0.9677
        >>> hajek_mean([0.9, 0.8, 0.2, 0.1, 0.9], clusters=["s1", "s1", "s2", "s2", "s3"]).method
        'cluster'
    """
    import numpy as np

    check_level(confidence_level, side)
    x, p = _checked(values, probabilities)
    if x.size < 2 or x.min() < low or x.max() > high:
        raise ValueError(
            f"a weighted mean needs at least two values in [{low}, {high}], got {x.size} values in "
            f"[{x.min()}, {x.max()}]"
        )
    codes = codes_of(x.size, clusters)
    weights: NDArray[np.float64] = np.bincount(codes, weights=1 / p).astype(float)
    totals: NDArray[np.float64] = np.bincount(codes, weights=x / p).astype(float)
    if weights.size < 2:
        raise ValueError(
            f"a mean over clusters needs at least two clusters, but all {x.size} values are in the cluster "
            f"{clusters[0] if clusters else None!r}"
        )
    mean, lower, upper = cluster_interval(
        totals, weights, heaviest=1 / p.min(), low=low, high=high, confidence_level=confidence_level, side=side
    )
    weighted = "hajek" if clusters is None or p.min() < p.max() else ""
    return Estimate(
        value=mean,
        low=low if side == "upper" else min(lower, mean),
        high=high if side == "lower" else max(upper, mean),
        confidence_level=confidence_level,
        method="_".join([*([weighted] if weighted else []), *(["cluster"] if clusters is not None else [])]),
        n=int(x.size),
    )


def _checked(
    values: Sequence[float] | NDArray[np.float64],
    probabilities: Sequence[float] | NDArray[np.float64] | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    import numpy as np

    x = np.asarray(values, dtype=float)
    p = np.ones(x.shape) if probabilities is None else np.asarray(probabilities, dtype=float)
    if x.shape != p.shape or x.ndim != 1 or not x.size:
        raise ValueError(f"each value needs a probability, got {x.size} values and {p.size} probabilities")
    if not np.isfinite(x).all():
        raise ValueError("values must be finite. Omit failures, and report their number")
    if not ((p > 0) & (p <= 1)).all():
        raise ValueError(f"a sampling probability must be in (0, 1], got {float(p[~((p > 0) & (p <= 1))][0])!r}")
    return x, p


def estimate_mean(
    values: Sequence[float] | NDArray[np.float64],
    *,
    low: float,
    high: float,
    probabilities: Sequence[float] | NDArray[np.float64] | None = None,
    clusters: Sequence[Hashable] | None = None,
    confidence_level: float = 0.95,
    side: Side = "two-sided",
) -> Estimate | None:
    """Estimate a mean: weighted if sampling probabilities differ, over clusters if items share one.

    The result is None without scores. With `side` "lower" the interval ends at `high`, with "upper" it begins at `low`.
    If all scores are in one cluster, the interval is the whole range (method "range").
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
        x, p, clusters=clusters if grouped else None, low=low, high=high, confidence_level=confidence_level, side=side
    )
