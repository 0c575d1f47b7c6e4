"""A journal of model replies, so that no call is repeated after an interruption."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from ragstone.errors import ConfigurationError, DataError, StoreError
from ragstone.extension import FileLock

JOURNAL: Final = "journal.jsonl"
"""Name of the journal in the directory of a run."""
_ANSWER: Final = "answer"
_PLAN: Final = "plan"


def key_of(*parts: object) -> str:
    """Return the key of a reply, from everything that it depends on."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class Journal:
    """An append-only JSONL file of model replies with one owner at a time, used in a `with` block.

    Each reply is written as one line in one write. If a kill leaves an incomplete last line, it is removed when the
    file is opened, and only this call is repeated. With the path None, the replies are only in memory. A missing file
    is created. Raise ConfigurationError if another process uses the file, or it cannot be written. Raise DataError if
    the file is not a journal, or a line before the last is damaged.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._lock = None if path is None else FileLock(path.with_suffix(".lock"))
        self.answers: dict[str, Any] = {}
        """The replies by key."""
        self._fd: int | None = None
        self.plan: dict[str, Any] | None = None
        """What the last run was about, or None before the first."""

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise ConfigurationError(
                    f"the journal {str(self.path)!r} cannot be written: {error.strerror or error}"
                ) from error
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
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

    def close(self) -> None:
        """Close the file and release the lock. Can be called twice."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)
        if self._lock is not None:
            self._lock.release()

    def _open(self) -> None:
        if self.path is None or self._lock is None:
            return
        if not self._lock.acquire():
            raise ConfigurationError(
                f"process {self._lock.owner()} is running in {str(self.path.parent)!r}. Wait, or give another directory."
            )
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.ftruncate(self._fd, self._load(self.path.read_bytes()))

    def _append(self, record: dict[str, Any]) -> None:
        if self._fd is None:
            return
        line = (json.dumps(record) + "\n").encode()
        size = os.fstat(self._fd).st_size
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            raise StoreError(f"the journal {str(self.path)!r} cannot be written: {error.strerror or error}") from error
        if written < len(line):
            # Remove the incomplete line, so that the next one starts on a new line.
            os.ftruncate(self._fd, size)
            raise StoreError(
                f"only {written} of {len(line)} bytes could be written to the journal {str(self.path)!r}. Check for free "
                "disk space."
            )

    def _load(self, data: bytes) -> int:
        """Load all complete lines, and return the end of the last one."""
        end = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:end].split(b"\n")[:-1], start=1):
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
        return end
