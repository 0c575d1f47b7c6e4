"""The chat model behind any OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, Ollama, OpenAI, gateways."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypedDict
from urllib.parse import urlsplit

from ragstone.errors import ConfigurationError
from ragstone.judges._cache.replies import cached_replies
from ragstone.judges._capacity.gate import Share
from ragstone.judges._capacity.spend import SpendCap, usage_of
from ragstone.judges._http.dialect import ConstrainedReplies, Dialect
from ragstone.judges._http.endpoint import NAMED_BY_ENVIRONMENT, Endpoint, RequestRefusedError
from ragstone.judges._http.exact import ExactReads
from ragstone.judges._http.probe import probe
from ragstone.judges._http.replies import completions, token_ids
from ragstone.judges._model import Capabilities, ChatRequest, Completion, ForcedReading, record_usage
from ragstone.judges._render import Message
from ragstone.schema import Usage

__all__ = ["ConnectionOptions", "OpenAICompatibleModel"]

_TEMPLATE_FIELDS: Final = ("chat_template", "chat_template_kwargs")
"""What shapes a conversation's tokens, wherever it is tokenised."""
_OUTAGE_FACTOR: Final = 4


class ConnectionOptions(TypedDict, total=False):
    """Options of `OpenAICompatibleModel`, for those that pass them on."""

    model: str | None
    api_key: str | None
    concurrency: int | None
    timeout_s: float
    max_retries: int
    max_wait_s: float
    backoff_s: float
    extra_body: Mapping[str, Any] | None
    usd_per_million_tokens: tuple[float, float] | None
    cache: str | Path | None
    requests_per_minute: float | None
    tokens_per_minute: float | None
    spend_cap: SpendCap | None
    outage_s: float
    affinity_header: str | None


