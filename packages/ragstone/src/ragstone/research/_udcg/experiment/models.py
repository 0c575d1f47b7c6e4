"""A reader and judges whose replies are kept in a journal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter

from ragstone.errors import ConfigurationError
from ragstone.judges import (
    AbstentionEstimate,
    ExactReader,
    JsonReply,
    Judge,
    JudgeIdentity,
    NumberReply,
    Prompt,
    Reader,
    TextReply,
)
from ragstone.research._journal import JournaledCalls
from ragstone.schema import Interval

T = TypeVar("T")


def _key(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _interval(value: Any) -> Interval | None:
    return None if value is None else Interval.model_validate(value)


class RecordedReader:
    """A reader that reads known replies from a journal, and writes the others to it."""

    def __init__(self, reader: Reader, calls: JournaledCalls) -> None:
        self._reader = reader
        self._calls = calls

    @property
    def identity(self) -> JudgeIdentity:
        """Identity of the reader."""
        return self._reader.identity

    async def estimate_abstention(self, query: str, passages: Sequence[str]) -> AbstentionEstimate:
        """Estimate the probability of an abstention once for each query with these passages."""

        async def call() -> dict[str, Any]:
            found = await self._reader.estimate_abstention(query, passages)
            return {
                "value": found.value,
                "interval": found.interval.model_dump(mode="json"),
                "method": found.method,
                "complete": found.complete,
                "n": found.n,
                "n_missing": found.n_missing,
            }

        def read(value: Any) -> AbstentionEstimate:
            return AbstentionEstimate(**{**value, "interval": Interval.model_validate(value["interval"])})

        return await self._calls.once(_key("p_abstain", self.identity.hash, query, list(passages)), call, read)

    async def answer(self, query: str, passages: Sequence[str]) -> TextReply:
        """Answer once for each query with these passages."""

        async def call() -> str:
            return (await self._reader.answer(query, passages)).text

        key = _key("answer", self.identity.hash, query, list(passages))
        return TextReply(text=await self._calls.once(key, call, str))

    async def answer_logprob(self, query: str, passages: Sequence[str], answer: str) -> float:
        """Read the log-probability of an answer once.

        Raises:
            ConfigurationError: If the reader does not provide it.
        """
        reader = self._reader
        if not isinstance(reader, ExactReader):
            raise ConfigurationError(
                f"part answer-prob needs the probability of a given answer, which the reader {self.identity.name} does not "
                "provide. Use a vLLM server or vllm:MODEL as reader, or omit this part"
            )

        async def call() -> float:
            return await reader.answer_logprob(query, passages, answer)

        key = _key("logprob", self.identity.hash, query, list(passages), answer)
        return await self._calls.once(key, call, float)

    def is_abstention(self, reply: str) -> bool:
        """Return whether a reply is an abstention."""
        return self._reader.is_abstention(reply)

    async def aclose(self) -> None:
        """Close the reader."""
        await self._reader.aclose()


class RecordedJudge:
    """A judge that reads known replies from a journal, and writes the others to it."""

    def __init__(self, judge: Judge, calls: JournaledCalls) -> None:
        self._judge = judge
        self._calls = calls

    @property
    def identity(self) -> JudgeIdentity:
        """Identity of the judge."""
        return self._judge.identity

    def _key_of(self, kind: str, prompt: Prompt, *more: object) -> str:
        fields = [[name, value] for name, value in prompt.fields.items()]
        return _key(kind, self.identity.hash, prompt.construct, prompt.task + prompt.examples, fields, *more)

    async def ask_text(self, prompt: Prompt, *, max_tokens: int = 512) -> TextReply:
        """Ask for a text once."""

        async def call() -> str:
            return (await self._judge.ask_text(prompt, max_tokens=max_tokens)).text

        return TextReply(text=await self._calls.once(self._key_of("text", prompt, max_tokens), call, str))

    async def ask_number(self, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
        """Ask for a number once."""

        async def call() -> dict[str, Any]:
            reply = await self._judge.ask_number(prompt, low=low, high=high)
            interval = None if reply.interval is None else reply.interval.model_dump(mode="json")
            return {
                "value": reply.value,
                "raw": reply.raw,
                "method": reply.method,
                "n": reply.n,
                "n_missing": reply.n_missing,
                "interval": interval,
            }

        def read(value: Any) -> NumberReply:
            return NumberReply(**{**value, "interval": _interval(value["interval"])})

        return await self._calls.once(self._key_of("number", prompt, low, high), call, read)

    async def ask_json(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int = 1024) -> JsonReply[T]:
        """Ask for a value once."""

        async def call() -> Any:
            return schema.dump_python(
                (await self._judge.ask_json(prompt, schema, max_tokens=max_tokens)).value, mode="json"
            )

        value = await self._calls.once(self._key_of("json", prompt, max_tokens), call, schema.validate_python)
        return JsonReply(value=value, raw=json.dumps(schema.dump_python(value, mode="json")), method="recorded_reply")

    async def aclose(self) -> None:
        """Close the judge."""
        await self._judge.aclose()
