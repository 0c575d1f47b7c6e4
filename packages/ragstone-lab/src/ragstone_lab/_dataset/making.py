"""Building of items: a query, sub-questions, self-contained passages, and a rating of every pair."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ragstone.errors import JudgeError
from ragstone.judges import JsonReply
from ragstone.metrics.crux import rate_answerability
from ragstone_lab._dataset.draft import Draft, DraftItem, DraftPassage
from ragstone_lab._dataset.plan import DatasetPlan, PlannedItem
from ragstone_lab._dataset.prompts import (
    PASSAGE_SHAPE,
    QUERY_SHAPE,
    distinct_questions,
    find_unsupported_numbers,
    passage_prompt,
    query_prompt,
    questions_prompt,
    questions_shape,
)
from ragstone_lab._dataset.spans import Span
from ragstone_lab._run import PASSING, JournaledJudge, Run, gathered


class ItemBuilder:
    """Builds all items of a plan."""

    def __init__(
        self, plan: DatasetPlan, run: Run, asker: JournaledJudge, *, n_questions: int, rating_threshold: float
    ) -> None:
        self._plan = plan
        self._run = run
        self._asker = asker
        self._n_questions = n_questions
        self._eta = rating_threshold
        self._documents = {document.name: document for document in plan.documents}
        self._passages: dict[str, DraftPassage] = {}
        self.left_out: list[str] = []
        self.n_repeated = 0

    async def build(self, progress: Callable[[int, int], None] | None) -> Draft:
        """Build all items. Failed items are skipped and reported."""
        # One at a time, so that an early end leaves complete items instead of a part of each.
        results = await self._run.each(self._plan.items, self._item, limit=1, progress=progress)
        for item, result in zip(self._plan.items, results, strict=True):
            if isinstance(result, JudgeError):
                self._leave_out(item.id, result)
        items = [item for item in results if isinstance(item, DraftItem)]
        used = {passage for item in items for row in item.ratings.values() for passage in row}
        passages = {span.id: self._passages[span.id] for span in self._plan.spans if span.id in used}
        return Draft(passages=passages, items=tuple(items), rating_threshold=self._eta)

    def _leave_out(self, what: str, error: JudgeError) -> None:
        self._run.errors.append(error)
        self.left_out.append(f"{what}: {error.kind}: {error}")

    async def _item(self, item: PlannedItem) -> DraftItem:
        n = self._n_questions
        calls: list[Awaitable[JsonReply[Any]]] = [
            self._asker.ask_json(query_prompt(item.text), QUERY_SHAPE, max_tokens=400),
            self._asker.ask_json(questions_prompt(item.text, n), questions_shape(n), max_tokens=64 + 64 * n),
        ]
        replies = await gathered(calls)
        query, written = replies[0].value["query"].strip(), replies[1].value["items"]
        texts = distinct_questions(written)
        self.n_repeated += len(written) - len(texts)
        if not (texts and query):
            what = "query" if texts else "sub-question"
            raise JudgeError(f"the judge did not return a {what}", kind="unparseable")
        results = await gathered(self._rate(item, span, texts) for span in item.pool)
        marks = {span.id: row for span, row in zip(item.pool, results, strict=True) if row is not None}
        if not marks:
            raise JudgeError("none of its passages could be rewritten and rated", kind="unparseable")
        questions = {f"q{number}": text for number, text in enumerate(texts, start=1)}
        return DraftItem(
            id=item.id,
            query=query,
            anchor=item.anchor,
            questions=questions,
            ratings={
                question: {passage: float(row[number]) for passage, row in marks.items()}
                for number, question in enumerate(questions)
            },
            reference=item.reference,
        )

    async def _rate(self, item: PlannedItem, span: Span, questions: tuple[str, ...]) -> tuple[int, ...] | None:
        """Rate one passage, or return None if the judge cannot rewrite or rate it. The item is then built without it."""
        try:
            passage = await self._passage(span)
            return (await rate_answerability(self._asker, passage.text, questions)).marks
        except JudgeError as error:
            if error.kind in PASSING:
                raise  # The item is left to another run, so that no passage is lost.
            self._leave_out(f"{item.id}: passage {span.id}", error)
            return None

    async def _passage(self, span: Span) -> DraftPassage:
        document = self._documents[span.document]
        prompt = passage_prompt(document.text, span.start, span.text)
        written = (await self._asker.ask_json(prompt, PASSAGE_SHAPE, max_tokens=1024)).value["passage"].strip()
        if span.id not in self._passages:
            place = {name: getattr(span, name) for name in ("id", "document", "start", "end")}
            self._passages[span.id] = DraftPassage(
                **place,
                # If the rewritten passage is blank, the original text is used.
                text=written or span.text,
                source=span.text,
                document_digest=document.digest,
                unsupported_numbers=find_unsupported_numbers(written, document.text),
            )
        return self._passages[span.id]
