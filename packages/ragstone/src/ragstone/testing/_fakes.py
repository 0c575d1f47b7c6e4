"""In-memory, deterministic fakes: a judge, a reader, an embedder, a sink and a recorder."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from json import dumps
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from ragstone.capture import Guard
from ragstone.errors import JudgeReplyError
from ragstone.judges import AbstentionEstimate, JsonReply, JudgeIdentity, NumberReply, Prompt, TextReply, record_usage
from ragstone.requests import Request, RequestBlocks, TraceDraft, assemble
from ragstone.schema import Interval, Usage
from ragstone.sinks import Delivery
from ragstone.testing._json_values import schema_value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")


class _Fake:
    """A model with a name, and without connections."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def identity(self) -> JudgeIdentity:
        """The name, and its hash."""
        return JudgeIdentity(name=self._name, hash=hashlib.sha256(self._name.encode()).hexdigest()[:16])

    async def aclose(self) -> None:
        """Do nothing."""


class FakeJudge(_Fake):
    """A judge with replies that the test defines. By default it derives numbers from a hash of the prompt.

    Args:
        number: Reply of `ask_number`: a constant, a mapping by construct, or a function of the prompt. None derives a
            number in the range from the prompt. A number out of range is an error, as with every judge.
        text: Reply of `ask_text`.
        json: Reply of `ask_json`: a mapping by construct, or a function of the prompt. None derives a value of the shape
            from the prompt. A value of another shape is an error, as with every judge.
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
        super().__init__(name)
        self._number = number
        self._text = text
        self._json = json
        self._fail = fail
        self._latency_s = latency_s
        self.prompts: list[Prompt] = []

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


class FakeReader(_Fake):
    """A reader with abstention probabilities that the test defines.

    Args:
        p: Probability of abstention: a constant, or a function of the query and the texts of the passages. An exception
            that the function returns is raised.
        answer: Answer: a constant, or a function with the same arguments.
        half_width: Half the width of the intervals, which are cut to [0, 1]. Above 0 the method is Monte Carlo.
        name: Name in the identity.

    Attributes:
        asked: Query and passages of each call, in order.

    Examples:
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
        super().__init__(name)
        self._p = p
        self._answer = answer
        self._half_width = half_width
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    async def estimate_abstention(self, query: str, passages: Sequence[str]) -> AbstentionEstimate:
        """Return the probability that the test defined."""
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
        """Return the answer that the test defined."""
        self.asked.append((query, tuple(passages)))
        return TextReply(text=self._answer(query, passages) if callable(self._answer) else self._answer)

    def is_abstention(self, reply: str) -> bool:
        """Return whether a reply equals "NO-RESPONSE"."""
        return reply.strip() == "NO-RESPONSE"


class FakeEmbedder(_Fake):
    """An embedder whose cosines a test defines.

    Args:
        cosines: Cosine of the first text of a call with each other one, in order, or a function of the first and another
            text that returns it or an exception.
        name: Name of the embedder.

    Attributes:
        asked: Texts of all calls, in order.

    Examples:
        ```python
        (metric,) = resolve_metrics("vera.answer_relevance_cosine")
        metric = metric.with_embedder(FakeEmbedder([0.8]))
        ```
    """

    def __init__(
        self, cosines: Sequence[float] | Callable[[str, str], float | Exception] = (), *, name: str = "fake embedder"
    ) -> None:
        super().__init__(name)
        self._cosines = cosines
        self.asked: list[tuple[str, ...]] = []

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return vectors with these cosines. Without enough of them, the cosine is 0.5."""
        import numpy as np

        self.asked.append(tuple(texts))
        record_usage(Usage(calls=1, input_tokens=len("".join(texts)) // 4))
        rows = np.zeros((len(texts), len(texts)))
        rows[0, 0] = 1.0
        for place, text in enumerate(texts[1:], start=1):
            cosine = self._cosine(place - 1, texts[0], text)
            if isinstance(cosine, Exception):
                raise cosine
            rows[place, 0], rows[place, place] = cosine, math.sqrt(1 - cosine**2)
        return rows

    def _cosine(self, place: int, first: str, other: str) -> float | Exception:
        if callable(self._cosines):
            return self._cosines(first, other)
        return self._cosines[place] if place < len(self._cosines) else 0.5


class MemorySink:
    """A sink that stores deliveries in memory.

    Attributes:
        deliveries: All deliveries in order, including repeated ones.
        closed: Whether `aclose` was called.

    Examples:
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
        """Name of the sink in the outbox."""
        return self._name

    @property
    def by_id(self) -> dict[str, Delivery]:
        """The last delivery of each outcome by outcome id, which is what an idempotent destination contains."""
        return {delivery.outcome.id: delivery for delivery in self.deliveries}

    async def write(self, batch: Sequence[Delivery]) -> None:
        """Store the batch."""
        self.deliveries.extend(batch)

    async def aclose(self) -> None:
        """Set `closed`. The deliveries stay available."""
        self.closed = True


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
            if isinstance(draft, Request):
                draft = assemble(draft)
            # `list.append` is atomic, and capture hooks call this from many threads.
            self.drafts.append(draft)
        return self._accept
