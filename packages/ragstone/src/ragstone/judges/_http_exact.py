"""Exact probabilities of given replies, over HTTP: token-id prompts, prefilled chats, echoed completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragstone.judges._model import ForcedReading
from ragstone.judges._render import Message

if TYPE_CHECKING:
    from ragstone.judges.openai_model import OpenAICompatibleModel

__all__ = ["ExactReads"]


class ExactReads:
    """The exact routes of one endpoint."""

    def __init__(self, model: OpenAICompatibleModel) -> None:
        self._model = model

    async def chat_ids(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a conversation, up to where the reply begins."""
        raise NotImplementedError

    async def text_ids(self, text: str) -> list[int]:
        """Token ids of a text by itself."""
        raise NotImplementedError

    async def end_id(self) -> int | None:
        """The token that ends a reply."""
        raise NotImplementedError

    async def next_logprobs(
        self, prefixes: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]
    ) -> list[dict[int, float]]:
        """Log-probabilities of the wanted tokens after each prefix."""
        raise NotImplementedError

    async def forced(self, messages: Sequence[Message], reply: str) -> ForcedReading:
        """Log-probabilities of a reply."""
        raise NotImplementedError
