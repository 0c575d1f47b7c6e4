"""In-memory, deterministic fakes: a judge and a recorder."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from json import dumps
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ragstone.capture import Guard
from ragstone.errors import JudgeReplyError
from ragstone.judges import JsonReply, JudgeIdentity, NumberReply, Prompt, TextReply, record_usage
from ragstone.requests import Request, RequestBlocks, TraceDraft, assemble
from ragstone.schema import Usage
from ragstone.testing._json_values import schema_value

T = TypeVar("T")


class FakeJudge:
    """A judge with replies that the test defines. By default it derives numbers from a hash of the prompt.

    Args:
        number: Reply of `ask_number`: a constant, a mapping by construct, or a function of the prompt. None derives a
            number in the range from the prompt. A number out of range is an error, as with every judge.
        text: Reply of `ask_text`.
        json: Reply of `ask_json`: a mapping by construct, or a function of the prompt. None derives a value of the
            shape from the prompt. A value of another shape is an error, as with every judge.
        fail: Called first with each prompt. If it returns an exception, the judge raises it.
        latency_s: Duration of each reply in seconds.
        name: Name in the identity.

    Attributes:
        prompts: All prompts, in order.

    Examples:
        ```python
        judge = FakeJudge({"question_relevance": 80, "information_density": 55})
        ```
    """

    def __init__(
        self,
        number: float | Mapping[str, float] | Callable[[Prompt], float] | None = None,
        *,
        text: str | Callable[[Prompt], str] = "a fake answer",
        json: Mapping[str, Any] | Callable[[Prompt], Any] | None = None,
        fail: Callable[[Prompt], Exception | None] | None = None,
        latency_s: float = 0.0,
        name: str = "fake judge",
    ) -> None:
        self._name = name
        self._number = number
        self._text = text
        self._json = json
        self._fail = fail
        self._latency_s = latency_s
        self.prompts: list[Prompt] = []

    @property
    def identity(self) -> JudgeIdentity:
        """The name, and its hash."""
        return JudgeIdentity(name=self._name, hash=hashlib.sha256(self._name.encode()).hexdigest()[:16])

    async def aclose(self) -> None:
        """Do nothing."""

    async def ask_text(self, prompt: Prompt, *, max_tokens: int = 512) -> TextReply:
        """Return the text. If it has more than `max_tokens` words, the reply fails as "truncated"."""
        usage = await self._asked(prompt)
        text = self._text(prompt) if callable(self._text) else self._text
        if len(text.split()) > max_tokens:
            raise JudgeReplyError(f"the reply was cut at {max_tokens} tokens", kind="truncated", raw=text)
        return TextReply(text=text, usage=usage)

    async def ask_number(self, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
        """Return the number."""
        usage = await self._asked(prompt)
        value = self._value(prompt, low, high)
        if not low <= value <= high:
            raise JudgeReplyError(f"expected a number from {low:g} to {high:g}, got {value!r}", raw=str(value))
        return NumberReply(value=float(value), raw=f"{value:g}", method="single_reply", usage=usage)

    async def ask_json(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int = 1024) -> JsonReply[T]:  # noqa: ARG002
        """Return the value."""
        usage = await self._asked(prompt)
        if callable(self._json):
            value = self._json(prompt)
        elif self._json is not None:
            value = self._json[prompt.construct]
        else:
            value = schema_value(schema.json_schema(), lambda path: _share(prompt, path))
        raw = dumps(value)
        try:
            # As strict as for other judges: true is not a number.
            return JsonReply(value=schema.validate_json(raw, strict=True), raw=raw, method="json_reply", usage=usage)
        except ValidationError as error:
            raise JudgeReplyError(f"the reply does not have the requested shape: {error}", raw=raw) from None

    async def _asked(self, prompt: Prompt) -> Usage:
        self.prompts.append(prompt)
        usage = Usage(calls=1, input_tokens=len(str(prompt.fields)) // 4, output_tokens=1)
        record_usage(usage)
        await asyncio.sleep(self._latency_s)
        if self._fail is not None and (error := self._fail(prompt)) is not None:
            raise error
        return usage

    def _value(self, prompt: Prompt, low: float, high: float) -> float:
        if callable(self._number):
            return self._number(prompt)
        if isinstance(self._number, Mapping):
            return self._number[prompt.construct]
        if self._number is not None:
            return self._number
        return low + round(_share(prompt) * 100) * (high - low) / 100


def _share(prompt: Prompt, *more: str) -> float:
    """Derive a number in [0, 1) from the prompt."""
    key = repr((prompt.construct, prompt.task, sorted(prompt.fields.items()), *more))
    return int.from_bytes(hashlib.sha256(key.encode(errors="replace")).digest()[:8]) / 2**64


class MemoryRecorder(RequestBlocks):
    """A `Recorder` that stores drafts in memory, for tests of capture hooks and of blocks.

    Attributes:
        drafts: All accepted drafts, in order.

    Args:
        accept: If False, every draft is rejected, as by a full queue.
    """

    def __init__(self, *, accept: bool = True) -> None:
        self._accept = accept
        self._guard = Guard()
        self.drafts: list[TraceDraft] = []

    def record(self, draft: TraceDraft | Request) -> bool:
        """Store the draft if `accept` is true, and return whether it was stored. A request is assembled at once."""
        if self._accept:
            # `list.append` is atomic, and capture hooks call this from many threads.
            self.drafts.append(assemble(draft) if isinstance(draft, Request) else draft)
        return self._accept
