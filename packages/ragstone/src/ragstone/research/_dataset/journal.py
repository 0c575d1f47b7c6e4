"""What judges answered, kept line by line as it comes: killed at any moment, a build goes on and asks nothing twice."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from ragstone._util.filelock import FileLock
from ragstone.errors import ConfigurationError, DataError, StoreError
from ragstone.judges import Prompt

__all__ = ["Journal", "key_of"]

_ANSWER: Final = "answer"
_PLAN: Final = "plan"


def key_of(judge_hash: str, prompt: Prompt) -> str:
    """Names a question: who is asked, what, and about which texts."""
    parts = [judge_hash, prompt.construct, prompt.task, *([name, value] for name, value in prompt.fields.items())]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()[:32]


class Journal:
    """An append-only JSONL file of answers by question, with one owner at a time; used in a `with` block.

    Each answer is one line in one write. A line that was cut off by a kill is cut away when the file is opened again, and
    its question is asked again; nothing else is.

    Args:
        path: The file; made when it is missing.

    Raises:
        ConfigurationError: Another process builds here, or the file cannot be written.
        DataError: The file is no journal, or damaged before its last line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(path.with_suffix(".lock"))
        self._answers: dict[str, Any] = {}
        self._fd: int | None = None
        self.plan: dict[str, Any] | None = None
        """What the last run set out to do; None at first."""

    def __enter__(self) -> Self:
        try:
            self._own()
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            os.ftruncate(self._fd, self._load(self._path.read_bytes()))
        except OSError as error:
            self.close()
            raise ConfigurationError(
                f"the journal {str(self._path)!r} cannot be written: {error.strerror or error}"
            ) from error
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """How many questions have an answer."""
        return len(self._answers)

    def __contains__(self, key: str) -> bool:
        """Whether a question has an answer."""
        return key in self._answers

    def answer(self, key: str) -> Any:
        """The answer to a question that has one."""
        return self._answers[key]

    def keep(self, key: str, value: Any) -> None:
        """Keep an answer; when this returns, a kill of the process loses it no more."""
        self._append({"kind": _ANSWER, "key": key, "value": value})
        self._answers[key] = value

    def set_out(self, plan: dict[str, Any]) -> None:
        """Keep what this run sets out to do, where it differs from the last."""
        if plan != self.plan:
            self._append({"kind": _PLAN, "plan": plan})
            self.plan = plan

    def close(self) -> None:
        """Let go of file and lock. Safe to call twice."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)
        self._lock.release()

    def _own(self) -> None:
        if not self._lock.acquire():
            raise ConfigurationError(
                f"process {self._lock.owner()} is building in {str(self._path.parent)!r}; wait, or give another folder"
            )

    def _append(self, record: dict[str, Any]) -> None:
        assert self._fd is not None  # noqa: S101  used in a `with` block
        line = (json.dumps(record) + "\n").encode()
        size = os.fstat(self._fd).st_size
        try:
            written = os.write(self._fd, line)
        except OSError as error:
            raise StoreError(f"the journal {str(self._path)!r} cannot be written: {error.strerror or error}") from error
        if written < len(line):
            # The next line must not be glued to a half one.
            os.ftruncate(self._fd, size)
            raise StoreError(f"the journal {str(self._path)!r} took {written} of {len(line)} bytes; is the disk full?")

    def _load(self, data: bytes) -> int:
        """Take in all whole lines; returns where the last one ends."""
        whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:whole].split(b"\n")[:-1], start=1):
            try:
                record = json.loads(line)
                if record["kind"] == _PLAN:
                    self.plan = dict(record["plan"])
                elif record["kind"] == _ANSWER:
                    self._answers[str(record["key"])] = record["value"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise DataError(
                    f"line {number} of {str(self._path)!r} is damaged ({error}); remove that line, and what it held is "
                    "asked again, or give another folder"
                ) from error
        return whole
