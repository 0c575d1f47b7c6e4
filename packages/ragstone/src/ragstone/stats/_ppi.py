"""The mean that people would give, from few labels and many judge scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragstone.stats._mean import Estimate, mean_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PredictionPoweredMean", "prediction_powered_mean"]

_ROUNDING: Final = 1e-12
"""Corrections this near each other are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionPoweredMean:
    """The mean of human labels, estimated with a judge's help."""

    estimate: Estimate
    """Method "ppi" (the judge counts in full) or "ppi_tuned"; `n` counts labels, which is what its error hangs on."""
    labels_only: Estimate
    """What the labels say without the judge: the yardstick of what the judge was worth."""
    judge_mean: float
    """What the judge says alone, over all items: wrong by its bias, however many items there are."""
    weight: float
    """How much the judge counts, in [0, 1]; 0 where it says nothing about the labels."""
    n_labelled: int
    n_judged: int
    """Items with a judge score and no label."""

    labels_worth: float | None
    """How many labels alone would have the same standard error; None where the labels show none."""


def prediction_powered_mean(
    human: Sequence[float],
    judge: Sequence[float],
    judged: Sequence[float],
    *,
    weight: float | None = None,
    low: float = 0.0,
    high: float = 1.0,
    confidence_level: float = 0.95,
) -> PredictionPoweredMean:
    """Estimate the mean human label over all items: the judge's mean, corrected by its error where labels are.

    The labelled items must be a random sample of the same items that the judge scored. Labels of what looked odd, of
    failures, or of the first week make the correction, and so the result, wrong by an unknown amount; no interval shows it.

    The interval is asymptotic, with Student's t for the number of labels; below 30 labels read it as a guide. With the
    tuned weight it is, for many labels, never wider than that of the labels alone; for few it may be. Where the judge
    is off by the same on every label, and where labels and weight leave nothing that varies, the data show no error of the
    correction, and its interval is that of `mean_interval`, as wide as so few labels permit.

    Args:
        human: Labels, in [low, high].
        judge: The judge's scores of the same items, in the same order. They may be on any scale when `weight` is tuned.
        judged: The judge's scores of the items without a label.
        weight: How much the judge counts: 1 is the classical form, 0 ignores it, None finds the best weight.
        low: Smallest possible label; the interval is cut there.
        high: Largest possible label.
        confidence_level: Nominal coverage, in (0, 1).

    Raises:
        ValueError: Unequal lengths, fewer than two labels or two judged items, a label out of range, a score that is
            not finite, or a weight outside [0, 1].

    Source:
        Angelopoulos et al. 2023, "Prediction-powered inference"; the tuned weight: Angelopoulos, Duchi and Zrnic 2023,
        "PPI++", example 6.1.

    Example:
        >>> human, judge = [1.0, 0.0, 1.0, 1.0], [0.9, 0.2, 0.8, 0.7]
        >>> found = prediction_powered_mean(human, judge, [0.9, 0.1, 0.8, 0.7, 0.9, 0.6], weight=1)
        >>> round(found.estimate.value, 3), found.n_labelled, found.n_judged
        (0.767, 4, 6)
    """
    import numpy as np
    from scipy.special import stdtrit

    y, f, g = (np.asarray(values, dtype=float) for values in (human, judge, judged))
    if y.shape != f.shape or y.size < 2 or g.size < 2:
        raise ValueError(
            "a prediction-powered mean needs a judge score for each of at least two labels, and at least two judged "
            f"items without one, got {y.size} labels, {f.size} scores of them and {g.size} judged items"
        )
    if not (np.isfinite(f).all() and np.isfinite(g).all()):
        raise ValueError("judge scores must be finite; leave failures out, and count them")
    if weight is not None and not 0 <= weight <= 1:
        raise ValueError(f"weight must lie in [0, 1], got {weight!r}")
    labels_only = mean_interval(human, low=low, high=high, confidence_level=confidence_level)
    n, rest = y.size, g.size
    lam = _tuned(y, f, g) if weight is None else weight
    value = float(y.mean() + lam * (g.mean() - f.mean()))
    t = float(stdtrit(n - 1, (1 + confidence_level) / 2))
    corrected = y - lam * f
    of_judge = lam**2 * float(g.var(ddof=1)) / rest
    variance = float(corrected.var(ddof=1)) / n + of_judge
    below = above = t * math.sqrt(variance)
    steady = float(np.ptp(corrected)) <= _ROUNDING * max(1.0, float(np.abs(corrected).max()))
    if steady:
        # Labels that are all alike, or a judge that hit all of them, show no error; that does not mean there is none.
        scores = np.concatenate([f, g])
        ends = low - lam * float(scores.max()), high - lam * float(scores.min())
        of_labels = mean_interval(
            np.clip(corrected, *ends).tolist(), low=ends[0], high=ends[1], confidence_level=confidence_level
        )
        below = math.hypot(of_labels.value - of_labels.low, t * math.sqrt(of_judge))
        above = math.hypot(of_labels.high - of_labels.value, t * math.sqrt(of_judge))
    value = min(max(value, low), high)
    return PredictionPoweredMean(
        estimate=Estimate(
            value=value,
            low=max(low, value - below),
            high=min(high, value + above),
            confidence_level=confidence_level,
            method="ppi_tuned" if weight is None else "ppi",
            n=n,
        ),
        labels_only=labels_only,
        judge_mean=float((f.sum() + g.sum()) / (n + rest)),
        weight=float(lam),
        n_labelled=n,
        n_judged=rest,
        labels_worth=None if steady else float(y.var(ddof=1)) / variance,
    )


def _tuned(labels: NDArray[np.float64], scores: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """The weight that makes the variance smallest, cut to [0, 1]."""
    import numpy as np

    n, rest = labels.size, others.size
    spread = float(np.concatenate([scores, others]).var(ddof=1))
    if spread <= 0:
        return 0.0
    shared = float(((labels - labels.mean()) * (scores - scores.mean())).mean())
    return min(max(shared / ((1 + n / rest) * spread), 0.0), 1.0)
