"""The seam under judges and readers: what a chat model can be asked, whatever runs it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, runtime_checkable
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, Field

from ragstone.judges._render import Message
from ragstone.schema import Usage

__all__ = [
    "TEMPERATURE_ONE",
    "AsyncOnce",
    "Capabilities",
    "ChatModel",
    "ChatRequest",
    "Completion",
    "ConstrainedModel",
    "ExactModel",
    "ReplyLogprobs",
    "TokenLogprobs",
    "UsageMeter",
    "after_reasoning",
    "find_exact_route",
    "metered",
    "record_usage",
]

TEMPERATURE_ONE: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    }
)
"""Sampling from the model's distribution as it is, every field spelt out.

A server fills a missing field from the model's own defaults, and those bend the distribution (vLLM reads them from
`generation_config.json`). What an endpoint refuses is left out and remembered. `top_k` -1 means no limit to vLLM,
SGLang (which refuses 0) and llama.cpp alike.
"""

_THINK: Final = r"(?:think|thinking|thought|reasoning)"
_OPEN: Final = re.compile(f"<{_THINK}>", re.IGNORECASE)
_CLOSE: Final = re.compile(f"</{_THINK}>", re.IGNORECASE)

T = TypeVar("T")


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
class TokenLogprobs:
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
    tokens: tuple[TokenLogprobs, ...] | None = None
    """None where no log-probabilities were asked for, or none came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyLogprobs:
    """Log-probabilities of a given reply, token by token."""

    logprobs: tuple[float, ...]
    """One for each token of the reply."""
    end_logprob: float | None
    """That the turn ends after it; None where the route does not say."""


class Capabilities(BaseModel):
    """Measured effects of one endpoint and model; nothing here comes from a name or a status alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: str
    server: str | None = None
    """What the server says it is ("vllm 0.32.0"); for people, nothing depends on it."""
    context_length: int | None = None
    """Tokens of prompt and reply together, where the server says so."""
    max_tokens_name: str = "max_tokens"
    refused_parameters: tuple[str, ...] = ()
    """Parameters the endpoint refuses ("temperature", "logprobs")."""
    reasons: bool = False
    """Replies begin with reasoning, so that the first tokens say nothing about the answer."""
    top_logprobs: int = 0
    """Alternatives reported for each token; 0 when log-probabilities do not come."""
    logprobs_raw: bool | None = None
    """Whether log-probabilities stay the same at another temperature; None when it could not be seen."""
    exact_route: Literal["chain", "prefill", "echo"] | None = None
    """How the exact probability of a given reply can be read."""
    exact_routes: tuple[Literal["chain", "prefill", "echo"], ...] = ()
    """All that work; `exact_route` is the best of them."""
    asked_tokens: int = 0
    """Tokens whose probability can be asked for by id, whatever their rank; 0 when none."""
    boundary_clean: bool | None = None
    """Whether the tokens of a conversation with a reply are those of the conversation and of the reply."""
    structured: tuple[str, ...] = ()
    """Constraints that replies really obey ("regex", "choice", "json_schema"). This, `seeds` and `prefix_cache` are
    measured in full (`ragstone doctor`) only; `seen` says so."""
    several_replies: bool = False
    """Whether one request gives several replies."""
    seeds: bool | None = None
    """Whether a seed repeats a sampled reply."""
    prefix_cache: float | None = None
    """Share of a repeated prompt that came from the server's cache; None when the server does not say."""
    seen: dict[str, str] = Field(default_factory=dict)
    """What was seen of each capability, in words, by its name ("chain", "seeds", "regex"); for people."""
    unmeasured: tuple[str, ...] = ()
    """What trouble kept from being measured, though the endpoint works; such a verdict is not kept for later."""
    notes: tuple[str, ...] = ()
    """What a person should know, in sentences."""

    @property
    def estimator(self) -> Literal["exact_sequence", "first_token", "monte_carlo"]:
        """How the probability of a reply is found on this endpoint."""
        if self.exact_route is not None and not self.reasons:
            return "exact_sequence"
        # What the temperature has changed is no probability of the model's.
        if self.top_logprobs and self.logprobs_raw and not self.reasons:
            return "first_token"
        return "monte_carlo"


