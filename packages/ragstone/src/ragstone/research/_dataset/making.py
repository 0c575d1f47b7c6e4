"""Building of items: a query, sub-questions, self-contained passages, and a rating of every pair."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from ragstone.errors import JudgeError
from ragstone.research._dataset.draft import Draft, DraftItem, DraftPassage
from ragstone.research._dataset.journal import JournaledJudge
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
from ragstone.research._journal import PASSING


class ItemBuilder:
    """Builds all items of a plan."""

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
        """Build all items. Failed items are skipped and reported."""
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

        # Sequential, so that an early end leaves complete items instead of a part of each.
        items = [built for item in self._plan.items if (built := await one(item)) is not None]
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
            raise JudgeError("the judge did not return a sub-question", kind="unparseable")
        if not query["query"].strip():
            raise JudgeError("the judge did not return a query", kind="unparseable")
        results = await asyncio.gather(*(self._rate(item, span, texts) for span in item.pool), return_exceptions=True)
        for outcome in results:
            if isinstance(outcome, BaseException):
                raise outcome
        marks = {span.id: row for span, row in zip(item.pool, results, strict=True) if isinstance(row, tuple)}
        if not marks:
            raise JudgeError("none of its passages could be rewritten and rated", kind="unparseable")
        questions = {f"q{number}": text for number, text in enumerate(texts, start=1)}
        return DraftItem(
            id=item.id,
            query=query["query"].strip(),
            anchor=item.anchor,
            questions=questions,
            ratings={
                question: {passage: float(row[number]) for passage, row in marks.items()}
                for number, question in enumerate(questions)
            },
            reference=item.reference,
        )

    async def _rate(self, item: PlannedItem, span: Span, questions: tuple[str, ...]) -> tuple[int, ...] | None:
        """Rate one passage, or return None if the judge cannot rewrite or rate it. The item is then built without it.

        Raises:
            JudgeError: If the failure is temporary. The item is then left to another run, so that no passage is lost.
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
                # If the rewritten passage is blank, the original text is used.
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
    """Await both, then raise the first error, if any."""
    outcomes = await asyncio.gather(first, second, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes[0], outcomes[1]
