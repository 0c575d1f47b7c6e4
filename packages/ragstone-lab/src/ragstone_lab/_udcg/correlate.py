"""Rank correlation of retrieval metrics with answer grades per question, with intervals over questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragstone.extension import text_table
from ragstone.judges import Judge, Reader
from ragstone.metrics import LabelMode, UdcgTheta
from ragstone.reading import SampleSource
from ragstone.stats import Estimate
from ragstone_lab._report import number, shown
from ragstone_lab._run import RunResult
from ragstone_lab._udcg.columns import (
    adjusted,
    correlate_by_question,
    estimate_columns,
    metric_columns,
    tested_rows,
    theta_column,
)
from ragstone_lab._udcg.complete import RatedContext, complete, warn_small_sample
from ragstone_lab._udcg.rows import Grade


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
