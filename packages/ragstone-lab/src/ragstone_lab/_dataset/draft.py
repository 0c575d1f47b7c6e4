"""The draft of a dataset, and the files of its directory, each written atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from ragstone.errors import DataError, StoreError
from ragstone.extension import write_output
from ragstone.metrics.crux import ETA, answerable, required_subset
from ragstone_lab._run import json_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftPassage:
    """A self-contained passage, and its position in a document."""

    id: str
    """Document and position: "notes/a.md:120-480"."""
    text: str
    source: str
    """The document's original text at this position."""
    document: str
    start: int
    end: int
    document_digest: str
    unsupported_numbers: tuple[str, ...] = ()
    """Numbers that are not in the document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftItem:
    """The draft of one row: a query, its sub-questions, and ratings of the pool for each."""

    id: str
    query: str
    anchor: Mapping[str, Any]
    """Source of the query: document, start, end, digest."""
    questions: Mapping[str, str]
    """Sub-questions by id: "q1", "q2", ..."""
    ratings: Mapping[str, Mapping[str, float]]
    """Ratings of all pairs, by question id and passage id."""
    reference: str | None = None
    """The reference report, if one was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """All items of a dataset, and their passages."""

    passages: Mapping[str, DraftPassage]
    items: tuple[DraftItem, ...]
    rating_threshold: float = ETA


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of a draft."""

    rows: tuple[dict[str, Any], ...]
    left_out: tuple[str, ...] = field(default=())
    """Skipped items, with reasons."""
    n_unanswerable: int = 0
    """Number of dropped sub-questions, which no passage answers."""


def read_draft(path: Path) -> Draft:
    """Read the draft of `build_dataset`."""
    try:
        draft = TypeAdapter(Draft).validate_json(path.read_bytes())
        _check(draft)
    except FileNotFoundError as error:
        raise DataError(f"draft not found: {str(path)!r}. Create it with `ragstone lab dataset build`.") from error
    except (OSError, ValueError) as error:
        problem = str(error)
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_input=False)[0]
            problem = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
        raise DataError(
            f"the draft {str(path)!r} cannot be read ({problem}). Create it again with `ragstone lab dataset build`, "
            "which does not repeat answered judge calls."
        ) from error
    return draft


def _check(draft: Draft) -> None:
    """Check the consistency of a draft, because the file may have been edited."""
    if not 0 < draft.rating_threshold <= 5:
        raise ValueError(f"rating_threshold must be above 0 and at most 5, got {draft.rating_threshold!r}")
    for item in draft.items:
        pools = {frozenset(row) for row in item.ratings.values()}
        if item.ratings.keys() != item.questions.keys() or len(pools) > 1 or not all(pools):
            raise ValueError(f"the item {item.id!r} lacks ratings of sub-questions and passages")
        if unknown := sorted(frozenset().union(*pools) - draft.passages.keys()):
            raise ValueError(f"the item {item.id!r} has ratings of the unknown passage {unknown[0]!r}")
        if not all(0 <= rating <= 5 for row in item.ratings.values() for rating in row.values()):
            raise ValueError(f"the item {item.id!r} has a rating that is not from 0 to 5")


def dataset_rows(draft: Draft) -> Rows:
    """Build the rows of a dataset, without unanswerable sub-questions and with the required passages."""
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
    names = ("document", "start", "end", "document_digest")
    sources = {passage: {name: getattr(draft.passages[passage], name) for name in names} for passage in pool}
    row: dict[str, Any] = {
        "id": item.id,
        "query": item.query,
        "sub_questions": list(ratings),
        "ratings": ratings,
        "qrels": {passage: _grade(passage, ratings, draft.rating_threshold) for passage in pool},
        "rating_threshold": float(draft.rating_threshold),
        "required": {passage: draft.passages[passage].text for passage in required},
        "sources": sources,
        "anchor": dict(item.anchor),
    }
    return row if item.reference is None else row | {"reference": item.reference}


def _grade(passage: str, ratings: Mapping[str, Mapping[str, float]], rating_threshold: float) -> int:
    """Return 0 if the passage does not answer any question, otherwise 1 + (best rating - threshold), rounded down."""
    best = max(row[passage] for row in ratings.values())
    return int(best - rating_threshold) + 1 if best >= rating_threshold else 0


DATASET: Final = "dataset.jsonl"
"""Rows for `evaluate`."""
PASSAGES: Final = "passages.jsonl"
"""The passages of all pools, for an index."""
DRAFT: Final = "draft.json"
"""The draft that the review refers to."""


def write_rows(folder: Path, draft: Draft) -> Rows:
    """Write the dataset and its passages."""
    rows = dataset_rows(draft)
    names = ("id", "text", "document", "start", "end", "source")
    _write_text(folder / DATASET, json_lines(rows.rows))
    passages = ({name: getattr(p, name) for name in names} for p in draft.passages.values())
    _write_text(folder / PASSAGES, json_lines(passages))
    return rows


def write_draft(folder: Path, draft: Draft) -> None:
    """Write the draft."""
    _write_text(folder / DRAFT, json.dumps(asdict(draft), ensure_ascii=False, indent=1) + "\n")


def _write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    try:
        # Lone surrogates are valid in JSON but not in UTF-8, so they are replaced.
        write_output(path, text, errors="replace", newline="")
    except OSError as error:
        raise StoreError(f"{str(path)!r} cannot be written: {error.strerror or error}") from error
