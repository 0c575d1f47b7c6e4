"""Model calls for missing values of rows: passage utilities, answers and grades."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from ragstone.errors import ConfigurationError, JudgeError
from ragstone.extension import answer_abstains, count, split_words
from ragstone.judges import Judge, Prompt, Reader, judge_from, reader_from
from ragstone.metrics import LabelMode, label_of, passage_utilities, rouge_l
from ragstone.metrics.text import exact_match
from ragstone.schema import Passage, Sample
from ragstone_lab._run import JournaledJudge, JournaledReader, Run
from ragstone_lab._udcg.rows import Grade, PassageRating, rating_from, rating_of

_GRADE_TASK: Final = (
    "Your assignment: decide how the response answers the query. Where the reference has several parts, each is a "
    "correct answer by itself, and one is enough.\n"
    '"correct": the response states what the reference states, in whatever words, and nothing that contradicts it, also '
    'if it adds that it is not certain.\n"abstain": the response states no answer. It declines, or says that it does not '
    'know or that the passages do not say.\n"wrong": it states something else, or only a part of what is needed, or '
    "contradicts the reference somewhere, also if it adds that it is not certain.\n"
    "Spelling, case and order are not the matter, and neither is what you know yourself: the reference decides."
)
_GRADE_TOKENS: Final = 64
_BY_JUDGE: Final = "the judge"


class _GradeReply(TypedDict):
    grade: Literal["correct", "abstain", "wrong"]


_GRADE_SHAPE: Final = TypeAdapter(_GradeReply)


def _contains(response: str, references: Sequence[str]) -> bool:
    """Return whether a response contains all words of a reference in their order."""
    words = f" {' '.join(split_words(response))} "
    return any(f" {' '.join(split_words(reference))} " in words for reference in references)


def is_model_configured(reader: str | Reader | None, judge: str | Judge | None) -> bool:
    """Return whether the arguments or the environment name a model."""
    return any((reader, judge, os.environ.get("RAGSTONE_READER"), os.environ.get("RAGSTONE_JUDGE")))


async def erag_scores(
    query: str, passages: Sequence[str], *, reference: Sequence[str], reader: Reader
) -> tuple[float, ...]:
    """Score each passage by the reader's answer from it alone: ROUGE-L F1 with the best reference.

    Args:
        query: The query.
        passages: Texts of the passages. Equal texts need one call.
        reference: Correct answers.
        reader: The application's generator.

    Returns:
        One value in [0, 1] for each passage.

    Raises:
        JudgeError: If the reader's reply is unusable.
        ValueError: If no reference contains a word.

    Source:
        Salemi and Zamani 2024, "Evaluating Retrieval Quality in Retrieval-Augmented Generation" (eRAG).

    Examples:
        ```python
        await erag_scores("How tall is it?", ["It is 31 meters tall."], reference=["31 meters"], reader=reader)
        ```
    """
    texts = list(dict.fromkeys(passages))
    answers = await asyncio.gather(*(reader.answer(query, [text]) for text in texts))
    scores = {text: rouge_l(answer.text, reference).f1 for text, answer in zip(texts, answers, strict=True)}
    return tuple(scores[text] for text in passages)


async def open_models(
    run: Run, reader: str | Reader | None, judge: str | Judge | None, *, labels: LabelMode, threshold: float
) -> Models:
    """Open a reader and a judge, the arguments of a user, in a run. Without a judge, the reader's model judges."""
    (asked_reader,), asked_judge = await open_readers(run, [reader], judge)
    return Models(run, asked_reader, asked_judge, labels=labels, threshold=threshold)


async def open_readers(
    run: Run, readers: Sequence[str | Reader | None], judge: str | Judge | None
) -> tuple[list[JournaledReader], JournaledJudge]:
    """Open readers and their judge, as `open_models` does. Several readers need one judge, which grades the answers of all."""
    has_judge = judge is not None or os.environ.get("RAGSTONE_JUDGE")
    if not has_judge and len(readers) > 1:
        raise ConfigurationError(
            "several readers need one judge, which grades the answers of all. Set judge= (--judge)"
        )
    resolved_judge = judge_from(judge if has_judge or not isinstance(readers[0], str) else readers[0])
    resolved = [reader_from(reader, judge=resolved_judge) for reader in readers]
    asked_judge = await run.add_judge(resolved_judge, judge)
    return [await run.add_reader(one, reader) for one, reader in zip(resolved, readers, strict=True)], asked_judge


