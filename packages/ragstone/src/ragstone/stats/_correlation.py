"""Correlation: Pearson, Spearman and Kendall's tau-b, with intervals that know ties, clusters and ranges."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from ragstone._util.distributions import student_quantile
from ragstone._util.lazy import needs_extra
from ragstone.stats._cluster import codes_of, effective_number
from ragstone.stats._mean import Bounds, Estimate, check_level, estimate_around, mean_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CorrelationKind = Literal["pearson", "spearman", "kendall"]

_CONSTANT: Final = 1e-13
"""Relative tolerance of the range of a column, below which it counts as constant."""
_PERFECT: Final = 1e-12
"""Distance from 1 or -1 below which a correlation is perfect."""
_COCHRAN: Final = 25
"""Student's t requires n >= 25 times the squared skewness of the influences (Cochran's rule)."""
_MOVES: Final = 0.5
"""Student's t requires that one more pair, at any corner of the range, moves the correlation by less than this share of
half the 95% interval's width, at any level, because an interval has to contain those of lower levels."""
_LEVELS: Final = 1000
"""Maximum number of levels of a column in Kendall's influences. Of more, neighbors are merged, which changes a standard
error by less than 1 in 1,000 and bounds the cost."""
_CHUNKS: Final = 2000
"""Maximum number of different influences in Gaffke's interval. Of more, neighbors are averaged."""
_WHOLE: Final = Bounds(-math.inf, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelationMean:
    """Fisher-z mean of several correlations."""

    value: float | None
    """Mean correlation. None if no correlation is defined, or both 1 and -1 occur."""
    low: float | None
    high: float | None
    """Limits of an interval that is valid for any dependence of the correlations. None without a mean."""
    n: int
    """Number of correlations in the mean."""
    n_undefined: int
    """Number of undefined correlations (of constant columns), which are omitted."""


def pearson(x: Sequence[float] | NDArray[np.float64], y: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Compute Pearson's correlation, in [-1, 1], or None if a side is constant or there are fewer than two pairs.

    Raises:
        ValueError: If the lengths differ, or a value is not finite.

    Examples:
        >>> pearson([1, 2, 3], [2, 4, 6])
        1.0
    """
    import numpy as np

    a, b = _pairs(x, y)
    if _constant(a) or _constant(b):
        return None
    a, b = a - a.mean(), b - b.mean()
    # Scale the values, because squares of very small or large numbers would underflow or overflow.
    a, b = a / np.abs(a).max(), b / np.abs(b).max()
    return float(np.clip((a @ b) / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def kendall(x: Sequence[float] | NDArray[np.float64], y: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Compute Kendall's tau-b, in [-1, 1], or None if a side is constant or there are fewer than two pairs.

    Raises:
        ValueError: If the lengths differ, or a value is not finite.

    Source:
        Kendall 1945 (tau-b, which corrects for ties).

    Examples:
        >>> round(kendall([1, 2, 3, 4], [1, 2, 4, 3]), 4)
        0.6667
    """
    with needs_extra("", "scipy", "Kendall's tau"):
        from scipy.stats import kendalltau

    a, b = _pairs(x, y)
    if len(a) < 2 or (a == a[0]).all() or (b == b[0]).all():
        return None
    return max(-1.0, min(1.0, float(kendalltau(a, b).statistic)))


def spearman(x: Sequence[float] | NDArray[np.float64], y: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Compute Spearman's rank correlation with average ranks, in [-1, 1], or None if either side is constant.

    Raises:
        ValueError: If the lengths differ, or a value is not finite.

    Source:
        Spearman 1904. With ties, it is the Pearson correlation of the average ranks.

    Examples:
        >>> spearman([1, 2, 3], [10, 30, 20])
        0.5
    """
    with needs_extra("", "scipy", "Spearman's correlation"):
        from scipy.stats import rankdata

    a, b = _pairs(x, y)
    return pearson(rankdata(a), rankdata(b))


def correlate(
    x: Sequence[float] | NDArray[np.float64],
    y: Sequence[float] | NDArray[np.float64],
    kind: CorrelationKind = "pearson",
    *,
    clusters: Sequence[Hashable] | None = None,
    x_range: tuple[float, float] = _WHOLE,
    y_range: tuple[float, float] = _WHOLE,
    confidence_level: float = 0.95,
) -> Estimate | None:
    """Correlate pairs, with an interval that also holds for ties, for values at a bound and for a few rare pairs.

    The influence of a pair is the change of the correlation if the pair had a little more weight. The interval is

    - Student's t on the scale of Fisher's z, with the variance of the influences and Satterthwaite's degrees of freedom
      ("student_t"), if the influences are not skewed and no single further pair could move the correlation far,
    - otherwise the interval of a mean in a known range (`mean_interval`) of correlation plus influence. The range goes
      from the lowest to the highest influence that a pair of extreme values could have ("gaffke", "wilson").

    A further pair may lie at any corner of `x_range` and `y_range`. Pearson's correlation depends on such pairs most:
    of scores between 0.9 and 1, one shared 0 makes it about 1. Without a range, the corners for Pearson are the
    extremes of the data, and no method guarantees coverage. "spearman" has average ranks, and "kendall" is tau-b. Each
    None in `clusters` is a cluster of its own. The result is None if a side is constant, or with fewer than two pairs.
    If the data do not restrict the correlation (fewer than 4 pairs or clusters), the interval is [-1, 1] with the
    method "range".

    Source:
        Influences of correlations: Devlin, Gnanadesikan and Kettenring 1975, Croux and Dehon 2010. Infinitesimal
        jackknife: Efron 1982, chapter 6. Degrees of freedom: Satterthwaite 1946.

    Examples:
        >>> estimate = correlate([1, 2, 3, 4, 5, 6], [1, 3, 2, 4, 6, 5], "spearman")
        >>> round(estimate.value, 3), estimate.low < 0.886 < estimate.high
        (0.886, True)
    """
    import numpy as np

    check_level(confidence_level)
    if kind not in get_args(CorrelationKind):
        raise ValueError(f"kind must be 'pearson', 'spearman' or 'kendall', got {kind!r}")
    a, b = _pairs(x, y)
    for values, (low, high) in ((a, x_range), (b, y_range)):
        if values.size and not low <= values.min() <= values.max() <= high:
            raise ValueError(f"values must be in [{low:g}, {high:g}], got {values.min()} to {values.max()}")
    codes = codes_of(a.size, clusters)
    r = MEASURES[kind](a, b)
    if r is None:
        return None
    low, high, method = -1.0, 1.0, "range"
    if int(codes.max()) > 2:
        corners = [(first, second) for first in x_range for second in y_range]
        pairs, extremes = _influences(a, b, kind, np.array(corners).T)
        low, high, method = _interval(r, pairs, extremes, codes, confidence_level)
    return estimate_around(r, low, high, confidence_level, method=method, n=a.size, bounds=(-1.0, 1.0))


def fisher_mean(correlations: Sequence[float | None], intervals: Sequence[Estimate | None] = ()) -> CorrelationMean:
    """Average correlations by Fisher's z, with equal weights.

    Undefined correlations (None, NaN) are omitted and counted. A correlation of exactly 1 or -1 has an infinite z, so
    the mean is also 1 or -1. If both occur, the mean is undefined.

    Correlations of the same metrics for several systems on the same queries are not independent. The limits are the
    means of the limits, which are valid for any dependence, because the standard error of a mean is at most the mean of
    the standard errors. Without `intervals` of the correlations, the mean does not have one.

    Source:
        CCRS, section 4.1.2 (mean over systems). Fisher 1921.

    Examples:
        >>> mean = fisher_mean([0.822, 0.814, 0.734, 0.713, 0.701, 0.726])
        >>> round(mean.value, 3), mean.n
        (0.756, 6)
    """
    if intervals and len(intervals) != len(correlations):
        raise ValueError(
            f"each correlation needs an interval, got {len(correlations)} correlations and {len(intervals)} intervals"
        )
    known = [r for r in correlations if r is not None and not math.isnan(r)]
    if bad := [r for r in known if not -1 <= r <= 1]:
        raise ValueError(f"a correlation must be in [-1, 1], got {bad[0]}")
    value = _mean_of(known)
    found = [interval for interval in intervals if interval is not None]
    low = high = None
    if value is not None and len(found) == len(known):
        low, high = _mean_of([i.low for i in found]), _mean_of([i.high for i in found])
        low, high = (-1.0, 1.0) if low is None or high is None else (min(low, value), max(high, value))
    return CorrelationMean(value=value, low=low, high=high, n=len(known), n_undefined=len(correlations) - len(known))


def _mean_of(correlations: Sequence[float]) -> float | None:
    """Average by Fisher's z. None without correlations, and of 1 and -1."""
    if perfect := {r for r in correlations if abs(r) == 1}:
        return perfect.pop() if len(perfect) == 1 else None
    return math.tanh(math.fsum(map(math.atanh, correlations)) / len(correlations)) if correlations else None


def _influences(
    x: NDArray[np.float64], y: NDArray[np.float64], kind: CorrelationKind, corners: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the influence of each pair, and of one further pair at each corner (columns).

    A correlation is the mean of a product, divided by the root of the means of two squares. Products of ranks are means
    over three pairs, those of the signs of differences over two, so that a pair counts three times or twice.
    """
    import numpy as np

    n = x.size
    if kind == "pearson":
        a, b = (_with_corners(v, ends) for v, ends in zip((x, y), corners, strict=True))
        times, products = 1, (a * b, a * a, b * b)
    elif kind == "spearman":
        by_x, by_y = _signs_of(x, corners[0]), _signs_of(y, corners[1])
        a, b = by_x(np.ones(n)), by_y(np.ones(n))
        times, products = 3, (a * b - by_x(b[:n]) - by_y(a[:n]), a * a - 2 * by_x(a[:n]), b * b - 2 * by_y(b[:n]))
    else:
        times, products = 2, _concordances(x, y, corners)
    mean, first, second = (float(values[:n].mean()) for values in products)
    scale = math.sqrt(first * second)
    relative = (products[1] / first + products[2] / second) / 2 - 1
    influences = times * ((products[0] - mean) / scale - mean / scale * relative)
    return influences[:n], influences[n:]


def _with_corners(v: NDArray[np.float64], ends: NDArray[np.float64]) -> NDArray[np.float64]:
    """Append the ends of the range, or without a range those of the data. Centered and scaled as in `pearson`."""
    import numpy as np

    at = np.append(v, np.where(np.isinf(ends), np.where(ends > 0, v.max(), v.min()), ends)) - v.mean()
    return np.asarray(at / np.abs(at[: v.size]).max(), dtype=float)


def _signs_of(
    v: NDArray[np.float64], ends: NDArray[np.float64]
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return what sums, for each value and end, the weights of the smaller values minus those of the larger, over n."""
    import numpy as np

    levels, code = np.unique(v, return_inverse=True)
    below = np.append(code, np.searchsorted(levels, ends, "left"))
    upto = np.append(code + 1, np.searchsorted(levels, ends, "right"))

    def signs(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = np.append(0.0, np.cumsum(np.bincount(code, weights=weights)))
        return np.asarray((sums[below] + sums[upto] - sums[-1]) / v.size, dtype=float)

    return signs


def _concordances(
    x: NDArray[np.float64], y: NDArray[np.float64], corners: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Compute for each pair and corner the mean sign with the other pairs, and the shares without a tie in x and y."""
    import numpy as np

    codes = []
    for values in (x, y):
        levels, code = np.unique(values, return_inverse=True)
        codes.append(code if levels.size <= _LEVELS else code * _LEVELS // levels.size)
    table = np.zeros([int(code.max()) + 1 for code in codes])
    np.add.at(table, tuple(codes), 1.0)
    signs = table
    for axis in (0, 1):
        signs = 2 * np.cumsum(signs, axis=axis) - signs - signs.sum(axis=axis, keepdims=True)
    ends_x, ends_y = (np.sign(ends[:, None] - values) for ends, values in zip(corners, (x, y), strict=True))
    others = np.append(np.full(x.size, x.size - 1), np.full(corners.shape[1], x.size))
    found = (
        np.append(signs[tuple(codes)], (ends_x * ends_y).sum(axis=1)),
        np.append(x.size - table.sum(axis=1)[codes[0]], np.abs(ends_x).sum(axis=1)),
        np.append(x.size - table.sum(axis=0)[codes[1]], np.abs(ends_y).sum(axis=1)),
    )
    return found[0] / others, found[1] / others, found[2] / others


def _interval(
    r: float, pairs: NDArray[np.float64], corners: NDArray[np.float64], codes: NDArray[np.intp], confidence_level: float
) -> tuple[float, float, str]:
    """Compute the limits and the method from the influences of pairs and corners, and the cluster of each pair."""
    import numpy as np

    sizes = np.bincount(codes).astype(float)
    k = sizes.size
    # Influence of each cluster, for clusters of mean size, corrected for the parameters that the influences depend on.
    moved = np.bincount(codes, weights=pairs) * (k / pairs.size) * math.sqrt(k / (k - 2))
    variance = float((moved**2).mean())
    if abs(r) < 1 - _PERFECT and variance > _PERFECT:
        skewness = float((moved**3).mean()) / variance**1.5
        kurtosis = float((moved**4).mean()) / variance**2
        freedom = max(min(effective_number(sizes), 2 * k / max(kurtosis - 1, _PERFECT)) - 1, 1.0)
        error = math.sqrt(variance / k) / (1 - r * r)
        (low, high), (low_95, high_95) = (
            [math.tanh(math.atanh(r) + side * student_quantile(freedom, (1 + level) / 2) * error) for side in (-1, 1)]
            for level in (confidence_level, 0.95)
        )
        if k >= _COCHRAN * skewness**2 and float(np.abs(corners).max()) / k <= _MOVES * (high_95 - low_95) / 2:
            return low, high, "student_t"
    largest = float(sizes.max()) * k / pairs.size
    low, high = (
        r + end for end in (min(largest * corners.min(), moved.min()), max(largest * corners.max(), moved.max()))
    )
    if high - low <= _PERFECT:
        return -1.0, 1.0, "range"
    if variance <= _PERFECT:
        moved = moved[: max(1, round(effective_number(sizes)))]
    if k > _CHUNKS:
        moved = np.concatenate([np.full(part.size, part.mean()) for part in np.array_split(np.sort(moved), _CHUNKS)])
    found = mean_interval(np.clip(r + moved, low, high), low=low, high=high, confidence_level=confidence_level)
    return found.low, found.high, found.method if found.low > -1 or found.high < 1 else "range"


MEASURES: Final = {"pearson": pearson, "spearman": spearman, "kendall": kendall}
"""Functions of the correlations by kind."""


def _pairs(
    x: Sequence[float] | NDArray[np.float64], y: Sequence[float] | NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    import numpy as np

    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"x and y must have one dimension and the same length, got shapes {a.shape} and {b.shape}")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("values must be finite. Omit pairs with NaN, and report their number")
    return a, b


def _constant(x: NDArray[np.float64]) -> bool:
    import numpy as np

    return x.size < 2 or float(np.ptp(x)) <= _CONSTANT * float(np.abs(x).max())
