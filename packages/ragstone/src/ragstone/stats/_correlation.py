"""Correlation: Pearson, Kendall's tau-b, Fisher's z for the interval of one and the mean of several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ragstone.stats._mean import wilson_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "CorrelationKind",
    "CorrelationMean",
    "fisher_interval",
    "fisher_mean",
    "kendall",
    "pearson",
    "perfect_interval",
]

CorrelationKind = Literal["pearson", "spearman", "kendall"]

_CONSTANT: Final = 1e-13
"""Spread below this share of the largest value is rounding: such a column is constant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrelationMean:
    """The Fisher-z mean of several correlations."""

    value: float | None
    """None where none is defined, or where +1 and -1 meet."""
    low: float | None
    high: float | None
    """An interval that holds however the correlations depend on each other; None without the numbers of pairs."""
    n: int
    """Correlations in the mean."""
    n_undefined: int
    """Left out: a constant column has no correlation."""
    n_perfect: int
    """Of exactly 1 or -1, whose z is infinite: one of them decides the mean."""


def pearson(x: Sequence[float] | NDArray[np.float64], y: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Pearson's correlation, in [-1, 1]; None where either side is constant or there are fewer than two pairs.

    Raises:
        ValueError: Unequal lengths, or a value that is not finite.

    Example:
        >>> pearson([1, 2, 3], [2, 4, 6])
        1.0
    """
    import numpy as np

    a, b = _pairs(x, y)
    if _constant(a) or _constant(b):
        return None
    a, b = a - a.mean(), b - b.mean()
    # No scale: squares of very small or large numbers would underflow or overflow.
    a, b = a / np.abs(a).max(), b / np.abs(b).max()
    return float(np.clip((a @ b) / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def kendall(x: Sequence[float] | NDArray[np.float64], y: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Kendall's tau-b, in [-1, 1]; None where either side is constant or there are fewer than two pairs.

    Raises:
        ValueError: Unequal lengths, or a value that is not finite.

    Source:
        Kendall 1945 (tau-b, which corrects for ties).

    Example:
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
) -> tuple[float, float] | None:
    """Interval of one correlation of `n` independent pairs, by Fisher's z; None where n is too small to say anything.

    The standard error of z is 1 / sqrt(n - 3) for Pearson, sqrt((1 + r**2 / 2) / (n - 3)) for Spearman and
    sqrt(0.437 / (n - 4)) for Kendall. It rests on roughly normal columns: with many ties at a bound it is a guide. A
    correlation of exactly 1 or -1 has an infinite z. That no pair contradicted does not say that none will: were each pair
    in order or drawn at random, the correlation would be the share of those in order, of which n of n were seen, and its
    interval is Wilson's.

    Raises:
        ValueError: `r` outside [-1, 1], or `confidence_level` not in (0, 1).

    Source:
        Fisher 1921; Bonett and Wright 2000 (Spearman); Fieller, Hartley and Pearson 1957 (Kendall).

    Example:
        >>> low, high = fisher_interval(0.5, 30)
        >>> round(low, 3), round(high, 3)
        (0.17, 0.729)
    """
    error = _z_error(r, n, kind, confidence_level)
    if error is None:
        return None
    if abs(r) == 1:
        return perfect_interval(r, n, confidence_level=confidence_level)
    half = _quantile(confidence_level) * error
    return math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)


def fisher_mean(
    correlations: Sequence[float | None],
    ns: Sequence[int] | None = None,
    *,
    kind: CorrelationKind = "pearson",
    confidence_level: float = 0.95,
) -> CorrelationMean:
    """Average correlations as Fisher's z, each with the same weight.

    Undefined ones (None, NaN) are left out and counted. A correlation of exactly 1 or -1 has an infinite z, so that the
    mean is 1 or -1 too; where both occur it is undefined.

    Correlations between the same metrics of several systems on the same questions depend on each other. The interval
    allows for any dependence: the standard error of a mean is at most the mean of the standard errors.

    Args:
        correlations: In [-1, 1], or None.
        ns: Pairs behind each; without them there is no interval.
        kind: What they are, for their standard errors.
        confidence_level: Nominal coverage, in (0, 1).

    Raises:
        ValueError: A number outside [-1, 1], or unequal lengths.

    Source:
        CCRS, section 4.1.2 (averaged over systems); Fisher 1921.

    Example:
        >>> found = fisher_mean([0.822, 0.814, 0.734, 0.713, 0.701, 0.726])
        >>> round(found.value, 3), found.n
        (0.756, 6)
    """
    if ns is not None and len(ns) != len(correlations):
        raise ValueError(f"each correlation needs its number of pairs, got {len(correlations)} and {len(ns)}")
    known = [(i, r) for i, r in enumerate(correlations) if r is not None and not math.isnan(r)]
    if bad := [r for _, r in known if not -1 <= r <= 1]:
        raise ValueError(f"a correlation lies in [-1, 1], got {bad[0]!r}")
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
        value=value,
        low=low,
        high=high,
        n=len(known),
        n_undefined=len(correlations) - len(known),
        n_perfect=n_perfect,
    )


def perfect_interval(r: float, n: int, *, confidence_level: float) -> tuple[float, float]:
    """Interval of a correlation of 1 or -1 of `n` pairs."""
    least = wilson_interval(n, n, confidence_level=confidence_level)[0]
    return (least, 1.0) if r > 0 else (-1.0, -least)


def _z_error(r: float, n: int, kind: CorrelationKind, confidence_level: float) -> float | None:
    if not (-1 <= r <= 1 and 0 < confidence_level < 1):
        raise ValueError(
            f"an interval needs r in [-1, 1] and confidence_level in (0, 1), got {r!r} and {confidence_level!r}"
        )
    if kind not in ("pearson", "spearman", "kendall"):
        raise ValueError(f"kind must be 'pearson', 'spearman' or 'kendall', got {kind!r}")
    if n < (5 if kind == "kendall" else 4):
        return None
    if kind == "kendall":
        return math.sqrt(0.437 / (n - 4))
    return math.sqrt((1 + r * r / 2 if kind == "spearman" else 1.0) / (n - 3))


def _quantile(confidence_level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri((1 + confidence_level) / 2))


def _pairs(
    x: Sequence[float] | NDArray[np.float64], y: Sequence[float] | NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    import numpy as np

    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"a correlation needs pairs, got {a.shape} and {b.shape} values")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("a correlation needs finite values; leave pairs with NaN out, and count them")
    return a, b


def _constant(x: NDArray[np.float64]) -> bool:
    import numpy as np

    return x.size < 2 or float(np.ptp(x)) <= _CONSTANT * float(np.abs(x).max())
