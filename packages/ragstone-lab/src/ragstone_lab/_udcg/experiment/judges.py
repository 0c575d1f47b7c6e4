"""Agreement of judges, and of the labels in the data, on the relevance of passages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from ragstone.judges import Judge
from ragstone.stats import cohen_kappa, percent_agreement
from ragstone_lab._udcg.experiment.answers import Runner
from ragstone_lab._udcg.experiment.questions import Question
from ragstone_lab._udcg.experiment.tables import Column, ResultTable


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
    rows: list[tuple[Any, ...]] = []
    for first, second in combinations(raters, 2):
        keys = [key for key in raters[first] if key in raters[second]]
        pairs = [(raters[first][key], raters[second][key]) for key in keys]
        name, clusters = f"{first} / {second}", [question for question, _ in keys]
        if not pairs:
            rows.append((name, 0, 0, None, "-", None))
            continue
        kappa = cohen_kappa(*zip(*pairs, strict=True), clusters=clusters)
        share = percent_agreement(pairs, clusters=clusters)
        rows.append((name, len(pairs), len(set(clusters)), kappa.coefficient, kappa.words, share))
    columns = (
        Column("raters", "raters", "text"),
        Column("n", "passages", "count"),
        Column("n_questions", "questions", "count"),
        Column("kappa", "Cohen's kappa [95% CI]"),
        Column("words", "agreement", "text"),
        Column("equal", "equal labels, % [95% CI]", "percent"),
    )
    title = f"Agreement on the relevance of the first {k} passages"
    note = "Intervals are over questions, because passages of one question are not independent."
    return runner.table("judges", title, "appendix B", columns, rows, note)
