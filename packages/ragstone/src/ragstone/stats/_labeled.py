"""Labels of a drawn sample: agreement with the judge, and the mean label of all items, with unequal probabilities."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ragstone._util.distributions import student_quantile
from ragstone.stats._agreement import Agreement, all_equal
from ragstone.stats._cluster import codes_of, effective_number, jackknife_interval
from ragstone.stats._mean import Estimate, estimate_around
from ragstone.stats._weight import hajek_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ROUNDING: Final = 1e-12
"""Relative variance below which the error of the labels is not estimable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionPoweredMean:
    """The mean of human labels, estimated from labels and judge scores."""

    estimate: Estimate
    """Estimate with method "ppi_drawn". `n` counts labels, which dominate the error."""
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


def drawn_prediction_powered_mean(
    labels: Sequence[float | None],
    scores: Sequence[float],
    draw_probabilities: Sequence[float],
    *,
    probabilities: Sequence[float] | None = None,
    clusters: Sequence[Hashable] | None = None,
    low: float = 0.0,
    high: float = 1.0,
    confidence_level: float = 0.95,
) -> PredictionPoweredMean:
    """Estimate the mean label of all items from the judge's scores of all and the labels of drawn ones.

    Hajek's mean of the scores is corrected by Hajek's mean of label - weight * score over the labeled items. Each
    labeled item is weighted by 1 / (sampling probability * draw probability). The weight of the judge minimizes the
    variance. The variance is that of the influence of whole clusters, so it contains the covariance of both means.

    The interval has Student's t with the effective number of labeled clusters (Kish) minus 1. With fewer than 30 labels
    it is a rough guide. If scores do not help, the result is `hajek_mean` of the labels. Labels are in [`low`, `high`]
    or None, scores on any scale. The labeled items are a random part of those that were drawn with
    `draw_probabilities`, of which only those of labeled items are used. `probabilities` are those of sampling among all
    traffic. `n_judged` counts the items without a label.

    Source:
        Angelopoulos, Duchi and Zrnic 2023, "PPI++". Difference estimator with unequal probabilities: Sarndal, Swensson
        and Wretman 1992, section 6.3.

    Examples:
        >>> labels, scores = [1.0, 0.0, 1.0, 1.0, None, None], [0.9, 0.2, 0.8, 0.7, 0.4, 0.3]
        >>> result = drawn_prediction_powered_mean(labels, scores, [0.5] * 6)
        >>> round(result.estimate.value, 2), result.n_labeled, result.n_judged
        (0.65, 4, 2)
    """
    import numpy as np

    f = np.asarray(scores, dtype=float)
    drawn = np.asarray([label is not None for label in labels], dtype=bool)
    given = [label for label in labels if label is not None]
    p = np.ones(f.size) if probabilities is None else np.asarray(probabilities, dtype=float)
    q = np.asarray(draw_probabilities, dtype=float)
    if not (drawn.size == f.size == p.size == q.size):
        raise ValueError(
            f"each item needs a label or None, a score and its probabilities, got {drawn.size} labels, {f.size} "
            f"scores, {q.size} and {p.size} probabilities"
        )
    if not np.isfinite(f).all():
        raise ValueError("judge scores must be finite. Omit failures, and report their number")
    own = None if clusters is None else [cluster for cluster, is_drawn in zip(clusters, drawn, strict=True) if is_drawn]
    labels_only = hajek_mean(given, (p * q)[drawn], clusters=own, low=low, high=high, confidence_level=confidence_level)
    y = np.zeros(f.size)
    y[drawn] = given
    codes = codes_of(f.size, clusters)
    of_all, of_drawn = (1 / p) / (1 / p).sum(), np.where(drawn, 1 / (p * q), 0.0)
    of_drawn /= of_drawn.sum()
    mean, mean_drawn, mean_label = float(of_all @ f), float(of_drawn @ f), float(of_drawn @ y)
    from_labels = np.bincount(codes, weights=of_drawn * (y - mean_label))
    from_scores = np.bincount(codes, weights=of_drawn * (f - mean_drawn) - of_all * (f - mean))
    spread = float(from_scores @ from_scores)
    weight = min(max(float(from_labels @ from_scores) / spread, 0.0), 1.0) if spread > 0 else 0.0
    result = PredictionPoweredMean(
        estimate=labels_only,
        labels_only=labels_only,
        judge_mean=mean,
        weight=weight,
        n_labeled=len(given),
        n_judged=f.size - len(given),
        labels_worth=None,
    )
    influence = from_labels - weight * from_scores
    n = effective_number(np.bincount(codes, weights=of_drawn).astype(float))
    variance = float(influence @ influence) * n / max(n - 1, _ROUNDING)
    without = float(from_labels @ from_labels) * n / max(n - 1, _ROUNDING)
    if weight == 0 or n <= 2 or variance <= _ROUNDING * (high - low) ** 2:
        return replace(result, weight=0.0)
    value = min(max(mean_label + weight * (mean - mean_drawn), low), high)
    error = student_quantile(n - 1, (1 + confidence_level) / 2) * math.sqrt(variance)
    ends = value - error, value + error
    estimate = estimate_around(value, *ends, confidence_level, method="ppi_drawn", n=len(given), bounds=(low, high))
    return replace(result, estimate=estimate, labels_worth=len(given) * without / variance)