class OpenAICompatibleModel:
    """Asks a chat model over HTTP, in the dialect that the endpoint turns out to speak.

    One object may be used from several event loops, one after another or at once; it keeps a client for each.

    Args:
        base_url: "http://host:8000/v1"; without a path, `/v1` is taken.
        model: The model to ask; None takes the one that the server serves.
        api_key: Sent as bearer token. None sends none, whatever the environment holds.
        concurrency: Requests in flight at once at most; None leaves it to others, and is 16 when nobody says. How many
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
        spend_cap: Ends all asking when so much is spent; may be shared with other models.
        outage_s: Seconds for which requests wait for an endpoint that answers nobody; then they fail at once. Not more
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
        concurrency: int | None = None,
        timeout_s: float = 60.0,
        max_retries: int = 4,
        max_wait_s: float = 600.0,
        backoff_s: float = 0.5,
        extra_body: Mapping[str, Any] | None = None,
        usd_per_million_tokens: tuple[float, float] | None = None,
        cache: str | Path | None = None,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        spend_cap: SpendCap | None = None,
        outage_s: float = 30.0,
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
        if spend_cap is not None and spend_cap.needs_prices and usd_per_million_tokens is None:
            raise ConfigurationError(f"{spend_cap!r} counts dollars, and needs usd_per_million_tokens=(INPUT, OUTPUT)")
        probe_s = min(1.0, 2 * backoff_s)
        self._endpoint = Endpoint(
            base_url,
            api_key=api_key,
            share=Share(
                concurrency=concurrency,
                requests_per_minute=requests_per_minute,
                tokens_per_minute=tokens_per_minute,
                timeout_s=timeout_s,
                outage_s=min(
                    outage_s, max(_OUTAGE_FACTOR * backoff_s * (2.0 ** min(max_retries, 16) - 1), 2 * probe_s)
                ),
                probe_s=probe_s,
            ),
            prices=usd_per_million_tokens,
            spend_cap=spend_cap,
            affinity_header=affinity_header,
            max_retries=max_retries,
            max_wait_s=max_wait_s,
            backoff_s=backoff_s,
        )
        self._cached = cached_replies(cache, base_url=self._endpoint.base_url)
        self._model = model
        self._extra_body = dict(extra_body or {})
        self._prices = usd_per_million_tokens
        self._dialect = Dialect()
        self._constrained = ConstrainedReplies()
        self._exact = ExactReads(self)
        self._capabilities: Capabilities | None = None

    def __repr__(self) -> str:
        return f"OpenAICompatibleModel({self._endpoint.shown_url!r}, model={self._model!r})"

    @property
    def name(self) -> str:
        """Model and host. Final once the model is known: given, or found by `prepare()`."""
        return f"{self._model or 'the served model'} at {urlsplit(self._endpoint.shown_url).netloc}"

    @property
    def shape(self) -> Mapping[str, object]:
        """Endpoint, model and what is added to every request."""
        return {"endpoint": self._endpoint.shown_url, "model": self._model, "extra_body": self._extra_body}

    async def prepare(self) -> None:
        """Find out the served model, unless one was given. Called by the first question otherwise.

        Raises:
            ConfigurationError: The server serves no model, or several; the message lists them.
            JudgeError: The server cannot be asked.
        """
        if self._model is not None:
            return
        async with await self._endpoint.setup_lock():
            if self._model is None:
                self._model = await self._served_model()

    async def _served_model(self) -> str:
        url = self._endpoint.shown_url
        try:
            listing = await self._endpoint.request("GET", "/models")
        except RequestRefusedError as refused:
            if refused.status != 404:
                raise
            raise ConfigurationError(
                f"{url} lists no models (HTTP 404); check the URL (it usually ends in /v1) or name the model: pass "
                f"model=..., or {NAMED_BY_ENVIRONMENT}"
            ) from None
        entries = listing.get("data")
        names = [str(entry["id"]) for entry in entries or () if isinstance(entry, dict) and "id" in entry]
        if len(names) != 1:
            served = ", ".join(sorted(names)[:20]) or "none"
            raise ConfigurationError(
                f"{url} serves {len(names)} models ({served}); choose one: pass model=..., or {NAMED_BY_ENVIRONMENT}"
            )
        return names[0]

    @property
    def dialect(self) -> Dialect:
        """How requests are written for this endpoint, as far as its refusals have taught."""
        return self._dialect

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

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        """Reply `request.n` times; in one request where the endpoint can, else in several.

        Raises:
            JudgeError: No reply: "timeout", "unavailable", "rejected", "unparseable" (a completion without a message).
        """
        replies = await self._completed(request)
        if len(replies) < request.n:
            sampling = dict(request.sampling)
            if "seed" in sampling:
                # With the same seed the next request would repeat the same draws.
                sampling["seed"] += len(replies)
            rest = await self.complete(replace(request, n=request.n - len(replies), sampling=sampling))
            return (*replies, *rest)
        return replies[: request.n]

    async def _completed(self, request: ChatRequest) -> tuple[Completion, ...]:
        fields: dict[str, Any] = {}
        if request.n > 1:
            fields["n"] = request.n
        if request.top_logprobs:
            fields |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        reply = await self.chat(
            request.messages, max_tokens=request.max_tokens, sampling=request.sampling, fields=fields
        )
        return completions(reply)

    async def complete_number(
        self, messages: Sequence[Message], low: int, high: int, *, max_tokens: int, sampling: Mapping[str, Any]
    ) -> Completion | None:
        """Reply with a whole number in [low, high], by the constraints that the server turns out to obey.

        Raises:
            JudgeError: No reply.
        """

        async def ask(fields: Mapping[str, Any]) -> dict[str, Any]:
            return await self.chat(messages, max_tokens=max_tokens, sampling=sampling, fields=fields)

        return await self._constrained.number(ask, low, high)

    async def complete_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, max_tokens: int, sampling: Mapping[str, Any]
    ) -> Completion | None:
        """Reply with JSON of a schema, unless the server refuses schemas.

        Raises:
            JudgeError: No reply.
        """

        async def ask(fields: Mapping[str, Any]) -> dict[str, Any]:
            return await self.chat(messages, max_tokens=max_tokens, sampling=sampling, fields=fields)

        return await self._constrained.json(ask, schema)

    async def chat(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        sampling: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """One chat completion as the endpoint sends it; `fields` are added to the request's body as they are.

        Raises:
            RequestRefusedError: 4xx.
            JudgeError: No reply.
        """
        await self.prepare()
        assert self._model is not None  # noqa: S101  `prepare` ran
        wanted = dict(sampling or {})
        dialect = self._dialect
        while True:
            body = dialect.body(model=self._model, messages=messages, max_tokens=max_tokens, sampling=wanted)
            try:
                completion = await self._asked("/chat/completions", {**body, **self._extra_body, **(fields or {})})
            except RequestRefusedError as refused:
                adapted = dialect.adapted(refused, wanted)
                if adapted is None:
                    raise
                dialect = adapted
                continue
            if dialect is not self._dialect:
                self._dialect = dialect
            return completion

    async def _asked(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """What the model replies, kept or new; records what it takes."""

        async def ask() -> dict[str, Any]:
            reply = await self._endpoint.request("POST", path, body)
            record_usage(self._usage(reply))
            return reply

        return await self._cached.reply(path, body, ask)

    async def post(self, path: str, body: Mapping[str, Any], *, inference: bool = True) -> dict[str, Any]:
        """One request to another path of the endpoint, with the model's name in it.

        Args:
            path: Below the base URL ("/completions"); with two slashes ("//tokenize") below the server's root.
            body: Its fields; `model` is added.
            inference: Whether the model runs for it, and so whether it counts as a call.

        Raises:
            RequestRefusedError: 4xx.
            JudgeError: No reply.
        """
        await self.prepare()
        whole = {"model": self._model, **body}
        if inference:
            return await self._asked(path, whole)
        return await self._endpoint.request("POST", path, whole, counted=False)

    async def get(self, path: str) -> dict[str, Any]:
        """What the endpoint tells under a path, as JSON; with two slashes ("//version") below the server's root.

        Raises:
            RequestRefusedError: 4xx.
            JudgeError: No reply.
        """
        return await self._endpoint.request("GET", path)

    async def tokenized(self, messages: Sequence[Message], **fields: Any) -> list[int]:
        """Token ids of a conversation as the endpoint's own chat template writes it (vLLM's `/tokenize`).

        Raises:
            RequestRefusedError: 4xx; the endpoint does not tokenise.
            JudgeError: No reply.
        """
        given = self._extra_body
        template: dict[str, Any] = {name: given[name] for name in _TEMPLATE_FIELDS if name in given}
        while True:
            body: dict[str, Any] = {"messages": self._dialect.written(messages), **template, **fields}
            try:
                return token_ids(await self.post("//tokenize", body, inference=False))
            except RequestRefusedError as refused:
                adapted = self._dialect.adapted(refused, {})
                if adapted is None:
                    raise
                self._dialect = adapted

    def _usage(self, completion: Mapping[str, Any]) -> Usage:
        return usage_of(completion, self._prices)

    async def chat_ids(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a conversation, up to where the reply begins."""
        return await self._exact.chat_ids(messages)

    async def text_ids(self, text: str) -> list[int]:
        """Token ids of a text by itself, without special tokens."""
        return await self._exact.text_ids(text)

    async def end_id(self) -> int | None:
        """The token that ends a reply, where it is known."""
        return await self._exact.end_id()

    async def next_logprobs(
        self, prefixes: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]
    ) -> list[dict[int, float]]:
        """Log-probabilities of the `wanted` tokens after each prefix, in one request."""
        return await self._exact.next_logprobs(prefixes, wanted)

    async def forced(self, messages: Sequence[Message], reply: str) -> ForcedReading:
        """Log-probabilities of `reply`, by the endpoint's exact route."""
        return await self._exact.forced(messages, reply)

    async def aclose(self) -> None:
        """Close the connections of the running event loop. Safe to call twice; a later question opens new ones."""
        await self._endpoint.aclose()
