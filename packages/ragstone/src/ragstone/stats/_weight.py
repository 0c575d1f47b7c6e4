"""Means and totals of traffic of which only a part, with known probabilities, was scored."""

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
    """Estimate the mean over all traffic from the items that were sampled, each with its own probability.

    Hajek's mean weighs each item by 1 / probability. Its variance is linearised: that of the weighted residuals, so that
    it does not change when all probabilities do (weights are no counts). The interval is normal, with Student's t for
    the effective number of items; with few items, or one of tiny probability, it is too short. Where all values are the
    same it is that of `mean_interval` for the effective number.

    Args:
        values: Scores of the sampled items, in [low, high].
        probabilities: With which each was sampled, in (0, 1], independently of the others. A probability that depends
            on earlier scores is not covered.
        finite: True for the mean over exactly the traffic that there was: what was sampled for sure then has no error.
            False for the mean of the process that makes such traffic.
        low: Smallest possible score; the interval is cut there.
        high: Largest possible score.
        confidence_level: Nominal coverage, in (0, 1).

    Raises:
        ValueError: Unequal lengths, fewer than two items, or a value or probability out of range.

    Source:
        Hajek 1971; Sarndal, Swensson and Wretman 1992, section 5.7 (linearised variance of a ratio).

    Example:
        >>> found = hajek_mean([1.0, 0.0, 1.0, 1.0], [0.1, 1.0, 0.1, 0.1])
        >>> round(found.value, 4)
        0.9677
    """
    from scipy.special import stdtrit

    x, p = _checked(values, probabilities, confidence_level)
    if x.size < 2 or x.min() < low or x.max() > high:
        raise ValueError(
            f"a weighted mean needs at least two values in [{low!r}, {high!r}], got {x.size} of them in [{x.min()!r}, {x.max()!r}]"
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
        # Values that are all alike show no error, and there is one: that of as many equal values as these are worth.
        alike = mean_interval(
            [float(x[0])] * max(1, round(effective)), low=low, high=high, confidence_level=confidence_level
        )
        return replace(alike, n=int(x.size))
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
        raise ValueError(f"each value needs its probability, got {x.size} values and {p.size} probabilities")
    if not np.isfinite(x).all():
        raise ValueError("values must be finite; leave failures out, and count them")
    if not ((p > 0) & (p <= 1)).all():
        raise ValueError(f"a probability of being sampled lies in (0, 1], got {float(p[~((p > 0) & (p <= 1))][0])!r}")
    if not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level must lie in (0, 1), got {confidence_level!r}")
    return x, p
