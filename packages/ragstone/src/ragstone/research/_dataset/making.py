"""Making items: a query, sub-questions, passages that stand by themselves, and a rating of every pair."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from ragstone.errors import JudgeError
from ragstone.research._dataset.draft import Draft, DraftItem, DraftPassage
from ragstone.research._dataset.journal import PASSING, JournaledJudge
from ragstone.research._dataset.plan import DatasetPlan, PlannedItem
from ragstone.research._dataset.prompts import (
    distinct_questions,
    find_unsupported_numbers,
    passage_prompt,
    passage_shape,
    query_prompt,
    query_shape,
    questions_prompt,
    questions_shape,
)
from ragstone.research._dataset.spans import Span

__all__ = ["ItemBuilder"]


class ItemBuilder:
    """One run over all items."""

    def __init__(self, plan: DatasetPlan, asker: JournaledJudge, *, n_questions: int, rating_threshold: float) -> None:
        self._plan = plan
        self._asker = asker
        self._n_questions = n_questions
        self._eta = rating_threshold
        self._documents = {document.name: document for document in plan.documents}
        self._passages: dict[str, DraftPassage] = {}
        self.left_out: list[str] = []
        self.failures: Counter[str] = Counter()
        self.n_repeated = 0
        self.draft = Draft(passages={}, items=(), rating_threshold=rating_threshold)

    async def build(self, progress: Callable[[int, int], None] | None) -> ItemBuilder:
        """Make all items; what fails is left out and told."""
        n_done = 0

        async def one(item: PlannedItem) -> DraftItem | None:
            nonlocal n_done
            try:
                return await self._item(item)
            except JudgeError as error:
                self.failures[error.kind] += 1
                self.left_out.append(f"{item.id}: {error.kind}: {error}")
                return None
            finally:
                n_done += 1
                if progress is not None:
                    progress(n_done, len(self._plan.items))

        # One item after the other: when the work ends early, whole items are there, in place of a part of each.
        items = [made for item in self._plan.items if (made := await one(item)) is not None]
        used = {passage for item in items for row in item.ratings.values() for passage in row}
        passages = {span.id: self._passages[span.id] for span in self._plan.spans if span.id in used}
        self.draft = Draft(passages=passages, items=tuple(items), rating_threshold=self._eta)
        return self

    async def _item(self, item: PlannedItem) -> DraftItem:
        query, written = await _all(
            self._asker.ask(query_prompt(item.text), query_shape(), max_tokens=400),
            self._asker.ask(
                questions_prompt(item.text, self._n_questions),
                questions_shape(self._n_questions),
                max_tokens=64 + 64 * self._n_questions,
            ),
        )
        texts = distinct_questions(written["items"])
        self.n_repeated += len(written["items"]) - len(texts)
        if not texts:
            raise JudgeError("the judge found no sub-question in it", kind="unparseable")
        if not query["query"].strip():
            raise JudgeError("the judge wrote no query for it", kind="unparseable")
        rated = await asyncio.gather(*(self._rated(item, span, texts) for span in item.pool), return_exceptions=True)
        for outcome in rated:
            if isinstance(outcome, BaseException):
                raise outcome
        marks = {span.id: found for span, found in zip(item.pool, rated, strict=True) if isinstance(found, tuple)}
        if not marks:
            raise JudgeError("none of its passages could be rewritten and rated", kind="unparseable")
        questions = {f"q{number}": text for number, text in enumerate(texts, start=1)}
        return DraftItem(
            id=item.id,
            query=query["query"].strip(),
            anchor=item.anchor,
            questions=questions,
            ratings={
                question: {passage: float(found[number]) for passage, found in marks.items()}
                for number, question in enumerate(questions)
            },
            reference=item.reference,
        )

    async def _rated(self, item: PlannedItem, span: Span, questions: tuple[str, ...]) -> tuple[int, ...] | None:
        """Ratings of one passage; None for one that the judge will not rewrite or rate, which is left out of this item.

        Raises:
            JudgeError: For a reason that may pass: then the item waits for another run, in place of losing a passage.
        """
        try:
            passage = await self._passage(span)
            return await self._asker.rate(passage.text, questions)
        except JudgeError as error:
            if error.kind in PASSING:
                raise
            self.failures[error.kind] += 1
            self.left_out.append(f"{item.id}: passage {span.id}: {error.kind}: {error}")
            return None

    async def _passage(self, span: Span) -> DraftPassage:
        document = self._documents[span.document]
        prompt = passage_prompt(document.text, span.start, span.text)
        written = (await self._asker.ask(prompt, passage_shape(), max_tokens=1024))["passage"].strip()
        if span.id not in self._passages:
            self._passages[span.id] = DraftPassage(
                id=span.id,
                # A blank rewriting is none; the document's own words stand then.
                text=written or span.text,
                source=span.text,
                document=span.document,
                start=span.start,
                end=span.end,
                document_digest=document.digest,
                unsupported_numbers=find_unsupported_numbers(written, document.text),
            )
        return self._passages[span.id]


async def _all(first: Any, second: Any) -> tuple[Any, Any]:
    """Await both; the error of the first, then of the second is raised when both are done."""
    outcomes = await asyncio.gather(first, second, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes[0], outcomes[1]
