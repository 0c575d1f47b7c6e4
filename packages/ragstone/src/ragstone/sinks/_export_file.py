"""Outcomes of a store as one file of JSON lines, complete or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from ragstone._util.files import open_draft
from ragstone.errors import ConfigurationError
from ragstone.schema import Delivery, Trace
from ragstone.sinks._row import outcome_row
from ragstone.sinks.jsonl import json_line

_OF_TRACE: Final = (
    "query", "standalone_query", "history", "response", "reference", "sub_questions", "evidence", "status", "error",
    "inner_errors", "ended_at", "first_token_s", "model", "tags", "metadata", "truncated_fields",
)  # fmt: skip
"""Fields of the request that rows with texts have. A reader of the file makes its traces of them."""


def check_export_path(path: Path) -> None:
    """Check the suffix and the directory of an output.

    Raise ConfigurationError if the suffix is not .jsonl, or the directory does not exist.
    """
    if path.suffix != ".jsonl":
        raise ConfigurationError(f"the output must end in .jsonl, got {path.name!r}.")
    if not path.absolute().parent.is_dir():
        raise ConfigurationError(f"the directory of the output {str(path)!r} does not exist. Create it.")


def export_row(
    delivery: Delivery, slices: Mapping[str, str], trace: Trace | None, *, include_text: bool
) -> dict[str, Any]:
    """Return an outcome with its request as plain values. Without text, nothing quotes what was captured.

    `slices` are the values of tags, retriever and language. `trace` is None if its texts are not wanted or were
    removed.
    """
    row = outcome_row(delivery, include_text=include_text)
    row |= {
        "session_id": delivery.session_id,
        "user_id": delivery.user_id,
        "operation": delivery.name,
        "weight": 1 / delivery.inclusion_probability,
        "slices": dict(slices),
    }
    if not include_text:
        # The reason may quote captured text. `kind` and `missing` contain the cause without it.
        return row | {"reason": None if row["reason"] is None else "not exported"}
    contexts = None if trace is None else trace.prompt_contexts
    return (
        row
        | dict.fromkeys(_OF_TRACE)
        | ({} if trace is None else trace.model_dump(mode="json", include={*_OF_TRACE}))
        | {"contexts": None if contexts is None else [passage.text for passage in contexts]}
    )


def write_export(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows of `export_row` to a new file that only its owner can read, and return how many.

    The file appears under its name when it is complete, and replaces one of before. Memory does not grow with the rows.
    Raise ConfigurationError if the suffix or the directory is invalid. Raise OSError if the disk is full or the
    directory cannot be written.
    """
    check_export_path(path)
    n = 0
    with open_draft(path) as file:
        for n, row in enumerate(rows, start=1):  # noqa: B007 - the number of rows
            file.write(json_line(row))
    return n
