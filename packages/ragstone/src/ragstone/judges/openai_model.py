"""Chat model on an OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, Ollama, OpenAI, gateways."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict
from urllib.parse import urlencode

from ragstone import settings
from ragstone._util.lazy import needs_extra
from ragstone.errors import ConfigurationError
from ragstone.judges._cache.replies import cached_replies
from ragstone.judges._http.constraints import ConstrainedReplies
from ragstone.judges._http.endpoint import Endpoint
from ragstone.judges._http.exact import LogprobReader
from ragstone.judges._http.probe import Probe
from ragstone.judges._http.transport import ApiKey, ClientTransport
from ragstone.judges._limits.gate import ClientLimits
from ragstone.judges._limits.spend import Budget
from ragstone.judges._model import Capabilities, Completion, ReplyLogprobs, read_chain
from ragstone.judges._option_names import OptionNames
from ragstone.judges._render import Message

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_MAX_OUTAGE_S: Final = 30.0
_OUTAGE_FACTOR: Final = 4
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class ConnectionOptions(TypedDict, total=False):
    """Options of `OpenAICompatibleModel`, for functions that pass them on."""

    client: AsyncOpenAI | None
    model: str | None
    api_key: ApiKey | None
    max_concurrent_requests: int | None
    timeout_s: float
    max_retries: int
    max_wait_s: float
    backoff_s: float
    extra_body: Mapping[str, Any] | None
    headers: Mapping[str, str] | None
    usd_per_million_tokens: tuple[float, float] | None
    cache: str | Path | None
    requests_per_minute: float | None
    tokens_per_minute: float | None
    budget: Budget | None
    max_outage_s: float | None
    option_names: OptionNames | None


class OpenAICompatibleModel(LogprobReader):
    """Calls a chat model over HTTP, in the request format that the endpoint accepts.

    One object may be used in several event loops, in turn or concurrently. It has its own connections in each.
    Redirects are not followed, and nothing that the server sends is unlimited: replies have at most 4 MiB (vectors and
    log-probabilities of prompts more, by the size of the request), and the server can request pauses of at most two minutes.

    Args:
        base_url: "http://host:8000/v1". Without a path, `/v1` is added. A deployment at Azure is
            "https://NAME.openai.azure.com/openai/deployments/DEPLOYMENT?api-version=...".
        client: Instead of a URL, a client of the `openai` package (`AsyncOpenAI`, `AsyncAzureOpenAI`) with its own
            sign-in. Its base URL is the model's identity. Its `timeout` and `max_retries` do not apply: those below do.
            It is copied for each event loop, unless it has an HTTP client of your own. Then it works in one event loop.
        model: Model name. None uses the model that the server serves.
        api_key: Sent as bearer token. A function, synchronous or not, is called for each request and returns the
            current key, for tokens that expire. None sends no key, also if the environment contains one.
        max_concurrent_requests: Maximum number of concurrent requests. None sets no limit for this model, and the
            default without any limit is 16. The actual number adapts to the endpoint's replies. All models in a process
            with the same endpoint and key share this limit, `requests_per_minute` and `tokens_per_minute`. The smallest
            value applies.
        timeout_s: Seconds for one attempt. They start again while the endpoint answers other requests.
        max_retries: Maximum number of retries after timeouts, lost connections and 5xx.
        max_wait_s: Seconds for which a request is retried after status 429. The caller's deadline may end the retries
            earlier.
        backoff_s: Seconds before the first retry. It doubles each time, up to 30.
        extra_body: Fields to add to every request (`{"chat_template_kwargs": {"enable_thinking": False}}`).
        headers: HTTP headers to add to every request. Values of headers for keys and tokens are redacted from messages.
        usd_per_million_tokens: Prices of input and output in US dollars, to compute the cost.
        cache: Directory of the reply cache, for repeatable requests (temperature 0, or a seed). None uses
            `RAGSTONE_CACHE` from the environment, "" disables the cache.
        requests_per_minute: Maximum number of requests per minute.
        tokens_per_minute: Maximum number of input and output tokens per minute. They are estimated before a request,
            and corrected by the reply.
        budget: Limit on calls, tokens or cost. It may be shared with other models.
        max_outage_s: Seconds for which requests wait for an unavailable endpoint. After this time they fail
            immediately. None uses 30, or less if the pauses between retries are short: at most four times their sum.
            `evaluate` has its own `max_outage_s`, which replaces this one.
        option_names: Names of these arguments in messages. None uses the names here. The commands pass those of their
            options.

    Raises:
        ConfigurationError: If a value is invalid.

    Examples:
        ```python
        model = OpenAICompatibleModel("http://localhost:8000/v1", max_concurrent_requests=32)
        judge = ModelJudge(model)
        reader = ChatReader(model)
        ```
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        client: AsyncOpenAI | None = None,
        model: str | None = None,
        api_key: ApiKey | None = None,
        max_concurrent_requests: int | None = None,
        timeout_s: float = 60.0,
        max_retries: int = 4,
        max_wait_s: float = 600.0,
        backoff_s: float = 0.5,
        extra_body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        usd_per_million_tokens: tuple[float, float] | None = None,
        cache: str | Path | None = None,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        budget: Budget | None = None,
        max_outage_s: float | None = None,
        option_names: OptionNames | None = None,
    ) -> None:
        names = option_names or OptionNames()
        if (base_url is None) == (client is None):
            raise ConfigurationError("give either a base_url ('http://host:8000/v1') or client=AsyncOpenAI(...)")
        if client is not None:
            base_url, api_key = _described(client, api_key)
        limits: dict[str, Any] = {
            "timeout_s": timeout_s,
            "max_retries": max_retries,
            "max_wait_s": max_wait_s,
            "backoff_s": backoff_s,
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
        }
        call, usd = "OpenAICompatibleModel", usd_per_million_tokens
        settings.check(names.role, call, usd_per_million_tokens=usd, max_concurrent_requests=max_concurrent_requests)
        settings.check(names.role, call, **limits)
        settings.check("limits", call, max_outage_s=max_outage_s)
        if isinstance(api_key, str) and not api_key.isprintable():
            raise ConfigurationError(
                f"the API key ({names.option('api_key')}) contains a line break or another control character. Remove "
                "it: a key that was read from a file often ends with a line break"
            )
        for name, value in (headers or {}).items():
            if not _HEADER_NAME.fullmatch(name) or not value.isprintable():
                raise ConfigurationError(
                    f"{names.value('headers', name)}: a header has a name ('x-team') and a text of one line as its value"
                )
        if budget is not None and budget.needs_prices and usd_per_million_tokens is None:
            prices = names.option("usd_per_million_tokens")
            raise ConfigurationError(
                f"{budget!r} limits the cost, which requires prices of the {names.role}. Set the USD per million input "
                f"and output tokens, such as 0.15 and 0.60 (0 and 0 for a server of your own), with {prices}"
            )
        probe_s = min(1.0, 2 * backoff_s)
        if max_outage_s is None:
            pauses_s = backoff_s * (2.0 ** min(max_retries, 16) - 1)
            max_outage_s = min(_MAX_OUTAGE_S, max(_OUTAGE_FACTOR * pauses_s, 2 * probe_s))
        share = ClientLimits(concurrency=max_concurrent_requests, max_outage_s=max_outage_s, probe_s=probe_s, **limits)
        assert base_url is not None  # noqa: S101  checked above
        endpoint = Endpoint(
            base_url,
            api_key=api_key,
            connect=None if client is None else partial(ClientTransport, client),
            share=share,
            prices=usd_per_million_tokens,
            budget=budget,
            headers=headers,
            option_names=names,
        )
        super().__init__(
            endpoint, model=model, extra_body=extra_body, cached=cached_replies(cache, base_url=endpoint.base_url)
        )
        self._constrained = ConstrainedReplies()
        self._capabilities: Capabilities | None = None

    def __repr__(self) -> str:
        return f"OpenAICompatibleModel({self._endpoint.public_url!r}, model={self._model!r})"

    async def capabilities(self, *, fresh: bool = False) -> Capabilities:
        """Return the endpoint's capabilities, which the first call measures.

        Raises:
            ConfigurationError: If the model is unknown.
            JudgeError: If the endpoint is unavailable.
        """
        await self.prepare()
        if self._capabilities is None or fresh:
            async with self._endpoint.setup.get():
                if self._capabilities is None or fresh:
                    if fresh:
                        self.forget()
                    self._capabilities = await self._cached.capabilities(
                        self._about, lambda: Probe(self, full=fresh).run(), fresh=fresh
                    )
        refused = {*self._capabilities.refused_parameters, *(name for _, name in self.dialect.omitted)}
        return self._capabilities.model_copy(update={"refused_parameters": tuple(sorted(refused))})

    async def complete_number(
        self, messages: Sequence[Message], low: int, high: int, *, max_tokens: int, sampling: Mapping[str, Any]
    ) -> Completion | None:
        """Reply with an integer in [low, high], by a constraint that the server obeys. Return None if there is none.

        Raises:
            JudgeError: If no reply is received.
        """
        ask = partial(self.chat, messages, max_tokens=max_tokens, sampling=sampling)
        return await self._constrained.number(ask, low, high)

    async def complete_json(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, max_tokens: int, sampling: Mapping[str, Any]
    ) -> Completion | None:
        """Reply with JSON of a schema. Return None if the server refuses schemas.

        Raises:
            JudgeError: If no reply is received.
        """
        ask = partial(self.chat, messages, max_tokens=max_tokens, sampling=sampling)
        return await self._constrained.json(ask, schema)

    async def reply_logprobs(self, messages: Sequence[Message], reply: str) -> ReplyLogprobs:
        """Return the log-probabilities of `reply`, by the endpoint's exact route.

        Raises:
            JudgeReplyError: If the endpoint's reply does not contain them.
            JudgeError: If no reply is received.
        """
        if (await self.capabilities()).exact_route == "echo":
            return await self.echoed(messages, reply)
        return await read_chain(self, messages, reply)


def _described(client: AsyncOpenAI, api_key: ApiKey | None) -> tuple[str, str | None]:
    """Return the URL of a client with its query, and its key.

    Raise ConfigurationError if it is not an asynchronous client, or a key is given as well.
    """
    with needs_extra("", "openai", "a judge with client="):
        import openai

    if not isinstance(client, openai.AsyncOpenAI):
        raise ConfigurationError(
            f"client must be an openai.AsyncOpenAI or AsyncAzureOpenAI, got {type(client).__module__}.{type(client).__qualname__}"
        )
    if api_key is not None:
        raise ConfigurationError(
            "api_key and client exclude each other. Give the key to the client: AsyncOpenAI(api_key=...)"
        )
    query = urlencode({name: str(value) for name, value in client.default_query.items()})
    return f"{client.base_url}?{query}" if query else str(client.base_url), client.api_key or None
