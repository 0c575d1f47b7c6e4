"""What the values of one metric look like: centre, spread, shape, what sits at the bounds, and ties."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragstone.stats._mean import Estimate, mean_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Description", "describe", "pass_at_k"]

_DECIMALS: Final = 9
"""0.1 + 0.2 equals 0.3: values that agree to so many decimals are ties, and are at a bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Descriptive statistics of the values of one metric."""

    n: int
    mean: float
    geometric_mean: float | None
    """0 if any value is 0; None where a value is negative."""
    sd: float | None
    """With n - 1 in the denominator; None for a single value."""
    minimum: float
    q1: float
    median: float
    q3: float
    maximum: float
    skewness: float | None
    """The moment coefficient m3 / m2**1.5; None for constant values."""
    kurtosis: float | None
    """EXCESS kurtosis m4 / m2**2 - 3: 0 for a normal population; None for constant values."""
    at_low: Estimate | None
    """Share of values at the low bound of the metric's range (floor), with Wilson's interval; None without that bound."""
    at_high: Estimate | None
    """Share at the high bound (ceiling)."""
    ties: float | None
    """Probability that two different items have the same value; None for a single value."""

    @property
    def midhinge(self) -> float:
        """Mean of the outer quartiles."""
        return (self.q1 + self.q3) / 2

    @property
    def iqr(self) -> float:
        """Distance of the outer quartiles."""
        return self.q3 - self.q1


def describe(
    values: Sequence[float], *, low: float | None = None, high: float | None = None, confidence_level: float = 0.95
) -> Description | None:
    """Describe values; None where there are none.

    Quartiles are of type 7 (linear between order statistics, as in numpy and R).

    Args:
        values: Finite numbers.
        low: The metric's lower bound; None where it has none.
        high: Its upper bound.
        confidence_level: Of the intervals of the shares at the bounds.

    Raises:
        ValueError: A value that is not finite.

    Source:
        CCRS, appendix C.4; Hyndman and Fan 1996 (quantiles).

    Example:
        >>> found = describe([0.0, 0.5, 1.0, 1.0], low=0.0, high=1.0)
        >>> found.median, found.at_high.value, round(found.ties, 3)
        (0.75, 0.5, 0.167)
    """
    import numpy as np

    x = np.sort(np.asarray(values, dtype=float))
    if x.size == 0:
        return None
    if not np.isfinite(x).all():
        raise ValueError("a population needs finite values; leave NaN out, and count it")
    q1, median, q3 = (float(q) for q in np.quantile(x, [0.25, 0.5, 0.75]))
    skewness, kurtosis = _shape(x)

    def share(bound: float | None) -> Estimate | None:
        if bound is None or not np.isfinite(bound):
            return None
        return mean_interval(_at(x, bound).astype(float).tolist(), confidence_level=confidence_level)

    return Description(
        n=int(x.size),
        mean=float(x.mean()),
        geometric_mean=_geometric_mean(x),
        sd=float(x.std(ddof=1)) if x.size > 1 else None,
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


def _tie_probability(values: Sequence[float], *, decimals: int = _DECIMALS) -> float | None:
    """Probability that two different items, drawn at random, have the same value; None below two items.

    Values are rounded first, so that sums in another order tie. Drawing is without replacement: an item does not tie
    with itself.

    Source:
        CCRS, appendix C.3.

    Example:
        >>> _tie_probability([0.3, 0.1 + 0.2, 1.0])
        0.3333333333333333
    """
    import numpy as np

    x = np.asarray(values, dtype=float)
    if x.size < 2:
        return None
    _, counts = np.unique(np.round(x, decimals), return_counts=True)
    counts = counts.astype(float)
    return float((counts * (counts - 1)).sum() / (x.size * (x.size - 1)))


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Probability that at least one of `k` of `n` answers, drawn without replacement, is correct; in [0, 1].

    It is an unbiased estimate of the chance that k fresh answers hold a correct one. 1 - (1 - correct / n)**k is not.

    Args:
        n: Answers that were drawn.
        correct: How many of them were correct.
        k: How many a user would look at, at most `n`.

    Raises:
        ValueError: Not 0 <= correct <= n, or not 1 <= k <= n.

    Source:
        Chen et al. 2021, "Evaluating large language models trained on code", eq. 1.

    Example:
        >>> pass_at_k(5, 2, 1)
        0.4
    """
    if not (0 <= correct <= n and 1 <= k <= n):
        raise ValueError(f"pass@k needs 0 <= correct <= n and 1 <= k <= n, got n={n!r}, correct={correct!r}, k={k!r}")
    draws = math.comb(n, k)
    # Whole numbers: nothing overflows, and only the last division rounds.
    return (draws - math.comb(n - correct, k)) / draws


def _at(x: NDArray[np.float64], bound: float) -> NDArray[np.bool_]:
    import numpy as np

    at: NDArray[np.bool_] = np.abs(x - bound) < 0.5 * 10.0**-_DECIMALS
    return at


def _shape(x: NDArray[np.float64]) -> tuple[float | None, float | None]:
    """Moment skewness and excess kurtosis."""
    import numpy as np

    centred = x - x.mean()
    largest = float(np.abs(centred).max())
    if largest <= 1e-13 * float(np.abs(x).max()):
        return None, None
    # Shape has no scale, and the fourth power of a tiny number is 0.
    centred /= largest
    second = float((centred**2).mean())
    return float((centred**3).mean()) / second**1.5, float((centred**4).mean()) / second**2 - 3


def _geometric_mean(x: NDArray[np.float64]) -> float | None:
    import numpy as np

    if x[0] < 0:
        return None
    return 0.0 if x[0] == 0 else float(np.exp(np.log(x).mean()))
