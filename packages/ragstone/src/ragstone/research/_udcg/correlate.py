"""Rank correlation of retrieval metrics with answer grades per question, with intervals over questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ragstone._util.run_async import run_async
from ragstone._util.table import text_table
from ragstone.data import SampleSource
from ragstone.errors import MissingExtraError
from ragstone.judges import Judge, Reader
from ragstone.metrics import LabelMode, UdcgTheta
from ragstone.metrics.ranking import average_precision, hit_rate, ndcg, precision, reciprocal_rank
from ragstone.research._udcg.complete import RatedContext, complete, warn_small_sample
from ragstone.research._udcg.rows import PassageRating
from ragstone.research._udcg.svm import common_length, cross_validated, design_of, need_sklearn
from ragstone.stats import Estimate, bootstrap_mean, bootstrap_spearman, spearman

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MetricCorrelation", "UdcgCorrelation", "correlate_udcg"]

_SAME: Final = 12
"""Decimals to round to, so that sums of the same numbers in another order are ties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCorrelation:
    """The rank correlation of one metric with the answers' grades."""

    metric: str
    defined: Estimate | None
    """Mean Spearman correlation over the questions with different values of the metric, or None if there are none."""
    all: Estimate | None
    """Mean over all questions with different grades. A constant metric counts as 0."""
    pooled: Estimate | None
    """Spearman correlation over all contexts of all questions together."""
    difference: Estimate | None
    """UDCG's mean minus this metric's (as in `all`), by question. None for UDCG itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UdcgCorrelation:
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
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self) | {"grades": dict(self.grades), "left_out": dict(self.left_out)}

    def __str__(self) -> str:
        head = ("metric", "Spearman, mean [95% CI]", "n", "constant as 0", "n", "UDCG minus metric", "pooled")
        rows = [
            head,
            *(
                (
                    m.metric,
                    _shown(m.defined),
                    str(m.defined.n) if m.defined else "0",
                    _shown(m.all),
                    str(m.all.n) if m.all else "0",
                    _shown(m.difference),
                    _shown(m.pooled),
                )
                for m in self.metrics
            ),
        ]
        answers = ", ".join(f"{n} {grade}" for grade, n in self.grades.items() if n or grade != "partial")
        lines = [text_table(rows), "", f"{self.n_questions} questions, {self.n_contexts} contexts; answers: {answers}"]
        if self.n_one_grade:
            lines.append(f"questions with only one grade, undefined and excluded: {self.n_one_grade}")
        lines.append("n: number of questions. The first n counts questions with different values of the metric")
        lines += [f"excluded, {reason}: {n}" for reason, n in self.left_out.items()]
        return "\n".join([*lines, *self.notes])


def _shown(estimate: Estimate | None) -> str:
    return "" if estimate is None else f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


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
    n_resamples: int = 2000,
    seed: int = 0,
    concurrency: int = 16,
    progress: Callable[[int, int], None] | None = None,
) -> UdcgCorrelation:
    """Correlate retrieval metrics with graded answers, question by question.

    For each question, the Spearman correlation (average ranks) of each metric with the grades of the answers (correct 2,
    abstained 1, wrong 0) over the question's contexts. Then the mean over questions, with a bootstrap interval over
    questions.

    Args:
        data: Rows as for `fit_udcg`.
        theta: Weights, or their file. Default: cross-validated weights if scikit-learn is installed.
        erag: Also let the reader answer from each passage alone.
        reader: As for `fit_udcg`.
        judge: As for `fit_udcg`.
        gamma: Weight of distraction in UDCG.
        labels: As for `fit_udcg`.
        threshold: As for `fit_udcg`.
        n_resamples: Number of bootstrap resamples of the questions.
        seed: Seed of folds and bootstrap. It is stored in the result.
        concurrency: Number of rows processed concurrently.
        progress: Called with (finished rows, all rows).

    Raises:
        ConfigurationError: If values are missing and no model is named.
        DataError: If a row or the file of weights is invalid.
        JudgeError: If a model is unavailable.

    Source:
        UDCG, section 7.2. The source does not define the treatment of questions with one grade and of constant metrics.

    Example:
        ```python
        print(correlate_udcg("graded.jsonl"))
        ```
    """
    import numpy as np

    weights = theta if isinstance(theta, UdcgTheta) or theta is None else UdcgTheta.load(theta)
    rated = run_async(
        complete(
            data,
            reader=reader,
            judge=judge,
            erag=erag,
            labels=labels,
            threshold=threshold,
            concurrency=concurrency,
            progress=progress,
        )
    )
    contexts = rated.contexts
    notes = list(rated.notes)
    columns = _columns(contexts, gamma)
    columns = {"udcg": columns["udcg"]} | _theta(contexts, weights, seed, notes) | columns
    grades = np.array([float(context.rank) for context in contexts])
    numbers = {question: i for i, question in enumerate(dict.fromkeys(c.question for c in contexts))}
    clusters = np.array([numbers[context.question] for context in contexts])
    names = list(columns)
    per_question = np.array(
        [row for i in range(len(numbers)) if (row := _correlations(columns, grades, clusters == i)) is not None]
    ).reshape(-1, len(names))
    notes += warn_small_sample(per_question.shape[0])
    with_constants = np.nan_to_num(per_question, nan=0.0)
    for column, name in enumerate(names):
        # A metric without values for a question is missing, not constant.
        absent = np.isnan(per_question[:, column]) & _absent(columns[name], grades, clusters)
        with_constants[absent, column] = np.nan
    differences = with_constants[:, [0]] - with_constants
    table = np.concatenate([per_question, with_constants, differences], axis=1)
    estimates = bootstrap_mean(table, n_resamples=n_resamples, seed=seed)
    pooled = _pooled(columns, grades, clusters, n_resamples=n_resamples, seed=seed)
    n = len(names)
    return UdcgCorrelation(
        metrics=tuple(
            MetricCorrelation(
                metric=name,
                defined=estimates[i],
                all=estimates[n + i],
                pooled=pooled[name],
                difference=None if i == 0 else estimates[2 * n + i],
            )
            for i, name in enumerate(names)
        ),
        n_questions=len(numbers),
        n_one_grade=len(numbers) - per_question.shape[0],
        n_contexts=len(contexts),
        grades={
            name: sum(context.grade == grade for context in contexts)
            for name, grade in (
                ("correct", "correct"),
                ("partial", "partial"),
                ("abstained", "abstain"),
                ("wrong", "wrong"),
            )
        },
        left_out=rated.left_out,
        errors=rated.errors,
        notes=tuple(notes),
        seed=seed,
    )


def _columns(contexts: Sequence[RatedContext], gamma: float) -> dict[str, NDArray[np.float64]]:
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


def _theta(
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


def _correlations(
    columns: Mapping[str, NDArray[np.float64]], grades: NDArray[np.float64], rows: NDArray[np.bool_]
) -> list[float] | None:
    """Return one question's correlations (NaN for a constant or missing metric), or None if all grades are equal."""
    import numpy as np

    own = grades[rows]
    if (own == own[0]).all():
        return None
    correlations = []
    for values in columns.values():
        of_question = values[rows]
        known = ~np.isnan(of_question)
        correlation = spearman(of_question[known].round(_SAME), own[known])
        correlations.append(np.nan if correlation is None else correlation)
    return correlations


def _absent(values: NDArray[np.float64], grades: NDArray[np.float64], clusters: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return for each question with different grades whether the contexts with metric values have equal grades or none."""
    import numpy as np

    absent = []
    for i in range(int(clusters.max()) + 1):
        rows = clusters == i
        own = grades[rows]
        if (own == own[0]).all():
            continue
        known = own[~np.isnan(values[rows])]
        absent.append(known.size == 0 or bool((known == known[0]).all()))
    return np.array(absent, dtype=bool)


def _pooled(
    columns: Mapping[str, NDArray[np.float64]],
    grades: NDArray[np.float64],
    clusters: NDArray[np.intp],
    *,
    n_resamples: int,
    seed: int,
) -> dict[str, Estimate | None]:
    import numpy as np

    complete = [name for name, values in columns.items() if not np.isnan(values).any()]
    table = np.stack([columns[name].round(_SAME) for name in complete], axis=1)
    estimates = bootstrap_spearman(table, grades, clusters, n_resamples=n_resamples, seed=seed)
    return dict.fromkeys(columns) | dict(zip(complete, estimates, strict=True))
