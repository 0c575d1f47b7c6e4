"""Prediction-powered mean: the mean of human labels, estimated from few labels and many judge scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragstone._util.distributions import student_quantile
from ragstone.stats._mean import Estimate, mean_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ROUNDING: Final = 1e-12
"""Relative tolerance within which corrections are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionPoweredMean:
    """The mean of human labels, estimated from labels and judge scores."""

    estimate: Estimate
    """Estimate with method "ppi" (fixed weight) or "ppi_tuned". `n` counts labels, which dominate the error."""
    labels_only: Estimate
    """Estimate from the labels alone, for comparison."""
    judge_mean: float
    """Mean judge score over all items. It includes the judge's bias, which does not shrink with more items."""
    weight: float
    """Weight of the judge, in [0, 1]. It is 0 if judge scores and labels are unrelated."""
    n_labeled: int
    n_judged: int
    """Items with a judge score but without a label."""

    labels_worth: float | None
    """Number of labels alone that would give the same standard error, or None if the error is not estimable."""


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
    """Estimate the mean human label over all items, as the judge's mean with a correction from the labeled items.

    The labeled items must be a random sample of the items that the judge scored. With other labels (for example only of
    failures, or only of the first week), correction and result have an unknown bias that the interval does not show.

    The interval is asymptotic, with Student's t for the number of labels. With fewer than 30 labels it is a rough guide.
    With the tuned weight and many labels, it is never wider than the interval of the labels alone. With few labels it may
    be. If the corrected labels are constant (for example because the judge's error is the same for every label), their
    variance is not estimable. The correction then uses the wider interval of `mean_interval`.

    Args:
        human: Labels, in [low, high].
        judge: The judge's scores of the same items, in the same order. With a tuned `weight` they may be on any scale.
        judged: The judge's scores of the items without a label.
        weight: Weight of the judge: 1 is the classical form, 0 ignores the judge, and None chooses the best weight.
        low: Smallest possible label. The interval is cut there.
        high: Largest possible label.
        confidence_level: Nominal coverage, in (0, 1).

    Raises:
        ValueError: If the lengths differ, or there are fewer than two labels or two judged items. If a label is out
            of range, a score is not finite, or the weight is outside [0, 1].

    Source:
        Angelopoulos et al. 2023, "Prediction-powered inference". Tuned weight: Angelopoulos, Duchi and Zrnic 2023,
        "PPI++", example 6.1.

    Examples:
        >>> human, judge = [1.0, 0.0, 1.0, 1.0], [0.9, 0.2, 0.8, 0.7]
        >>> result = prediction_powered_mean(human, judge, [0.9, 0.1, 0.8, 0.7, 0.9, 0.6], weight=1)
        >>> round(result.estimate.value, 3), result.n_labeled, result.n_judged
        (0.767, 4, 6)
    """
    import numpy as np

    y, f, g = (np.asarray(values, dtype=float) for values in (human, judge, judged))
    if y.shape != f.shape or y.size < 2 or g.size < 2:
        raise ValueError(
            "a prediction-powered mean needs at least two labels with a judge score each, and at least two judged items "
            f"without a label, got {y.size} labels, {f.size} judge scores of labeled items and {g.size} judged items"
        )
    if not (np.isfinite(f).all() and np.isfinite(g).all()):
        raise ValueError("judge scores must be finite. Omit failures, and report their number")
    if weight is not None and not 0 <= weight <= 1:
        raise ValueError(f"weight must be in [0, 1], got {weight}")
    labels_only = mean_interval(human, low=low, high=high, confidence_level=confidence_level)
    n, rest = y.size, g.size
    lam = _tuned(y, f, g) if weight is None else weight
    value = float(y.mean() + lam * (g.mean() - f.mean()))
    t = student_quantile(n - 1, (1 + confidence_level) / 2)
    corrected = y - lam * f
    of_judge = lam**2 * float(g.var(ddof=1)) / rest
    variance = float(corrected.var(ddof=1)) / n + of_judge
    below = above = t * math.sqrt(variance)
    steady = float(np.ptp(corrected)) <= _ROUNDING * max(1.0, float(np.abs(corrected).max()))
    if steady:
        # Constant corrected labels have a sample variance of 0, although their true variance may be larger.
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
        n_labeled=n,
        n_judged=rest,
        labels_worth=None if steady else float(y.var(ddof=1)) / variance,
    )


def _tuned(labels: NDArray[np.float64], scores: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """Compute the weight with the smallest variance, cut to [0, 1]."""
    import numpy as np

    n, rest = labels.size, others.size
    spread = float(np.concatenate([scores, others]).var(ddof=1))
    if spread <= 0:
        return 0.0
    shared = float(((labels - labels.mean()) * (scores - scores.mean())).mean())
    return min(max(shared / ((1 + n / rest) * spread), 0.0), 1.0)
