"""How a judge errs against people: confusion matrix, AUC, thresholds, calibration and length bias."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragstone._util.distributions import student_quantile
from ragstone.stats._cluster import cluster_codes, codes_of, wilson_limit
from ragstone.stats._contrast import find_placements
from ragstone.stats._correlation import correlate
from ragstone.stats._mean import Estimate, estimate_around, wilson_interval
from ragstone.stats._weight import estimate_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BINS: Final = 10
_MIN_OF_CLASS: Final = 10
"""Labels of correct and of wrong answers without which the errors of a judge are not known well enough."""
_UNSEEN: Final = 0.1
"""Answers in the middle of the others that are added to the error of an AUC on each side. Without them, intervals of
an AUC near 1 cover 90%, because a sample often lacks the few answers that overlap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeErrors:
    """Errors of a judge that says whether answers are correct, against people. Correct is positive."""

    n_true_positive: int
    """Answers that both call correct."""
    n_false_positive: int
    """Answers that only the judge calls correct."""
    n_false_negative: int
    """Answers that only people call correct."""
    n_true_negative: int
    """Answers that both call wrong."""
    sensitivity: Estimate | None
    """Share of the correct answers that the judge calls correct. None without a correct answer."""
    specificity: Estimate | None
    """Share of the wrong answers that the judge calls wrong. None without a wrong answer."""
    precision: Estimate | None
    """Share of the answers that the judge calls correct that are correct. None if it calls none correct."""
    negative_precision: Estimate | None
    """Share of the answers that the judge calls wrong that are wrong. None if it calls none wrong."""
    auc: Estimate | None
    """Probability that the judge scores a correct answer higher than a wrong one, with half of the ties. None without
    both."""
    threshold: float
    """Score from which the judge calls an answer correct."""
    best_threshold: float | None
    """The threshold with the largest sum of sensitivity and specificity on these answers. It was chosen on the same
    data, so it separates new answers less well. None without an AUC."""
    length_bias: Estimate | None
    """Spearman's correlation of judge - people with the length of the answer: positive if the judge prefers long
    answers more than people do. None if lengths are unknown, or nothing varies."""
    calibration_error: float | None
    """Mean distance of the probability of being correct from the share of correct answers, over 10 bins. It is above
    0 by chance even if the probabilities are right. None if scores are not probabilities."""
    reliability: tuple[tuple[float, Estimate], ...]
    """Mean probability and share of correct answers, of each bin that is not empty."""

    def describe(self) -> tuple[str, ...]:
        """Return the errors as sentences, which also say what is unknown."""

        def shown(found: Estimate | None) -> str:
            return "unknown" if found is None else f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"

        best = "unknown" if self.best_threshold is None else f"{self.best_threshold:.2f}"
        n_correct, n_wrong = (
            self.n_true_positive + self.n_false_negative,
            self.n_false_positive + self.n_true_negative,
        )
        called = (
            f"from {self.threshold:.2f} on the judge calls an answer correct: {self.n_true_positive:,} of "
            f"{n_correct:,} correct ones (sensitivity {shown(self.sensitivity)}), {self.n_false_positive:,} of "
            f"{n_wrong:,} wrong ones (specificity {shown(self.specificity)})"
        )
        chosen = "chosen on these labels, so it separates new answers less well"
        lines = [
            called,
            f"precision: correct of those it calls correct {shown(self.precision)}, wrong of the others {shown(self.negative_precision)}",
            f"AUC {shown(self.auc)}, best threshold {best} ({chosen})",
            f"length bias (correlation of judge - people with the length of the answer) {shown(self.length_bias)}",
        ]
        if self.calibration_error is not None:
            bins = "; ".join(f"{p:.2f}: {shown(found)}" for p, found in self.reliability)
            lines.append(
                f"calibration error {self.calibration_error:.2f}, share of correct answers by probability: {bins}"
            )
        return tuple(lines)


