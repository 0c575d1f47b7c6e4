"""Asking a judge with a journal: each question once, whatever happens in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from ragstone.judges import Judge, Preparable, Prompt
from ragstone.metrics.crux import RATING_TASK, rate_answerability
from ragstone.research._dataset.journal import Journal, key_of

__all__ = ["PASSING", "Asker", "prepared"]

T = TypeVar("T")

PASSING: Final = frozenset({"budget", "unavailable", "timeout"})
"""Kinds of failures that the same command may overcome another time."""


class Asker:
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

    async def ask(self, prompt: Prompt, shape: TypeAdapter[T], *, max_tokens: int) -> T:
        """A value of a shape.

        Raises:
            JudgeError: The judge gave no usable answer.
        """

        async def asked() -> Any:
            return (await self.judge.ask_json(prompt, shape, max_tokens=max_tokens)).value

        return await self._once(prompt, asked, shape.validate_python)

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
            self._journal.keep(key, value)
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
