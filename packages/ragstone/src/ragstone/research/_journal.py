"""A journal of model replies, so that no call is repeated after an interruption."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from ragstone._util.filelock import FileLock
from ragstone.errors import ConfigurationError, DataError, JudgeError, StoreError
from ragstone.judges import JudgeIdentity
from ragstone.schema import Failure
from ragstone.scoring import JudgedCounts

PASSING: Final = frozenset({"budget", "unavailable", "timeout"})
"""Kinds of temporary failures, after which running the same command again may succeed."""
_ENDING: Final = frozenset({"budget", "unavailable"})
"""Kinds of failures after which all further calls would fail as well, some of them only after minutes."""

_ANSWER: Final = "answer"
_PLAN: Final = "plan"

T = TypeVar("T")


class Journal:
    """An append-only JSONL file of model replies with one owner at a time, used in a `with` block.

    Each reply is written as one line in one write. If a kill leaves an incomplete last line, it is removed when the file is
    opened, and only this call is repeated.

    Args:
        path: The file. It is created if missing.

    Raises:
        ConfigurationError: If another process uses the file, or it cannot be written.
        DataError: If the file is not a journal, or a line before the last is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(path.with_suffix(".lock"))
        self._answers: dict[str, Any] = {}
        self._fd: int | None = None
        self.plan: dict[str, Any] | None = None
        """What the last run was about, or None before the first."""

    def __enter__(self) -> Self:
        try:
            self._own()
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
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
        """Return the number of replies."""
        return len(self._answers)

    def __contains__(self, key: str) -> bool:
        """Return whether the journal has a reply for a key."""
        return key in self._answers

    def answer(self, key: str) -> Any:
        """Return the reply for a key."""
        return self._answers[key]

    def append(self, key: str, value: Any) -> None:
        """Write a reply. After this returns, a kill of the process does not lose it."""
        self._append({"kind": _ANSWER, "key": key, "value": value})
        self._answers[key] = value

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
        self._lock.release()

    def _own(self) -> None:
        if not self._lock.acquire():
            raise ConfigurationError(
                f"process {self._lock.owner()} is running in {str(self._path.parent)!r}. Wait, or give another directory."
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
            # Remove the incomplete line, so that the next one starts on a new line.
            os.ftruncate(self._fd, size)
            raise StoreError(
                f"only {written} of {len(line)} bytes could be written to the journal {str(self._path)!r}. Check for free "
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
                    self._answers[str(record["key"])] = record["value"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise DataError(
                    f"line {number} of {str(self._path)!r} is damaged ({error}). Remove the line to repeat its call, or "
                    "give another directory."
                ) from error
        return end


class JournaledCalls:
    """Model calls whose results are read from a journal, or written to it before they are used.

    Equal calls are one call. After a model fails systematically (with `stop_early`), no further call is made, and later calls
    fail with the same error. With a journal, from which another run continues, also after a budget is exhausted or a model is
    unavailable.

    Args:
        journal: The journal, or None to keep the results only in memory.
        concurrency: Number of concurrent calls. A kill of the process loses at most this many.
        stop_early: Whether to stop if a model fails systematically.
        on_answer: Called after each distinct call that was answered.
    """

    def __init__(
        self,
        journal: Journal | None,
        *,
        concurrency: int,
        stop_early: bool = True,
        on_answer: Callable[[], None] | None = None,
    ) -> None:
        self._journal = journal
        self._stop_early = stop_early
        self._slots = asyncio.Semaphore(concurrency)
        self._work: dict[str, asyncio.Task[Any]] = {}
        self._known: set[str] = set()
        self._on_answer = on_answer or (lambda: None)
        self._stopped_by: JudgeError | None = None
        self.systematic: JudgeError | None = None
        """The error of a model that fails systematically."""
        self.counts: dict[str, JudgedCounts] = {}
        """Answered and failed calls, by name of the model."""
        self.n_answered = 0
        """Number of answered calls that were not in the journal."""

    @property
    def n_known(self) -> int:
        """Number of calls answered from the journal."""
        return len(self._known)

    async def once(
        self, model: JudgeIdentity, key: str, call: Callable[[], Coroutine[Any, Any, Any]], read: Callable[[Any], T]
    ) -> T:
        """Return the result of a call, from the journal if it contains a valid one.

        Args:
            model: The model that is called.
            key: Key of the call.
            call: Makes the call, and returns plain values for JSON.
            read: Makes the result from these values. It raises ValueError or KeyError if they are invalid.

        Raises:
            JudgeError: If the call fails.
        """
        if self._journal is not None and key in self._journal and key not in self._work:
            try:
                known = read(self._journal.answer(key))
            except (ValueError, KeyError, TypeError):
                pass  # The line was edited and is not a valid reply, so the call is repeated.
            else:
                if key not in self._known:
                    self._known.add(key)
                    self._counts_of(model).n_scored += 1
                    self._on_answer()
                return known
        if key not in self._work:
            self._work[key] = asyncio.create_task(self._call(model, key, call))
        return read(await asyncio.shield(self._work[key]))

    async def _call(self, model: JudgeIdentity, key: str, call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        async with self._slots:
            if self._stopped_by is not None:
                raise self._stopped_by
            try:
                value = await call()
            except JudgeError as error:
                self._count_failure(model, key, error)
                raise
            if self._journal is not None:
                self._journal.append(key, value)
        self.n_answered += 1
        self._counts_of(model).n_scored += 1
        self._on_answer()
        return value

    def _counts_of(self, model: JudgeIdentity) -> JudgedCounts:
        return self.counts.setdefault(model.name, JudgedCounts())

    def _count_failure(self, model: JudgeIdentity, key: str, error: JudgeError) -> None:
        counts = self._counts_of(model)
        failure = {
            "sample_id": key,
            "metric": "call",
            "metric_version": "1",
            "judge": model.name,
            "judge_hash": model.hash,
        }
        counts.add([Failure.model_validate(failure | {"kind": error.kind, "reason": str(error)})])
        if error.kind in _ENDING and self._journal is not None:
            self._stopped_by = error
        elif self._stop_early and (cause := counts.describe_systematic()):
            self._stopped_by = self.systematic = JudgeError(
                f"the run was stopped. {cause}. Fix the cause, or make all calls with stop_early=False "
                "(--set limits.stop_early=false)",
                kind=error.kind,
            )

    async def aclose(self) -> None:
        """Cancel calls in flight."""
        for task in self._work.values():
            task.cancel()
        await asyncio.gather(*self._work.values(), return_exceptions=True)
        self._work.clear()
