"""Descriptive statistics of the values of one metric: location, spread, shape, shares at the bounds, and ties."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragstone.stats._mean import Estimate, mean_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DECIMALS: Final = 9
"""Number of decimals to which values must agree to be equal, so that 0.1 + 0.2 equals 0.3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Descriptive statistics of the values of one metric."""

    n: int
    mean: float
    geometric_mean: float | None
    """Geometric mean. 0 if any value is 0, None if a value is negative."""
    sd: float | None
    """Standard deviation with the denominator n - 1. None for a single value."""
    minimum: float
    q1: float
    median: float
    q3: float
    maximum: float
    skewness: float | None
    """Moment coefficient m3 / m2**1.5. None for constant values."""
    kurtosis: float | None
    """Excess kurtosis m4 / m2**2 - 3, which is 0 for a normal distribution. None for constant values."""
    at_low: Estimate | None
    """Share of values at the lower bound of the metric's range, with Wilson's interval. None without that bound."""
    at_high: Estimate | None
    """Share of values at the upper bound, with Wilson's interval. None without that bound."""
    ties: float | None
    """Probability that two different items have the same value. None for a single value."""


def describe(
    values: Sequence[float], *, low: float | None = None, high: float | None = None, confidence_level: float = 0.95
) -> Description | None:
    """Compute descriptive statistics of values, or return None if there are none.

    Quartiles are of type 7 (linear interpolation between order statistics, as in numpy and R). `low` and `high` are the
    bounds of the metric, and None if it is unbounded. `confidence_level` is that of the shares at the bounds.

    Source:
        CCRS, appendix C.4. Quantiles: Hyndman and Fan 1996.

    Examples:
        >>> description = describe([0.0, 0.5, 1.0, 1.0], low=0.0, high=1.0)
        >>> description.median, description.at_high.value, round(description.ties, 3)
        (0.75, 0.5, 0.167)
    """
    import numpy as np

    x = np.sort(np.asarray(values, dtype=float))
    if x.size == 0:
        return None
    if not np.isfinite(x).all():
        raise ValueError("values must be finite. Omit NaN values, and report their number")
    q1, median, q3 = (float(q) for q in np.quantile(x, [0.25, 0.5, 0.75]))
    # Squares and sums of very large numbers overflow, squares of very small ones underflow.
    scale = float(np.abs(x).max()) or 1.0
    unit = x / scale
    skewness, kurtosis = _shape(unit)

    def share(bound: float | None) -> Estimate | None:
        if bound is None or not np.isfinite(bound):
            return None
        at_bound = np.abs(x - bound) < 0.5 * 10.0**-_DECIMALS
        return mean_interval(at_bound.astype(float), confidence_level=confidence_level)

    return Description(
        n=int(x.size),
        mean=float(unit.mean()) * scale,
        geometric_mean=None if x[0] < 0 else 0.0 if x[0] == 0 else float(np.exp(np.log(x).mean())),
        sd=float(unit.std(ddof=1)) * scale if x.size > 1 else None,
        minimum=float(x[0]),
        q1=q1,
        median=median,
        q3=q3,
        maximum=float(x[-1]),
        skewness=skewness,
        kurtosis=kurtosis,
        at_low=share(low),
        at_high=share(high),
        ties=_tie_probability(values),
    )


def _tie_probability(values: Sequence[float]) -> float | None:
    """Compute the probability that two different random items have the same value, or None for fewer than two items.

    Values are rounded first, so rounding errors do not prevent ties. Items are drawn without replacement: an item does
    not tie with itself. Source: CCRS, appendix C.3.
    """
    import numpy as np

    x = np.asarray(values, dtype=float)
    if x.size < 2:
        return None
    # Floats above 1e6 do not have nine exact decimals, and the product of very large ones overflows.
    rounded = np.where(np.abs(x) < 1e6, np.round(np.clip(x, -1e6, 1e6), _DECIMALS), x)
    _, counts = np.unique(rounded, return_counts=True)
    counts = counts.astype(float)
    return float((counts * (counts - 1)).sum() / (x.size * (x.size - 1)))


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Compute the probability that at least one of `k` out of `n` responses, drawn without replacement, is correct.

    This is an unbiased estimate of the probability that k new responses contain a correct one, unlike
    1 - (1 - correct / n)**k.

    Args:
        n: Number of responses.
        correct: Number of correct responses.
        k: Number of responses drawn, at most `n`.

    Returns:
        A probability in [0, 1].

    Raises:
        ValueError: If not 0 <= correct <= n, or not 1 <= k <= n.

    Source:
        Chen et al. 2021, "Evaluating large language models trained on code", eq. 1.

    Examples:
        >>> pass_at_k(5, 2, 1)
        0.4
    """
    if not (0 <= correct <= n and 1 <= k <= n):
        raise ValueError(f"pass@k needs 0 <= correct <= n and 1 <= k <= n, got n={n}, correct={correct}, k={k}")
    draws = math.comb(n, k)
    # Integers do not overflow, and only the final division rounds.
    return (draws - math.comb(n - correct, k)) / draws


def _shape(x: NDArray[np.float64]) -> tuple[float | None, float | None]:
    """Compute moment skewness and excess kurtosis."""
    import numpy as np

    centered = x - x.mean()
    largest = float(np.abs(centered).max())
    if largest <= 1e-13 * float(np.abs(x).max()):
        return None, None
    # The shape does not depend on the scale. Scaling prevents underflow of fourth powers of small numbers.
    centered /= largest
    second = float((centered**2).mean())
    return float((centered**3).mean()) / second**1.5, float((centered**4).mean()) / second**2 - 3
