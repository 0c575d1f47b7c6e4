"""Stand-ins for the seams of Ragstone: a judge, a sink, a recorder. All in memory, all deterministic."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from json import dumps
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ragstone.errors import JudgeReplyError
from ragstone.judges import AbstentionEstimate, JsonReply, JudgeIdentity, NumberReply, Prompt, TextReply, record_usage
from ragstone.requests import TraceDraft
from ragstone.schema import Interval, Usage
from ragstone.sinks import Delivery
from ragstone.testing._json_values import schema_value

__all__ = ["FakeJudge", "FakeReader", "MemoryRecorder", "MemorySink"]

T = TypeVar("T")


class FakeJudge:
    """A judge that answers what the test says, or else a whole number made from a hash of the prompt.

    Args:
        number: What `ask_number` answers: always this; by construct; or by a function of the prompt. None makes a
            number in the range from the prompt. An answer out of range is an error, as with every judge.
        text: What `ask_text` answers.
        json: What `ask_json` answers: by construct, or by a function of the prompt. None makes a value of the shape from
            the prompt. A value of another shape is an error, as with every judge.
        fail: Called with each prompt first; the exception it returns is raised.
        latency_s: Seconds each answer takes.
        name: Part of the identity.

    Attributes:
        prompts: All prompts asked, in order.

    Example:
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
        self._number = number
        self._text = text
        self._json = json
        self._fail = fail
        self._latency_s = latency_s
        self._name = name
        self.prompts: list[Prompt] = []

    @property
    def identity(self) -> JudgeIdentity:
        """The name given, and its hash."""
        return JudgeIdentity(name=self._name, hash=hashlib.sha256(self._name.encode()).hexdigest()[:16])

    async def ask_text(self, prompt: Prompt, *, max_tokens: int = 512) -> TextReply:
        """Answer the text; its words beyond `max_tokens` make the reply "truncated", as with a model."""
        usage = await self._asked(prompt)
        text = self._text(prompt) if callable(self._text) else self._text
        if len(text.split()) > max_tokens:
            raise JudgeReplyError(f"the reply was cut at {max_tokens} tokens", kind="truncated", raw=text)
        return TextReply(text=text, usage=usage)

    async def ask_number(self, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
        """Answer the number."""
        usage = await self._asked(prompt)
        value = self._value(prompt, low, high)
        if not low <= value <= high:
            raise JudgeReplyError(f"expected a number from {low:g} to {high:g}, got {value!r}", raw=str(value))
        return NumberReply(value=float(value), raw=f"{value:g}", method="single_reply", usage=usage)

    async def ask_json(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int = 1024) -> JsonReply[T]:  # noqa: ARG002
        """Answer the value."""
        usage = await self._asked(prompt)
        if callable(self._json):
            value = self._json(prompt)
        elif self._json is not None:
            value = self._json[prompt.construct]
        else:
            value = schema_value(schema.json_schema(), lambda path: _share(prompt, path))
        raw = dumps(value)
        try:
            # As strict as replies are read: true is no number here either.
            return JsonReply(value=schema.validate_json(raw, strict=True), raw=raw, method="json_reply", usage=usage)
        except ValidationError as error:
            raise JudgeReplyError(f"the reply has another shape than was asked for: {error}", raw=raw) from None

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

    async def aclose(self) -> None:
        """Nothing to let go of."""


def _share(prompt: Prompt, *more: str) -> float:
    """A number in [0, 1) that depends on the prompt alone."""
    key = repr((prompt.construct, prompt.task, sorted(prompt.fields.items()), *more))
    return int.from_bytes(hashlib.sha256(key.encode(errors="replace")).digest()[:8]) / 2**64


class FakeReader:
    """A reader that abstains as often as the test says.

    Args:
        p: Probability to abstain: always this, or by a function of the question and the passages' texts. An exception
            that the function returns is raised.
        answer: What it answers: always this, or by a function of the same.
        half_width: Half the width of the intervals it reports, cut to [0, 1]; they count as Monte-Carlo when above 0.
        name: Part of the identity.

    Attributes:
        asked: Question and passages of each call, in order.

    Example:
        ```python
        reader = FakeReader(lambda query, passages: 0.1 if "Oslo" in passages[0] else 0.9)
        ```
    """

    def __init__(
        self,
        p: float | Callable[[str, Sequence[str]], float | Exception] = 0.5,
        *,
        answer: str | Callable[[str, Sequence[str]], str] = "a fake answer",
        half_width: float = 0.0,
        name: str = "fake reader",
    ) -> None:
        self._p = p
        self._answer = answer
        self._half_width = half_width
        self._name = name
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    @property
    def identity(self) -> JudgeIdentity:
        """The name given, and its hash."""
        return JudgeIdentity(name=self._name, hash=hashlib.sha256(self._name.encode()).hexdigest()[:16])

    async def estimate_abstention(self, query: str, passages: Sequence[str]) -> AbstentionEstimate:
        """Say what the test said."""
        self.asked.append((query, tuple(passages)))
        usage = Usage(calls=1, input_tokens=len("".join(passages)) // 4, output_tokens=1)
        record_usage(usage)
        p = self._p(query, passages) if callable(self._p) else self._p
        if isinstance(p, Exception):
            raise p
        low, high = max(0.0, p - self._half_width), min(1.0, p + self._half_width)
        drawn = self._half_width > 0
        return AbstentionEstimate(
            value=p,
            interval=Interval(low=low, high=high, method="wilson" if drawn else "exact"),
            method="monte_carlo" if drawn else "exact_sequence",
            complete=p,
            n=20 if drawn else 1,
            usage=usage,
        )

    async def answer(self, query: str, passages: Sequence[str]) -> TextReply:
        """Answer what the test said."""
        self.asked.append((query, tuple(passages)))
        return TextReply(text=self._answer(query, passages) if callable(self._answer) else self._answer)

    def is_abstention(self, reply: str) -> bool:
        """Whether a reply is NO-RESPONSE."""
        return reply.strip() == "NO-RESPONSE"

    async def aclose(self) -> None:
        """Nothing to let go of."""


class MemorySink:
    """A sink that keeps what it is given.

    Attributes:
        deliveries: Everything written, repetitions included, in order.
        closed: Whether `aclose` was called.

    Example:
        ```python
        sink = MemorySink()
        Monitor(sinks=[sink])
        ```
    """

    def __init__(self, name: str = "memory") -> None:
        self._name = name
        self.deliveries: list[Delivery] = []
        self.closed = False

    @property
    def name(self) -> str:
        """Its name in the outbox."""
        return self._name

    @property
    def by_id(self) -> dict[str, Delivery]:
        """The last delivery of each outcome, by the outcome's id: what an idempotent destination holds."""
        return {delivery.outcome.id: delivery for delivery in self.deliveries}

    async def write(self, batch: Sequence[Delivery]) -> None:
        """Keep the batch."""
        self.deliveries.extend(batch)

    async def aclose(self) -> None:
        """Note that it was closed; what was delivered stays."""
        self.closed = True


class MemoryRecorder:
    """A `Recorder` that keeps the drafts it is handed; for tests of capture hooks.

    Attributes:
        drafts: All drafts taken, in order.

    Args:
        accept: False refuses every draft, as a full queue does.
    """

    def __init__(self, *, accept: bool = True) -> None:
        self._accept = accept
        self.drafts: list[TraceDraft] = []

    def record(self, draft: TraceDraft) -> bool:
        """Keep the draft, unless told to refuse."""
        if self._accept:
            # `list.append` is atomic: capture hooks call this from many threads.
            self.drafts.append(draft)
        return self._accept
