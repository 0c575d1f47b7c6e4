"""Clusters of items that resemble each other: intraclass correlation, design effect and the interval of a mean."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragstone._util.distributions import student_quantile
from ragstone.stats._gaffke import gaffke_limit
from ragstone.stats._mean import TAIL, Side, check_level, mean_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ROUNDING: Final = 1e-12
"""Relative spread below which cluster means are equal."""


def check_resampling(n_resamples: int, confidence_level: float, *, least: int = 1) -> None:
    """Raise ValueError if an option of a resampling method is out of range."""
    check_level(confidence_level)
    if n_resamples < least:
        raise ValueError(f"n_resamples must be at least {least}, got {n_resamples}")


def codes_of(n: int, clusters: Sequence[Hashable] | None) -> NDArray[np.intp]:
    """Return the number of the cluster of each of `n` items. Without clusters, each item is one."""
    import numpy as np

    if clusters is None:
        return np.arange(n)
    if len(clusters) != n:
        raise ValueError(f"each of {n} items needs a cluster, got {len(clusters)} clusters")
    return cluster_codes(clusters)


def cluster_codes(labels: Sequence[Hashable]) -> NDArray[np.intp]:
    """Return the number of the cluster of each item, from 0 in order of occurrence. Each None is a cluster of its own."""
    import numpy as np

    first = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    if None not in first:
        return np.fromiter(map(first.__getitem__, labels), dtype=np.intp, count=len(labels))
    known: dict[Hashable, int] = {}
    codes = np.empty(len(labels), dtype=np.intp)
    n = 0
    for i, label in enumerate(labels):
        code = n if label is None else known.setdefault(label, n)
        n += code == n
        codes[i] = code
    return codes


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignEffect:
    """Loss of precision of a mean because the items of a cluster resemble each other."""

    n: int
    n_clusters: int
    icc: float
    """Intraclass correlation: correlation of two items of the same cluster, in [0, 1]. A negative estimate counts as
    0."""
    value: float
    """Factor by which the variance of the mean is larger than for independent items, at least 1."""

    @property
    def n_independent(self) -> float:
        """Number of independent items with the same precision."""
        return self.n / self.value


def design_effect(values: Sequence[float] | NDArray[np.float64], clusters: Sequence[Hashable]) -> DesignEffect | None:
    """Estimate the intraclass correlation of clusters and the design effect of the mean.

    The correlation is the analysis-of-variance estimate. The design effect is 1 + (m - 1) ICC, where m is the mean size
    of the cluster of an item.

    Args:
        values: Finite numbers.
        clusters: Label of the cluster of each value. Each None is a cluster of its own.

    Returns:
        The design effect, or None if it is not estimable: fewer than two clusters, or no cluster with two values.

    Raises:
        ValueError: If the lengths differ or a value is not finite.

    Source:
        Kish 1965, section 5.4. Donner 1986 (analysis-of-variance estimate with unequal sizes).

    Examples:
        >>> effect = design_effect([1, 1, 1, 0, 0, 0, 1, 1], ["a", "a", "a", "b", "b", "b", "c", "c"])
        >>> effect.n_clusters, effect.icc, effect.value
        (3, 1.0, 2.75)
    """
    import numpy as np

    x = np.asarray(values, dtype=float)
    if x.ndim != 1 or x.size != len(clusters):
        raise ValueError(f"each value needs a cluster, got {x.size} values and {len(clusters)} clusters")
    if not np.isfinite(x).all():
        raise ValueError("values must be finite. Omit failures, and report their number")
    codes = cluster_codes(clusters)
    sizes = np.bincount(codes)
    n, k = x.size, sizes.size
    if k < 2 or k == n:
        return None
    x = x - x.mean()
    means = np.bincount(codes, weights=x) / sizes
    between = float((sizes * means**2).sum()) / (k - 1)
    within = max(float((x**2).sum()) - float((sizes * means**2).sum()), 0.0) / (n - k)
    typical = (n - float((sizes**2).sum()) / n) / (k - 1)
    spread = between + (typical - 1) * within
    icc = min(max((between - within) / spread, 0.0), 1.0) if spread > 0 else 0.0
    return DesignEffect(n=n, n_clusters=int(k), icc=icc, value=1 + (float((sizes**2).sum()) / n - 1) * icc)


def effective_number(weights: NDArray[np.float64]) -> float:
    """Return Kish's effective number of clusters with these weights."""
    return float(weights.sum() ** 2 / (weights @ weights))


