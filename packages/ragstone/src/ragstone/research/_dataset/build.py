"""`build_dataset`: documents in; a data set, its passages, a draft and a review file out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ragstone._util.run_async import run_async
from ragstone._util.suppress import suppress_capture
from ragstone.errors import ConfigurationError
from ragstone.judges import Judge, judge_from, metered
from ragstone.metrics.crux import ETA
from ragstone.research._dataset.draft import DATASET, DRAFT, JOURNAL, Draft, Rows, folder_of, write_json, write_rows
from ragstone.research._dataset.journal import PASSING, Journal, JournaledJudge, prepared
from ragstone.research._dataset.making import ItemBuilder
from ragstone.research._dataset.plan import DatasetPlan, Paths, plan_dataset
from ragstone.research._dataset.review import REVIEW, edited, write_review
from ragstone.schema import Usage

__all__ = ["DatasetBuild", "build_dataset"]

_MOST_QUESTIONS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetBuild:
    """What was made, and what was not."""

    folder: Path
    plan: DatasetPlan
    rows: tuple[dict[str, Any], ...]
    left_out: tuple[str, ...]
    """Files, items and passages that are not in the data set, each with the reason."""
    failures: Mapping[str, int]
    """How often the judge gave no usable answer, by kind."""
    notes: tuple[str, ...]
    n_asked: int
    """Questions that went to the judge."""
    n_known: int
    """Questions that an earlier run had an answer to."""
    n_repeated: int
    """Sub-questions left out because they repeat another."""
    n_unanswerable: int
    """Sub-questions left out because no passage answers them."""
    usage: Usage = field(default_factory=Usage)

    @property
    def unfinished(self) -> bool:
        """Whether the same command may find more: a cap was reached, or the judge did not answer."""
        return any(kind in PASSING for kind in self.failures)

    def __str__(self) -> str:
        n_questions = sum(len(row["sub_questions"]) for row in self.rows)
        lines = [
            f"{len(self.rows)} of {len(self.plan.items)} items, {n_questions} sub-questions, in {self.folder / DATASET}",
            f"sub-questions left out: {self.n_unanswerable} that no passage answers, {self.n_repeated} that repeat others",
            f"judge: {self.n_asked} questions asked, {self.n_known} known from an earlier run",
        ]
        if self.failures:
            kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(self.failures.items()))
            lines.append(f"without a usable answer: {kinds}")
        return "\n".join([*lines, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "folder": str(self.folder),
            "plan": self.plan.to_dict(),
            "n_rows": len(self.rows),
            "left_out": list(self.left_out),
            "failures": dict(self.failures),
            "notes": list(self.notes),
            "n_asked": self.n_asked,
            "n_known": self.n_known,
            "n_repeated": self.n_repeated,
            "n_unanswerable": self.n_unanswerable,
            "usage": self.usage.model_dump(exclude={"schema_version"}),
        }


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
    progress: Callable[[int, int], None] | None = None,
) -> DatasetBuild:
    """Make a data set in the manner of CRUX from documents, or from reports that were written from them.

    For each item: an open query, sub-questions that differ, the pool's passages rewritten to stand by themselves, a rating
    from 0 to 5 for every (sub-question, passage), sub-questions that nothing answers left out, and a required subset.
    The folder gets `dataset.jsonl` (for `evaluate`), `passages.jsonl` (for an index), `review.csv` (for a person),
    `draft.json` and `journal.jsonl`. Killed at any moment, the same call goes on and asks nothing twice.

    Args:
        documents: Files and folders: text, Markdown, or JSONL with `id` and `text`.
        output_dir: A folder; made when it is missing.
        reports: Reference reports; each is an item then. Without them each section of a document is.
        judge: Who writes and rates: what `evaluate` takes.
        max_items: Items at most.
        max_passages: Passages in one item's pool at most.
        questions: Sub-questions of one item at most, up to 30.
        rating_threshold: A passage answers from this rating on.
        concurrency: Questions in flight at once.
        progress: Called with (items done, items in all).

    Raises:
        ConfigurationError: Something that cannot work: no documents, a folder in use, a number out of range.
        DataError: A document or an earlier state that cannot be read.
        JudgeError: The judge cannot be reached at all.

    Example:
        ```python
        built = build_dataset("handbook/", "handbook-set", judge="http://localhost:8000/v1")
        ragstone.evaluate(built.folder / "dataset.jsonl", ["crux"])
        ```
    """
    if not 1 <= questions <= _MOST_QUESTIONS:
        raise ConfigurationError(f"questions must be from 1 to {_MOST_QUESTIONS}, got {questions!r}")
    if concurrency < 1 or not 0 < rating_threshold <= 5:
        raise ConfigurationError(
            f"concurrency must be at least 1, and eta above 0 and at most 5, got {concurrency!r} and {rating_threshold!r}"
        )
    plan = plan_dataset(documents, reports=reports, max_items=max_items, max_passages=max_passages)
    resolved_judge = judge_from(judge)
    if resolved_judge.identity.is_baseline:
        raise ConfigurationError(
            f"a data set is written by a model, and {resolved_judge.identity.name} is none; name one with judge= (--judge)"
        )
    folder = folder_of(output_dir)

    async def work() -> DatasetBuild:
        with Journal(folder / JOURNAL) as journal, suppress_capture(), metered() as meter:
            asker = JournaledJudge(resolved_judge, journal, concurrency=concurrency)
            try:
                await prepared(resolved_judge)
                notes = _set_out(journal, plan, resolved_judge)
                made = await ItemBuilder(plan, asker, n_questions=questions, rating_threshold=rating_threshold).build(
                    progress
                )
            finally:
                await asker.aclose()
                if not isinstance(judge, Judge):
                    await resolved_judge.aclose()
            found, more = _write(folder, made.draft)
            return DatasetBuild(
                folder=folder,
                plan=plan,
                rows=found.rows,
                left_out=(*plan.left_out, *made.left_out, *found.left_out),
                failures=dict(made.failures),
                notes=(*notes, *more),
                n_asked=asker.n_asked,
                n_known=asker.n_known,
                n_repeated=made.n_repeated,
                n_unanswerable=found.n_unanswerable,
                usage=meter.total,
            )

    return run_async(work())


def _set_out(journal: Journal, plan: DatasetPlan, judge: Judge) -> list[str]:
    """Note what this run is about, and say what is not as it was in the last one."""
    now = {
        "documents": {document.name: document.digest for document in plan.documents},
        "judge": {"name": judge.identity.name, "hash": judge.identity.hash},
    }
    before = journal.plan
    journal.record_run(now)
    if before is None:
        return []
    old, new = before.get("documents", {}), now["documents"]
    notes = []
    for what, names in (
        ("changed", [n for n in new if n in old and old[n] != new[n]]),
        ("new", [n for n in new if n not in old]),
        ("gone", [n for n in old if n not in new]),
    ):
        if names:
            shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            notes.append(f"documents {what} since the last run: {len(names)} ({shown}); what they change is asked anew")
    if before.get("judge", {}).get("hash") != now["judge"]["hash"]:
        notes.append(f"the last run asked {before.get('judge', {}).get('name')}; this judge is asked everything anew")
    return notes


def _write(folder: Path, draft: Draft) -> tuple[Rows, list[str]]:
    """Write all files but the journal; a review that a person has edited stays as it is."""
    write_json(folder / DRAFT, draft.to_dict())
    notes = []
    if edited(folder):
        notes.append(
            f"{folder / REVIEW} was edited and is left as it is; `ragstone dataset apply-review {folder}` uses it"
        )
    else:
        write_review(folder, draft)
    return write_rows(folder, draft), notes
