"""Interface between judges or readers and chat models, independent of where the model runs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, Protocol, Self, TypeVar, runtime_checkable
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, Field

from ragstone._util.fork import after_fork_in_child
from ragstone.errors import JudgeReplyError
from ragstone.judges._render import Message
from ragstone.schema import Usage

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
"""Sampling settings that leave the model's distribution unchanged, with every field set explicitly.

A server replaces a missing field by the model's own default, which changes the distribution (vLLM reads defaults from
`generation_config.json`). Fields that an endpoint refuses are omitted from then on. `top_k` -1 means no limit for vLLM,
SGLang (which refuses 0) and llama.cpp.
"""

_THINK: Final = r"(?:think|thinking|thought|reasoning)"
_OPEN: Final = re.compile(f"<{_THINK}>|<\\|channel\\|>(?:analysis|commentary)", re.IGNORECASE)
_CLOSE: Final = re.compile(f"</{_THINK}>|<\\|channel\\|>final<\\|message\\|>", re.IGNORECASE)
_ENDS: Final = re.compile(r"<\|(?:return|end)\|>")
"""Marks after the answer. gpt-oss writes its reasoning into other channels, which some servers leave in the reply."""
_REPEATED_CHARS: Final = 32
"""Characters at the end of a reply whose previous occurrence shows how long a repeated part is."""
_LEAST_REPEATED: Final = 100

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A request for replies to a conversation."""

    messages: Sequence[Message]
    max_tokens: int
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """`temperature`, `seed`, `top_p`, ... Fields that the endpoint refuses are omitted from then on."""
    n: int = 1
    """Number of replies. An endpoint that returns only one reply per request gets several requests."""
    top_logprobs: int = 0
    """Alternatives to return for each token of the reply. 0 requests no log-probabilities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprobs:
    """One token of a reply, with its alternatives."""

    text: str
    logprob: float
    """Natural logarithm of its probability."""
    top: tuple[tuple[str, float], ...] = ()
    """Most likely tokens at this position (including the reply's) and their log-probabilities, most likely first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One reply of a model."""

    text: str
    finish: Literal["stop", "length", "refused"] = "stop"
    tokens: tuple[TokenLogprobs, ...] | None = None
    """None if no log-probabilities were requested or returned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyLogprobs:
    """Log-probabilities of a given reply, token by token."""

    logprobs: tuple[float, ...]
    """One value for each token of the reply."""
    end_logprob: float | None
    """Log-probability that the turn ends after the reply, or None if the route does not provide it."""


Route = Literal["chain", "echo"]
"""A way to read the exact probability of a given reply."""


class Capabilities(BaseModel):
    """Measured capabilities of one endpoint and model. None of them is derived from a name or a status alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: str
    server: str | None = None
    """Name and version that the server reports ("vllm 0.32.0"). For display only."""
    context_length: int | None = None
    """Maximum number of tokens of prompt and reply together, if the server reports it."""
    max_tokens_name: str = "max_tokens"
    refused_parameters: tuple[str, ...] = ()
    """Parameters that the endpoint refuses ("temperature", "logprobs")."""
    reasons: bool = False
    """Whether replies begin with reasoning, so that the first tokens give no information about the answer."""
    top_logprobs: int = 0
    """Alternatives returned for each token, or 0 without log-probabilities."""
    logprobs_raw: bool | None = None
    """Whether log-probabilities are independent of the temperature, or None if this could not be measured."""
    exact_route: Route | None = None
    """Route for the exact probability of a given reply."""
    exact_routes: tuple[Route, ...] = ()
    """All routes that work. `exact_route` is the best of them."""
    asked_tokens: int = 0
    """Number of tokens whose probability can be requested by id, independent of their rank, or 0."""
    boundary_clean: bool | None = None
    """Whether the tokens of a conversation with a reply are those of the conversation, then those of the reply."""
    structured: tuple[str, ...] = ()
    """Constraints that replies obey ("regex", "json_schema", or "json_object" for the form of llama-cpp-python).

    Like `whole_prompts`, they are measured only in full (`ragstone doctor`). Otherwise `seen` states that they were not
    measured.
    """
    several_replies: bool = False
    """Whether one request can return several replies."""
    whole_prompts: bool | None = None
    """Whether a long prompt is read from its beginning, or refused with an error. False if the server cuts it silently.

    None if that was not measured (see `structured`) or is unknown.
    """
    seen: dict[str, str] = Field(default_factory=dict)
    """Observations for each capability, by its name ("chain", "whole_prompts", "regex"). For display only."""
    unmeasured: tuple[str, ...] = ()
    """Capabilities that are unknown or missing because of a server error. Such a result is not cached."""
    notes: tuple[str, ...] = ()
    """Warnings, in sentences."""

    @property
    def estimator(self) -> Literal["exact_sequence", "first_token", "monte_carlo"]:
        """Best estimator of the probability of a reply on this endpoint."""
        if self.exact_route is not None and not self.reasons:
            return "exact_sequence"
        # Log-probabilities that depend on the temperature are not those of the model.
        if self.top_logprobs and self.logprobs_raw and not self.reasons:
            return "first_token"
        return "monte_carlo"


@runtime_checkable
class ChatModel(Protocol):
    """A chat model on a server or in this process. Several tasks can share it, and several event loops in turn.

    A `ConstrainedModel` also supports constrained decoding, and an `ExactModel` the probability of a given reply.
    """

    @property
    def name(self) -> str:
        """Display name: "qwen3-8b at 127.0.0.1:8000"."""

    @property
    def settings(self) -> Mapping[str, object]:
        """All settings that affect replies, except the request. No secrets. Part of identities and cache keys."""

    async def prepare(self) -> None:
        """Detect what `name` and `settings` depend on (the served model).

        Raises:
            ConfigurationError: If the model cannot work as configured.
            JudgeError: If the model is unavailable.
        """

    async def capabilities(self, *, fresh: bool = False) -> Capabilities:
        """Return the capabilities, which are measured once. `fresh` measures all of them again.

        Raises:
            JudgeError: If the model is unavailable.
        """

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        """Return `request.n` replies.

        Raises:
            JudgeError: If no reply is received. A declined reply or one that was cut is a reply (see `Completion.finish`).
        """

    async def aclose(self) -> None:
        """Close connections. Further calls have no effect."""


@runtime_checkable
class AdaptiveModel(ChatModel, Protocol):
    """A chat model that adapts its requests to what an endpoint refuses, and to models that reason first."""

    @property
    def reasoning_tokens(self) -> int:
        """Tokens added to the length limit of replies, because the model reasons before it answers. 0 if it does not."""

    def omitted(self, sampling: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the parameters that are refused, and therefore omitted, in requests with these sampling settings."""

    async def settle(self, sampling: Mapping[str, Any]) -> None:
        """Learn what is refused with these sampling settings, and whether the model reasons first. Errors are ignored.

        Only an unknown model raises ConfigurationError.
        """


@runtime_checkable
class ConstrainedModel(ChatModel, Protocol):
    """A chat model with constrained decoding."""

    async def complete_number(
        self, messages: Sequence[Message], low: int, high: int, *, max_tokens: int, sampling: Mapping[str, Any]
    ) -> Completion | None:
        """Reply with an integer in [low, high], by constrained decoding. Return None if that is not supported.

        Raises:
            JudgeError: If no reply is received.
        """

    async def complete_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, max_tokens: int, sampling: Mapping[str, Any]
    ) -> Completion | None:
        """Reply with JSON of a schema, by constrained decoding. Return None if that is not supported.

        Raises:
            JudgeError: If no reply is received.
        """


@runtime_checkable
class ExactModel(ChatModel, Protocol):
    """A chat model that provides the exact probability of a given reply. Its `capabilities` contain the route."""

    async def chat_ids(self, messages: Sequence[Message]) -> list[int]:
        """Return the token ids of a conversation, up to the start of the reply. For the route "chain"."""

    async def text_ids(self, text: str) -> list[int]:
        """Return the token ids of a text, without special tokens. For the route "chain"."""

    async def end_id(self) -> int | None:
        """Return the token that ends a reply, or None if it is unknown. For the route "chain"."""

    async def next_logprobs(
        self, prefixes: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]
    ) -> list[dict[int, float]]:
        """Return the log-probabilities of tokens after each prefix (token ids), in one batch. For the route "chain"."""

    async def reply_logprobs(self, messages: Sequence[Message], reply: str) -> ReplyLogprobs:
        """Return the log-probabilities of `reply`. For the route "echo"."""


def find_exact_route(model: ChatModel, can: Capabilities) -> tuple[ExactModel, Route] | None:
    """Return the model and its route if it provides the exact probability of a reply, else None."""
    route = can.exact_route
    if route is None or can.estimator != "exact_sequence" or not isinstance(model, ExactModel):
        return None
    return model, route


async def read_chain(model: ExactModel, messages: Sequence[Message], reply: str) -> ReplyLogprobs:
    """Return the log-probabilities of a reply, and of the end of the turn if it is known, by the route "chain"."""
    prompt, ids, end = await asyncio.gather(model.chat_ids(messages), model.text_ids(reply), model.end_id())
    path = ids if end is None else [*ids, end]
    rows = await model.next_logprobs([[*prompt, *path[:n]] for n in range(len(path))], [[token] for token in path])
    logprobs = [row[token] for row, token in zip(rows, path, strict=True)]
    return ReplyLogprobs(logprobs=tuple(logprobs[: len(ids)]), end_logprob=None if end is None else logprobs[-1])


_NO_USAGE: Final = Usage()


class UsageMeter:
    """Sum of the usage of a block and of the tasks it starts. Blocks can be nested: each meter includes inner ones.

    The meter also includes failed and canceled calls, whose usage is not returned in another way. At its end, the block
    adds its usage to another meter, if one is given. (A generator would cost more than what a metric of a fast judge does.)

    Examples:
        ```python
        with metered() as meter:
            reply = await judge.ask_number(prompt)
        meter.total.calls
        ```
    """

    __slots__ = ("_sum", "_token", "total")

    def __init__(self, into: UsageMeter | None = None) -> None:
        self.total = _NO_USAGE
        self._sum = into

    def __enter__(self) -> Self:
        self._token = _meters.set((*_meters.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _meters.reset(self._token)
        if self._sum is not None:
            self._sum.total += self.total


_meters: ContextVar[tuple[UsageMeter, ...]] = ContextVar("ragstone_usage_meters", default=())


metered: Final = UsageMeter


def record_usage(usage: Usage) -> None:
    """Add usage to every meter around the caller. Judges call this for each request and each reply."""
    for meter in _meters.get():
        meter.total += usage


_calls: Final[dict[object, asyncio.AbstractEventLoop]] = {}
"""Calls of models that are not answered yet, in all threads, and their event loops."""
_ended_at: Final = [0.0]


def _forget_calls() -> None:
    _calls.clear()


after_fork_in_child(_forget_calls)


@contextmanager
def model_call() -> Iterator[None]:
    """Mark a call of a model that ends by a timeout of its own: no deadline of a sample ends it, except the user's."""
    token, loop = object(), asyncio.get_running_loop()
    _calls[token] = loop
    try:
        yield
    finally:
        _calls.pop(token, None)
        _ended_at[0] = loop.time()


def note_progress() -> None:
    """Note that an outcome, or the reply of a model, is there."""
    _ended_at[0] = asyncio.get_running_loop().time()


def replied_at() -> float:
    """Return when the latest reply or outcome of this process arrived, in the time of the event loop."""
    return _ended_at[0]


def progress_at() -> float:
    """Return when the latest call or outcome of this process ended, in the event loop's time: now during a call."""
    # A call of a loop that was stopped may never end.
    is_called = any(loop.is_running() for loop in list(_calls.values()))
    return asyncio.get_running_loop().time() if is_called else _ended_at[0]


def check_declined(completion: Completion, role: str) -> None:
    """Raise JudgeReplyError with kind "refused" if a reply was declined."""
    if completion.finish == "refused":
        message = f"the {role} declined to answer: {completion.text or 'content filter'}"
        raise JudgeReplyError(message, kind="refused", raw=completion.text)


def check_finished(completion: Completion, role: str, max_tokens: int, *, is_open: bool) -> None:
    """Raise JudgeReplyError with kind "refused", "repeated" or "truncated" if a reply was declined or cut.

    `is_open`: its reasoning does not end.
    """
    check_declined(completion, role)
    if completion.finish != "length" and not is_open:
        return
    if unit := repeated_end(completion.text):
        raise JudgeReplyError(
            f"the {role}'s reply repeated {unit[:80]!r} until it was cut at {max_tokens} tokens, and would do so "
            "again. Use a stronger model",
            kind="repeated",
            raw=completion.text,
        )
    raise JudgeReplyError(
        f"the {role}'s reply was cut at {max_tokens} tokens. A model that reasons before it answers may need more "
        f"(max_tokens=8192, --set {role}.max_tokens=8192)",
        kind="truncated",
        raw=completion.text,
    )


def repeated_end(text: str) -> str:
    """Return what a text repeats at its end, at least four times and over 100 characters, or "" (also for whitespace)."""
    period = len(text) - _REPEATED_CHARS - text.rfind(text[-_REPEATED_CHARS:], 0, -1)
    n = max(4 * period, _LEAST_REPEATED)
    unit = text[-period:]
    return unit if len(text) >= n and text[-n:-period] == text[-n + period :] and unit.strip() else ""


def after_reasoning(text: str) -> str | None:
    """Return the text of a reply after its reasoning, or None if the reasoning does not end."""
    # Up to the last closing tag: if the chat template opens the block, the reply contains only the closing tag.
    end = max((match.end() for match in _CLOSE.finditer(text)), default=0)
    text = text[end:]
    return None if _OPEN.search(text) else _ENDS.sub("", text).strip()


class PerLoop(Generic[T]):
    """One object for each running event loop, such as a lock, which belongs to the loop in which it was first used."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    def get(self) -> T:
        """Return the object of the running event loop."""
        loop = asyncio.get_running_loop()
        # Only the thread of this event loop adds its object.
        if (known := self._made.get(loop)) is None:
            known = self._made[loop] = self._make()
        return known


class AsyncOnce(Generic[T]):
    """A value that is computed on first use. Concurrent callers wait for it, in each event loop.

    If the computation raises, its caller gets the exception, and the next caller tries again.
    """

    def __init__(self, find: Callable[[], Awaitable[T]]) -> None:
        self._find = find
        self._found: list[T] = []
        self._lock = PerLoop(asyncio.Lock)

    async def get(self) -> T:
        """Return the value."""
        if not self._found:
            async with self._lock.get():
                if not self._found:
                    self._found.append(await self._find())
        return self._found[0]
