"""Judge calls of a dataset's build, with a journal of their replies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter

from ragstone.judges import Judge, Preparable, Prompt
from ragstone.metrics.crux import rate_answerability, rating_prompt
from ragstone.research._journal import Journal, JournaledCalls

T = TypeVar("T")


def key_of(judge_hash: str, prompt: Prompt) -> str:
    """Return the key of a judge call: a hash of judge, prompt and texts."""
    parts = [judge_hash, prompt.construct, prompt.task, *([name, value] for name, value in prompt.fields.items())]
    parts += [prompt.examples] if prompt.examples else []
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()[:32]


class JournaledJudge:
    """A judge whose replies are read from a journal, or written to it before they are used.

    Args:
        judge: The judge.
        journal: The journal.
        concurrency: Number of concurrent judge calls. A kill of the process loses at most this many.
    """

    def __init__(self, judge: Judge, journal: Journal, *, concurrency: int) -> None:
        self.judge = judge
        self._calls = JournaledCalls(journal, concurrency=concurrency)

    @property
    def n_asked(self) -> int:
        """Number of judge calls."""
        return self._calls.n_asked

    @property
    def n_known(self) -> int:
        """Number of calls answered from the journal."""
        return self._calls.n_known

    async def ask(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int) -> T:
        """Ask for a JSON value that matches `schema`.

        Raises:
            JudgeError: If the reply is unusable.
        """

        async def call() -> Any:
            return (await self.judge.ask_json(prompt, schema, max_tokens=max_tokens)).value

        return await self._calls.once(key_of(self.judge.identity.hash, prompt), call, schema.validate_python)

    async def rate(self, text: str, questions: Sequence[str]) -> tuple[int, ...]:
        """Rate a text for each question.

        Raises:
            JudgeError: If the reply is unusable.
        """
        prompt = rating_prompt(text, questions)

        async def call() -> Any:
            return list((await rate_answerability(self.judge, text, questions)).marks)

        key = key_of(self.judge.identity.hash, prompt)
        return await self._calls.once(key, call, lambda value: _marks(value, len(questions)))

    async def aclose(self) -> None:
        """Cancel calls in flight."""
        await self._calls.aclose()


def _marks(value: Any, n: int) -> tuple[int, ...]:
    if isinstance(value, list) and len(value) == n and all(type(mark) is int and 0 <= mark <= 5 for mark in value):
        return tuple(value)
    raise ValueError(f"expected {n} ratings from 0 to 5, got {value!r}")


async def prepared(judge: Judge) -> None:
    """Prepare a judge, so that its identity is final.

    Raises:
        JudgeError: If the judge is unavailable.
    """
    if isinstance(judge, Preparable):
        await judge.prepare()
