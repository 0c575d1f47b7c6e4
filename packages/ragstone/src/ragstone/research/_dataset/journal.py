"""Questions to the judge, each asked once: a journal keeps every answer."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from pydantic import TypeAdapter, ValidationError

from ragstone._util.filelock import FileLock
from ragstone.errors import ConfigurationError, DataError, StoreError
from ragstone.judges import Judge, Preparable, Prompt
from ragstone.metrics.crux import RATING_TASK, rate_answerability

__all__ = ["PASSING", "Journal", "JournaledJudge", "key_of", "prepared"]

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

    def append(self, key: str, value: Any) -> None:
        """Keep an answer; when this returns, a kill of the process loses it no more."""
        self._append({"kind": _ANSWER, "key": key, "value": value})
        self._answers[key] = value

    def record_run(self, plan: dict[str, Any]) -> None:
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


T = TypeVar("T")

PASSING: Final = frozenset({"budget", "unavailable", "timeout"})
"""Kinds of failures that the same command may overcome another time."""


class JournaledJudge:
    """Asks what the journal does not know yet, and keeps each answer before it is used.

    Args:
        judge: Who is asked.
        journal: Where answers are kept.
        concurrency: Questions in flight at once; so many are lost at most when the process is killed.
    """

    def __init__(self, judge: Judge, journal: Journal, *, concurrency: int) -> None:
        self.judge = judge
        self._journal = journal
        self._room = asyncio.Semaphore(concurrency)
        self._work: dict[str, asyncio.Task[Any]] = {}
        self.n_asked = 0
        """Questions that went to the judge."""
        self._known: set[str] = set()

    @property
    def n_known(self) -> int:
        """Questions that the journal knew."""
        return len(self._known)

    async def ask(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int) -> T:
        """A value of a shape.

        Raises:
            JudgeError: The judge gave no usable answer.
        """

        async def asked() -> Any:
            return (await self.judge.ask_json(prompt, schema, max_tokens=max_tokens)).value

        return await self._once(prompt, asked, schema.validate_python)

    async def rate(self, text: str, questions: Sequence[str]) -> tuple[int, ...]:
        """Ratings of a text, one for each question.

        Raises:
            JudgeError: The judge gave no usable answer.
        """
        prompt = Prompt(
            construct="answerability", task=RATING_TASK, fields={"sub_questions": tuple(questions), "evidence": text}
        )

        async def asked() -> Any:
            return list((await rate_answerability(self.judge, text, questions)).marks)

        return await self._once(prompt, asked, lambda value: _marks(value, len(questions)))

    async def _once(self, prompt: Prompt, asked: Callable[[], Coroutine[Any, Any, Any]], read: Callable[[Any], T]) -> T:
        key = key_of(self.judge.identity.hash, prompt)
        if key in self._journal and key not in self._work:
            try:
                known = read(self._journal.answer(key))
            except (ValidationError, ValueError):
                pass  # Somebody changed the line: it is no answer, and is asked for again.
            else:
                self._known.add(key)
                return known
        if key not in self._work:
            self._work[key] = asyncio.create_task(self._kept(key, asked))
        return read(await asyncio.shield(self._work[key]))

    async def _kept(self, key: str, asked: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        async with self._room:
            self.n_asked += 1
            value = await asked()
            self._journal.append(key, value)
        return value

    async def aclose(self) -> None:
        """Stop what is still being asked."""
        for task in self._work.values():
            task.cancel()
        await asyncio.gather(*self._work.values(), return_exceptions=True)
        self._work.clear()


def _marks(value: Any, n: int) -> tuple[int, ...]:
    if isinstance(value, list) and len(value) == n and all(type(mark) is int and 0 <= mark <= 5 for mark in value):
        return tuple(value)
    raise ValueError(f"expected {n} ratings from 0 to 5, got {value!r}")


async def prepared(judge: Judge) -> None:
    """Have a judge find out what it needs, so that its identity is final.

    Raises:
        JudgeError: It cannot be reached.
    """
    if isinstance(judge, Preparable):
        await judge.prepare()
