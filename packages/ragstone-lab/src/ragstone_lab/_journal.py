"""A journal of model replies, so that no call is repeated after an interruption."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

from ragstone.errors import DataError
from ragstone.extension import PartialFile

JOURNAL: Final = "journal.jsonl"
"""Name of the journal in the directory of a run."""
_ANSWER: Final = "answer"
_PLAN: Final = "plan"


def key_of(*parts: object) -> str:
    """Return the key of a reply, from everything that it depends on."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class Journal(PartialFile):
    """An append-only JSONL file of model replies with one owner at a time, used in a `with` block.

    Each reply is written as one line. If a kill leaves an incomplete last line, it is removed when the file is opened,
    and only this call is repeated. With the path None, the replies are only in memory. A missing file is created. Raise
    ConfigurationError if another process uses the file, StoreError if it cannot be read or written, and DataError if
    the file is not a journal, or a line before the last is damaged.
    """

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(path, option="directory (--output-dir)")
        self.path = path
        self.answers: dict[str, Any] = {}
        """The replies by key."""
        self.plan: dict[str, Any] | None = None
        """What the last run was about, or None before the first."""

    def __enter__(self) -> Self:
        self._resume(self._read)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, key: str, value: Any) -> None:
        """Write a reply. After this returns, a kill of the process does not lose it."""
        self._append({"kind": _ANSWER, "key": key, "value": value})
        self.answers[key] = value

    def record_run(self, plan: dict[str, Any]) -> None:
        """Write what this run is about if that differs from the last run."""
        if plan != self.plan:
            self._append({"kind": _PLAN, "plan": plan})
            self.plan = plan

    def _append(self, record: dict[str, Any]) -> None:
        self._write(json.dumps(record))
        self.n_kept += 1

    def _read(self, lines: Iterator[tuple[int, bytes]]) -> None:
        for number, (_, line) in enumerate(lines, start=1):
            try:
                record = json.loads(line)
                if record["kind"] == _PLAN:
                    self.plan = dict(record["plan"])
                elif record["kind"] == _ANSWER:
                    self.answers[str(record["key"])] = record["value"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise DataError(
                    f"line {number} of {str(self.path)!r} is damaged ({error}). Remove the line to repeat its call, or "
                    "give another directory."
                ) from error
            self.n_kept += 1