def drawn_kappa(
    first: Sequence[bool],
    second: Sequence[bool],
    draw_probabilities: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    confidence_level: float = 0.95,
) -> Agreement:
    """Compute Cohen's kappa of two yes/no raters for all items, from items drawn with different probabilities.

    Observed and expected agreement are weighted by 1 / probability. The interval is a jackknife over clusters with
    Student's t and the effective number of clusters. The coefficient is None if both raters always give the same
    rating. If they agree on all items, the interval is Wilson's of n out of n (effective clusters), less the agreement
    by chance. It is [-1, 1] (method "range") if there are fewer than three clusters, or if another result is the same
    without any one of them.

    Source:
        Cohen 1960. Jackknife over clusters: Bell and McCaffrey 2002.

    Examples:
        >>> found = drawn_kappa([True, True, False, False], [True, True, False, True], [0.5, 0.5, 0.5, 1.0])
        >>> round(found.observed, 3)
        0.857
    """
    import numpy as np

    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    p = np.asarray(draw_probabilities, dtype=float)
    if not (a.size == b.size == p.size) or not a.size:
        raise ValueError(f"each item needs two ratings and a probability, got {a.size}, {b.size} and {p.size}")
    if not ((p > 0) & (p <= 1)).all():
        raise ValueError("a draw probability must be in (0, 1]")
    codes = codes_of(a.size, clusters)
    cells = np.stack([np.bincount(codes, weights=cell / p) for cell in (a & b, a & ~b, ~a & b, ~a & ~b)], axis=1)
    total = cells.sum(axis=0)
    kappa, observed, expected = (float(x[0]) for x in _kappas(total[np.newaxis]))
    coefficient = None
    if not math.isnan(kappa) and observed > 1 - _ROUNDING:
        coefficient = replace(all_equal(effective_number(cells.sum(axis=1)), expected, confidence_level), n=a.size)
    elif not math.isnan(kappa):
        without, _, _ = _kappas(total - cells)
        low, high, method = jackknife_interval(kappa, without, cells.sum(axis=1), confidence_level=confidence_level)
        coefficient = estimate_around(kappa, low, high, confidence_level, method=method, n=a.size)
    return Agreement(coefficient=coefficient, observed=observed, expected=expected, n=a.size, n_left_out=0)


def _kappas(cells: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Compute kappa (NaN if undefined), observed and expected agreement of tables (yes-yes, yes-no, no-yes, no-no)."""
    import numpy as np

    both, only_first, only_second, neither = (cells / cells.sum(axis=1, keepdims=True)).T
    yes, also_yes = both + only_first, both + only_second
    observed = both + neither
    expected = yes * also_yes + (1 - yes) * (1 - also_yes)
    room = 1 - expected
    kappa = np.where(room > _ROUNDING, (observed - expected) / np.where(room > _ROUNDING, room, 1.0), np.nan)
    return kappa, observed, expected
