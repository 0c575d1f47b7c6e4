"""Stand-ins for models that make no requests: they count calls and tokens, to estimate the cost of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import TypeAdapter

from ragstone.errors import JudgeError
from ragstone.judges._model import record_usage
from ragstone.judges._protocol import AbstentionEstimate, JsonReply, JudgeIdentity, NumberReply, Prompt, TextReply
from ragstone.judges._render import number_request, render
from ragstone.judges.lexical import LexicalEmbedder, LexicalJudge, LexicalReader
from ragstone.schema import Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

_CHARS_PER_TOKEN: Final = 4
"""Characters per token of English text with common tokenizers. Other languages need up to twice the tokens."""
_NUMBER_TOKENS: Final = 4
_ANSWER_TOKENS: Final = 100
_READING_CHARS: Final = 400
"""Characters that a reader's prompt adds to query and passages."""


class DryRunJudge:
    """Replies as the lexical baseline does, and records each prompt in the meters as if a model had been called.

    Tokens are estimated from characters, four per token. Prompts that the baseline does not support (free text) count.
    """

    def __init__(self) -> None:
        self._stand_in = LexicalJudge()

    @property
    def identity(self) -> JudgeIdentity:
        """Identity of a stand-in. Its replies must not be stored."""
        digest = hashlib.sha256(b"rehearsal").hexdigest()[:16]
        return JudgeIdentity(name="rehearsal", hash=digest, is_baseline=True)

    async def ask_text(self, prompt: Prompt, *, max_tokens: int = 512) -> TextReply:
        """Count the prompt.

        Raises:
            JudgeError: Always, with kind "unsupported".
        """
        _count(_chars(prompt), max_tokens // 2)
        return await self._stand_in.ask_text(prompt, max_tokens=max_tokens)

    async def ask_number(self, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
        """Count the prompt, and reply by word overlap.

        Raises:
            JudgeError: With kind "unsupported", if the baseline does not support this construct.
        """
        _count(_chars(prompt, number_request(low, high)), _NUMBER_TOKENS)
        return await self._stand_in.ask_number(prompt, low=low, high=high)

    async def ask_json(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int = 1024) -> JsonReply[T]:
        """Count the prompt, and reply by word overlap.

        Raises:
            JudgeError: With kind "unsupported", if the baseline does not support this construct.
        """
        try:
            reply = await self._stand_in.ask_json(prompt, schema, max_tokens=max_tokens)
        except JudgeError:
            _count(_chars(prompt), max_tokens // 2)
            raise
        _count(_chars(prompt), len(reply.raw) // _CHARS_PER_TOKEN)
        return reply

    async def aclose(self) -> None:
        """Do nothing."""


class DryRunReader:
    """Reads as the lexical baseline does, and records each call in the meters.

    Args:
        calls_per_reading: Requests for one p(abstain): 1 if the endpoint returns probabilities, else the number of
            draws.
    """

    def __init__(self, *, calls_per_reading: int = 1) -> None:
        self._stand_in = LexicalReader()
        self._calls = calls_per_reading

    @property
    def marker(self) -> str:
        """Reply of the reader when it abstains."""
        return self._stand_in.marker

    @property
    def identity(self) -> JudgeIdentity:
        """Identity of a stand-in. Its replies must not be stored."""
        digest = hashlib.sha256(b"rehearsal reader").hexdigest()[:16]
        return JudgeIdentity(name="rehearsal", hash=digest, is_baseline=True)

    async def estimate_abstention(self, query: str, passages: Sequence[str]) -> AbstentionEstimate:
        """Count the calls, and estimate by word overlap.

        Raises:
            JudgeError: With kind "unsupported", if the query contains no words.
        """
        for _ in range(self._calls):
            _count(_READING_CHARS + len(query) + sum(map(len, passages)), _NUMBER_TOKENS)
        return await self._stand_in.estimate_abstention(query, passages)

    async def answer(self, query: str, passages: Sequence[str]) -> TextReply:
        """Count the call, and answer by word overlap."""
        _count(_READING_CHARS + len(query) + sum(map(len, passages)), _ANSWER_TOKENS)
        return await self._stand_in.answer(query, passages)

    def is_abstention(self, reply: str) -> bool:
        """Return whether a reply is an abstention."""
        return self._stand_in.is_abstention(reply)

    async def aclose(self) -> None:
        """Do nothing."""


class DryRunEmbedder:
    """Embeds as the lexical baseline does, and records each call in the meters."""

    def __init__(self) -> None:
        self._stand_in = LexicalEmbedder()

    @property
    def identity(self) -> JudgeIdentity:
        """Identity of a stand-in. Its vectors must not be stored."""
        digest = hashlib.sha256(b"rehearsal embedder").hexdigest()[:16]
        return JudgeIdentity(name="rehearsal", hash=digest, is_baseline=True)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Count the call, and embed by word counts.

        Raises:
            JudgeError: With kind "unsupported", if a text contains no words.
        """
        n_tokens = max(1, sum(map(len, texts)) // _CHARS_PER_TOKEN)
        record_usage(Usage(calls=1, input_tokens=n_tokens))
        return await self._stand_in.embed(texts)

    async def aclose(self) -> None:
        """Do nothing."""


def _chars(prompt: Prompt, request: str = "") -> int:
    return sum(len(message["content"]) for message in render(prompt, request=request))


def _count(chars: int, output_tokens: int) -> None:
    record_usage(Usage(calls=1, input_tokens=max(1, chars // _CHARS_PER_TOKEN), output_tokens=max(1, output_tokens)))
