"""`apply_review`: the data set that a person's review leaves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragstone._util.run_async import run_async
from ragstone._util.suppress import suppress_capture
from ragstone.errors import ConfigurationError, DataError
from ragstone.judges import Judge, judge_from
from ragstone.research._dataset.draft import DATASET, DRAFT, JOURNAL, Draft, DraftItem, only, read_draft, write_rows
from ragstone.research._dataset.journal import Journal, JournaledJudge, prepared
from ragstone.research._dataset.review import MAX_TEXT, REVIEW, Key, read_review, texts_of

__all__ = ["DatasetReview", "apply_review"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetReview:
    """What a review came to."""

    folder: Path
    rows: tuple[dict[str, Any], ...]
    n_dropped: int
    """Lines with no, and lines that were removed."""
    n_removed: int
    """Of these, lines that were removed."""
    n_edited: int
    n_asked: int
    """Questions to the judge, for what was edited."""
    left_out: tuple[str, ...]
    rated_by_baseline: bool = False
    """Whether a stand-in that is no judge rated what was edited."""

    def __str__(self) -> str:
        lines = [
            f"{len(self.rows)} rows in {self.folder / DATASET}",
            f"review: {self.n_edited} {'text' if self.n_edited == 1 else 'texts'} edited, {self.n_dropped} dropped ({self.n_removed} by removing their line)",
        ]
        if self.n_asked:
            lines.append(f"judge: {self.n_asked} questions asked about what was edited")
        if self.rated_by_baseline:
            lines.append(
                "what was edited is rated by the lexical baseline (word overlap), which is not a judge, and the rest by one: "
                "apply again with --judge before you measure with it"
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "folder": str(self.folder),
            "n_rows": len(self.rows),
            "n_edited": self.n_edited,
            "n_dropped": self.n_dropped,
            "n_removed": self.n_removed,
            "n_asked": self.n_asked,
            "rated_by_baseline": self.rated_by_baseline,
            "left_out": list(self.left_out),
        }


def apply_review(
    folder: str | Path, *, judge: str | Judge | None = None, keep_ratings: bool = False, concurrency: int = 8
) -> DatasetReview:
    """Write the data set that `review.csv` leaves of what `build_dataset` found.

    Ratings of a text that was edited are asked for anew, and kept in the journal; what is answerable and required is found
    again from what is left.

    Args:
        folder: What `build_dataset` was given as output.
        judge: Who rates what was edited; None takes `RAGSTONE_JUDGE`. Nobody is asked where nothing was edited.
        keep_ratings: Edits were of wording alone: the ratings stay as they are.
        concurrency: Questions in flight at once.

    Raises:
        ConfigurationError: Something was edited, and there is no judge to rate it.
        DataError: There is no draft, or the review is damaged: an unknown or repeated line, a `keep` that is neither yes
            nor no, an empty text.
        JudgeError: The judge gave no usable answer; what it answered is in the journal, and nothing was written.

    Example:
        ```python
        print(apply_review("handbook-set", judge="http://localhost:8000/v1"))
        ```
    """
    folder = Path(folder)
    judge = judge or os.environ.get("RAGSTONE_JUDGE")
    draft = read_draft(folder / DRAFT)
    decisions = read_review(folder / REVIEW)
    reviewed, edits = _reviewed(draft, decisions)
    n_asked, by_baseline = 0, False
    if edits.ratings and not keep_ratings:
        if judge is None:
            raise ConfigurationError(
                f"{len(edits.ratings)} {'text was' if len(edits.ratings) == 1 else 'texts were'} edited, and their ratings are of what stood there before; name a judge "
                "to rate them anew (--judge), or keep the ratings where wording alone was changed (--keep-ratings)"
            )
        resolved_judge = judge_from(judge)
        by_baseline = resolved_judge.identity.is_baseline

        async def work() -> tuple[Draft, int]:
            with Journal(folder / JOURNAL) as journal, suppress_capture():
                asker = JournaledJudge(resolved_judge, journal, concurrency=concurrency)
                try:
                    await prepared(resolved_judge)
                    return await _rated_anew(reviewed, edits.ratings, asker), asker.n_asked
                finally:
                    await asker.aclose()
                    if not isinstance(judge, Judge):
                        await resolved_judge.aclose()

        reviewed, n_asked = run_async(work())
    found = write_rows(folder, reviewed)
    removed = texts_of(draft).keys() - decisions.keys()
    return DatasetReview(
        folder=folder,
        rows=found.rows,
        n_dropped=len(removed) + sum(not kept for kept, _ in decisions.values()),
        n_removed=len(removed),
        n_edited=edits.n,
        n_asked=n_asked,
        left_out=found.left_out,
        rated_by_baseline=by_baseline,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edits:
    n: int
    ratings: frozenset[Key]
    """Texts whose ratings are of another text."""


def _reviewed(draft: Draft, decisions: Mapping[Key, tuple[bool, str]]) -> tuple[Draft, _Edits]:
    """The draft with what was kept, as it was edited."""
    known = texts_of(draft)
    for key, (is_kept, text) in decisions.items():
        if key not in known:
            raise DataError(
                f"the review has a line for {' '.join(key)!r}, which the draft does not have; was it built anew since?"
            )
        if is_kept and not 0 < len(text) <= MAX_TEXT:
            raise DataError(
                f"the review keeps {' '.join(key)!r} with a text of {len(text)} characters; say no, or give 1 to {MAX_TEXT}"
            )
    kept = {key: decisions[key][1] for key in known if key in decisions and decisions[key][0]}
    # A spreadsheet may write line ends in its own way, which is no edit.
    changed = frozenset(key for key, text in kept.items() if text.split() != known[key].split())
    now = {key: text if key in changed else known[key] for key, text in kept.items()}
    passages = {
        name: replace(passage, text=now["passage", "", name])
        for name, passage in draft.passages.items()
        if ("passage", "", name) in now
    }
    items = []
    for item in draft.items:
        if ("query", item.id, "query") not in now:
            continue
        texts = {q: now["sub_question", item.id, q] for q in item.questions if ("sub_question", item.id, q) in now}
        if len(set(texts.values())) < len(texts):
            raise DataError(f"the review gives two sub-questions of {item.id!r} the same text; say no to one of them")
        left = only(item, texts, passages)
        items.append(replace(left, query=now["query", item.id, "query"], questions=texts))
    rated = frozenset(key for key in changed if key[0] != "query")
    return replace(draft, passages=passages, items=tuple(items)), _Edits(n=len(changed), ratings=rated)


async def _rated_anew(draft: Draft, changed: frozenset[Key], asker: JournaledJudge) -> Draft:
    """Ask for the ratings of all pairs of which one text was edited.

    Raises:
        JudgeError: The judge gave no usable answer.
    """
    items: list[DraftItem] = []
    for item in draft.items:
        ratings = {question: dict(row) for question, row in item.ratings.items()}
        pool = list(dict.fromkeys(passage for row in ratings.values() for passage in row))
        for passage in pool:
            everything = ("passage", "", passage) in changed
            asked = [q for q in item.questions if everything or ("sub_question", item.id, q) in changed]
            if not asked:
                continue
            marks = await asker.rate(draft.passages[passage].text, [item.questions[q] for q in asked])
            for question, mark in zip(asked, marks, strict=True):
                ratings[question][passage] = float(mark)
        items.append(replace(item, ratings=ratings))
    return replace(draft, items=tuple(items))
