"""The ranking SVM of UDCG-theta: pairs within questions, with the cost selected by cross-validation over questions."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ragstone.errors import MissingExtraError
from ragstone.stats import spearman
from ragstone_lab._udcg.complete import RatedContext

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

C_GRID: Final = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
"""Candidates for C, which is divided by the number of questions. With 0.01, the default of SVM-rank, the weights are
nearly a plain sum of differences. Above 1000 they hardly change."""

Features = Literal["utility", "relevance_only", "binary"]

_OUTER: Final = 5
_INNER: Final = 3
_MAX_ITERATIONS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Features, grades and questions of contexts."""

    x: NDArray[np.float64]
    """Features of shape (contexts, 2 * positions): u+ of each position, then u- of each position. Variants have
    fewer."""
    y: NDArray[np.float64]
    """Grades of the contexts."""
    questions: tuple[NDArray[np.intp], ...]
    """Row indices of each question."""
    differences: tuple[NDArray[np.float64], ...]
    """For each question, x of the better minus x of the worse context, for each pair with different grades."""

    def has_different_grades(self, question: int) -> bool:
        """Return whether a question's contexts have different grades."""
        return len(self.differences[question]) > 0

    def correlation(self, question: int, scores: NDArray[np.float64]) -> float:
        """Return the Spearman correlation of scores and grades within a question. A constant ranking counts as 0."""
        rows = self.questions[question]
        return spearman(scores[rows].round(12), self.y[rows]) or 0.0


def need_sklearn() -> None:
    """Raise MissingExtraError if the solver is not installed."""
    try:
        import sklearn.svm  # noqa: F401  only checks the import
    except ImportError as error:
        raise MissingExtraError(
            feature="Learning weights", package="scikit-learn", extra="ragstone-lab[fit]"
        ) from error


def common_length(contexts: Sequence[RatedContext]) -> int:
    """Return the most frequent number of passages. Ties go to the smaller number."""
    counts = Counter(len(context.ratings) for context in contexts)
    return min(counts, key=lambda k: (-counts[k], k))


def design_of(contexts: Sequence[RatedContext], features: Features = "utility") -> Design:
    """Build the features of contexts with the same number of passages.

    "utility" is u+ and u- of each position, "relevance_only" u+ only, and "binary" is 1 for a relevant passage.
    """
    import numpy as np

    u = np.array([[rating.utility for rating in context.ratings] for context in contexts])
    if features == "utility":
        x = np.concatenate([np.maximum(u, 0), np.minimum(u, 0)], axis=1)
    elif features == "relevance_only":
        x = np.maximum(u, 0)
    else:
        x = np.array([[float(rating.relevant) for rating in context.ratings] for context in contexts])
    y = np.array([float(context.rank) for context in contexts])
    indices: dict[str, list[int]] = {}
    for i, context in enumerate(contexts):
        indices.setdefault(context.question, []).append(i)
    questions = tuple(np.array(rows) for rows in indices.values())
    differences = []
    for rows in questions:
        better, worse = np.nonzero(y[rows][:, None] > y[rows][None, :])
        differences.append(x[rows[better]] - x[rows[worse]])
    return Design(x=x, y=y, questions=questions, differences=tuple(differences))


def solve(design: Design, questions: Sequence[int], c: float, seed: int) -> tuple[NDArray[np.float64], bool]:
    """Fit weights to questions, and return them with whether the solver converged."""
    import numpy as np
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    informative = [question for question in questions if design.has_different_grades(question)]
    x = np.concatenate([design.differences[question] for question in informative])
    # The solver needs two classes, so every other pair is reversed, which does not change the problem.
    sign = np.where(np.arange(x.shape[0]) % 2 == 0, 1, -1)
    x = x * sign[:, None]
    if x.shape[0] == 1:
        # Two classes need two pairs. A pair and its reverse are one constraint, so each gets half the cost.
        x, sign, c = np.concatenate([x, -x]), np.concatenate([sign, -sign]), c / 2
    # `dual` is that of scikit-learn 1.5, whose older versions warn without it.
    cost = c / len(informative)
    svm = LinearSVC(C=cost, loss="hinge", dual="auto", fit_intercept=False, max_iter=_MAX_ITERATIONS, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        svm.fit(x, sign)
    weights: NDArray[np.float64] = svm.coef_[0]
    return weights, not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)


def choose_c(
    design: Design, questions: Sequence[int], svm_c: Sequence[float], *, folds: int, seed: int
) -> tuple[float, dict[float, float]]:
    """Return the C with the best mean Spearman correlation on held-out questions (the smallest of ties), and all means."""
    informative = [question for question in questions if design.has_different_grades(question)]
    if len(svm_c) == 1 or len(informative) < 2:
        return svm_c[0], {}
    scores: dict[float, float] = {}
    for c in svm_c:
        total = 0.0
        for held_out in question_folds(informative, folds, seed):
            weights, _ = solve(design, [q for q in informative if q not in held_out], c, seed)
            ranked = design.x @ weights
            total += sum(design.correlation(question, ranked) for question in held_out)
        scores[c] = total / len(informative)
    best = max(scores.values())
    return min(c for c, score in scores.items() if score >= best - 1e-9), scores


def cross_validated(design: Design, *, svm_c: Sequence[float] = C_GRID, seed: int = 0) -> NDArray[np.float64]:
    """Score each context with weights and C from the other questions. NaN if too few questions have different grades.

    The weights of each fold are normalized to length 1, so that scores are comparable across folds. Within a question
    only their direction matters.
    """
    import numpy as np

    scores = np.full(design.y.size, np.nan)
    informative = [question for question in range(len(design.questions)) if design.has_different_grades(question)]
    others = [question for question in range(len(design.questions)) if not design.has_different_grades(question)]
    if len(informative) < 2:
        return scores
    folds = question_folds(informative, _OUTER, seed)
    for number, held_out in enumerate(folds):
        training = [question for question in informative if question not in held_out]
        c, _ = choose_c(design, training, svm_c, folds=_INNER, seed=seed)
        weights, _ = solve(design, training, c, seed)
        length = float(np.sqrt(weights @ weights)) or 1.0
        for question in (*held_out, *others[number :: len(folds)]):
            rows = design.questions[question]
            scores[rows] = design.x[rows] @ weights / length
    return scores


def question_folds(questions: Sequence[int], n: int, seed: int) -> list[set[int]]:
    """Split questions randomly into folds of nearly equal size. No fold is empty."""
    import numpy as np

    order = np.random.default_rng(seed).permutation(np.array(list(questions)))
    return [set(order[i :: min(n, len(order))].tolist()) for i in range(min(n, len(order)))]
