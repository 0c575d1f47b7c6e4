"""Stand-ins for models that make no requests: they count calls and tokens, to estimate the cost of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import TypeAdapter
from typing_extensions import override

from ragstone.errors import JudgeError
from ragstone.judges._model import record_usage
from ragstone.judges._protocol import AbstentionEstimate, JsonReply, NumberReply, Prompt, TextReply
from ragstone.judges._render import number_request, render
from ragstone.judges.lexical import LexicalEmbedder, LexicalJudge, LexicalReader, identify_baseline
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


class DryRunJudge(LexicalJudge):
    """Replies as the lexical baseline does, and records each prompt in the meters as if a model had been called.

    Tokens are estimated from characters, four per token. Prompts that the baseline does not support (free text) count.
    """

    identity = identify_baseline("rehearsal", name="rehearsal")

    @override
    async def ask_text(self, prompt: Prompt, *, max_tokens: int = 512) -> TextReply:
        _count(_chars(prompt), max_tokens // 2)
        return await super().ask_text(prompt, max_tokens=max_tokens)

    @override
    async def ask_number(self, prompt: Prompt, *, low: float = 0, high: float = 100) -> NumberReply:
        _count(_chars(prompt, number_request(low, high)), _NUMBER_TOKENS)
        return await super().ask_number(prompt, low=low, high=high)

    @override
    async def ask_json(self, prompt: Prompt, schema: TypeAdapter[T], *, max_tokens: int = 1024) -> JsonReply[T]:
        try:
            reply = await super().ask_json(prompt, schema, max_tokens=max_tokens)
        except JudgeError:
            _count(_chars(prompt), max_tokens // 2)
            raise
        _count(_chars(prompt), len(reply.raw) // _CHARS_PER_TOKEN)
        return reply


class DryRunReader(LexicalReader):
    """Reads as the lexical baseline does, and records each call in the meters.

    Args:
        calls_per_reading: Requests for one p(abstain): 1 if the endpoint returns probabilities, else the number of
            draws.
    """

    identity = identify_baseline("rehearsal reader", name="rehearsal")

    def __init__(self, *, calls_per_reading: int = 1) -> None:
        self._calls = calls_per_reading

    @override
    async def estimate_abstention(self, query: str, passages: Sequence[str]) -> AbstentionEstimate:
        for _ in range(self._calls):
            _count(_READING_CHARS + len(query) + sum(map(len, passages)), _NUMBER_TOKENS)
        return await super().estimate_abstention(query, passages)

    @override
    async def answer(self, query: str, passages: Sequence[str]) -> TextReply:
        _count(_READING_CHARS + len(query) + sum(map(len, passages)), _ANSWER_TOKENS)
        return await super().answer(query, passages)


class DryRunEmbedder(LexicalEmbedder):
    """Embeds as the lexical baseline does, and records each call in the meters."""

    identity = identify_baseline("rehearsal embedder", name="rehearsal")

    @override
    async def embed(self, texts: Sequence[str]) -> NDArray[np.float64]:
        record_usage(Usage(calls=1, input_tokens=max(1, sum(map(len, texts)) // _CHARS_PER_TOKEN)))
        return await super().embed(texts)


def _chars(prompt: Prompt, request: str = "") -> int:
    return sum(len(message["content"]) for message in render(prompt, request=request))


def _count(chars: int, output_tokens: int) -> None:
    record_usage(Usage(calls=1, input_tokens=max(1, chars // _CHARS_PER_TOKEN), output_tokens=max(1, output_tokens)))