@runtime_checkable
class ChatModel(Protocol):
    """A chat model behind a server or in this process. Safe to use from many tasks, and on one loop after another.

    A `ConstrainedModel` also replies in a given form, and an `ExactModel` tells the probability of a given reply.
    """

    @property
    def name(self) -> str:
        """For people: "qwen3-8b at 127.0.0.1:8000"."""
        ...

    @property
    def settings(self) -> Mapping[str, object]:
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

    async def aclose(self) -> None:
        """Let go of connections. Safe to call twice."""
        ...


@runtime_checkable
class ConstrainedModel(ChatModel, Protocol):
    """A chat model whose replies can be constrained to a form."""

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


@runtime_checkable
class ExactModel(ChatModel, Protocol):
    """A chat model that can tell the exact probability of a given reply. Its `capabilities` say by which route."""

    async def chat_ids(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a conversation, up to where the reply begins. For the route "chain"."""
        ...

    async def text_ids(self, text: str) -> list[int]:
        """Token ids of a text by itself, without special tokens. For the route "chain"."""
        ...

    async def end_id(self) -> int | None:
        """The token that ends a reply, where it is known. For the route "chain"."""
        ...

    async def next_logprobs(
        self, prefixes: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]
    ) -> list[dict[int, float]]:
        """Log-probabilities of the `wanted` tokens after each prefix (token ids), in one batch. For the route "chain"."""
        ...

    async def reply_logprobs(self, messages: Sequence[Message], reply: str) -> ReplyLogprobs:
        """Log-probabilities of `reply`. For the routes "prefill" and "echo"."""
        ...


def find_exact_route(
    model: ChatModel, can: Capabilities
) -> tuple[ExactModel, Literal["chain", "prefill", "echo"]] | None:
    """Return the model and its route if it can tell the exact probability of a reply, else None.

    Args:
        model: The model.
        can: Its capabilities.
    """
    route = can.exact_route
    if route is None or can.estimator != "exact_sequence" or not isinstance(model, ExactModel):
        return None
    return model, route


class UsageMeter:
    """Adds up what was spent inside one `metered()` block."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = Usage()


_meters: ContextVar[tuple[UsageMeter, ...]] = ContextVar("ragstone_usage_meters", default=())


@contextmanager
def metered() -> Iterator[UsageMeter]:
    """Meter the block and the tasks it starts. Blocks nest: each meter counts what its inner ones count.

    An exception carries no bill, and a call that is cancelled has been paid for all the same; the meter knows both.

    Example:
        ```python
        with metered() as meter:
            reply = await judge.ask_number(prompt)
        meter.total.calls
        ```
    """
    meter = UsageMeter()
    token = _meters.set((*_meters.get(), meter))
    try:
        yield meter
    finally:
        _meters.reset(token)


def record_usage(usage: Usage) -> None:
    """Report spending to every meter around the caller; judges call this for each request and each reply."""
    for meter in _meters.get():
        meter.total += usage


def after_reasoning(text: str) -> str | None:
    """What a reply says after its reasoning block; None when the block does not end."""
    # Up to the last closing tag: chat templates that open the block themselves leave only its end in the reply.
    end = max((match.end() for match in _CLOSE.finditer(text)), default=0)
    text = text[end:]
    return None if _OPEN.search(text) else text.strip()


class AsyncOnce(Generic[T]):
    """Finds a value when it is first asked for; those who ask meanwhile wait for it, on each event loop.

    What is raised while finding is the asker's, and the next one tries again.
    """

    def __init__(self, find: Callable[[], Awaitable[T]]) -> None:
        self._find = find
        self._found: list[T] = []
        # A lock belongs to the loop it was first waited for on.
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    async def get(self) -> T:
        """The value."""
        if not self._found:
            async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                if not self._found:
                    self._found.append(await self._find())
        return self._found[0]
