"""Agreement of judges, and of the labels in the data, on the relevance of passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from ragstone.judges import Judge
from ragstone.research._udcg.experiment.answers import Runner
from ragstone.research._udcg.experiment.questions import Question
from ragstone.research._udcg.experiment.tables import Column, ResultTable, count_column
from ragstone.stats import Estimate, bootstrap_interval, landis_koch, mean_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


async def run_judges(
    runner: Runner, questions: Sequence[Question], judges: Sequence[Judge], *, has_labels: bool
) -> ResultTable:
    """Let each judge label the first candidates of each question, and compare the labels, also with those of the data."""
    k = runner.settings.k
    chosen = runner.eligible("judges", questions)
    items = [(question, place) for question in chosen for place in range(k)]
    raters: dict[str, dict[tuple[str, int], bool]] = {}
    if has_labels:
        raters["data"] = {(q.id, place): bool(q.labels[place]) for q, place in items}
    for number, judge in enumerate(judges, start=1):

        async def work(item: tuple[Question, int], judge: Judge = judge) -> bool:
            question, place = item
            return await runner.asker.is_relevant(question.sample, question.candidates[place], judge)

        name = judge.identity.name if judge.identity.name not in raters else f"{judge.identity.name} ({number})"
        raters[name] = {(q.id, place): label for (q, place), label in await runner.each("judges", items, work)}
    rows = []
    for first, second in combinations(raters, 2):
        keys = [key for key in raters[first] if key in raters[second]]
        pairs = [(raters[first][key], raters[second][key]) for key in keys]
        rows.append(_row(f"{first} / {second}", pairs, [question for question, _ in keys], runner))
    columns = (
        Column("raters", "raters", "text"),
        count_column("n", "passages"),
        count_column("n_questions", "questions"),
        Column("kappa", "Cohen's kappa [95% CI]"),
        Column("words", "agreement", "text"),
        Column("equal", "equal labels, % [95% CI]", "percent"),
    )
    title = f"Agreement on the relevance of the first {k} passages"
    note = "Intervals resample questions, because passages of one question are not independent."
    return runner.table("judges", title, "appendix B", columns, rows, note)


def _row(name: str, pairs: Sequence[tuple[bool, bool]], clusters: Sequence[str], runner: Runner) -> tuple[Any, ...]:
    n = len(set(clusters))
    if not pairs:
        return name, 0, 0, None, "-", None
    settings = runner.settings
    values = [[float(first), float(second)] for first, second in pairs]
    equal = [float(first == second) for first, second in pairs]
    kappa: Estimate | None
    if len({label for pair in pairs for label in pair}) == 1:
        # Agreement by chance is certain.
        return name, len(pairs), n, None, "undefined", mean_interval([1.0] * n)
    if all(equal):
        # All resamples agree too, so each question counts once in Wilson's interval of a share of n out of n.
        share = mean_interval([1.0] * n)
        chance = _expected(*(sum(pair[side] for pair in pairs) / len(pairs) for side in (0, 1)))
        kappa = replace(share, value=1.0, low=(share.low - chance) / (1 - chance))
        return name, len(pairs), n, kappa, landis_koch(1.0), share
    options: dict[str, Any] = {"clusters": clusters, "n_resamples": settings.n_resamples, "seed": settings.seed}
    kappa = bootstrap_interval(values, _kappa, low=-1.0, high=1.0, **options)
    share = bootstrap_interval(equal, low=0.0, high=1.0, **options)
    return name, len(pairs), n, kappa, landis_koch(kappa.value), share


def _expected(first: float, second: float) -> float:
    """Return the agreement by chance for two shares of relevant passages."""
    return first * second + (1 - first) * (1 - second)


def _kappa(pairs: NDArray[np.float64]) -> float:
    """Compute Cohen's kappa of two columns of zeros and ones, or NaN if all are equal."""
    expected = _expected(pairs[:, 0].mean(), pairs[:, 1].mean())
    observed = (pairs[:, 0] == pairs[:, 1]).mean()
    return float("nan") if expected == 1 else float((observed - expected) / (1 - expected))
