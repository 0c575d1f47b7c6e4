"""Values of retrieval metrics for contexts, and their correlations with the grades of the answers by question."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ragstone.errors import MissingExtraError
from ragstone.metrics import UdcgTheta
from ragstone.metrics.ranking import average_precision, hit_rate, ndcg, precision, reciprocal_rank
from ragstone.stats import Estimate, holm, mean_interval, simultaneous_differences, spearman
from ragstone_lab._udcg.complete import RatedContext
from ragstone_lab._udcg.rows import PassageRating
from ragstone_lab._udcg.svm import common_length, cross_validated, design_of, need_sklearn
from ragstone_lab._validation.agreement import estimate_difference

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SAME: Final = 12
"""Decimals to round to, so that sums of the same numbers in another order are ties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionTable:
    """Correlations of metrics with the grades, for each question whose answers have different grades."""

    names: tuple[str, ...]
    """Metrics, which are the columns."""
    questions: tuple[str, ...]
    """Questions, which are the rows."""
    defined: NDArray[np.float64]
    """NaN if the metric is constant or missing for the question."""
    all: NDArray[np.float64]
    """0 if the metric is constant, NaN if it is missing."""
    n_one_grade: int
    """Number of questions whose answers have one grade. They are not in the table."""


def estimate_columns(table: NDArray[np.float64], *, differences: bool = False) -> list[Estimate | None]:
    """Estimate the mean of each column of correlations, or of their differences, over the questions (rows)."""
    return [estimate_column(column, differences=differences) for column in table.T]


def estimate_column(column: Sequence[float] | NDArray[np.float64], *, differences: bool = False) -> Estimate | None:
    """Estimate the mean of correlations, or of their differences. NaN counts as missing. None without values."""
    import numpy as np

    x = np.asarray(column, dtype=float)
    known = x[~np.isnan(x)]
    if not known.size:
        return None
    if differences:
        return estimate_difference(known.tolist(), bound=2.0, confidence_level=0.95)
    return mean_interval(known, low=-1, high=1)


def compare_columns(differences: NDArray[np.float64], bases: Collection[int], *, seed: int) -> list[float | None]:
    """Return the p-value of each mean difference over the questions (rows): a sign-flip test, without a correction.

    None for the columns of `bases`, which are not compared, and NaN if there is nothing to test.
    """
    import numpy as np

    tests: list[float | None] = []
    for place, column in enumerate(differences.T):
        known = column[~np.isnan(column)].round(_SAME).tolist()
        p_value = None if place in bases else math.nan
        if known and place not in bases:
            ((test,),) = (one.pairs for one in simultaneous_differences([[[x, 0.0] for x in known]], seed=seed))
            p_value = math.nan if test.p_value is None else test.p_value
        tests.append(p_value)
    return tests


def adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values with Holm's correction. None is not a test, and NaN is one that could not be made."""
    corrected = iter(holm([p_value for p_value in p_values if p_value is not None]).adjusted)
    return [None if p_value is None else next(corrected) for p_value in p_values]


def tested_rows(
    names: Sequence[str],
    values: NDArray[np.float64],
    differences: NDArray[np.float64],
    bases: Collection[str],
    seed: int,
) -> list[tuple[Any, ...]]:
    """Return a row for each column of values: its name, number, mean, and (unless a base) mean difference and p-value."""
    p_values = compare_columns(differences, [names.index(name) for name in bases], seed=seed)
    means, others = estimate_columns(values), estimate_columns(differences, differences=True)
    return [
        (name, mean.n if mean else 0, mean, None if name in bases else difference, p_value)
        for name, mean, difference, p_value in zip(names, means, others, p_values, strict=True)
    ]


def correlate_by_question(
    columns: Mapping[str, NDArray[np.float64]], contexts: Sequence[RatedContext]
) -> QuestionTable:
    """Correlate each metric with the grades of the answers, question by question."""
    import numpy as np

    ranks = np.array([float(context.rank) for context in contexts])
    by_question: dict[str, list[int]] = {}
    for i, context in enumerate(contexts):
        by_question.setdefault(context.question, []).append(i)
    values, questions = [], []
    for question, rows in by_question.items():
        own = ranks[rows]
        if (own != own[0]).any():
            questions.append(question)
            values.append([_correlation(column[rows], own) for column in columns.values()])
    table = np.array(values, dtype=float).reshape((len(questions), len(columns), 2))
    return QuestionTable(
        names=tuple(columns),
        questions=tuple(questions),
        defined=table[:, :, 0],
        all=table[:, :, 1],
        n_one_grade=len(by_question) - len(questions),
    )


