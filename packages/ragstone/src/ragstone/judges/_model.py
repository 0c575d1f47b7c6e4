"""The seam under judges and readers: what a chat model can be asked, whatever runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from ragstone.judges._capabilities import Capabilities
from ragstone.judges._render import Message

__all__ = ["ChatModel", "ChatRequest", "Completion", "ForcedReading", "TokenReading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A request for replies to a conversation."""

    messages: Sequence[Message]
    max_tokens: int
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """`temperature`, `seed`, `top_p`, ...; what the endpoint refuses is left out and remembered."""
    n: int = 1
    """Replies wanted. An endpoint that gives only one a request is asked again."""
    top_logprobs: int = 0
    """Alternatives to report for each token of the reply; 0 asks for no log-probabilities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenReading:
    """One token of a reply, with what else might have stood there."""

    text: str
    logprob: float
    """Natural logarithm of its probability."""
    top: tuple[tuple[str, float], ...] = ()
    """The likeliest tokens at this place and their log-probabilities, likeliest first; the reply's own is among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One reply of a model."""

    text: str
    finish: Literal["stop", "length", "refused"] = "stop"
    tokens: tuple[TokenReading, ...] | None = None
    """None where no log-probabilities were asked for, or none came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedReading:
    """Log-probabilities of a given reply, token by token."""

    logprobs: tuple[float, ...]
    """One for each token of the reply."""
    end_logprob: float | None
    """That the turn ends after it; None where the route does not say."""


@runtime_checkable
class ChatModel(Protocol):
    """A chat model behind a server or in this process. Safe to use from many tasks, and on one loop after another.

    `complete` is what every model can do. The other questions have an answer where `capabilities` says so.
    """

    @property
    def name(self) -> str:
        """For people: "qwen3-8b at 127.0.0.1:8000"."""
        ...

    @property
    def shape(self) -> Mapping[str, object]:
        """All that shapes replies apart from the request, nothing secret; part of identities and cache keys."""
        ...

    async def prepare(self) -> None:
        """Find out what `name` and `shape` depend on (the served model).

        Raises:
            ConfigurationError: It cannot work as configured.
            JudgeError: It cannot be asked.
        """
        ...

    async def capabilities(self, *, fresh: bool = False) -> Capabilities:
        """What the endpoint can do, measured once and remembered; `fresh` measures again, and all of it.

        Raises:
            JudgeError: It cannot be asked.
        """
        ...

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        """Reply `request.n` times.

        Raises:
            JudgeError: No reply. A reply that was cut short or declined is a reply (see `Completion.finish`).
        """
        ...

    async def complete_number(
        self, messages: Sequence[Message], low: int, high: int, *, max_tokens: int, sampling: Mapping[str, Any]
    ) -> Completion | None:
        """Reply with a whole number in [low, high], by constrained decoding; None where that is not possible.

        Raises:
            JudgeError: No reply.
        """
        ...

    async def complete_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, max_tokens: int, sampling: Mapping[str, Any]
    ) -> Completion | None:
        """Reply with JSON of a schema, by constrained decoding; None where that is not possible.

        Raises:
            JudgeError: No reply.
        """
        ...

    async def chat_ids(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a conversation, up to where the reply begins. For the exact route "chain"."""
        ...

    async def text_ids(self, text: str) -> list[int]:
        """Token ids of a text by itself, without special tokens. For the exact route "chain"."""
        ...

    async def end_id(self) -> int | None:
        """The token that ends a reply, where it is known. For the exact route "chain"."""
        ...

    async def next_logprobs(
        self, prefixes: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]
    ) -> list[dict[int, float]]:
        """Log-probabilities of the `wanted` tokens after each prefix (token ids), in one batch. For the route "chain"."""
        ...

    async def forced(self, messages: Sequence[Message], reply: str) -> ForcedReading:
        """Log-probabilities of `reply`. For the exact routes "prefill" and "echo"."""
        ...

    async def aclose(self) -> None:
        """Let go of connections. Safe to call twice."""
        ...
