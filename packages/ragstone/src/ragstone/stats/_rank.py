"""Rank correlation, and bootstrap intervals over clusters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ragstone.stats._correlation import perfect_interval
from ragstone.stats._mean import Estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["average_ranks", "bootstrap_mean", "bootstrap_spearman", "spearman"]

_CELLS = 1_000_000
"""Resamples times rows worked on at once: 8 MB a table."""
_PERFECT: Final = 1e-12
"""A correlation this near 1 or -1 is one, up to rounding."""


def average_ranks(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Rank values from 1 up; equal values share the mean of their ranks.

    Raises:
        ValueError: A value that is not a number.

    Example:
        >>> average_ranks([0.5, 0.1, 0.5]).tolist()
        [2.5, 1.0, 2.5]
    """
    import numpy as np

    x = np.asarray(values, dtype=float)
    if np.isnan(x).any():
        raise ValueError("NaN has no rank; leave it out, and count it")
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = (last - (counts - 1) / 2)[inverse.reshape(-1)]
    return ranks


def spearman(x: Sequence[float] | NDArray[np.float64], y: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Spearman's rank correlation with average ranks, in [-1, 1]; None where either side is constant.

    Raises:
        ValueError: Unequal lengths, or NaN.

    Source:
        Spearman 1904; with ties the Pearson correlation of the average ranks.

    Example:
        >>> spearman([1, 2, 3], [10, 30, 20])
        0.5
    """
    import numpy as np

    if len(x) != len(y):
        raise ValueError(f"a correlation needs pairs, got {len(x)} and {len(y)} values")
    if len(x) < 2:
        return None
    a, b = average_ranks(x), average_ranks(y)
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    # Ranks are multiples of one half: what is not constant is far from 0.
    if size == 0:
        return None
    return float(np.clip((a @ b) / size, -1.0, 1.0))


def bootstrap_mean(
    values: Sequence[Sequence[float]] | NDArray[np.float64],
    *,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> list[Estimate | None]:
    """Estimate column means from rows that are resampled as wholes, with percentile intervals.

    All columns see the same resamples, so that the mean of a column of differences has the interval of a paired
    comparison. NaN means undefined: each mean is over the defined cells of its column.

    Args:
        values: Clusters by columns.
        n_resamples: Bootstrap resamples.
        confidence_level: Nominal coverage, in (0, 1).
        seed: Of the random numbers; the same seed gives the same intervals.

    Returns:
        One estimate a column; None for a column without a defined cell. A column with one defined cell has no spread to
        resample, and its interval is that cell alone.

    Raises:
        ValueError: Not two dimensions, or an option out of range.

    Source:
        Efron and Tibshirani 1993, chapter 13 (percentile method).

    Example:
        >>> bootstrap_mean([[0.1, 1.0], [0.3, 1.0]])[1].high
        1.0
    """
    import numpy as np

    x = np.asarray(values, dtype=float)
    if x.ndim != 2 or n_resamples < 1 or not 0 < confidence_level < 1:
        raise ValueError(
            "a bootstrap needs rows and columns, n_resamples >= 1 and confidence_level in (0, 1), got "
            f"{x.ndim} dimensions, n_resamples={n_resamples!r}, confidence_level={confidence_level!r}"
        )
    defined = ~np.isnan(x)
    filled = np.where(defined, x, 0.0)
    n = x.shape[0]
    estimates: list[Estimate | None] = []
    if n == 0:
        return [None] * x.shape[1]
    rng = np.random.default_rng(seed)
    # How often each row was drawn: one matrix product then makes the means of many resamples.
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
        low, high = (
            np.quantile(means, [(1 - confidence_level) / 2, (1 + confidence_level) / 2]) if means.size else (mean, mean)
        )
        estimates.append(
            Estimate(
                value=mean,
                # Rounding alone can put the mean of equal cells outside.
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

    Rows of one cluster are drawn together, because they are not independent. Ranks are made anew in each resample.

    Args:
        columns: Rows by columns, without NaN.
        y: A value for each row.
        clusters: Number of the cluster of each row, from 0, without gaps.
        n_resamples: Bootstrap resamples.
        confidence_level: Nominal coverage, in (0, 1).
        seed: Of the random numbers.

    Returns:
        One estimate a column; `n` counts rows. None where the column or `y` is constant. A perfect order, which resampling
        cannot doubt, has the interval of a share of n in n clusters (method "wilson").

    Raises:
        ValueError: Unequal lengths, or NaN.

    Example:
        >>> bootstrap_spearman([[1.0], [2.0], [3.0]], [1, 2, 2], [0, 0, 1])[0].n
        3
    """
    import numpy as np

    x, target = np.asarray(columns, dtype=float), np.asarray(y, dtype=float)
    groups = np.asarray(clusters, dtype=np.intp)
    if x.ndim != 2 or not x.shape[0] == target.size == groups.size or np.isnan(x).any() or np.isnan(target).any():
        raise ValueError(
            f"a correlation needs rows without NaN of equal number, got {x.shape}, {target.size} and {groups.size}"
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
        goal = _centred_ranks(target, weight)
        spread = (weight * goal * goal).sum(axis=1)
        for column in range(x.shape[1]):
            ranks = _centred_ranks(x[:, column], weight)
            scale = np.sqrt(spread * (weight * ranks * ranks).sum(axis=1))
            defined = scale > 0
            products = (weight * goal * ranks).sum(axis=1)
            drawn[start : start + size, column][defined] = products[defined] / scale[defined]
    estimates: list[Estimate | None] = []
    for column, point in enumerate(points):
        found = drawn[~np.isnan(drawn[:, column]), column]
        if point is None:
            estimates.append(None)
            continue
        low, high = (
            np.quantile(found, [(1 - confidence_level) / 2, (1 + confidence_level) / 2])
            if found.size
            else (point, point)
        )
        low, high = max(-1.0, min(float(low), point)), min(1.0, max(float(high), point))
        perfect = abs(point) > 1 - _PERFECT
        if perfect:
            # Every resample is in order as well: bounded as a share of n in n clusters that are.
            low, high = perfect_interval(math.copysign(1.0, point), n, confidence_level=confidence_level)
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


def _centred_ranks(values: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average ranks, less their mean, of values of which each resample (row) has some several times and some not."""
    import numpy as np

    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    # How much weight lies on each distinct value, and below it, gives its rank.
    mass = np.add.reduceat(weight[:, order], starts, axis=1)
    rank = np.cumsum(mass, axis=1) - (mass - 1) / 2
    code = np.empty(values.size, dtype=np.intp)
    code[order] = np.repeat(np.arange(starts.size), np.diff(np.r_[starts, values.size]))
    centred: NDArray[np.float64] = rank[:, code] - (weight.sum(axis=1, keepdims=True) + 1) / 2
    return centred
