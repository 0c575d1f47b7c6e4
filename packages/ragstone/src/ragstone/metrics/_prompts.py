"""Prompts of the user in place of built-in ones (`[prompts]`): their placeholders, and the judge that receives them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Final, Self, TypeVar

from pydantic import TypeAdapter

from ragstone.errors import ConfigurationError
from ragstone.judges import PLACEHOLDER, JsonReply, Judge, JudgeIdentity, NumberReply, Preparable, Prompt, TextReply

T = TypeVar("T")

OWN_PROMPTS: Final[ContextVar[Mapping[str, str]]] = ContextVar("ragstone_own_prompts", default={})  # noqa: B039
"""The user's own prompts by key: `METRIC`, or `METRIC.NAME` for one of several prompts of a metric."""


def hash_tasks(tasks: Sequence[str]) -> str:
    """Return the prompt hash of task texts."""
    return hashlib.sha256("\x1f".join(tasks).encode(errors="replace")).hexdigest()[:12]


class Task(str):  # noqa: SLOT000  it has attributes
    """The text of a task for the judge, whose prompt a user can replace."""

    name: str
    """Name of the prompt among those of a metric."""
    needs: tuple[str, ...]
    """Fields that each prompt of the task shows."""
    allows: tuple[str, ...]
    """Fields that it shows if a sample has them."""
    examples: str

    def __new__(
        cls, text: str, name: str = "", needs: Sequence[str] = (), allows: Sequence[str] = (), examples: str = ""
    ) -> Self:
        task = super().__new__(cls, text)
        task.name, task.needs, task.allows, task.examples = name, tuple(needs), tuple(allows), examples
        return task

    @property
    def template(self) -> str:
        """The built-in prompt as a user would write it: a placeholder for each field, and the task."""
        fields = "\n".join(f"{{{name}}}" for name in (*self.allows, *self.needs))
        return "\n\n".join(filter(None, (self.examples, fields, self)))

    def check(self, key: str, text: str) -> None:
        """Check the placeholders of a prompt. Raise ConfigurationError if one is unknown, or a needed one is missing."""
        written, needed = set(PLACEHOLDER.findall(text)), set(self.needs)
        allowed = ", ".join(f"{{{name}}}" for name in self.needs)
        if self.allows:
            allowed += f" (required), {', '.join(f'{{{name}}}' for name in self.allows)}"
        for names, words in (
            (written - needed - {*self.allows}, "contains the unknown"),
            (needed - written, "lacks the"),
        ):
            if names:
                raise ConfigurationError(
                    f"prompts: the prompt of {key!r} {words} placeholder {{{min(names)}}}. Placeholders: {allowed}"
                )


class RewordedJudge:
    """A judge that receives changed prompts. Reply formats and scales are the same.

    Its hash also depends on `stated`, so that metrics do not share the replies to other prompts. `suffix` is in its name.
    """

    def __init__(
        self, judge: Judge, change: Callable[[Prompt], Prompt], *, stated: Sequence[str], suffix: str = ""
    ) -> None:
        self._judge = judge
        self._change = change
        self._stated = stated
        self._suffix = suffix

    @property
    def identity(self) -> JudgeIdentity:
        """Identity of the judge with these prompts."""
        known = self._judge.identity
        return replace(known, name=f"{known.name}{self._suffix}", hash=hash_tasks((known.hash, *self._stated)))

    async def prepare(self) -> None:
        """Prepare the judge."""
        if isinstance(self._judge, Preparable):
            await self._judge.prepare()

    async def ask_text(self, prompt: Prompt, *, max_tokens: int = 512) -> TextReply:
        """Request free text."""
        return await self._judge.ask_text(self._change(prompt), max_tokens=max_tokens)

    async def ask_number(self, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
        """Request a number."""
        return await self._judge.ask_number(self._change(prompt), low=low, high=high)

    async def ask_json(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int = 1024) -> JsonReply[T]:
        """Request a value."""
        return await self._judge.ask_json(self._change(prompt), schema, max_tokens=max_tokens)

    async def aclose(self) -> None:
        """Do nothing. The judge is closed by its owner."""


def with_own_prompts(judge: Judge, texts: Mapping[Task, str]) -> RewordedJudge:
    """Return a judge that receives the user's prompts in place of built-in tasks."""

    def change(prompt: Prompt) -> Prompt:
        for task, text in texts.items():
            if prompt.task.startswith(task):
                # A second request adds a sentence to the task.
                return replace(prompt, task=text + prompt.task[len(task) :], examples="", is_template=True)
        return prompt

    return RewordedJudge(judge, change, stated=[*texts, *texts.values()])
