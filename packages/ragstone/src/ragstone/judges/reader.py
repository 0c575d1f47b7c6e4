"""The application's generator as a reader: its own prompt, its own model, and how likely it is to abstain."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.judges._model import ChatModel
from ragstone.judges._protocol import Abstention, JudgeIdentity, TextReply

__all__ = ["ChatReader"]


class ChatReader:
    """A reader made of a chat model."""

    def __init__(self, model: ChatModel) -> None:
        self.model = model

    @property
    def identity(self) -> JudgeIdentity:
        """Model, prompt and estimator."""
        raise NotImplementedError

    async def prepare(self) -> None:
        """Let the model find out what it needs."""
        await self.model.prepare()

    async def abstention(self, query: str, passages: Sequence[str]) -> Abstention:
        """How likely the reader abstains."""
        raise NotImplementedError

    async def answer(self, query: str, passages: Sequence[str]) -> TextReply:
        """The reader's own answer."""
        raise NotImplementedError

    def abstains(self, reply: str) -> bool:
        """Whether a reply is an abstention."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Let go of connections."""
        await self.model.aclose()
