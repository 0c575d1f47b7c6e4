"""`apply_review`: applies a human review to a dataset."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragstone.errors import ConfigurationError, DataError
from ragstone.extension import count
from ragstone.judges import Judge, judge_from
from ragstone.metrics.crux import rate_answerability
from ragstone.scoring import run_async
from ragstone_lab._dataset.draft import DATASET, DRAFT, Draft, DraftItem, read_draft, write_rows
from ragstone_lab._dataset.review import MAX_TEXT, REVIEW, Key, read_review, texts_of
from ragstone_lab._journal import JOURNAL, Journal
from ragstone_lab._run import JournaledJudge, Run, RunResult


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetReview(RunResult):
    """The result of applying a review."""

    folder: Path
    rows: tuple[dict[str, Any], ...]
    n_dropped: int
    """Number of lines with `keep` = no, and of removed lines."""
    n_removed: int
    """Number of removed lines."""
    n_edited: int
    left_out: tuple[str, ...]
    rated_by_baseline: bool = False
    """Whether the lexical baseline, which is not a judge, rated the edited texts."""

    def __str__(self) -> str:
        lines = [
            f"{count(len(self.rows), 'row')} in {self.folder / DATASET}",
            f"review: {count(self.n_edited, 'text')} edited, {self.n_dropped} dropped ({self.n_removed} of them by removing the line)",
        ]
        if self.n_asked:
            lines.append(f"judge: {count(self.n_asked, 'call')} for edited texts")
        if self.rated_by_baseline:
            lines.append(
                "the lexical baseline (word overlap), which is not a judge, rated the edited texts. Run the command "
                "again with --judge before you use the dataset."
            )
        return "\n".join(lines)


def apply_review(
    folder: str | Path,
    *,
    judge: str | Judge | None = None,
    keep_ratings: bool = False,
    concurrency: int = 8,
    stop_early: bool = True,
) -> DatasetReview:
    """Write the dataset that results from the draft of `build_dataset` and its edited `review.csv`.

    The judge rates edited texts again, and the journal keeps its replies. Answerable sub-questions and required
    passages are computed again from the remaining texts.

    Args:
        folder: The output directory of `build_dataset`.
        judge: Judge for edited texts. Default: `RAGSTONE_JUDGE`. Without edits, no judge is called.
        keep_ratings: Keep the ratings of edited texts, for edits that do not change the meaning.
        concurrency: Number of concurrent judge calls.
        stop_early: Stop if the judge fails systematically.

    Raises:
        ConfigurationError: If texts were edited and no judge is given.
        DataError: If the draft is missing, or the review is invalid: an unknown or repeated line, a `keep` that is
            neither yes nor no, or an empty text.
        JudgeError: If a judge call fails. The journal keeps earlier replies, and no dataset is written.

    Examples:
        ```python
        print(apply_review("handbook-set", judge="http://localhost:8000/v1"))
        ```
    """
    folder = Path(folder)
    judge = judge or os.environ.get("RAGSTONE_JUDGE")
    draft = read_draft(folder / DRAFT)
    decisions = read_review(folder / REVIEW)
    reviewed, edited = _reviewed(draft, decisions)
    outdated = frozenset(key for key in edited if key[0] != "query")
    asked: dict[str, Any] = {}
    if outdated and not keep_ratings:
        if judge is None:
            raise ConfigurationError(
                f"{count(len(outdated), 'text was', 'texts were')} edited, so that their ratings are outdated. Set a judge (--judge) to rate them "
                "again, or keep the ratings if the meaning did not change (--keep-ratings)."
            )
        resolved_judge = judge_from(judge)

        async def work() -> Draft:
            with Journal(folder / JOURNAL) as journal:
                async with Run(journal, concurrency=concurrency, stop_early=stop_early) as run:
                    rated = await _rate_again(reviewed, outdated, await run.add_judge(resolved_judge, judge))
            asked.update(run.values(), rated_by_baseline=resolved_judge.identity.is_baseline)
            return rated

        reviewed = run_async(work())
    written = write_rows(folder, reviewed)
    removed = texts_of(draft).keys() - decisions.keys()
    return DatasetReview(
        folder=folder,
        rows=written.rows,
        n_dropped=len(removed) + sum(not kept for kept, _ in decisions.values()),
        n_removed=len(removed),
        n_edited=len(edited),
        left_out=written.left_out,
        **asked,
    )


def _reviewed(draft: Draft, decisions: Mapping[Key, tuple[bool, str]]) -> tuple[Draft, frozenset[Key]]:
    """Return the draft with the kept and edited texts, and the keys of the edited ones."""
    known = texts_of(draft)
    for key, (is_kept, text) in decisions.items():
        if key not in known:
            raise DataError(
                f"the review has a line for {' '.join(key)!r}, which is not in the draft. The draft may have been rebuilt."
            )
        if is_kept and not 0 < len(text) <= MAX_TEXT:
            raise DataError(
                f"the review keeps {' '.join(key)!r} with a text of {len(text)} characters. Texts need 1 to {MAX_TEXT} "
                "characters. To drop the line, set keep to no."
            )
    kept = {key: decisions[key][1] for key in known if key in decisions and decisions[key][0]}
    # A spreadsheet may change line ends, which does not count as an edit.
    changed = frozenset(key for key, text in kept.items() if text.split() != known[key].split())
    final = {key: text if key in changed else known[key] for key, text in kept.items()}
    passages = {
        name: replace(passage, text=final["passage", "", name])
        for name, passage in draft.passages.items()
        if ("passage", "", name) in final
    }
    items = []
    for item in draft.items:
        if ("query", item.id, "query") not in final:
            continue
        texts = {q: final["sub_question", item.id, q] for q in item.questions if ("sub_question", item.id, q) in final}
        if len(set(texts.values())) < len(texts):
            raise DataError(f"two sub-questions of {item.id!r} have the same text. Set keep to no for one of them.")
        ratings = {
            question: {passage: rating for passage, rating in item.ratings[question].items() if passage in passages}
            for question in texts
        }
        items.append(replace(item, query=final["query", item.id, "query"], questions=texts, ratings=ratings))
    return replace(draft, passages=passages, items=tuple(items)), changed


async def _rate_again(draft: Draft, changed: frozenset[Key], asker: JournaledJudge) -> Draft:
    """Rate all pairs with an edited text again."""
    items: list[DraftItem] = []
    for item in draft.items:
        ratings = {question: dict(row) for question, row in item.ratings.items()}
        pool = list(dict.fromkeys(passage for row in ratings.values() for passage in row))
        for passage in pool:
            everything = ("passage", "", passage) in changed
            asked = [q for q in item.questions if everything or ("sub_question", item.id, q) in changed]
            if not asked:
                continue
            texts = [item.questions[q] for q in asked]
            reply = await rate_answerability(asker, draft.passages[passage].text, texts)
            for question, mark in zip(asked, reply.marks, strict=True):
                ratings[question][passage] = float(mark)
        items.append(replace(item, ratings=ratings))
    return replace(draft, items=tuple(items))
