"""The files of a data set's folder, each written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ragstone.errors import ConfigurationError, StoreError
from ragstone.research._dataset.draft import Draft, Rows, dataset_rows

__all__ = ["DATASET", "DRAFT", "JOURNAL", "PASSAGES", "folder_of", "write_json", "write_rows"]

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
