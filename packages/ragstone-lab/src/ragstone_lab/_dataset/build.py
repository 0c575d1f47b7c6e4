"""`build_dataset`: builds a dataset, its passages, a draft and a review file from documents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragstone.errors import JudgeError
from ragstone.judges import JsonReply, Judge
from ragstone.metrics.crux import ETA, rate_answerability
from ragstone.scoring import run_async
from ragstone.settings import check
from ragstone_lab._dataset.documents import Span
from ragstone_lab._dataset.draft import DATASET, Draft, DraftItem, DraftPassage, Rows, write_draft, write_rows
from ragstone_lab._dataset.plan import DatasetPlan, Paths, PlannedItem, plan_dataset
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
from ragstone_lab._dataset.review import REVIEW, edited, write_review
from ragstone_lab._journal import JOURNAL, Journal
from ragstone_lab._run import PASSING, JournaledJudge, Run, RunResult, folder_of, gathered, need_model


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetBuild(RunResult):
    """The result of building a dataset."""

    folder: Path
    plan: DatasetPlan
    rows: tuple[dict[str, Any], ...]
    left_out: tuple[str, ...]
    """Files, items and passages that were skipped, with reasons."""
    n_repeated: int
    """Number of sub-questions that were dropped because they repeat another."""
    n_unanswerable: int
    """Number of sub-questions that were dropped because no passage answers them."""

    def __str__(self) -> str:
        n_questions = sum(len(row["sub_questions"]) for row in self.rows)
        lines = [
            f"{len(self.rows)} of {len(self.plan.items)} items, {n_questions} sub-questions, in {self.folder / DATASET}",
            f"dropped sub-questions: {self.n_unanswerable} unanswerable, {self.n_repeated} repeated",
            *self.run_lines(),
        ]
        return "\n".join(lines)


def build_dataset(
    documents: Paths,
    output_dir: str | Path,
    *,
    reports: Paths = (),
    judge: str | Judge | None = None,
    max_items: int = 20,
    max_passages: int = 12,
    questions: int = 10,
    rating_threshold: float = ETA,
    concurrency: int = 8,
    stop_early: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> DatasetBuild:
    """Build a CRUX-style dataset from documents, or from reports about them.

    Each item has an open query, distinct sub-questions and a pool of self-contained passages. Each pair of
    sub-question and passage has a rating from 0 to 5, and some of the passages are required. Unanswerable
    sub-questions are dropped. The
    directory contains `dataset.jsonl` (for `evaluate`), `passages.jsonl` (for an index), `review.csv` (for a person),
    `draft.json` and `journal.jsonl`. After a kill, the same call resumes without repeating answered judge calls.

    Args:
        documents: Files and directories: text, Markdown, or JSONL with `id` and `text`.
        output_dir: Output directory. It is created if missing.
        reports: Reference reports, each of which becomes an item. Without reports, each section of a document becomes one.
        judge: The model that generates and rates, as for `evaluate`.
        max_items: Maximum number of items.
        max_passages: Maximum passages per item's pool.
        questions: Maximum sub-questions per item, up to 30.
        rating_threshold: Rating from which a passage counts as answering.
        concurrency: Number of concurrent judge calls.
        stop_early: Stop if the judge fails systematically.
        progress: Called with (finished items, all items).

    Raises:
        ConfigurationError: If documents are missing, the directory is in use or a number is out of range.
        DataError: If a document or an earlier state is invalid.
        JudgeError: If the judge is unavailable at the start, or fails systematically.

    Examples:
        ```python
        built = build_dataset("handbook/", "handbook-set", judge="http://localhost:8000/v1")
        ragstone.evaluate(built.folder / "dataset.jsonl", ["crux"])
        ```
    """
    check("limits", "build_dataset", concurrency=concurrency)
    check("research", "build_dataset", questions=questions, rating_threshold=rating_threshold)
    plan = plan_dataset(documents, reports=reports, max_items=max_items, max_passages=max_passages)
    resolved_judge = need_model(judge, "building a dataset")
    folder = folder_of(output_dir)

    async def work() -> DatasetBuild:
        with Journal(folder / JOURNAL) as journal:
            async with Run(journal, concurrency=concurrency, stop_early=stop_early) as run:
                asker = await run.add_judge(resolved_judge, judge)
                notes = _record_run(journal, plan, asker)
                builder = ItemBuilder(plan, run, asker, n_questions=questions, rating_threshold=rating_threshold)
                draft = await builder.build(progress)
            written, more = _write(folder, draft)
            return DatasetBuild(
                folder=folder,
                plan=plan,
                rows=written.rows,
                left_out=(*plan.left_out, *builder.left_out, *written.left_out),
                notes=(*notes, *more),
                n_repeated=builder.n_repeated,
                n_unanswerable=written.n_unanswerable,
                **run.values(),
            )

    return run_async(work())


def _record_run(journal: Journal, plan: DatasetPlan, judge: JournaledJudge) -> list[str]:
    """Store the documents and the judge of this run, and return notes about changes since the last run."""
    current = {
        "documents": {document.name: document.digest for document in plan.documents},
        "judge": {"name": judge.identity.name, "hash": judge.identity.hash},
    }
    before = journal.plan
    journal.record_run(current)
    if before is None:
        return []
    old, new = before.get("documents", {}), current["documents"]
    notes = []
    for what, names in (
        ("changed", [n for n in new if n in old and old[n] != new[n]]),
        ("new", [n for n in new if n not in old]),
        ("removed", [n for n in old if n not in new]),
    ):
        if names:
            shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            notes.append(
                f"documents {what} since the last run: {len(names)} ({shown}). Judge calls that they affect are repeated."
            )
    if before.get("judge", {}).get("hash") != current["judge"]["hash"]:
        notes.append(
            f"the last run used the judge {before.get('judge', {}).get('name')}. All judge calls are repeated."
        )
    return notes


def _write(folder: Path, draft: Draft) -> tuple[Rows, list[str]]:
    """Write all files except the journal. An edited review is not overwritten."""
    write_draft(folder, draft)
    notes = []
    if edited(folder / REVIEW):
        notes.append(
            f"{folder / REVIEW} was edited and is not overwritten. Apply it with `ragstone lab dataset apply-review {folder}`."
        )
    else:
        write_review(folder, draft)
    return write_rows(folder, draft), notes


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