def judge_errors(
    judge: Sequence[float],
    people: Sequence[float],
    *,
    threshold: float,
    correct_from: float,
    clusters: Sequence[Hashable] | None = None,
    lengths: Sequence[float] | None = None,
    are_probabilities: bool = False,
    confidence_level: float = 0.95,
) -> JudgeErrors:
    """Compute how the scores of a judge err against the ratings of people on the same scale, where higher is better.

    The judge calls an answer correct from `threshold` on, and people from `correct_from` on. `lengths` of the answers
    are in any unit. `are_probabilities` says that the scores are probabilities of being correct, in [0, 1].

    Source:
        AUC: Hanley and McNeil 1982, variance of DeLong, DeLong and Clarke-Pearson 1988, over clusters as in
        Obuchowski 1997. Threshold: Youden 1950. Calibration error: Naeini, Cooper and Hauskrecht 2015.

    Examples:
        >>> found = judge_errors([0.9, 0.8, 0.3, 0.6], [1, 1, 0, 0], threshold=0.5, correct_from=0.5)
        >>> found.sensitivity.value, found.specificity.value, found.auc.value, found.best_threshold
        (1.0, 0.5, 1.0, 0.8)
    """
    import numpy as np

    x, y = np.asarray(judge, dtype=float), np.asarray(people, dtype=float)
    codes = codes_of(x.size, clusters)
    if not x.shape == y.shape == codes.shape or not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError(
            f"judge, people and clusters need one finite number per answer, got {x.size}, {y.size} and {codes.size}"
        )
    if are_probabilities and x.size and not 0 <= x.min() <= x.max() <= 1:
        raise ValueError(f"probabilities must be in [0, 1], got {x.min()} to {x.max()}")
    is_correct, passes = y >= correct_from, x >= threshold

    def share(values: NDArray[np.bool_], rows: NDArray[np.bool_]) -> Estimate | None:
        own = None if clusters is None else codes[rows].tolist()
        return estimate_mean(
            values[rows].astype(float), low=0.0, high=1.0, clusters=own, confidence_level=confidence_level
        )

    bins = np.minimum((x * _BINS).astype(int), _BINS - 1) if are_probabilities else np.zeros(0, dtype=int)
    parts = (bins == number for number in np.unique(bins).tolist())
    reliability = [(float(x[rows].mean()), found) for rows in parts if (found := share(is_correct, rows)) is not None]
    return JudgeErrors(
        n_true_positive=int((passes & is_correct).sum()),
        n_false_positive=int((passes & ~is_correct).sum()),
        n_false_negative=int((~passes & is_correct).sum()),
        n_true_negative=int((~passes & ~is_correct).sum()),
        sensitivity=share(passes, is_correct),
        specificity=share(~passes, ~is_correct),
        precision=share(is_correct, passes),
        negative_precision=share(~is_correct, ~passes),
        auc=_auc(x, is_correct, codes, confidence_level),
        threshold=threshold,
        best_threshold=_best_threshold(x, is_correct),
        length_bias=None
        if lengths is None
        else correlate(x - y, lengths, "spearman", clusters=clusters, confidence_level=confidence_level),
        calibration_error=sum(abs(p - found.value) * found.n for p, found in reliability) / x.size
        if reliability
        else None,
        reliability=tuple(reliability),
    )


