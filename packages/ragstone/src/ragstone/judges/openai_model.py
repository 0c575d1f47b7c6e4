"""The chat model behind any OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, Ollama, OpenAI, gateways."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypedDict

from ragstone.errors import ConfigurationError
from ragstone.judges._cache.replies import cached_replies
from ragstone.judges._http.dialect import ConstrainedReplies
from ragstone.judges._http.endpoint import Endpoint
from ragstone.judges._http.exact import LogprobReader
from ragstone.judges._http.probe import probe
from ragstone.judges._limits.gate import ClientLimits
from ragstone.judges._limits.spend import Budget
from ragstone.judges._model import Capabilities, Completion, ReplyLogprobs
from ragstone.judges._render import Message

__all__ = ["ConnectionOptions", "OpenAICompatibleModel"]

_OUTAGE_FACTOR: Final = 4


class ConnectionOptions(TypedDict, total=False):
    """Options of `OpenAICompatibleModel`, for those that pass them on."""

    model: str | None
    api_key: str | None
    max_concurrent_requests: int | None
    timeout_s: float
    max_retries: int
    max_wait_s: float
    backoff_s: float
    extra_body: Mapping[str, Any] | None
    usd_per_million_tokens: tuple[float, float] | None
    cache: str | Path | None
    requests_per_minute: float | None
    tokens_per_minute: float | None
    budget: Budget | None
    fail_fast_after_s: float
    affinity_header: str | None


class OpenAICompatibleModel(LogprobReader):
    """Asks a chat model over HTTP, in the dialect that the endpoint turns out to speak.

    One object may be used from several event loops, one after another or at once; it keeps a client for each.

    Args:
        base_url: "http://host:8000/v1"; without a path, `/v1` is taken.
        model: The model to ask; None takes the one that the server serves.
        api_key: Sent as bearer token. None sends none, whatever the environment holds.
        max_concurrent_requests: Requests in flight at once at most; None leaves it to others, and is 16 when nobody says. How many
            there really are is learned from how the endpoint answers. All models of a process that ask one endpoint with
            one key share this number, `requests_per_minute` and `tokens_per_minute`; the smallest given counts.
        timeout_s: Seconds for one attempt.
        max_retries: Repetitions after time-outs, lost connections and 5xx.
        max_wait_s: Seconds for which a request is repeated when the server says 429. The caller's deadline ends the
            waiting earlier.
        backoff_s: Seconds before the first repetition; doubles each time, up to 30.
        extra_body: Fields to add to every request (`{"chat_template_kwargs": {"enable_thinking": False}}`).
        usd_per_million_tokens: Prices of input and output in US dollars, for the cost totals.
        cache: Folder where replies to repeatable requests (temperature 0, or a seed) are kept and found again. None takes
            `RAGSTONE_CACHE` from the environment; "" keeps nothing.
        requests_per_minute: Requests sent a minute at most.
        tokens_per_minute: Tokens a minute at most, of input and output; estimated before a request and corrected by
            what its reply says.
        budget: Ends all asking when so much is spent; may be shared with other models.
        fail_fast_after_s: Seconds for which requests wait for an endpoint that answers nobody; then they fail at once. Not more
            than four times what the pauses between all retries add up to: 30 as they are, less for who wants fewer.
        affinity_header: Name of a header ("x-session-id") that is the same for requests that begin alike, so that a
            router sends them to one replica and its prefix cache.

    Raises:
        ConfigurationError: A value that cannot work.

    Example:
        ```python
        model = OpenAICompatibleModel("http://localhost:8000/v1", concurrency=32)
        judge = ModelJudge(model)
        reader = ChatReader(model)
        ```
    """

    def __init__(
        self,
        base_url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        max_concurrent_requests: int | None = None,
        timeout_s: float = 60.0,
        max_retries: int = 4,
        max_wait_s: float = 600.0,
        backoff_s: float = 0.5,
        extra_body: Mapping[str, Any] | None = None,
        usd_per_million_tokens: tuple[float, float] | None = None,
        cache: str | Path | None = None,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        budget: Budget | None = None,
        fail_fast_after_s: float = 30.0,
        affinity_header: str | None = None,
    ) -> None:
        if max_retries < 0 or max_wait_s < 0 or backoff_s < 0:
            raise ConfigurationError(
                "max_retries, max_wait_s and backoff_s must not be below 0, got "
                f"max_retries={max_retries!r}, max_wait_s={max_wait_s!r}, backoff_s={backoff_s!r}"
            )
        if affinity_header is not None and not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", affinity_header):
            raise ConfigurationError(
                f"affinity_header is the name of an HTTP header ('x-session-id'), got {affinity_header!r}"
            )
        if budget is not None and budget.needs_prices and usd_per_million_tokens is None:
            raise ConfigurationError(f"{budget!r} counts dollars, and needs usd_per_million_tokens=(INPUT, OUTPUT)")
        probe_s = min(1.0, 2 * backoff_s)
        endpoint = Endpoint(
            base_url,
            api_key=api_key,
            share=ClientLimits(
                concurrency=max_concurrent_requests,
                requests_per_minute=requests_per_minute,
                tokens_per_minute=tokens_per_minute,
                timeout_s=timeout_s,
                fail_fast_after_s=min(
                    fail_fast_after_s, max(_OUTAGE_FACTOR * backoff_s * (2.0 ** min(max_retries, 16) - 1), 2 * probe_s)
                ),
                probe_s=probe_s,
            ),
            prices=usd_per_million_tokens,
            budget=budget,
            affinity_header=affinity_header,
            max_retries=max_retries,
            max_wait_s=max_wait_s,
            backoff_s=backoff_s,
        )
        super().__init__(
            endpoint, model=model, extra_body=extra_body, cached=cached_replies(cache, base_url=endpoint.base_url)
        )
        self._constrained = ConstrainedReplies()
        self._capabilities: Capabilities | None = None

    def __repr__(self) -> str:
        return f"OpenAICompatibleModel({self._endpoint.public_url!r}, model={self._model!r})"

    async def capabilities(self, *, fresh: bool = False) -> Capabilities:
        """What the endpoint can do, measured by the first call and remembered.

        Raises:
            ConfigurationError: No model to ask.
            JudgeError: The endpoint cannot be asked.
        """
        await self.prepare()
        if self._capabilities is None or fresh:
            async with await self._endpoint.setup_lock():
                if self._capabilities is None or fresh:
                    about = {"model": self._model, "extra_body": self._extra_body}
                    self._capabilities = await self._cached.capabilities(
                        about, lambda: probe(self, full=fresh), fresh=fresh
                    )
        return self._capabilities

    async def complete_number(
        self, messages: Sequence[Message], low: int, high: int, *, max_tokens: int, sampling: Mapping[str, Any]
    ) -> Completion | None:
        """Reply with a whole number in [low, high], by the constraints that the server turns out to obey.

        Raises:
            JudgeError: No reply.
        """
        ask = partial(self.chat, messages, max_tokens=max_tokens, sampling=sampling)
        return await self._constrained.number(ask, low, high)

    async def complete_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, max_tokens: int, sampling: Mapping[str, Any]
    ) -> Completion | None:
        """Reply with JSON of a schema, unless the server refuses schemas.

        Raises:
            JudgeError: No reply.
        """
        ask = partial(self.chat, messages, max_tokens=max_tokens, sampling=sampling)
        return await self._constrained.json(ask, schema)

    async def reply_logprobs(self, messages: Sequence[Message], reply: str) -> ReplyLogprobs:
        """Log-probabilities of `reply`, by the endpoint's exact route.

        Raises:
            JudgeReplyError: The endpoint's answer does not hold them.
            JudgeError: No answer.
        """
        route = (await self.capabilities()).exact_route
        if route == "prefill":
            return await self.prefilled(messages, reply)
        if route == "echo":
            return await self.echoed(messages, reply)
        return await self.chained(messages, reply)
