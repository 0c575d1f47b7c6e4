"""Correlation: Pearson, Kendall's tau-b, and Fisher's z for intervals and means of correlations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from ragstone._util.distributions import normal_quantile
from ragstone.stats._mean import Estimate, wilson_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CorrelationKind = Literal["pearson", "spearman", "kendall"]

_CONSTANT: Final = 1e-13
"""Relative tolerance of the range of a column, below which it counts as constant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelationMean:
    """Fisher-z mean of several correlations."""

    value: float | None
    """Mean correlation. None if no correlation is defined, or both 1 and -1 occur."""
    low: float | None
    high: float | None
    """Limits of an interval that is valid for any dependence of the correlations. None without the numbers of pairs."""
    n: int
    """Number of correlations in the mean."""
    n_undefined: int
    """Number of undefined correlations (of constant columns), which are omitted."""
    n_perfect: int
    """Number of correlations of exactly 1 or -1. Their z is infinite, so a single one determines the mean."""


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
    from scipy.stats import kendalltau

    a, b = _pairs(x, y)
    if len(a) < 2 or (a == a[0]).all() or (b == b[0]).all():
        return None
    return max(-1.0, min(1.0, float(kendalltau(a, b).statistic)))


def fisher_interval(
    r: float, n: int, *, kind: CorrelationKind = "pearson", confidence_level: float = 0.95
) -> Estimate | None:
    """Add the interval of Fisher's z to a correlation of `n` independent pairs. None if n is too small.

    The standard error of z is 1 / sqrt(n - 3) for Pearson, sqrt((1 + r**2 / 2) / (n - 3)) for Spearman and
    sqrt(0.437 / (n - 4)) for Kendall. It assumes approximately normal columns. With many ties at a bound it is a rough
    guide. A correlation of exactly 1 or -1 has an infinite z. In that case the interval is Wilson's interval of a
    proportion of n out of n: in a model in which each pair is either in order or random, the correlation is the share of
    pairs in order.

    Raises:
        ValueError: If `r` is outside [-1, 1], or `confidence_level` is outside (0, 1).

    Source:
        Fisher 1921. Spearman: Bonett and Wright 2000. Kendall: Fieller, Hartley and Pearson 1957.

    Examples:
        >>> estimate = fisher_interval(0.5, 30)
        >>> round(estimate.low, 3), round(estimate.high, 3), estimate.method
        (0.17, 0.729, 'fisher_z')
    """
    error = _z_error(r, n, kind, confidence_level)
    if error is None:
        return None
    if abs(r) == 1:
        return perfect_interval(r, n, confidence_level=confidence_level)
    half = _quantile(confidence_level) * error
    return Estimate(
        value=r,
        low=math.tanh(math.atanh(r) - half),
        high=math.tanh(math.atanh(r) + half),
        confidence_level=confidence_level,
        method="fisher_z",
        n=n,
    )


def fisher_mean(
    correlations: Sequence[float | None],
    ns: Sequence[int] | None = None,
    *,
    kind: CorrelationKind = "pearson",
    confidence_level: float = 0.95,
) -> CorrelationMean:
    """Average correlations by Fisher's z, with equal weights.

    Undefined correlations (None, NaN) are omitted and counted. A correlation of exactly 1 or -1 has an infinite z, so the
    mean is also 1 or -1. If both occur, the mean is undefined.

    Correlations of the same metrics for several systems on the same queries are not independent. The interval is valid
    for any dependence, because the standard error of a mean is at most the mean of the standard errors.

    Args:
        correlations: Correlations in [-1, 1], or None.
        ns: Number of pairs of each correlation. Without these, the interval is None.
        kind: Kind of the correlations, which determines their standard errors.
        confidence_level: Nominal coverage, in (0, 1).

    Raises:
        ValueError: If a correlation is outside [-1, 1], or the lengths differ.

    Source:
        CCRS, section 4.1.2 (mean over systems). Fisher 1921.

    Examples:
        >>> mean = fisher_mean([0.822, 0.814, 0.734, 0.713, 0.701, 0.726])
        >>> round(mean.value, 3), mean.n
        (0.756, 6)
    """
    if ns is not None and len(ns) != len(correlations):
        raise ValueError(
            f"each correlation needs a number of pairs, got {len(correlations)} correlations and {len(ns)} numbers"
        )
    known = [(i, r) for i, r in enumerate(correlations) if r is not None and not math.isnan(r)]
    if bad := [r for _, r in known if not -1 <= r <= 1]:
        raise ValueError(f"a correlation must be in [-1, 1], got {bad[0]}")
    perfect = {r for _, r in known if abs(r) == 1}
    n_perfect = sum(abs(r) == 1 for _, r in known)
    value = low = high = None
    if perfect:
        value = perfect.pop() if len(perfect) == 1 else None
    elif known:
        z = math.fsum(math.atanh(r) for _, r in known) / len(known)
        value = math.tanh(z)
        errors = [] if ns is None else [_z_error(r, ns[i], kind, confidence_level) for i, r in known]
        if errors and None not in errors:
            half = _quantile(confidence_level) * math.fsum(e for e in errors if e is not None) / len(errors)
            low, high = math.tanh(z - half), math.tanh(z + half)
    return CorrelationMean(
        value=value, low=low, high=high, n=len(known), n_undefined=len(correlations) - len(known), n_perfect=n_perfect
    )


def perfect_interval(r: float, n: int, *, confidence_level: float) -> Estimate:
    """Add an interval to a correlation of 1 or -1 of `n` pairs."""
    share = wilson_interval(n, n, confidence_level=confidence_level)
    return share if r > 0 else replace(share, value=-1.0, low=-1.0, high=-share.low)


def _z_error(r: float, n: int, kind: CorrelationKind, confidence_level: float) -> float | None:
    if not (-1 <= r <= 1 and 0 < confidence_level < 1):
        raise ValueError(f"r must be in [-1, 1] and confidence_level in (0, 1), got {r} and {confidence_level}")
    if kind not in ("pearson", "spearman", "kendall"):
        raise ValueError(f"kind must be 'pearson', 'spearman' or 'kendall', got {kind!r}")
    if n < (5 if kind == "kendall" else 4):
        return None
    if kind == "kendall":
        return math.sqrt(0.437 / (n - 4))
    return math.sqrt((1 + r * r / 2 if kind == "spearman" else 1.0) / (n - 3))


def _quantile(confidence_level: float) -> float:
    return normal_quantile((1 + confidence_level) / 2)


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
