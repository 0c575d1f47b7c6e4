"""Experiments on the answers themselves: position, distractors, and the best passages by three annotations."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ragstone.errors import JudgeError
from ragstone.research._run import gathered
from ragstone.research._udcg.ask import Models
from ragstone.research._udcg.experiment.questions import Question
from ragstone.research._udcg.experiment.sampling import distractor_contexts, find_obstacle, position_contexts
from ragstone.research._udcg.experiment.settings import ExperimentSettings
from ragstone.research._udcg.experiment.tables import Column, ResultTable, difference_of, share_of
from ragstone.research._udcg.rank import best_passages
from ragstone.research._udcg.rows import Grade, PassageRating
from ragstone.stats import holm, mean_interval

T = TypeVar("T")

_GRADE_COLUMNS: Final = (
    Column(name="correct", title="correct, % [95% CI]", kind="percent"),
    Column(name="partial", title="partial, % [95% CI]", kind="percent"),
    Column(name="abstained", title="abstained, % [95% CI]", kind="percent"),
    Column(name="wrong", title="wrong, % [95% CI]", kind="percent"),
)
_GRADES: Final[tuple[Grade, ...]] = ("correct", "partial", "abstain", "wrong")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
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

        async def one(item: T) -> Any:
            try:
                return await work(item)
            except JudgeError as error:
                return error

        kept = []
        for item, result in zip(items, await asyncio.gather(*map(one, items)), strict=True):
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

    def notes(self, part: str) -> tuple[str, ...]:
        """Return the counts of what a part excluded."""
        return tuple(f"excluded, {reason}: {n}" for reason, n in sorted(self.left_out.get(part, {}).items()))


def _shares(answers: Sequence[Answered]) -> list[Any]:
    return [share_of([answer.grade == grade for answer in answers]) for grade in _GRADES]


def _marks(answers: Sequence[Answered], grade: Grade) -> list[float]:
    return [float(answer.grade == grade) for answer in answers]


async def run_position(runner: Runner, questions: Sequence[Question]) -> list[ResultTable]:
    """Move one relevant passage through a context of irrelevant ones."""
    settings = runner.settings
    chosen = runner.eligible("position", questions)

    async def work(question: Question) -> list[Answered]:
        return await runner.answers(question, position_contexts(question, k=settings.k, seed=settings.seed))

    rows_of = [answers for _, answers in await runner.each("position", chosen, work)]
    by_position = [[answers[at] for answers in rows_of] for at in range(settings.k)]
    first = _marks(by_position[0], "correct")
    tests = [difference_of(_marks(answers, "correct"), first, seed=settings.seed) for answers in by_position[1:]]
    p_values = holm([test and test[1] for test in tests]).adjusted
    rows = []
    for at, answers in enumerate(by_position):
        test = tests[at - 1] if at else None
        correct, _, abstained, wrong = _shares(answers)
        rows.append(
            (
                at + 1,
                len(answers),
                correct,
                test and test[0],
                p_values[at - 1] if test else None,
                abstained,
                wrong,
                1 / math.log2(at + 2),
                1 / (at + 1),
                1 / settings.k,
            )
        )
    columns = (
        Column(name="position", title="position", kind="count"),
        Column(name="n", title="n", kind="count"),
        _GRADE_COLUMNS[0],
        Column(name="minus_first", title="minus position 1 [95% CI]", kind="percent"),
        Column(name="p_value", title="p (Holm)", kind="p_value"),
        *_GRADE_COLUMNS[2:],
        Column(name="ndcg", title="nDCG"),
        Column(name="mrr", title="MRR = MAP"),
        Column(name="precision", title="precision"),
    )
    return [
        ResultTable(
            part="position",
            title=f"Answers by the position of the only relevant passage among {settings.k}",
            source="figure 1",
            columns=columns,
            rows=tuple(rows),
            notes=("n: questions. Each question has all positions.", *runner.notes("position")),
        )
    ]


async def run_distractors(runner: Runner, questions: Sequence[Question]) -> list[ResultTable]:
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
    for name, at in (("weak", 0), ("hard", 1)):
        answers = [result[0][at] for result in found]
        effects = [effect for result in found for effect in result[1 + at]]
        correct, _, abstained, wrong = _shares(answers)
        rows.append((name, len(answers), correct, None, abstained, wrong, _mean(effects)))
    pairs = [[result[0][at] for result in found] for at in (0, 1)]
    tests = {
        grade: difference_of(_marks(pairs[0], grade), _marks(pairs[1], grade), seed=settings.seed) for grade in _GRADES
    }
    grades: tuple[Grade, ...] = ("correct", "abstain", "wrong")
    differences = [None if (test := tests[grade]) is None else test[0] for grade in grades]
    p_value = tests["correct"][1] if tests["correct"] else None
    rows.append(("weak - hard", len(found), differences[0], p_value, *differences[1:], None))
    return [
        ResultTable(
            part="distractors",
            title=f"Answers from one relevant passage and {settings.distractors} weak or hard distractors",
            source="table 1",
            columns=(
                Column(name="distractors", title="distractors", kind="text"),
                Column(name="n", title="n", kind="count"),
                _GRADE_COLUMNS[0],
                Column(name="p_value", title="p", kind="p_value"),
                *_GRADE_COLUMNS[2:],
                Column(name="distracting_effect", title="mean distracting effect"),
            ),
            rows=tuple(rows),
            notes=(
                f"weak: distracting effect below {settings.weak_below:g}, hard: above {settings.hard_above:g}.",
                "n: questions, each with both contexts. p: sign-flip test of the correct answers.",
                *runner.notes("distractors"),
            ),
        )
    ]


def _mean(effects: Sequence[float]) -> Any:
    return mean_interval(effects) if effects else None


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
    grades: tuple[Grade, ...] = ("correct", "abstain", "wrong")
    tests = {
        (name, grade): difference_of(
            _marks(answers["utility"], grade), _marks(answers[name], grade), seed=settings.seed
        )
        for name in names[:-1]
        for grade in grades
    }
    corrected = holm([test and test[1] for test in tests.values()]).adjusted
    p_values = dict(zip(tests, corrected, strict=True))
    differences = [
        (f"utility - {name}", grade, len(found), (test := tests[name, grade]) and test[0], p_values[name, grade])
        for name in names[:-1]
        for grade in grades
    ]
    return [
        ResultTable(
            part="orders",
            title=f"Answers from the best {settings.k} of at most {settings.top_n} candidates by three annotations",
            source="table 2",
            columns=(
                Column(name="order", title="order", kind="text"),
                Column(name="n", title="n", kind="count"),
                Column(name="has_relevant", title="has relevant, % [95% CI]", kind="percent"),
                *_GRADE_COLUMNS,
            ),
            rows=tuple(rows),
            notes=("n: questions. partial: correct without a relevant passage.", *runner.notes("orders")),
        ),
        ResultTable(
            part="orders",
            title="Differences of the orders",
            source="table 2",
            columns=(
                Column(name="orders", title="orders", kind="text"),
                Column(name="grade", title="answers", kind="text"),
                Column(name="n", title="n", kind="count"),
                Column(name="difference", title="difference, points [95% CI]", kind="percent"),
                Column(name="p_value", title="p (Holm)", kind="p_value"),
            ),
            rows=tuple(differences),
        ),
    ]