def rogan_gladen(
    unlabeled: Sequence[float],
    judge: Sequence[float],
    people: Sequence[float],
    *,
    threshold: float,
    correct_from: float,
    clusters: tuple[Sequence[Hashable], Sequence[Hashable]] | None = None,
    confidence_level: float = 0.95,
) -> Estimate | str:
    """Estimate which share of the unlabeled answers is correct, from the judge's scores and its errors on labeled answers.

    The labeled answers need not be a random sample: they may contain more wrong answers, for example. The judge must
    err on the correct and on the wrong ones as often as it does on the unlabeled answers. The interval inverts a test
    with Student's t (Fieller), with the variance over clusters of the judge's errors and one answer more on each side.
    It is clipped to [0, 1]. `clusters` are those of the unlabeled and of the labeled answers, and the other arguments
    are as for `judge_errors`.

    Returns:
        The estimate with method "rogan_gladen", or why it is unknown: fewer than 10 labels of correct or of wrong
        answers, clusters with labeled and unlabeled answers, or a judge that is not shown to separate correct from wrong ones.

    Source:
        Rogan and Gladen 1978. Fieller 1954. Adjusted shares: Agresti and Coull 1998, Lang and Reiczigel 2014.

    Examples:
        >>> judge, people = [0.9] * 19 + [0.1] * 21, [1] * 20 + [0] * 20
        >>> found = rogan_gladen([0.9] * 60 + [0.1] * 40, judge, people, threshold=0.5, correct_from=0.5)
        >>> round(found.value, 2), round(found.low, 2), round(found.high, 2)
        (0.63, 0.49, 0.81)
    """
    import numpy as np

    q, x = np.asarray(unlabeled, dtype=float) >= threshold, np.asarray(judge, dtype=float) >= threshold
    is_correct = np.asarray(people, dtype=float) >= correct_from
    of_rest, of_labeled = (range(q.size), range(-x.size, 0)) if clusters is None else clusters
    if ({*of_rest} & {*of_labeled}) - {None}:
        return "labeled and unlabeled answers are in the same clusters"
    if min(is_correct.sum(), (~is_correct).sum()) < _MIN_OF_CLASS or not q.size:
        return (
            f"it needs unlabeled answers, and labels of {_MIN_OF_CLASS} correct and {_MIN_OF_CLASS} wrong answers, got "
            f"{q.size}, {int(is_correct.sum())} and {int((~is_correct).sum())}"
        )
    codes = cluster_codes(of_labeled)
    spreads, shares = [], []
    for values, own in (
        (q, cluster_codes(of_rest)),
        (x[is_correct], codes[is_correct]),
        (x[~is_correct], codes[~is_correct]),
    ):
        share = (values.sum() + 1) / (values.size + 2)
        moved = np.bincount(own, weights=(values - values.mean()) / values.size, minlength=int(codes.max()) + 1)
        k = np.unique(own).size
        least = share * (1 - share) / (values.size + 2)
        spreads.append((moved, max(float(moved @ moved) * k / max(k - 1, 1), least), k))
        shares.append(float(share))
    (_, of_q, _), (hits, of_hits, n_hits), (alarms, of_alarms, n_alarms) = spreads
    both = max(float(hits @ alarms), 0.0)
    above, separation = shares[0] - shares[2], shares[1] - shares[2]
    t = (
        student_quantile(min(n_hits, n_alarms) - 1, (1 + confidence_level) / 2)
        if min(n_hits, n_alarms) > 1
        else math.inf
    )
    # (above - p * separation)^2 <= t^2 * variance(p), for a share p of correct answers.
    a = separation**2 - t**2 * (of_hits + of_alarms - 2 * both)
    b = -2 * above * separation - t**2 * 2 * (both - of_alarms)
    c = above**2 - t**2 * (of_q + of_alarms)
    if separation <= 0 or not a > 0:
        return "the judge is not shown to call correct answers correct more often than wrong ones"
    root = math.sqrt(max(b * b - 4 * a * c, 0.0))
    low, high = (min(max((-b + side * root) / (2 * a), 0.0), 1.0) for side in (-1, 1))
    false_alarms = float(x[~is_correct].mean())
    value = min(max((float(q.mean()) - false_alarms) / (float(x[is_correct].mean()) - false_alarms), 0.0), 1.0)
    return estimate_around(value, low, high, confidence_level, method="rogan_gladen", n=q.size)


def _auc(
    x: NDArray[np.float64], is_correct: NDArray[np.bool_], codes: NDArray[np.intp], confidence_level: float
) -> Estimate | None:
    """Estimate the AUC. Its interval has the form of Wilson's, which stays in [0, 1]."""
    import numpy as np

    m, n = int(is_correct.sum()), int((~is_correct).sum())
    if not (m and n):
        return None
    placements = np.empty(x.size)
    placements[is_correct] = find_placements(x[is_correct], x[~is_correct])
    placements[~is_correct] = 1 - find_placements(x[~is_correct], x[is_correct])
    value = float(placements[is_correct].mean())
    moved = np.bincount(codes, weights=(placements - value) / np.where(is_correct, m, n))
    k = int((np.bincount(codes) > 0).sum())
    units = [np.unique(codes[side]).size for side in (is_correct, ~is_correct)]
    least, unseen = min(units), _UNSEEN * (0.5 - value) ** 2 * sum(1 / size**2 for size in units)
    variance = float((moved**2).sum()) * k / max(k - 1, 1) + unseen
    if least < 2 or not 0 < value < 1 or variance <= 0:
        # Nothing overlaps: as a proportion of the smaller side.
        found = wilson_interval(round(value * least), least, confidence_level=confidence_level)
        low, high = (found.low, found.high) if value in (0.0, 1.0) else (0.0, 1.0)
    else:
        t = student_quantile(least - 1, (1 + confidence_level) / 2)
        low, high = (wilson_limit(value, variance, side * t) for side in (-1, 1))
    return estimate_around(value, low, high, confidence_level, method="delong", n=x.size)


def _best_threshold(x: NDArray[np.float64], is_correct: NDArray[np.bool_]) -> float | None:
    import numpy as np

    if is_correct.all() or not is_correct.any():
        return None
    levels, at = np.unique(x, return_inverse=True)
    gain = np.bincount(at, weights=np.where(is_correct, 1 / is_correct.sum(), -1 / (~is_correct).sum()))
    # Sensitivity + specificity - 1 at each level: what is at the level or above it.
    return float(levels[int(np.argmax(np.round(np.cumsum(gain[::-1])[::-1], 12)))])
