"""Experiments on sampled contexts: how well metrics predict the answers, by number of passages and by variant."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ragstone.errors import MissingExtraError
from ragstone.stats import Estimate, bootstrap_interval
from ragstone_lab._run import gathered
from ragstone_lab._udcg.complete import RatedContext, warn_small_sample
from ragstone_lab._udcg.correlate import (
    compare_columns,
    correlate_by_question,
    correlate_contexts,
    count_grades,
    estimate_columns,
    metric_columns,
    tested_rows,
)
from ragstone_lab._udcg.experiment.answers import Runner
from ragstone_lab._udcg.experiment.questions import Question, sampled_contexts
from ragstone_lab._udcg.experiment.tables import Column, ResultTable
from ragstone_lab._udcg.rows import row_of
from ragstone_lab._udcg.svm import Features, cross_validated, design_of, need_sklearn, question_folds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_GAMMAS: Final = (0.0, 0.1, 0.2, 0.3, 1 / 3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_FOLDS: Final = 5
_VARIANTS: Final[dict[str, Features]] = {
    "udcg_theta": "utility",
    "udcg_theta, relevance only": "relevance_only",
    "udcg_theta, binary": "binary",
}
_METRIC: Final = Column("metric", "metric", "text")
_SPEARMAN: Final = Column("spearman", "Spearman [95% CI]")
_N: Final = Column("n", "n", "count")
_SPREAD: Final = Column("standard_deviation", "SD over k [95% CI]")
_P: Final = Column("p_value", "p (Holm)", "p_value")
_COMPARED: Final = (_METRIC, _N, _SPEARMAN, Column("difference", "UDCG minus metric [95% CI]"), _P)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSet:
    """Sampled contexts of one size, with ratings and grades."""

    k: int
    contexts: tuple[RatedContext, ...]
    rows: tuple[Mapping[str, Any], ...]
    """Rows for `correlate_udcg` and `fit_udcg`."""
    places: tuple[tuple[Question, tuple[int, ...]], ...]
    """Question and candidates of each context."""

    @property
    def obstacle(self) -> str | None:
        """Why the answers do not show how well a metric predicts them, or None."""
        ranks: dict[bool, set[int]] = {}
        for context in self.contexts:
            ranks.setdefault(any(rating.relevant for rating in context.ratings), set()).add(context.rank)
        n = len(self.contexts)
        if not any(0 in found for found in ranks.values()):
            return f"none of {n} answers is wrong, so no passage has misled the reader"
        if all(len(found) == 1 for found in ranks.values()):
            return (
                f"the grades of all {n} answers follow from the labels of the passages, so metrics would be compared "
                "with these labels"
            )
        return None


def refused_table(runner: Runner, part: str, title: str, source: str, reason: str) -> ResultTable:
    """Return a table without rows, which says why it cannot be computed."""
    return runner.table(part, title, source, (), (), f"not computed: {reason}.", refused=reason)


async def collect_contexts(runner: Runner, questions: Sequence[Question], *, k: int, part: str) -> ContextSet:
    """Sample contexts of `k` passages, rate their passages, and let the reader answer."""
    settings = runner.settings
    planned = [
        (question, number, places)
        for question in runner.eligible(part, questions, k=k)
        for number, places in enumerate(sampled_contexts(question, k=k, n=settings.n_contexts, seed=settings.seed), 1)
    ]

    async def work(item: tuple[Question, int, tuple[int, ...]]) -> tuple[RatedContext, Mapping[str, Any]]:
        question, number, places = item
        ratings = await runner.ratings(question, places)
        if settings.erag:
            scores = await runner.erag(question, places)
            ratings = [replace(rating, erag=score) for rating, score in zip(ratings, scores, strict=True)]
        answered = await runner.answer(question, places)
        # The number makes ids unique: of few candidates, the same passages can be drawn several times.
        name = f"{question.id}:{number}:{','.join(str(place + 1) for place in places)}"
        context = RatedContext(question=question.id, id=name, ratings=tuple(ratings), grade=answered.grade)
        sample = question.sample.model_copy(
            update={
                "id": name,
                "contexts": question.passages(places),
                "response": answered.response,
                "metadata": {"question_id": question.id, "grade": answered.grade},
            }
        )
        annotations = {
            rating.text: {**rating.annotation} | ({"erag": rating.erag} if rating.erag is not None else {})
            for rating in ratings
        }
        return context, row_of(sample, annotations)

    found = await runner.each(part, planned, work)
    return ContextSet(
        k=k,
        contexts=tuple(context for _, (context, _) in found),
        rows=tuple(row for _, (_, row) in found),
        places=tuple((question, places) for (question, _, places), _ in found),
    )


def _describe(collected: ContextSet) -> str:
    n_questions = len({context.question for context in collected.contexts})
    counts = ", ".join(f"{n} {grade}" for grade, n in count_grades(collected.contexts).items())
    return (
        f"{len(collected.contexts)} contexts of {n_questions} questions, answers: {counts}. n: questions with "
        "different grades. A metric that is constant for a question counts as 0."
    )


def correlation_table(runner: Runner, collected: ContextSet) -> ResultTable:
    """Correlate all metrics with the answers."""
    settings = runner.settings
    title = f"Correlation of metrics with the answers, {collected.k} passages"
    if reason := collected.obstacle:
        return refused_table(runner, "correlation", title, "table 3", reason)
    found = correlate_contexts(collected.contexts, gamma=settings.gamma, seed=settings.seed)
    return runner.table(
        "correlation",
        title,
        "table 3",
        _COMPARED,
        ((m.metric, m.all.n if m.all else 0, m.all, m.difference, m.uncorrected) for m in found.metrics),
        _describe(collected),
        *found.notes,
        grades=dict(found.grades),
        n_one_grade=found.n_one_grade,
    )


def k_tables(runner: Runner, by_k: Sequence[ContextSet]) -> list[ResultTable]:
    """Compare the correlations of metrics across numbers of passages."""
    import numpy as np

    settings, title = runner.settings, "Correlation of metrics with the answers by the number of passages"
    refused = [f"k = {each.k}: not computed: {each.obstacle}." for each in by_k if each.contexts and each.obstacle]
    by_k = [each for each in by_k if each.contexts and not each.obstacle]
    if not by_k:
        return [refused_table(runner, "k", title, "figure 2", " ".join(refused) or "no context has an answer")]
    per_k: list[dict[str, NDArray[np.float64]]] = []
    names: list[str] = []
    notes = []
    for collected in by_k:
        columns = metric_columns(collected.contexts, settings.gamma)
        columns = {name: column for name, column in columns.items() if name not in ("relevance_only", "binary")}
        names = names or list(columns)
        table = correlate_by_question(columns, collected.contexts)
        per_k.append({question: table.all[i] for i, question in enumerate(table.questions)})
        notes.append(f"{collected.k}: {len(table.questions)}")
    questions = list(dict.fromkeys(question for of_k in per_k for question in of_k))
    missing = np.full(len(names), np.nan)
    values = [[of_k.get(question, missing) for of_k in per_k] for question in questions]
    cube = np.array(values, dtype=float).reshape((len(questions), len(per_k), len(names)))
    rows = [
        (name, *estimate_columns(cube[:, :, column]), _spread(cube[:, :, column], settings.seed))
        for column, name in enumerate(names)
    ]
    sizes = (Column(f"k={collected.k}", f"k = {collected.k} [95% CI]") for collected in by_k)
    note = f"Questions with different grades, by k: {', '.join(notes)}."
    # One family of tests: each metric other than UDCG, which is first, with each k.
    differences = (cube[:, :, [0]] - cube)[:, :, 1:].reshape((len(questions), -1))
    estimates = estimate_columns(differences, differences=True)
    tests = zip(estimates, compare_columns(differences, (), seed=settings.seed), strict=True)
    compared = [
        (name, each.k, found.n if found else 0, found, p_value)
        for (each, name), (found, p_value) in zip(itertools.product(by_k, names[1:]), tests, strict=True)
    ]
    headings_of_tests = (_METRIC, Column("k", "k", "count"), *_COMPARED[1:2], *_COMPARED[3:])
    return [
        runner.table("k", title, "figure 2", (_METRIC, *sizes, _SPREAD), rows, note, *refused),
        runner.table("k", "Differences to UDCG by the number of passages", "figure 2", headings_of_tests, compared),
    ]


def _spread(values: NDArray[np.float64], seed: int) -> Estimate | None:
    """Estimate the standard deviation over k of a metric's means over questions (rows)."""
    import numpy as np

    def deviation(rows: NDArray[np.float64]) -> float:
        drawn = values[rows.astype(int)]
        known = ~np.isnan(drawn)
        if not known.any(axis=0).all():
            return math.nan
        return float(np.std(np.where(known, drawn, 0.0).sum(axis=0) / known.sum(axis=0), ddof=1))

    everything = np.arange(values.shape[0], dtype=float)
    if min(values.shape) < 2 or math.isnan(deviation(everything)):
        return None
    # Half of the means at each end of their range.
    highest = math.sqrt(values.shape[1] / (values.shape[1] - 1))
    return bootstrap_interval(everything, deviation, low=0.0, high=highest, seed=seed)


