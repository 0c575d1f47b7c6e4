"""Rank correlation of retrieval metrics with answer grades per question, with intervals over questions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ragstone.errors import MissingExtraError
from ragstone.extension import text_table
from ragstone.judges import Judge, Reader
from ragstone.metrics import LabelMode, UdcgTheta
from ragstone.metrics.ranking import average_precision, hit_rate, ndcg, precision, reciprocal_rank
from ragstone.reading import SampleSource
from ragstone.stats import Estimate, holm, mean_interval, simultaneous_differences, spearman
from ragstone_lab._report import number, shown
from ragstone_lab._run import RunResult
from ragstone_lab._udcg.complete import RatedContext, complete, warn_small_sample
from ragstone_lab._udcg.rows import Grade, PassageRating
from ragstone_lab._udcg.svm import common_length, cross_validated, design_of, need_sklearn
from ragstone_lab._validation.agreement import estimate_difference

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCorrelation:
    """The rank correlation of one metric with the answers' grades."""

    metric: str
    defined: Estimate | None
    """Mean Spearman correlation over the questions with different values of the metric, or None if there are none."""
    all: Estimate | None
    """Mean over all questions with different grades. A constant metric counts as 0."""
    difference: Estimate | None
    """UDCG's mean minus this metric's (as in `all`), by question. None for UDCG itself."""
    p_value: float | None
    """P-value of this difference: a sign-flip test over the questions, with Holm's correction for all metrics."""
    uncorrected: float | None = field(default=None, repr=False)
    """This p-value without a correction. NaN if the difference cannot be tested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UdcgCorrelation(RunResult):
    """Correlations of metrics with graded answers."""

    metrics: tuple[MetricCorrelation, ...]
    n_questions: int
    n_one_grade: int
    """Number of questions whose contexts all have the same grade. Their correlation is undefined and excluded."""
    n_contexts: int
    grades: Mapping[str, int]
    """Numbers of correct, partially correct (without a relevant passage), abstained and wrong answers."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Number of excluded rows, by reason."""
    seed: int = 0

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [
            ("metric", "Spearman, mean [95% CI]", "n", "constant as 0", "n", "UDCG minus metric", "p (Holm)")
        ]
        for m in self.metrics:
            n_defined, n_all = (str(estimate.n if estimate else 0) for estimate in (m.defined, m.all))
            cells = [shown(estimate, none="") for estimate in (m.defined, m.all, m.difference)]
            p_value = "" if m.p_value is None else number(m.p_value)
            rows.append((m.metric, cells[0], n_defined, cells[1], n_all, cells[2], p_value))
        answers = ", ".join(f"{n} {grade}" for grade, n in self.grades.items() if n or grade != "partial")
        lines = [text_table(rows), "", f"{self.n_questions} questions, {self.n_contexts} contexts; answers: {answers}"]
        if self.n_one_grade:
            lines.append(f"questions with only one grade, undefined and excluded: {self.n_one_grade}")
        lines.append("n: number of questions. The first n counts questions with different values of the metric")
        lines += [f"excluded, {reason}: {n}" for reason, n in self.left_out.items()]
        return "\n".join([*lines, *self.notes])


def correlate_udcg(
    data: SampleSource,
    *,
    theta: UdcgTheta | str | Path | None = None,
    erag: bool = False,
    reader: str | Reader | None = None,
    judge: str | Judge | None = None,
    gamma: float = 1 / 3,
    labels: LabelMode = "auto",
    threshold: float = 0.5,
    seed: int = 0,
    concurrency: int = 16,
    stop_early: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> UdcgCorrelation:
    """Correlate retrieval metrics with graded answers, question by question.

    For each question, the Spearman correlation (average ranks) of each metric with the grades of the answers (correct
    2, abstained 1, wrong 0) over the question's contexts. Then the mean over questions, with an interval over questions.

    Args:
        data: Rows as for `fit_udcg`.
        theta: Weights, or their file. Default: cross-validated weights if scikit-learn is installed.
        erag: Also let the reader answer from each passage alone.
        reader: As for `fit_udcg`.
        judge: As for `fit_udcg`.
        gamma: Weight of distraction in UDCG.
        labels: As for `fit_udcg`.
        threshold: As for `fit_udcg`.
        seed: Seed of the folds. It is stored in the result.
        concurrency: Number of rows processed concurrently.
        stop_early: Stop if a model fails systematically.
        progress: Called with (finished rows, all rows).

    Raises:
        ConfigurationError: If values are missing and no model is named.
        DataError: If a row or the file of weights is invalid.
        JudgeError: If a model is unavailable, or fails systematically.

    Source:
        UDCG, section 7.2. The source does not define the treatment of questions with one grade and of constant metrics.

    Examples:
        ```python
        print(correlate_udcg("graded.jsonl"))
        ```
    """
    weights = theta if isinstance(theta, UdcgTheta) or theta is None else UdcgTheta.load(theta)
    rated = complete(
        data, reader=reader, judge=judge, erag=erag, labels=labels, threshold=threshold, concurrency=concurrency,
        stop_early=stop_early, progress=progress,
    )  # fmt: skip
    found = correlate_contexts(rated.contexts, theta=weights, gamma=gamma, seed=seed, notes=rated.notes)
    return replace(found, **rated.values() | {"notes": found.notes})


def correlate_contexts(
    contexts: Sequence[RatedContext],
    *,
    theta: UdcgTheta | None = None,
    gamma: float = 1 / 3,
    seed: int = 0,
    notes: Sequence[str] = (),
) -> UdcgCorrelation:
    """Correlate retrieval metrics with the grades of complete contexts, as `correlate_udcg` does."""
    all_notes = list(notes)
    columns = metric_columns(contexts, gamma)
    learned = theta_column(contexts, theta, seed, all_notes)
    columns = {"udcg": columns["udcg"]} | learned | columns
    table = correlate_by_question(columns, contexts)
    all_notes += warn_small_sample(len(table.questions))
    rows = tested_rows(table.names, table.all, table.all[:, [0]] - table.all, {"udcg"}, seed)
    tested = zip(rows, estimate_columns(table.defined), adjusted([test for *_, test in rows]), strict=True)
    metrics = tuple(
        MetricCorrelation(metric=name, defined=defined, all=mean, difference=difference, p_value=p, uncorrected=test)
        for (name, _, mean, difference, test), defined, p in tested
    )
    return UdcgCorrelation(
        metrics=metrics,
        n_questions=len(table.questions) + table.n_one_grade,
        n_one_grade=table.n_one_grade,
        n_contexts=len(contexts),
        grades=count_grades(contexts),
        notes=tuple(all_notes),
        seed=seed,
    )


def count_grades(contexts: Sequence[RatedContext]) -> dict[str, int]:
    """Return the number of answers by grade."""
    names: dict[str, Grade] = {"correct": "correct", "partial": "partial", "abstained": "abstain", "wrong": "wrong"}
    return {name: sum(context.grade == grade for context in contexts) for name, grade in names.items()}


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
