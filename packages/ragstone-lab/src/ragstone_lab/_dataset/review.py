"""The review: a table that a person edits in a spreadsheet.

It has one line for each query, sub-question and passage. `keep` is yes or no, `text` can be edited, and a removed line
counts as no. Cells that begin like a formula are written with a leading apostrophe, which is removed when they are
read, so that text of a document does not run in a spreadsheet.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ragstone.errors import DataError, StoreError
from ragstone.extension import csv_table, unguarded
from ragstone_lab._dataset.draft import Draft

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
