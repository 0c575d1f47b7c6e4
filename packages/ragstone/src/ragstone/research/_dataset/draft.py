"""The draft of a dataset, and the files of its directory, each written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from ragstone.errors import ConfigurationError, DataError, StoreError
from ragstone.metrics.crux import ETA, answerable, required_subset

__all__ = [
    "DATASET",
    "DRAFT",
    "JOURNAL",
    "PASSAGES",
    "Draft",
    "DraftItem",
    "DraftPassage",
    "Rows",
    "dataset_rows",
    "folder_of",
    "only",
    "read_draft",
    "write_json",
    "write_rows",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPassage:
    """A passage that stands by itself, and the place in a document that it is from."""

    id: str
    """Names the place: "notes/a.md:120-480"."""
    text: str
    source: str
    """The document's own words at that place."""
    document: str
    start: int
    end: int
    document_digest: str
    unsupported_numbers: tuple[str, ...] = ()
    """Numbers that the document does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftItem:
    """One row to be: a query, its sub-questions, and ratings of the pool for each."""

    id: str
    query: str
    anchor: Mapping[str, Any]
    """What the query was made from: document, start, end, digest."""
    questions: Mapping[str, str]
    """By id: "q1", "q2", ..."""
    ratings: Mapping[str, Mapping[str, float]]
    """Question id to passage id to rating; all pairs."""
    reference: str | None = None
    """The report, where a report was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """All items, and the passages that they share."""

    passages: Mapping[str, DraftPassage]
    items: tuple[DraftItem, ...]
    rating_threshold: float = ETA

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "eta": self.rating_threshold,
            "passages": [asdict(passage) for passage in self.passages.values()],
            "items": [asdict(item) for item in self.items],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What a draft comes to."""

    rows: tuple[dict[str, Any], ...]
    left_out: tuple[str, ...] = field(default=())
    """Items that make no row, and why."""
    n_unanswerable: int = 0
    """Sub-questions that no passage answers, and that so are in no row."""


def read_draft(path: Path) -> Draft:
    """Read what `build` wrote.

    Raises:
        DataError: There is no draft there, or it is damaged.
    """
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        passages = TypeAdapter(list[DraftPassage]).validate_python(held["passages"])
        items = TypeAdapter(list[DraftItem]).validate_python(held["items"])
        draft = Draft(
            rating_threshold=float(held["eta"]),
            passages={passage.id: passage for passage in passages},
            items=tuple(items),
        )
        _check(draft)
    except FileNotFoundError as error:
        raise DataError(f"there is no draft {str(path)!r}; make one with `ragstone dataset build`") from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        why = str(error)
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_input=False)[0]
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise DataError(
            f"the draft {str(path)!r} cannot be read ({why}); make it anew with `ragstone dataset build`: nothing is asked twice"
        ) from error
    return draft


def _check(draft: Draft) -> None:
    """Hold the parts of a draft against each other: a file may have been edited, or come from elsewhere."""
    if not 0 < draft.rating_threshold <= 5:
        raise ValueError(f"eta must be above 0 and at most 5, got {draft.rating_threshold!r}")
    for item in draft.items:
        pools = {frozenset(row) for row in item.ratings.values()}
        if item.ratings.keys() != item.questions.keys() or len(pools) > 1 or not all(pools):
            raise ValueError(f"the item {item.id!r} has no rating of every sub-question and passage")
        if strangers := sorted(frozenset().union(*pools) - draft.passages.keys()):
            raise ValueError(f"the item {item.id!r} has ratings of {strangers[0]!r}, which is no passage of the draft")
        if not all(0 <= rating <= 5 for row in item.ratings.values() for rating in row.values()):
            raise ValueError(f"the item {item.id!r} has a rating that is not from 0 to 5")


def dataset_rows(draft: Draft) -> Rows:
    """The rows of a data set: unanswerable sub-questions filtered out, the required subset marked."""
    rows, left_out, n_unanswerable = [], [], 0
    for item in draft.items:
        by_text = {text: dict(item.ratings[question]) for question, text in item.questions.items()}
        kept = answerable(by_text, rating_threshold=draft.rating_threshold)
        n_unanswerable += len(by_text) - len(kept)
        if not kept:
            left_out.append(f"{item.id}: no passage answers any of its {len(by_text)} sub-questions")
            continue
        rows.append(_row(item, {text: by_text[text] for text in kept}, draft))
    return Rows(rows=tuple(rows), left_out=tuple(left_out), n_unanswerable=n_unanswerable)


def _row(item: DraftItem, ratings: dict[str, dict[str, float]], draft: Draft) -> dict[str, Any]:
    pool = sorted({passage for row in ratings.values() for passage in row})
    required = required_subset(ratings, rating_threshold=draft.rating_threshold)
    sources = {
        passage: {
            name: getattr(draft.passages[passage], name) for name in ("document", "start", "end", "document_digest")
        }
        for passage in pool
    }
    row: dict[str, Any] = {
        "id": item.id,
        "query": item.query,
        "sub_questions": list(ratings),
        "ratings": ratings,
        "qrels": {passage: _grade(passage, ratings, draft.rating_threshold) for passage in pool},
        "required": {passage: draft.passages[passage].text for passage in required},
        "sources": sources,
        "anchor": dict(item.anchor),
    }
    return row if item.reference is None else row | {"reference": item.reference}


def _grade(passage: str, ratings: Mapping[str, Mapping[str, float]], rating_threshold: float) -> int:
    """0 for a passage that answers nothing, else 1 for a best rating of eta, 2 for one more, and so on."""
    best = max(row[passage] for row in ratings.values())
    return int(best - rating_threshold) + 1 if best >= rating_threshold else 0


def only(item: DraftItem, questions: Collection[str], passages: Collection[str]) -> DraftItem:
    """The item with these sub-questions and passages alone."""
    ratings = {
        question: {passage: rating for passage, rating in row.items() if passage in passages}
        for question, row in item.ratings.items()
        if question in questions
    }
    texts = {question: text for question, text in item.questions.items() if question in questions}
    return replace(item, questions=texts, ratings=ratings)


DATASET: Final = "dataset.jsonl"
"""Rows for `evaluate`."""
PASSAGES: Final = "passages.jsonl"
"""The passages of all pools, for an index."""
DRAFT: Final = "draft.json"
"""What the review is about."""
JOURNAL: Final = "journal.jsonl"
"""What the judge answered."""


def folder_of(output: str | Path) -> Path:
    """The folder, made when it is missing.

    Raises:
        ConfigurationError: It cannot be one.
    """
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"--output {str(folder)!r} cannot be a folder: {error.strerror or error}") from error
    return folder


def write_rows(folder: Path, draft: Draft) -> Rows:
    """Write the data set and its passages."""
    found = dataset_rows(draft)
    _write_jsonl(folder / DATASET, found.rows)
    _write_jsonl(
        folder / PASSAGES,
        [
            {"id": p.id, "text": p.text, "document": p.document, "start": p.start, "end": p.end, "source": p.source}
            for p in draft.passages.values()
        ],
    )
    return found


def write_json(path: Path, value: Any) -> None:
    """Write a file whole or not at all."""
    _written(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def _write_jsonl(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a file whole or not at all, one row a line."""
    _written(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _written(path: Path, text: str) -> None:
    beside = path.with_name(path.name + ".new")
    try:
        # Lone surrogates, which JSON can spell and UTF-8 cannot, must not end the work.
        beside.write_text(text, encoding="utf-8", errors="replace", newline="")
        os.replace(beside, path)  # noqa: PTH105  the same, and says what it does
    except OSError as error:
        raise StoreError(f"{str(path)!r} cannot be written: {error.strerror or error}") from error
