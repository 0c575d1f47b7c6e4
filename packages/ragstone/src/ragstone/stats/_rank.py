"""Rank correlation, and bootstrap confidence intervals over clusters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ragstone.stats._correlation import perfect_interval
from ragstone.stats._mean import Estimate, mean_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CELLS = 1_000_000
"""Resamples times rows per batch (8 MB per table)."""
_PERFECT: Final = 1e-12
"""Tolerance within which a correlation equals 1 or -1, or cells are equal."""


def average_ranks(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute ranks from 1. Equal values have the mean of their ranks.

    Raises:
        ValueError: If a value is NaN.

    Examples:
        >>> average_ranks([0.5, 0.1, 0.5]).tolist()
        [2.5, 1.0, 2.5]
    """
    import numpy as np

    x = np.asarray(values, dtype=float)
    if np.isnan(x).any():
        raise ValueError("values must not contain NaN. Omit NaN values, and report their number")
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = (last - (counts - 1) / 2)[inverse.reshape(-1)]
    return ranks


def spearman(x: Sequence[float] | NDArray[np.float64], y: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Compute Spearman's rank correlation with average ranks, in [-1, 1], or None if either side is constant.

    Raises:
        ValueError: If the lengths differ, or a value is NaN.

    Source:
        Spearman 1904. With ties, it is the Pearson correlation of the average ranks.

    Examples:
        >>> spearman([1, 2, 3], [10, 30, 20])
        0.5
    """
    import numpy as np

    if len(x) != len(y):
        raise ValueError(f"x and y must have the same length, got {len(x)} and {len(y)} values")
    if len(x) < 2:
        return None
    a, b = average_ranks(x), average_ranks(y)
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    # Ranks are multiples of 1/2, so `size` is 0 only for constant values.
    if size == 0:
        return None
    return float(np.clip((a @ b) / size, -1.0, 1.0))


def bootstrap_mean(
    values: Sequence[Sequence[float]] | NDArray[np.float64],
    *,
    bounds: Sequence[tuple[float, float]] | None = None,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> list[Estimate | None]:
    """Estimate column means with percentile intervals, by resampling whole rows.

    All columns use the same resamples, so the interval of a column of differences is that of a paired comparison. NaN
    means undefined: each mean is over the defined cells of its column.

    Args:
        values: Clusters by columns.
        bounds: Smallest and largest possible cell of each column. The bootstrap cannot estimate the variation of a column
            whose cells are all equal, such as eight correlations of 1. With bounds, such a column has the interval of
            `mean_interval`; without, an interval of width 0.
        n_resamples: Number of bootstrap resamples.
        confidence_level: Nominal coverage, in (0, 1).
        seed: Seed of the random numbers. The same seed gives the same intervals.

    Returns:
        One estimate per column, or None for a column without defined cells.

    Raises:
        ValueError: If `values` does not have two dimensions, the number of bounds is not the number of columns, or an
            option is out of range.

    Source:
        Efron and Tibshirani 1993, chapter 13 (percentile method).

    Examples:
        >>> estimate = bootstrap_mean([[0.1, 1.0], [0.3, 1.0]], bounds=[(-1, 1), (-1, 1)])[1]
        >>> estimate.low < estimate.high
        True
    """
    import numpy as np

    x = np.asarray(values, dtype=float)
    if x.ndim != 2 or n_resamples < 1 or not 0 < confidence_level < 1:
        raise ValueError(
            "values must have 2 dimensions, n_resamples must be at least 1 and confidence_level in (0, 1), got "
            f"{x.ndim} dimensions, n_resamples={n_resamples}, confidence_level={confidence_level}"
        )
    if bounds is not None and len(bounds) != x.shape[1]:
        raise ValueError(f"bounds must have one pair per column, got {len(bounds)} for {x.shape[1]} columns")
    defined = ~np.isnan(x)
    filled = np.where(defined, x, 0.0)
    n = x.shape[0]
    estimates: list[Estimate | None] = []
    if n == 0:
        return [None] * x.shape[1]
    rng = np.random.default_rng(seed)
    # From the number of times each row is drawn, one matrix product computes the means of many resamples.
    sums, counts = np.empty((n_resamples, x.shape[1])), np.empty((n_resamples, x.shape[1]))
    present, step = defined.astype(float), max(1, _CELLS // n)
    for start in range(0, n_resamples, step):
        some = slice(start, min(start + step, n_resamples))
        drawn = rng.multinomial(n, np.full(n, 1 / n), size=some.stop - start).astype(float)
        sums[some], counts[some] = drawn @ filled, drawn @ present
    for column in range(x.shape[1]):
        known = int(defined[:, column].sum())
        if not known:
            estimates.append(None)
            continue
        drew_any = counts[:, column] > 0
        means = sums[drew_any, column] / counts[drew_any, column]
        mean = float(filled[:, column].sum() / known)
        if bounds is not None and np.ptp(x[defined[:, column], column]) <= _PERFECT:
            least, most = bounds[column]
            cells = [min(max(mean, least), most)] * known
            estimates.append(mean_interval(cells, low=least, high=most, confidence_level=confidence_level))
            continue
        low, high = (
            np.quantile(means, [(1 - confidence_level) / 2, (1 + confidence_level) / 2]) if means.size else (mean, mean)
        )
        estimates.append(
            Estimate(
                value=mean,
                # A rounding error can place the mean of equal cells outside the interval.
                low=min(float(low), mean),
                high=max(float(high), mean),
                confidence_level=confidence_level,
                method="bootstrap",
                n=known,
            )
        )
    return estimates


def bootstrap_spearman(
    columns: Sequence[Sequence[float]] | NDArray[np.float64],
    y: Sequence[float] | NDArray[np.float64],
    clusters: Sequence[int] | NDArray[np.intp],
    *,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> list[Estimate | None]:
    """Correlate columns with `y` over all rows, with percentile intervals from resampling clusters of rows.

    Rows of one cluster are not independent, so whole clusters are resampled. Each resample computes its own ranks.

    Args:
        columns: Rows by columns, without NaN.
        y: One value per row.
        clusters: Index of the cluster of each row, from 0, without gaps.
        n_resamples: Number of bootstrap resamples.
        confidence_level: Nominal coverage, in (0, 1).
        seed: Seed of the random numbers.

    Returns:
        One estimate per column, or None if the column or `y` is constant. `n` counts rows. For a perfect correlation the
        bootstrap interval would have width 0, so the interval is that of a proportion of n out of n clusters (method
        "wilson").

    Raises:
        ValueError: If the lengths differ, or a value is NaN.

    Examples:
        >>> bootstrap_spearman([[1.0], [2.0], [3.0]], [1, 2, 2], [0, 0, 1])[0].n
        3
    """
    import numpy as np

    x, target = np.asarray(columns, dtype=float), np.asarray(y, dtype=float)
    groups = np.asarray(clusters, dtype=np.intp)
    if x.ndim != 2 or not x.shape[0] == target.size == groups.size or np.isnan(x).any() or np.isnan(target).any():
        raise ValueError(
            "columns, y and clusters must have the same number of rows, without NaN, got "
            f"{x.shape}, {target.size} and {groups.size}"
        )
    points = [spearman(x[:, column], target) for column in range(x.shape[1])]
    if all(point is None for point in points):
        return [None] * x.shape[1]
    n = int(groups.max()) + 1
    rng = np.random.default_rng(seed)
    drawn = np.full((n_resamples, x.shape[1]), np.nan)
    step = max(1, _CELLS // target.size)
    for start in range(0, n_resamples, step):
        size = min(step, n_resamples - start)
        weight = rng.multinomial(n, np.full(n, 1 / n), size=size)[:, groups].astype(float)
        goal = _centered_ranks(target, weight)
        spread = (weight * goal * goal).sum(axis=1)
        for column in range(x.shape[1]):
            ranks = _centered_ranks(x[:, column], weight)
            scale = np.sqrt(spread * (weight * ranks * ranks).sum(axis=1))
            defined = scale > 0
            products = (weight * goal * ranks).sum(axis=1)
            drawn[start : start + size, column][defined] = products[defined] / scale[defined]
    estimates: list[Estimate | None] = []
    for column, point in enumerate(points):
        values = drawn[~np.isnan(drawn[:, column]), column]
        if point is None:
            estimates.append(None)
            continue
        low, high = (
            np.quantile(values, [(1 - confidence_level) / 2, (1 + confidence_level) / 2])
            if values.size
            else (point, point)
        )
        low, high = max(-1.0, min(float(low), point)), min(1.0, max(float(high), point))
        perfect = abs(point) > 1 - _PERFECT
        if perfect:
            # Every resample is perfect as well, so use the interval of a proportion of n out of n clusters.
            found = perfect_interval(math.copysign(1.0, point), n, confidence_level=confidence_level)
            low, high = found.low, found.high
        estimates.append(
            Estimate(
                value=point,
                low=min(low, point),
                high=max(high, point),
                confidence_level=confidence_level,
                method="wilson" if perfect else "bootstrap",
                n=target.size,
            )
        )
    return estimates


def _centered_ranks(values: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute average ranks minus their mean, for resamples (rows) with a weight for each value."""
    import numpy as np

    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    # The weight at and below each distinct value determines its rank.
    mass = np.add.reduceat(weight[:, order], starts, axis=1)
    rank = np.cumsum(mass, axis=1) - (mass - 1) / 2
    code = np.empty(values.size, dtype=np.intp)
    code[order] = np.repeat(np.arange(starts.size), np.diff(np.r_[starts, values.size]))
    centered: NDArray[np.float64] = rank[:, code] - (weight.sum(axis=1, keepdims=True) + 1) / 2
    return centered
