"""Means of traffic of which only a sample, with known sampling probabilities, was scored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ragstone.stats._mean import Estimate, mean_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["hajek_mean"]


def hajek_mean(
    values: Sequence[float] | NDArray[np.float64],
    probabilities: Sequence[float] | NDArray[np.float64],
    *,
    finite: bool = False,
    low: float = 0.0,
    high: float = 1.0,
    confidence_level: float = 0.95,
) -> Estimate:
    """Estimate the mean over all traffic from sampled items with their sampling probabilities.

    Hajek's mean weights each item by 1 / probability. Its variance is the linearized variance of the weighted residuals,
    which does not change if all probabilities are scaled. The interval is normal, with Student's t for the effective
    number of items. It is too short with few items, or with an item of very small probability. If all values are equal,
    the interval is that of `mean_interval` for the effective number of items.

    Args:
        values: Scores of the sampled items, in [low, high].
        probabilities: Sampling probability of each item, in (0, 1], independent of the other items. Probabilities that
            depend on earlier scores are not supported.
        finite: True for the mean over exactly the observed traffic. Items with probability 1 then do not contribute to
            the error. False for the mean of the process that generates the traffic.
        low: Smallest possible score. The interval is cut there.
        high: Largest possible score.
        confidence_level: Nominal coverage, in (0, 1).

    Raises:
        ValueError: If the lengths differ, there are fewer than two items, or a value or probability is out of range.

    Source:
        Hajek 1971. Linearized variance of a ratio: Sarndal, Swensson and Wretman 1992, section 5.7.

    Example:
        >>> estimate = hajek_mean([1.0, 0.0, 1.0, 1.0], [0.1, 1.0, 0.1, 0.1])
        >>> round(estimate.value, 4)
        0.9677
    """
    from scipy.special import stdtrit

    x, p = _checked(values, probabilities, confidence_level)
    if x.size < 2 or x.min() < low or x.max() > high:
        raise ValueError(
            f"a weighted mean needs at least two values in [{low}, {high}], got {x.size} values in "
            f"[{x.min()}, {x.max()}]"
        )
    w = 1 / p
    total = float(w.sum())
    mean = float((w * x).sum()) / total
    residual = (w * (x - mean)) ** 2
    if finite:
        residual = residual * (1 - p)
    variance = float(residual.sum()) / total**2 * x.size / (x.size - 1)
    effective = total**2 / float((w * w).sum())
    half = float(stdtrit(max(effective - 1, 1.0), (1 + confidence_level) / 2)) * math.sqrt(variance)
    mean = min(max(mean, low), high)
    if x.min() == x.max() and not (finite and p.min() == 1):
        # The sample variance of equal values is 0, but their mean still has an error.
        equal = mean_interval(
            [float(x[0])] * max(1, round(effective)), low=low, high=high, confidence_level=confidence_level
        )
        return replace(equal, n=int(x.size))
    return Estimate(
        value=mean,
        low=max(low, mean - half),
        high=min(high, mean + half),
        confidence_level=confidence_level,
        method="hajek",
        n=int(x.size),
    )


def _checked(
    values: Sequence[float] | NDArray[np.float64],
    probabilities: Sequence[float] | NDArray[np.float64],
    confidence_level: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    import numpy as np

    x, p = np.asarray(values, dtype=float), np.asarray(probabilities, dtype=float)
    if x.shape != p.shape or x.ndim != 1 or not x.size:
        raise ValueError(f"each value needs a probability, got {x.size} values and {p.size} probabilities")
    if not np.isfinite(x).all():
        raise ValueError("values must be finite. Omit failures, and report their number")
    if not ((p > 0) & (p <= 1)).all():
        raise ValueError(f"a sampling probability must be in (0, 1], got {float(p[~((p > 0) & (p <= 1))][0])!r}")
    if not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level must be in (0, 1), got {confidence_level}")
    return x, p
