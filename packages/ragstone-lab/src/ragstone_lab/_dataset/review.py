"""The review: a table that a person edits in a spreadsheet, and `apply_review`.

It has one line for each query, sub-question and passage. `keep` is yes or no, `text` can be edited, and a removed line
counts as no. Cells that begin like a formula are written with a leading apostrophe, which is removed when they are
read, so that text of a document does not run in a spreadsheet.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ragstone.errors import ConfigurationError, DataError, StoreError
from ragstone.extension import count, csv_table, unguarded
from ragstone.judges import Judge
from ragstone.metrics.crux import rate_answerability
from ragstone.scoring import run_async
from ragstone_lab._dataset.draft import DATASET, DRAFT, Draft, DraftItem, read_draft, write_rows
from ragstone_lab._journal import JOURNAL, Journal
from ragstone_lab._run import JournaledJudge, Run, RunResult, need_model

REVIEW: Final = "review.csv"
_COLUMNS: Final = ("keep", "kind", "item", "id", "text", "about", "source")
_NEEDED: Final = ("keep", "kind", "item", "id", "text")
_YES: Final = frozenset({"yes", "y", "true", "1", "x", "keep"})
_NO: Final = frozenset({"no", "n", "false", "0", "drop"})
MAX_TEXT: Final = 20_000

Key = tuple[str, str, str]
"""Kind, item, id."""


def write_review(folder: Path, draft: Draft) -> None:
    """Write the table and its digest."""
    table = csv_table([_COLUMNS, *_lines(draft)])
    # Spreadsheets detect UTF-8 by the byte order mark.
    write_watched(folder / REVIEW, table.encode("utf-8-sig", errors="replace"))


def write_watched(path: Path, data: bytes) -> None:
    """Write a file that a person may edit, and its digest, so that an edited file is never overwritten."""
    try:
        path.write_bytes(data)
        _digest_path(path).write_text(hashlib.sha256(data).hexdigest(), encoding="ascii")
    except OSError as error:
        raise StoreError(f"{str(path)!r} cannot be written: {error.strerror or error}") from error


def edited(path: Path) -> bool:
    """Return whether a file exists that was edited since `write_watched` wrote it."""
    try:
        data = path.read_bytes()
        return _digest_path(path).read_text(encoding="ascii") != hashlib.sha256(data).hexdigest()
    except FileNotFoundError:
        return path.exists()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{str(path)!r} cannot be read ({error}). Move it away, or give another directory.") from error


def _digest_path(path: Path) -> Path:
    return path.with_name(f".{path.stem}.sha256")


def _lines(draft: Draft) -> Iterator[tuple[str, ...]]:
    for item in draft.items:
        anchor = f"{item.anchor['document']}:{item.anchor['start']}-{item.anchor['end']}"
        yield "yes", "query", item.id, "query", item.query, "", anchor
        for question, text in item.questions.items():
            row = item.ratings[question]
            n = sum(rating >= draft.rating_threshold for rating in row.values())
            best = f"best rating {max(row.values(), default=0):g}"
            about = f"{n} passages answer it, {best}" if n else f"no passage answers it, {best}: dropped"
            yield "yes", "sub_question", item.id, question, text, about, anchor
    for passage in draft.passages.values():
        numbers = ", ".join(passage.unsupported_numbers)
        about = f"numbers that are not in the document: {numbers}" if numbers else ""
        yield "yes", "passage", "", passage.id, passage.text, about, passage.source


def texts_of(draft: Draft) -> dict[Key, str]:
    """Return all texts of the review, by key."""
    return {(kind, item, id_): text for _, kind, item, id_, text, *_ in _lines(draft)}


def read_review(path: Path) -> dict[Key, tuple[bool, str]]:
    """Read the review, and return for each key whether the line is kept, and its text."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise DataError(f"review not found: {str(path)!r}. `ragstone lab dataset build` writes it.") from error
    except OSError as error:
        raise DataError(f"the review {str(path)!r} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{str(path)!r} is not UTF-8 (byte {error.start}). Save it as CSV in UTF-8.") from error
    head = text.split("\n", 1)[0]
    # Spreadsheets use semicolons as separators in some locales.
    delimiter = max(",;\t", key=head.count)
    csv.field_size_limit(64 * 1024 * 1024)
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise DataError(f"{str(path)!r} is not valid CSV: {error}") from error
    decisions: dict[Key, tuple[bool, str]] = {}
    for number, row in enumerate(rows, start=2):
        if missing := [name for name in _NEEDED if row.get(name) is None]:
            raise DataError(
                f"line {number} of {str(path)!r} lacks {', '.join(missing)}. Columns: {', '.join(_COLUMNS)}."
            )
        cells = {name: unguarded(row[name]) for name in _NEEDED}
        key = (cells["kind"], cells["item"], cells["id"])
        if key in decisions:
            raise DataError(f"line {number} of {str(path)!r} repeats {' '.join(key)!r}")
        word = cells["keep"].strip().casefold()
        if word not in _YES | _NO:
            raise DataError(f"line {number} of {str(path)!r}: keep must be yes or no, got {cells['keep'][:40]!r}")
        decisions[key] = (word in _YES, cells["text"].strip())
    return decisions


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

    def __str__(self) -> str:
        lines = [
            f"{count(len(self.rows), 'row')} in {self.folder / DATASET}",
            f"review: {count(self.n_edited, 'text')} edited, {self.n_dropped} dropped ({self.n_removed} of them by removing the line)",
        ]
        if self.n_asked:
            lines.append(f"judge: {count(self.n_asked, 'call')} for edited texts")
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
        ConfigurationError: If texts were edited and no judge is given, or it is not a model.
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
    reviewed, changed = _reviewed(draft, decisions)
    outdated = frozenset(key for key in changed if key[0] != "query")
    asked: dict[str, Any] = {}
    if outdated and not keep_ratings:
        if judge is None:
            raise ConfigurationError(
                f"{count(len(outdated), 'text was', 'texts were')} edited, so that their ratings are outdated. Set a judge (--judge) to rate them "
                "again, or keep the ratings if the meaning did not change (--keep-ratings)."
            )
        resolved_judge = need_model(judge, "rating edited texts")

        async def work() -> Draft:
            with Journal(folder / JOURNAL) as journal:
                async with Run(journal, concurrency=concurrency, stop_early=stop_early) as run:
                    rated = await _rate_again(reviewed, outdated, await run.add_judge(resolved_judge, judge))
            asked.update(run.values())
            return rated

        reviewed = run_async(work())
    written = write_rows(folder, reviewed)
    removed = texts_of(draft).keys() - decisions.keys()
    return DatasetReview(
        folder=folder,
        rows=written.rows,
        n_dropped=len(removed) + sum(not kept for kept, _ in decisions.values()),
        n_removed=len(removed),
        n_edited=len(changed),
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