def _compared(
    columns: Mapping[str, NDArray[np.float64]], base: Mapping[str, str], collected: ContextSet, seed: int
) -> list[tuple[Any, ...]]:
    """Return a row for each metric: its correlation, and the base's minus its own."""
    table = correlate_by_question(columns, collected.contexts)
    order = [table.names.index(base[name]) for name in table.names]
    return tested_rows(table.names, table.all, table.all[:, order] - table.all, {*base.values()}, seed)


def ablation_tables(runner: Runner, collected: ContextSet) -> list[ResultTable]:
    """Compare UDCG and UDCG-theta with variants without distraction or utility, and tune the weight of distraction."""
    settings, contexts = runner.settings, collected.contexts
    title = f"Variants of UDCG, {collected.k} passages"
    if reason := collected.obstacle:
        return [refused_table(runner, "ablation", title, "table 4", reason)]
    values = metric_columns(contexts, settings.gamma)
    notes = []
    columns: dict[str, NDArray[np.float64]] = {}
    try:
        need_sklearn()
    except MissingExtraError as error:
        notes.append(f"udcg_theta is not available: {error}")
    else:
        for name, features in _VARIANTS.items():
            columns[name] = cross_validated(design_of(contexts, features), seed=settings.seed)
        notes.append("udcg_theta: each question with weights fitted to the other questions.")
    columns |= {"udcg": values["udcg"], "udcg, relevance only": values["relevance_only"], "binary": values["binary"]}
    base = {name: "udcg_theta" if name.startswith("udcg_theta") else "udcg" for name in columns}
    rows = _compared(columns, base, collected, settings.seed)
    losses = (*_COMPARED[:3], Column("loss", "full metric minus variant [95% CI]"), _P)
    table = runner.table("ablation", title, "table 4", losses, rows, _describe(collected), *notes)
    return [table, _gamma_table(runner, collected, values)]


