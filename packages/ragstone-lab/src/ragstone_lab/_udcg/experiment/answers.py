"""Experiments on answers: position, distractors, the best passages by three annotations, and agreement of judges."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple, TypeVar

from ragstone.errors import JudgeError
from ragstone.judges import Judge
from ragstone.stats import Estimate, cohen_kappa, mean_interval, percent_agreement, simultaneous_differences
from ragstone_lab._run import gathered
from ragstone_lab._udcg.ask import Models
from ragstone_lab._udcg.experiment.questions import Question, distractor_contexts, find_obstacle, position_contexts
from ragstone_lab._udcg.experiment.settings import ExperimentSettings
from ragstone_lab._udcg.experiment.tables import Cell, Column, ResultTable, corrected_table, share_of
from ragstone_lab._udcg.rank import best_passages
from ragstone_lab._udcg.rows import Grade, PassageRating

T = TypeVar("T")

_GRADE_COLUMNS: Final = (
    Column("correct", "correct, % [95% CI]", "percent"),
    Column("partial", "partial, % [95% CI]", "percent"),
    Column("abstained", "abstained, % [95% CI]", "percent"),
    Column("wrong", "wrong, % [95% CI]", "percent"),
)
_GRADES: Final[tuple[Grade, ...]] = ("correct", "partial", "abstain", "wrong")
_COMPARED: Final[tuple[Grade, ...]] = ("correct", "abstain", "wrong")


class Answered(NamedTuple):
    """An answer from a context, with its grade."""

    response: str
    grade: Grade


class Runner:
    """Models and settings of a run."""

    def __init__(self, settings: ExperimentSettings, asker: Models) -> None:
        self.settings = settings
        self.asker = asker
        self.left_out: dict[str, Counter[str]] = {}
        """Number of excluded questions or contexts, by part and reason."""

    def leave_out(self, part: str, reason: str) -> None:
        """Count an excluded question or context."""
        self.left_out.setdefault(part, Counter())[reason] += 1

    def excluded(self, part: str) -> list[str]:
        """Return the counts of what a part excluded, and forget them, so that they are stated once."""
        return [f"excluded, {reason}: {n}" for reason, n in sorted(self.left_out.pop(part, {}).items())]

    def eligible(self, part: str, questions: Sequence[Question], *, k: int | None = None) -> list[Question]:
        """Return the questions that can take part, and count the others."""
        chosen = []
        for question in questions:
            reason = find_obstacle(question, part, self.settings, k=k or self.settings.k)
            if reason is None:
                chosen.append(question)
            else:
                # The part "k" has contexts of several sizes.
                self.leave_out(part, f"k = {k}: {reason}" if part == "k" else reason)
        return chosen

    async def each(
        self, part: str, items: Sequence[T], work: Callable[[T], Coroutine[Any, Any, Any]]
    ) -> list[tuple[T, Any]]:
        """Process all items concurrently, and count those whose model calls failed."""
        kept = []
        for item, result in zip(items, await self.asker.run.each(items, work, limit=len(items)), strict=True):
            if isinstance(result, JudgeError):
                self.asker.run.errors.append(result)
                self.leave_out(part, f"failed ({result.kind})")
            else:
                kept.append((item, result))
        return kept

    async def answer(self, question: Question, places: Sequence[int]) -> Answered:
        """Let the reader answer from a context, and grade the answer."""
        passages = question.passages(places)
        reply = await self.asker.reader.answer(question.sample.query or "", [passage.text for passage in passages])
        sample = question.sample.model_copy(update={"contexts": passages, "response": reply.text})
        has_relevant = any(question.labels[place] for place in places)
        return Answered(response=reply.text, grade=await self.asker.grade(sample, has_relevant=has_relevant))

    async def answers(self, question: Question, contexts: Sequence[Sequence[int]]) -> list[Answered]:
        """Answer from several contexts of one question."""
        return await gathered(self.answer(question, places) for places in contexts)

    async def ratings(self, question: Question, places: Sequence[int]) -> list[PassageRating]:
        """Rate candidates."""
        return await gathered(self.asker.rate(question.sample, passage) for passage in question.passages(places))

    async def erag(self, question: Question, places: Sequence[int]) -> list[float]:
        """Score candidates by the answer from each alone."""
        return await gathered(self.asker.erag(question.sample, passage) for passage in question.passages(places))

    def table(
        self,
        part: str,
        title: str,
        source: str,
        columns: Sequence[Column],
        rows: Iterable[tuple[Cell, ...]],
        *notes: str,
        **facts: object,
    ) -> ResultTable:
        """Return a table of a part. The last notes of its first table count what the part excluded."""
        all_notes = (*notes, *self.excluded(part))
        return corrected_table(
            part=part, title=title, source=source, columns=tuple(columns), rows=rows, notes=all_notes, facts=facts
        )


def _shares(answers: Sequence[Answered]) -> list[Any]:
    return [share_of([answer.grade == grade for answer in answers]) for grade in _GRADES]


def _compared(
    first: Sequence[Answered], second: Sequence[Answered], grade: Grade, seed: int
) -> tuple[Estimate, float] | tuple[None, None]:
    """Return the paired difference of the shares of a grade first - second, and the p-value of the sign-flip test.

    The interval is that of the mean of the differences. The test does not have one if few pairs differ.
    """
    if not first:
        return None, None
    marks, others = ([float(answer.grade == grade) for answer in answers] for answers in (first, second))
    ((test,),) = (one.pairs for one in simultaneous_differences([list(zip(marks, others, strict=True))], seed=seed))
    differences = [a - b for a, b in zip(marks, others, strict=True)]
    return mean_interval(differences, low=-1.0, high=1.0), 1.0 if test.p_value is None else test.p_value


async def run_position(runner: Runner, questions: Sequence[Question]) -> ResultTable:
    """Move one relevant passage through a context of irrelevant ones."""
    settings = runner.settings
    chosen = runner.eligible("position", questions)

    async def work(question: Question) -> list[Answered]:
        return await runner.answers(question, position_contexts(question, k=settings.k, seed=settings.seed))

    rows_of = [answers for _, answers in await runner.each("position", chosen, work)]
    by_position = [[answers[at] for answers in rows_of] for at in range(settings.k)]
    tests = [_compared(answers, by_position[0], "correct", settings.seed) for answers in by_position[1:]]
    rows: list[tuple[Cell, ...]] = []
    for at, (answers, test) in enumerate(zip(by_position, [(None, None), *tests], strict=True)):
        correct, _, abstained, wrong = _shares(answers)
        of_metrics = 1 / math.log2(at + 2), 1 / (at + 1), 1 / settings.k
        rows.append((at + 1, len(answers), correct, *test, abstained, wrong, *of_metrics))
    columns = (
        Column("position", "position", "count"),
        Column("n", "n", "count"),
        _GRADE_COLUMNS[0],
        Column("minus_first", "minus position 1 [95% CI]", "percent"),
        Column("p_value", "p (Holm)", "p_value"),
        *_GRADE_COLUMNS[2:],
        Column("ndcg", "nDCG"),
        Column("mrr", "MRR = MAP"),
        Column("precision", "precision"),
    )
    title = f"Answers by the position of the only relevant passage among {settings.k}"
    note = "n: questions. Each question has all positions."
    return runner.table("position", title, "figure 1", columns, rows, note)


async def run_distractors(runner: Runner, questions: Sequence[Question]) -> ResultTable:
    """Compare one relevant passage among weak and among hard distractors."""
    settings = runner.settings
    chosen = runner.eligible("distractors", questions)

    async def work(question: Question) -> tuple[list[Answered], list[float], list[float]] | None:
        ratings = await runner.ratings(question, range(len(question.candidates)))
        effects = [abs(rating.utility) for rating in ratings]
        contexts = distractor_contexts(question, effects, settings)
        if contexts is None:
            return None
        weak, hard = ([effects[place] for place in places if not question.labels[place]] for places in contexts)
        return await runner.answers(question, contexts), weak, hard

    found = []
    for _, result in await runner.each("distractors", chosen, work):
        if result is None:
            runner.leave_out("distractors", f"fewer than {settings.distractors} weak or hard distractors")
        else:
            found.append(result)
    rows: list[tuple[Any, ...]] = []
    weak, hard = ([result[0][at] for result in found] for at in (0, 1))
    for name, at, answers in (("weak", 1, weak), ("hard", 2, hard)):
        effects = [effect for result in found for effect in result[at]]
        correct, _, abstained, wrong = _shares(answers)
        rows.append((name, len(answers), correct, None, abstained, wrong, mean_interval(effects) if effects else None))
    correct, abstained, wrong = (_compared(weak, hard, grade, settings.seed) for grade in _COMPARED)
    rows.append(("weak - hard", len(found), correct[0], correct[1], abstained[0], wrong[0], None))
    return runner.table(
        "distractors",
        f"Answers from one relevant passage and {settings.distractors} weak or hard distractors",
        "table 1",
        (
            Column("distractors", "distractors", "text"),
            Column("n", "n", "count"),
            _GRADE_COLUMNS[0],
            Column("p_value", "p", "p_value"),
            *_GRADE_COLUMNS[2:],
            Column("distracting_effect", "mean distracting effect"),
        ),
        rows,
        f"weak: distracting effect below {settings.weak_below:g}, hard: above {settings.hard_above:g}.",
        "n: questions, each with both contexts. p: sign-flip test of the correct answers.",
    )


async def run_orders(runner: Runner, questions: Sequence[Question]) -> list[ResultTable]:
    """Let the reader answer from the best passages by relevance labels, by eRAG and by utility."""
    settings = runner.settings
    chosen = runner.eligible("orders", questions)
    names = ["relevance", "erag", "utility"] if settings.erag else ["relevance", "utility"]

    async def work(question: Question) -> tuple[dict[str, Answered], dict[str, bool]]:
        everything = range(len(question.candidates))
        scores = {
            "relevance": [float(bool(label)) for label in question.labels],
            "utility": [rating.utility for rating in await runner.ratings(question, everything)],
        }
        if settings.erag:
            scores["erag"] = await runner.erag(question, everything)
        orders = {name: best_passages(scores[name], settings.k) for name in names}
        answers = await runner.answers(question, list(orders.values()))
        has_relevant = {name: any(question.labels[i] for i in places) for name, places in orders.items()}
        return dict(zip(names, answers, strict=True)), has_relevant

    found = [result for _, result in await runner.each("orders", chosen, work)]
    answers = {name: [result[0][name] for result in found] for name in names}
    rows = [
        (name, len(found), share_of([result[1][name] for result in found]), *_shares(answers[name])) for name in names
    ]
    pairs = [(name, grade) for name in names[:-1] for grade in _COMPARED]
    tests = [_compared(answers["utility"], answers[name], grade, settings.seed) for name, grade in pairs]
    differences = [
        (f"utility - {name}", grade, len(found), difference, p_value)
        for (name, grade), (difference, p_value) in zip(pairs, tests, strict=True)
    ]
    title = f"Answers from the best {settings.k} of at most {settings.top_n} candidates by three annotations"
    columns = (
        Column("order", "order", "text"),
        Column("n", "n", "count"),
        Column("has_relevant", "has relevant, % [95% CI]", "percent"),
        *_GRADE_COLUMNS,
    )
    compared = (
        Column("orders", "orders", "text"),
        Column("grade", "answers", "text"),
        Column("n", "n", "count"),
        Column("difference", "difference, points [95% CI]", "percent"),
        Column("p_value", "p (Holm)", "p_value"),
    )
    note = "n: questions. partial: correct without a relevant passage."
    return [
        runner.table("orders", title, "table 2", columns, rows, note),
        runner.table("orders", "Differences of the orders", "table 2", compared, differences),
    ]


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
