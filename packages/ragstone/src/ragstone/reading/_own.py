"""Files of Ragstone that are not data to score again, and the commands that read them."""

from __future__ import annotations

from typing import Final

from ragstone.errors import DataError
from ragstone.reading._fields import first_names

_SQLITE: Final = b"SQLite format 3\x00"
_APPLICATION_ID: Final = slice(68, 72)
"""Where the header of a SQLite file says which application wrote it."""
OUTCOME: Final = frozenset({"outcome", "metric", "metric_version"})
"""Names in a record that is an outcome."""
EXPORT_WITH_TEXTS: Final = OUTCOME | {"trace_id", "query", "response", "contexts"}
"""Names in a row of `store export --texts`."""
_RESULTS: Final[tuple[tuple[frozenset[str], str, str], ...]] = (
    (
        OUTCOME | {"sample_id"},
        "a file of outcomes (evaluate --output), which does not hold the texts of its samples",
        "To read its scores: ragstone report {0}. To compare it with another run: ragstone compare FILE {0}",
    ),
    (
        OUTCOME | {"trace_id"},
        "an export of outcomes without the texts of its requests",
        "To read its scores: ragstone report {0}. With texts it can be scored again: ragstone store export --texts STORE FILE",
    ),
    (
        frozenset({"metrics", "judge", "n_samples", "wall_s"}),
        "the summary of an evaluation (evaluate --json)",
        "It holds neither samples nor outcomes. Evaluate the file of the samples",
    ),
    (
        frozenset({"metrics", "systems", "verdict", "hypotheses"}),
        "the result of a comparison (compare --json)",
        "It holds neither samples nor outcomes. Evaluate the file of the samples",
    ),
    (
        frozenset({"magic", "format", "pid", "created_at"}),
        "a segment of a spool",
        "A worker reads its folder into a store: ragstone worker STORE",
    ),
)
"""Files of Ragstone without samples: names in their first record, what they are, and the command that reads them."""


def is_store(head: bytes) -> bool:
    """Return whether a file with this start is a store."""
    return head.startswith(_SQLITE) and head[_APPLICATION_ID] == b"RGST"


def refuse_results(head: bytes, name: str) -> None:
    """Raise an error that says what a file of Ragstone without samples is, and which command reads it.

    Raises:
        DataError: If the file is one of these.
    """
    names = first_names(head)
    if names >= EXPORT_WITH_TEXTS:
        return
    for needed, kind, remedy in _RESULTS:
        if names >= needed:
            raise DataError(f"{name!r} is {kind}. {remedy.format(name)}")