def jackknife_interval(
    value: float, without: NDArray[np.float64], weights: NDArray[np.float64], *, confidence_level: float
) -> tuple[float, float, str]:
    """Compute the interval of a coefficient from its values without each cluster, in which NaN counts as no change.

    Student's t has the effective number of `weights` minus 1 degrees of freedom. The interval is cut at -1 and 1. The
    method is "jackknife", or "range" for at most two effective clusters, or if the coefficient never changes.
    Source: Jackknife over clusters: Bell and McCaffrey 2002.
    """
    import numpy as np

    n = effective_number(weights)
    deviations = np.nan_to_num(without, nan=value) - value
    variance = float(deviations @ deviations) * (n - 1) / n if n > 2 else 0.0
    if variance <= _ROUNDING**2:
        return -1.0, 1.0, "range"
    error = student_quantile(n - 1, (1 + confidence_level) / 2) * math.sqrt(variance)
    return max(-1.0, value - error), min(1.0, value + error), "jackknife"


def cluster_interval(
    totals: NDArray[np.float64],
    weights: NDArray[np.float64],
    *,
    heaviest: float,
    low: float,
    high: float,
    confidence_level: float,
    side: Side = "two-sided",
) -> tuple[float, float, float]:
    """Compute Hajek's mean of independent clusters with its interval.

    The variance is the jackknife over clusters. Student's t has Satterthwaite's degrees of freedom: fewer if few
    clusters carry most of the weight, or if few clusters differ from the rest. For bounded values the interval is
    Wilson's, for the number of yes/no items that would have this variance: it is wider on the side where most of the
    range lies, and stays within the range. Its limit on the long side of skewed clusters has a larger quantile, by the
    skewness correction of the t statistic: the whole correction for one limit, half of it for two, whose errors partly
    cancel. If all cluster means are equal, it is `mean_interval` for the effective number of clusters. `totals` are the
    weighted sums of the values of at least two clusters, `weights` the sums of their positive weights, `heaviest` the
    largest weight of a value. If one more such value at the far end of the range would move the mean by a quarter of
    the 95% interval's width, the interval includes that of Gaffke for the effective number of clusters. With `side`
    "lower" or "upper", that limit has the whole error, and the other one is of no use.

    Source:
        Hajek 1971. Jackknife over clusters (CR3): Bell and McCaffrey 2002. Degrees of freedom: Satterthwaite 1946.
        Effective number: Kish 1965. Wilson 1927, with an effective number of items: Korn and Graubard 1998, Franco et
        al. 2019. Skewness correction: Johnson 1978, Hall 1992.
    """
    import numpy as np

    k = weights.size
    share = weights / weights.sum()
    means = np.clip(totals / weights, low, high)
    mean = min(max(float((share * means).sum()), low), high)
    n_effective = effective_number(share)
    if np.ptp(means) <= _ROUNDING * max(1.0, float(np.abs(means).max())):
        equal = mean_interval(
            [mean] * max(1, round(n_effective)), low=low, high=high, confidence_level=confidence_level, side=side
        )
        return mean, equal.low, equal.high
    # Distance of the mean of all clusters from the mean without each cluster.
    moved = share / (1 - share) * (means - mean)
    squares = float((moved**2).sum())
    variance = squares * (k - 1) / k
    kurtosis = k * float((moved**4).sum()) / squares**2
    freedom = max(min(n_effective, 2 * k / max(kurtosis - 1, _ROUNDING)) - 1, 1.0)
    tails = 2 if side == "two-sided" else 1
    tail = (1 - confidence_level) / tails
    t = student_quantile(freedom, 1 - tail)
    if math.isinf(high - low):
        half = t * math.sqrt(variance)
        return mean, max(low, mean - half), min(high, mean + half)
    p, error = (mean - low) / (high - low), variance / (high - low) ** 2
    if p in (0.0, 1.0):
        return mean, low, high
    skewness = float((moved**3).sum()) / squares**1.5
    # A sample that lacks rare clusters has a mean closer to the end of the range, and a variance that is too small.
    more = abs(skewness) * math.sqrt(k / n_effective) * (2 * t * t + 1) / (6 * tails)
    a, b = (wilson_limit(p, error, q) for q in (-t - more * (skewness < 0), t + more * (skewness > 0)))
    if max(p, 1 - p) * heaviest / weights.sum() > student_quantile(freedom, 1 - TAIL / tails) * math.sqrt(error) / 2:
        n, order = round(n_effective), np.argsort(means)
        places = np.searchsorted(np.cumsum(share[order]), (np.arange(n) + 0.5) / n)
        unit = np.clip((means[order][places] - low) / (high - low), 0, 1)
        limits = [gaffke_limit(unit, q, mid_p=tails == 2) + p - unit.mean() for q in (tail, 1 - tail)]
        a, b = min(a, limits[0]), max(b, limits[1])
    return mean, low + (high - low) * max(a, 0.0), low + (high - low) * min(b, 1.0)


def wilson_limit(p: float, error: float, quantile: float) -> float:
    """Compute one limit of Wilson's interval for p (1 - p) / `error` items, the lower one for a negative quantile."""
    of_range = p * (1 - p)
    shrink = quantile * quantile * error / of_range
    if math.isinf(shrink):
        return 0.0 if quantile < 0 else 1.0
    return (p + shrink / 2 + quantile * math.sqrt(error * (1 + shrink / (4 * of_range)))) / (1 + shrink)
