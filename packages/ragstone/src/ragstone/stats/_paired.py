"""Effect sizes of two systems on the same samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedEffect:
    """Effect size of the difference of two systems, independent of the metric's unit."""

    difference: float
    """Mean of first - second."""
    sd: float | None
    """Standard deviation of the differences (n - 1), or None for a single pair."""
    d_z: float | None
    """Cohen's d_z: the mean difference divided by the standard deviation of the differences. None if that is 0."""
    g_z: float | None
    """d_z times Hedges' correction for small n (d_z is 9% too large at n = 10). Also None for n < 3."""
    superiority: float
    """Probability of superiority: share of samples on which the first system is better, with ties counted half."""
    n_better: int
    n_equal: int
    n_worse: int
    n: int
    n_missing: int


def paired_effect(
    first: Sequence[float] | NDArray[np.float64], second: Sequence[float] | NDArray[np.float64]
) -> PairedEffect:
    """Compute effect sizes of the difference of two systems on the same samples.

    d_z is for paired scores. Cohen's d of two independent groups differs from it: it divides by the standard deviation of
    the scores, and is smaller the more the systems' scores correlate.

    Raises:
        ValueError: If the lengths differ, no sample has both scores, or a score is infinite.

    Source:
        Lakens 2013, formulas 4 and 7. Exact correction: Hedges 1981. Superiority: Grissom and Kim 2012.

    Examples:
        >>> effect = paired_effect([0.9, 0.8, 0.7, 0.5], [0.4, 0.3, 0.3, 0.5])
        >>> round(effect.d_z, 2), effect.superiority
        (1.47, 0.875)
    """
    x, n_missing = _pairs(first, second)
    difference = x[:, 0] - x[:, 1]
    n = difference.size
    varies = bool(difference.min() < difference.max())
    sd = None if n == 1 else float(difference.std(ddof=1)) if varies else 0.0
    d_z = float(difference.mean()) / sd if sd else None
    better, worse = int((difference > 0).sum()), int((difference < 0).sum())
    return PairedEffect(
        difference=float(difference.mean()),
        sd=sd,
        d_z=d_z,
        g_z=None if d_z is None or n < 3 else d_z * _hedges(n - 1),
        superiority=(better + (n - better - worse) / 2) / n,
        n_better=better,
        n_equal=n - better - worse,
        n_worse=worse,
        n=n,
        n_missing=n_missing,
    )


def _hedges(df: int) -> float:
    """Compute Hedges' correction for at least 2 degrees of freedom. With 1, the corrected expectation does not exist."""
    return math.exp(math.lgamma(df / 2) - math.lgamma((df - 1) / 2)) / math.sqrt(df / 2)


def _pairs(
    first: Sequence[float] | NDArray[np.float64], second: Sequence[float] | NDArray[np.float64]
) -> tuple[NDArray[np.float64], int]:
    """Return the pairs with both scores, and the number of pairs with a missing score."""
    import numpy as np

    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"both systems need scores of the same samples, got arrays of shape {a.shape} and {b.shape}")
    if np.isinf(a).any() or np.isinf(b).any():
        raise ValueError("scores must be finite, or NaN if missing, got an infinite score")
    both = ~(np.isnan(a) | np.isnan(b))
    if not both.any():
        raise ValueError(f"none of the {a.size} samples has scores of both systems")
    return np.stack([a[both], b[both]], axis=1), int(a.size - both.sum())