class Models:
    """A reader and a judge whose replies are kept, so that rows with the same passage share calls. See `open_models`."""

    def __init__(
        self, run: Run, reader: JournaledReader, judge: JournaledJudge, *, labels: LabelMode, threshold: float
    ) -> None:
        self.run = run
        self.judge = judge
        self.reader = reader
        self._labels: LabelMode = labels
        self._threshold = threshold
        self._judged = self._read = False
        self._graded: dict[tuple[str, str], tuple[str, str, bool]] = {}
        """Who graded each response to a query, the grade, and whether the response contains a reference."""

    def grades(self) -> dict[str, Counter[str]]:
        """Return the number of different answers by who graded them, and by grade."""
        found: dict[str, Counter[str]] = {}
        for by, grade, _ in self._graded.values():
            found.setdefault(by, Counter())[grade] += 1
        return found

    def grade_notes(self) -> list[str]:
        """Return who graded how many answers, and a check of the judge by the answers that contain a reference."""
        notes = [
            f"graded by {by}: " + ", ".join(f"{n} {grade}" for grade, n in sorted(counts.items()))
            for by, counts in sorted(self.grades().items())
        ]
        checked = [grade for by, grade, contains in self._graded.values() if by == _BY_JUDGE and contains]
        if missed := len(checked) - checked.count("correct"):
            notes.append(
                f"{missed} of {count(len(checked), 'answer')} that contain a reference are not correct for the judge. "
                "Read them in contexts.jsonl before you rely on its grades"
            )
        queries = {query for query, _ in self._graded}
        if n_cut := sum(query in queries for query, *_ in self.reader.run_on):
            notes.append(f"{count(n_cut, 'answer')} did not end before the limit of tokens. The first part was graded")
        return notes

    def notes(self) -> tuple[str, ...]:
        """Return notes about the used models."""
        return tuple(
            f"{what} by the {identity.name}, which is not a judge: use it only to test your setup"
            for what, done, identity in (
                ("passages were read", self._read, self.reader.identity),
                ("relevance or answers were judged", self._judged, self.judge.identity),
            )
            if done and identity.is_baseline
        )

    async def rate(self, sample: Sample, passage: Passage) -> PassageRating:
        """Rate a passage for a sample's query, from its annotation if that is from the same models."""
        hashes = {"reader": self.reader.identity.hash, "judge": self.judge.identity.hash}
        known = rating_from(passage, threshold=self._threshold, labels=self._labels, **hashes)
        if known is not None:
            return known
        (utility,) = await passage_utilities(
            sample.query or "",
            [passage],
            reader=self.reader,
            judge=self.judge,
            reference=sample.reference,
            labels=self._labels,
            threshold=self._threshold,
        )
        self._read = True
        if utility.error is not None:
            raise utility.error
        self._judged |= utility.label is not None and utility.label.source != "data"
        return rating_of(utility, **hashes)

    async def is_relevant(self, sample: Sample, passage: Passage, judge: Judge | None = None) -> bool:
        """Ask a judge whether a passage is relevant, also if the data say it."""
        self._judged |= judge is None
        query, asked = sample.query or "", judge or self.judge
        label = await label_of(
            passage, query=query, reference=sample.reference, judge=asked, mode="judge", threshold=self._threshold
        )
        return label.relevant

    async def erag(self, sample: Sample, passage: Passage) -> float:
        """Compute the eRAG score of a passage."""
        self._read = True
        (score,) = await erag_scores(sample.query or "", [passage.text], reference=sample.reference, reader=self.reader)
        return score

    async def grade(self, sample: Sample, *, has_relevant: bool) -> Grade:
        """Grade a sample's response (or the reader's answer without one).

        An answer that equals a reference is correct, and one that only declines is an abstention. The judge decides
        about the others. Without a relevant passage, a correct answer is "partial".
        """
        response = sample.response
        if response is None:
            texts = [passage.text for passage in sample.contexts or ()]
            response = (await self.reader.answer(sample.query or "", texts)).text
        references = tuple(reference for reference in sample.reference if reference.strip())
        by, grade = await self._grade(sample.query or "", references, response)
        self._graded[sample.query or "", response] = by, grade, _contains(response, references)
        return "partial" if grade == "correct" and not has_relevant else grade

    async def _grade(
        self, query: str, references: tuple[str, ...], response: str
    ) -> tuple[str, Literal["correct", "abstain", "wrong"]]:
        """Return who grades a response, and the grade."""
        if not response.strip() or self.reader.is_abstention(response):
            return "its words", "abstain"
        # First, because "unknown" or "none" may be what the reference states.
        if references and exact_match(response, references):
            return "exact match", "correct"
        if answer_abstains(response, whole=True):
            return "its words", "abstain"
        if not references:
            raise JudgeError(
                "the sample does not have a reference to grade the answer. Set `reference` or `grade`.",
                kind="unsupported",
            )
        fields: dict[str, str | tuple[str, ...]] = {"query": query, "reference": references, "response": response}
        prompt = Prompt(construct="answer_grade", task=_GRADE_TASK, fields=fields)
        self._judged = True
        reply = await self.judge.ask_json(prompt, _GRADE_SHAPE, max_tokens=_GRADE_TOKENS)
        return _BY_JUDGE, reply.value["grade"]