def _gamma_table(runner: Runner, collected: ContextSet, values: Mapping[str, NDArray[np.float64]]) -> ResultTable:
    import numpy as np

    settings = runner.settings
    helped = values["relevance_only"]
    # UDCG is linear in gamma, and the metric with gamma = 1 is the mean utility.
    whole = metric_columns(collected.contexts, 1.0)["udcg"]
    columns = {f"{gamma:.3g}": helped + gamma * (whole - helped) for gamma in _GAMMAS}
    table = correlate_by_question(columns, collected.contexts)
    default = _GAMMAS.index(1 / 3)

    def find_best(rows: list[int]) -> int:
        # Of equal values the one nearest to 1/3 is chosen.
        means = table.all[rows].mean(axis=0).round(9)
        return max(range(len(_GAMMAS)), key=lambda i: (means[i], -abs(_GAMMAS[i] - 1 / 3)))

    n = len(table.questions)
    tuned = np.full(n, np.nan)
    for fold in question_folds(range(n), _FOLDS, settings.seed) if n > 1 else ():
        tuned[list(fold)] = table.all[list(fold), find_best([i for i in range(n) if i not in fold])]
    facts = {"gamma": _GAMMAS[find_best([*range(n)])]} if n > 1 else {}
    everything = np.column_stack([table.all, tuned])
    names = [*columns, "tuned"]
    rows = tested_rows(names, everything, everything - everything[:, [default]], {names[default]}, settings.seed)
    headings = (Column("gamma", "gamma", "text"), _N, _SPEARMAN, Column("gain", "minus gamma = 1/3 [95% CI]"), _P)
    notes = ("tuned: each question with the gamma that is best for the other questions.", *warn_small_sample(n))
    return runner.table("ablation", "The weight of distraction (gamma)", "equation 4", headings, rows, *notes, **facts)


async def read_answer_probs(runner: Runner, contexts: Sequence[tuple[Question, tuple[int, ...]]]) -> list[float | None]:
    """Read for each context the mean over its passages of the log-probability of the best reference."""
    reader = runner.asker.reader

    async def of_passage(question: Question, place: int) -> float:
        references = [reference for reference in question.sample.reference if reference.strip()]
        text, query = question.candidates[place].text, question.sample.query or ""
        return max(await gathered(reader.answer_logprob(query, [text], reference) for reference in references))

    async def work(item: tuple[Question, tuple[int, ...]]) -> float:
        question, places = item
        values = await gathered(of_passage(question, place) for place in places)
        return math.fsum(values) / len(values)

    found = {id(item): value for item, value in await runner.each("answer-prob", contexts, work)}
    return [found.get(id(item)) for item in contexts]


def answer_prob_table(runner: Runner, collected: ContextSet, probs: Sequence[float | None]) -> ResultTable:
    """Compare UDCG with the probability of the reference as utility."""
    import numpy as np

    title = f"The probability of the reference as utility, {collected.k} passages"
    if reason := collected.obstacle:
        return refused_table(runner, "answer-prob", title, "appendix C, table 5", reason)
    values = metric_columns(collected.contexts, runner.settings.gamma)
    columns: dict[str, NDArray[np.float64]] = {
        name: values[name] for name in ("udcg", "ndcg", "precision", "erag") if name in values
    }
    columns["answer_prob"] = np.array([np.nan if value is None else value for value in probs], dtype=float)
    rows = _compared(columns, dict.fromkeys(columns, "udcg"), collected, runner.settings.seed)
    note = "answer_prob: mean over the passages of the log-probability of the most probable reference."
    described = _describe(collected)
    return runner.table("answer-prob", title, "appendix C, table 5", _COMPARED, rows, described, note)
