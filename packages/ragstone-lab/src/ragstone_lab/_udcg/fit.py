"""Fitting of UDCG-theta's weights: a ranking SVM on utilities by position, evaluated on held-out questions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from ragstone.errors import ConfigurationError, DataError
from ragstone.extension import text_table
from ragstone.judges import Judge, Reader
from ragstone.metrics import LabelMode, UdcgTheta
from ragstone.reading import SampleSource
from ragstone.stats import Estimate
from ragstone_lab._report import number, percentile_estimates, shown
from ragstone_lab._run import RunResult
from ragstone_lab._udcg.complete import complete, warn_small_sample
from ragstone_lab._udcg.correlate import estimate_column
from ragstone_lab._udcg.svm import (
    C_GRID,
    Design,
    choose_c,
    common_length,
    cross_validated,
    design_of,
    need_sklearn,
    solve,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FOLDS: Final = 5
_FEW: Final = 10
"""Smallest number of questions for intervals of the weights."""
_REFITS: Final = 200
"""Largest number of refits for intervals of the weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UdcgFit(RunResult):
    """Fitted weights, and how well they rank contexts of held-out questions."""

    theta: UdcgTheta
    c: float
    """The cost C, selected by cross-validation over all questions."""
    by_c: Mapping[float, float]
    """Mean Spearman correlation per question over the folds, by C. The best value is slightly optimistic."""
    correlation: Estimate
    """Mean Spearman correlation on held-out questions (nested cross-validation). A constant ranking counts as 0."""
    plain: Estimate
    """The same for UDCG, which does not have fitted weights."""
    gain: Estimate
    """Difference of the two, by question."""
    n_questions: int
    """Number of questions with different grades. Only these are used for fitting."""
    n_contexts: int
    n_pairs: int
    converged: bool
    alpha: tuple[Estimate, ...] = ()
    """Weights of help by position, with intervals from refits to resampled questions at this C. Empty for fewer than 10
    questions."""
    beta: tuple[Estimate, ...] = ()
    """The same for weights of distraction."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Number of excluded rows, by reason."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = RunResult.to_dict(self)
        return {
            "k": self.theta.k,
            "alpha": list(self.theta.alpha),
            "beta": list(self.theta.beta),
            **self.theta.fit,
            **{name: plain[name] for name in ("left_out", *(each.name for each in fields(RunResult))) if name in plain},
        }

    def __str__(self) -> str:
        level = " [95% CI]" if self.alpha else ""
        weights = [("position", f"help{level}", f"distraction{level}")]
        columns = [
            [*map(shown, estimated)] if estimated else [*map(number, plain)]
            for estimated, plain in ((self.alpha, self.theta.alpha), (self.beta, self.theta.beta))
        ]
        weights += [(str(i), a, b) for i, (a, b) in enumerate(zip(*columns, strict=True), start=1)]
        scores = [
            ("metric", "Spearman with the grades, mean over questions [95% CI]"),
            ("udcg_theta, on held-out questions", shown(self.correlation)),
            ("udcg, without fitted weights", shown(self.plain)),
            ("difference", shown(self.gain)),
        ]
        lines = [
            f"UDCG-theta for {self.theta.k} passages, C = {self.c:g}",
            "",
            text_table(weights, align="rrr"),
            "",
            text_table(scores),
            "",
            f"{self.n_questions} questions with different grades, {self.n_contexts} contexts, {self.n_pairs} pairs",
        ]
        lines += [f"excluded, {reason}: {n}" for reason, n in self.left_out.items()]
        if not self.converged:
            lines.append("the solver did not converge, so the weights are only approximate")
        return "\n".join([*lines, *self.notes])


def fit_udcg(
    data: SampleSource,
    *,
    reader: str | Reader | None = None,
    judge: str | Judge | None = None,
    labels: LabelMode = "auto",
    threshold: float = 0.5,
    svm_c: Sequence[float] = C_GRID,
    n_resamples: int = 2000,
    seed: int = 0,
    concurrency: int = 16,
    stop_early: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> UdcgFit:
    """Fit the weights of UDCG-theta to several contexts per question with graded answers.

    A linear ranking SVM: it minimizes |w|^2 / 2 + C / (number of questions) * sum of max(0, 1 - w . (x_i - x_j)) over
    the pairs of contexts (i, j) of a question where i has the better answer. x contains u+ and u- by position.

    Args:
        data: Rows with `contexts` and `grade` ("correct", "abstain" or "wrong", or 2, 1, 0). Rows with equal
            `question_id` (or without it, equal query) belong to one question. Rows with an uncommon number of passages
            are excluded and counted.
        reader: Model for missing utilities, and for answers of rows without grade and response.
        judge: Model for missing relevance labels and grades. Without reader and judge, no model is called.
        labels: Source of relevance labels, as for `Udcg`.
        threshold: Label from which a passage of the data is relevant.
        svm_c: Candidates for C.
        n_resamples: Number of resamples of the questions to which the weights are fitted again, at most 200.
        seed: Seed of folds, solver and bootstrap. It is stored in the result.
        concurrency: Number of rows processed concurrently.
        stop_early: Stop if a model fails systematically.
        progress: Called with (finished rows, all rows).

    Raises:
        MissingExtraError: If scikit-learn is not installed.
        ConfigurationError: If values are missing and no model is named, or `svm_c` contains numbers that are not positive.
        DataError: If a row is invalid, or fewer than two questions have different grades.
        JudgeError: If a model is unavailable, or fails systematically.

    Source:
        UDCG, section 7.2. Joachims 2002, "Optimizing Search Engines using Clickthrough Data".

    Examples:
        ```python
        fit = fit_udcg("graded.jsonl", reader="http://localhost:8000/v1", judge="http://localhost:8000/v1")
        fit.theta.save("theta.json")
        ```
    """
    need_sklearn()
    if not svm_c or not all(math.isfinite(c) and c > 0 for c in svm_c):
        raise ConfigurationError(f"svm_c (research.svm_c) must contain only positive numbers, got {svm_c!r}")
    rated = complete(
        data, reader=reader, judge=judge, labels=labels, threshold=threshold, concurrency=concurrency,
        stop_early=stop_early, progress=progress,
    )  # fmt: skip
    k = common_length(rated.contexts)
    fitting = [context for context in rated.contexts if len(context.ratings) == k]
    other = len(rated.contexts) - len(fitting)
    called = rated.values()
    called["left_out"] = dict(rated.left_out) | ({f"not {k} passages": other} if other else {})
    design = design_of(fitting)
    informative = [question for question in range(len(design.questions)) if design.has_different_grades(question)]
    if len(informative) < 2:
        raise DataError(
            f"{len(informative)} of {len(design.questions)} questions have contexts of {k} passages with different "
            "grades. Fitting and evaluation need at least 2."
        )
    c, by_c = choose_c(design, informative, svm_c, folds=_FOLDS, seed=seed)
    weights, converged = solve(design, informative, c, seed)
    called["notes"] += warn_small_sample(len(informative))
    estimated = _bootstrap_weights(design, informative, weights, c, n_refits=min(n_resamples, _REFITS), seed=seed)
    held_out = cross_validated(design, svm_c=svm_c, seed=seed)
    plain = design.x[:, :k].sum(axis=1) + design.x[:, k:].sum(axis=1) / 3
    learned = [design.correlation(question, held_out) for question in informative]
    usual = [design.correlation(question, plain) for question in informative]
    gains = [own - base for own, base in zip(learned, usual, strict=True)]
    correlation, untrained = estimate_column(learned), estimate_column(usual)
    gain = estimate_column(gains, differences=True)
    assert correlation and untrained and gain  # noqa: S101, PT018  there are at least two questions
    alpha, beta = estimated[:k], estimated[k:]
    counts = {
        "n_questions": len(informative),
        "n_contexts": len(fitting),
        "n_pairs": sum(design.differences[question].shape[0] for question in informative),
    }
    fit = {
        "c": c,
        "by_c": {f"{candidate:g}": value for candidate, value in by_c.items()},
        "converged": converged,
        "seed": seed,
        **counts,
        **{
            name: [one.value, one.low, one.high]
            for name, one in (("spearman_held_out", correlation), ("spearman_udcg", untrained), ("gain", gain))
        },
        "alpha_intervals": [[one.low, one.high] for one in alpha],
        "beta_intervals": [[one.low, one.high] for one in beta],
    }
    help_, distraction = weights[:k].tolist(), weights[k:].tolist()
    return UdcgFit(
        theta=UdcgTheta(help_, distraction, fit=fit, labels=labels, threshold=threshold),
        c=c, by_c=by_c, correlation=correlation, plain=untrained, gain=gain, converged=converged, alpha=alpha, beta=beta,
        **counts,
        **called,
    )  # fmt: skip


def _bootstrap_weights(
    design: Design, questions: Sequence[int], weights: NDArray[np.float64], c: float, *, n_refits: int, seed: int
) -> tuple[Estimate, ...]:
    """Estimate each weight with a percentile interval, from refits to resampled questions. Empty for few questions."""
    import numpy as np

    if len(questions) < _FEW:
        return ()
    rng = np.random.default_rng(seed)
    drawn = [solve(design, rng.choice(questions, len(questions)).tolist(), c, seed)[0] for _ in range(n_refits)]
    ends = np.quantile(drawn, (0.025, 0.975), axis=0).T.tolist()
    return percentile_estimates(weights.tolist(), ends, n=len(questions), confidence_level=0.95)