def _correlation(values: NDArray[np.float64], ranks: NDArray[np.float64]) -> tuple[float, float]:
    """Return the correlation, and the correlation that is 0 for a constant metric. NaN if undefined."""
    import numpy as np

    known = ranks[~np.isnan(values)]
    # A metric without values for a question, or for different grades, is missing, not constant.
    if known.size == 0 or (known == known[0]).all():
        return math.nan, math.nan
    found = spearman(values[~np.isnan(values)].round(_SAME), known)
    return math.nan if found is None else found, found or 0.0


def metric_columns(contexts: Sequence[RatedContext], gamma: float) -> dict[str, NDArray[np.float64]]:
    """Return each metric's value for each context. UDCG is first, before its sigmoid, which does not change ranks."""
    import numpy as np

    pools: dict[str, dict[str, PassageRating]] = {}
    for context in contexts:
        pools.setdefault(context.question, {}).update({rating.text: rating for rating in context.ratings})
    rows = []
    for context in contexts:
        u = np.array([rating.utility for rating in context.ratings])
        helped, distracted = float(np.maximum(u, 0).mean()), float(np.minimum(u, 0).mean())
        known = pools[context.question]
        texts = [rating.text for rating in context.ratings]
        graded = {text: rating.gain for text, rating in known.items()}
        relevant = {text: float(rating.relevant) for text, rating in known.items()}
        scores = [rating.erag for rating in context.ratings if rating.erag is not None]
        rows.append(
            {
                "udcg": helped + gamma * distracted,
                "relevance_only": helped,
                "binary": float(np.mean([rating.relevant for rating in context.ratings])),
                # Without relevant passages, all contexts of the question get 0.
                "ndcg": ndcg(texts, graded, k=len(texts), gain="linear") or 0.0,
                "map": average_precision(texts, relevant) or 0.0,
                "mrr": reciprocal_rank(texts, relevant) or 0.0,
                "precision": precision(texts, relevant) or 0.0,
                "hits": hit_rate(texts, relevant) or 0.0,
                "erag": float(np.mean(scores)) if len(scores) == len(context.ratings) else np.nan,
            }
        )
    columns = {name: np.array([row[name] for row in rows], dtype=float) for name in rows[0]}
    if np.isnan(columns["erag"]).all():
        del columns["erag"]
    return columns


def theta_column(
    contexts: Sequence[RatedContext], theta: UdcgTheta | None, seed: int, notes: list[str]
) -> dict[str, NDArray[np.float64]]:
    """Return UDCG-theta for contexts with its number of passages (NaN for others), or an empty dict and a note."""
    import numpy as np

    k = theta.k if theta is not None else common_length(contexts)
    fitting = [i for i, context in enumerate(contexts) if len(context.ratings) == k]
    values = np.full(len(contexts), np.nan)
    if theta is not None:
        values[fitting] = [theta.linear([r.utility for r in contexts[i].ratings]) for i in fitting]
        source = (
            "udcg_theta: with the given weights. If they were fitted to these questions, the correlation is too high."
        )
    else:
        try:
            need_sklearn()
        except MissingExtraError as error:
            notes.append(f"udcg_theta is not available: {error}")
            return {}
        values[fitting] = cross_validated(design_of([contexts[i] for i in fitting]), seed=seed)
        source = "udcg_theta: each question with weights fitted to the other questions"
    if np.isnan(values).all():
        notes.append(
            f"udcg_theta is not available: too few questions with contexts of {k} passages and different grades"
        )
        return {}
    notes.append(source)
    if len(fitting) < len(contexts):
        notes.append(f"udcg_theta: {len(fitting)} of {len(contexts)} contexts (those with {k} passages)")
    return {"udcg_theta": values}
