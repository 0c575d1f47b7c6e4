"""One OpenAI-compatible endpoint: requests with our own retries, pauses and limits; a client for each event loop."""

from __future__ import annotations

import asyncio
import hashlib
import random
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from ragstone._util.fork import after_fork_in_child
from ragstone.errors import (
    ConfigurationError,
    JudgeError,
    JudgeRejectedError,
    JudgeUnavailableError,
)
from ragstone.judges._http.errors import basic, causes_of, extract_error_message, find_secrets, retry_after_s
from ragstone.judges._limits.gate import ClientLimits, Permit, capacity_of
from ragstone.judges._limits.spend import Budget, usage_of
from ragstone.judges._model import record_usage
from ragstone.schema import Usage

if TYPE_CHECKING:
    import openai

__all__ = [
    "NAMED_BY_ENVIRONMENT",
    "Endpoint",
    "RequestRefusedError",
    "estimated_tokens",
    "hash_prefix",
    "normalised_url",
    "reply_length",
]

_MAX_BACKOFF_S: Final = 30.0
_OVERLOADED: Final = (503, 504, 529)


NAMED_BY_ENVIRONMENT: Final = (
    "use openai:MODEL with OPENAI_BASE_URL set to the URL (and OPENAI_API_KEY, where it wants a key)"
)
"""How a command names what a URL alone does not say."""

_CHARACTERS_PER_TOKEN: Final = 4
_AFFINITY_CHARACTERS: Final = 1024


class RequestRefusedError(JudgeRejectedError):
    """The endpoint refused the request itself (4xx, but for those that pass with time)."""

    def __init__(self, message: str, *, status: int, param: str | None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        """The parameter the endpoint named, if it named one."""


def normalised_url(base_url: str) -> str:
    """Bring a base URL to its usual form: no slash at the end, `/v1` where no path is given.

    Raises:
        ConfigurationError: Not an http(s) URL with a host.
    """
    try:
        parts = urlsplit(base_url.strip())
    except ValueError as error:
        raise ConfigurationError(
            f"a judge's base_url looks like 'http://host:8000/v1', and what was given is no URL: {error}"
        ) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if "@" in base_url else base_url
        raise ConfigurationError(f"a judge's base_url looks like 'http://host:8000/v1', got {shown!r}")
    path = parts.path.rstrip("/").removesuffix("/chat/completions") or "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


@dataclass(slots=True)
class _Connection:
    """What belongs to one event loop."""

    client: openai.AsyncOpenAI
    keeper: AsyncGenerator[None, None]
    setup: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class _RetryableError:
    """A failed attempt that may succeed when repeated."""

    reason: str
    kind: Literal["timeout", "unavailable", "unparseable"] = "unavailable"
    retry_after_s: float | None = None
    rate_limited: bool = False
    overload: bool = False


@dataclass(slots=True, kw_only=True)
class _RequestState:
    """One request, through all its attempts."""

    method: Literal["GET", "POST"]
    path: str
    body: Mapping[str, Any] | None
    counted: bool
    order: int
    """Its place in the queue, which it keeps."""
    kind: int = 0
    n_tokens: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)


class Endpoint:
    """Sends requests to one base URL, as many at a time as the `EndpointLimiter` it shares with others allows.

    Attempts that fail for a reason that may pass are repeated: time-outs, lost connections, 408, 409 and 5xx up to
    `max_retries` times with exponential back-off; 429 for up to `max_wait_s`, and meanwhile nothing else is sent.
    `Retry-After` is honoured. While the endpoint answers nobody, one request at a time tries and the others wait. The caller's own deadline is a cancellation, and needs nothing from here.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None,
        share: ClientLimits,
        max_retries: int,
        max_wait_s: float,
        backoff_s: float,
        prices: tuple[float, float] | None = None,
        budget: Budget | None = None,
        affinity_header: str | None = None,
    ) -> None:
        self.base_url = normalised_url(base_url)
        self._api_key = api_key
        self._secrets = find_secrets(self.base_url, api_key)
        self._share = share
        self._timeout_s = share.timeout_s
        self.capacity = capacity_of(self.base_url, api_key)
        self.capacity.join(share)
        self._max_retries = max_retries
        self._max_wait_s = max_wait_s
        self._backoff_s = backoff_s
        self._prices = prices
        self._cap = budget
        self._affinity_header = affinity_header
        self._connections: dict[asyncio.AbstractEventLoop, _Connection] = {}
        self._after_fork()
        after_fork_in_child(self._after_fork)
        self._random = random.Random()  # noqa: S311  jitter

    def _after_fork(self) -> None:
        # Another thread of the parent may have held it.
        self._connections_lock = threading.Lock()

    @property
    def public_url(self) -> str:
        """The base URL without the credentials and the query it may hold."""
        parts = urlsplit(self.base_url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @property
    def _root(self) -> str:
        """The server without credentials, path and query; a `/v1` at the end of the path is ours, the rest is kept."""
        parts = urlsplit(self.base_url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.removesuffix("/v1"), "", ""))

    async def setup_lock(self) -> asyncio.Lock:
        """A lock of the running loop, for what is to be found out once."""
        return (await self._connection()).setup

    async def request(
        self,
        method: Literal["GET", "POST"],
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        counted: bool = True,
    ) -> dict[str, Any]:
        """Send one request, again where that helps, and return the JSON object of the reply.

        Args:
            method: GET or POST.
            path: Below the base URL ("/models"); with two slashes ("//tokenize") below the server's root.
            body: What to post.
            counted: Whether a POST counts as a call in what was spent.

        Raises:
            RequestRefusedError: 4xx.
            JudgeUnavailableError: Still no usable reply after all retries. Kind "timeout", "unavailable", or
                "unparseable" when what came was no JSON object (a proxy's error page, say).
        """
        connection = await self._connection()
        if path.startswith("//"):
            # The client takes a whole URL as it stands.
            path = f"{self._root}{path[1:]}"
        capacity = self.capacity
        sending = _RequestState(
            method=method, path=path, body=body, counted=counted and method == "POST", order=capacity.enqueue()
        )
        if sending.counted and body is not None:
            sending.kind = reply_length(body)
            if capacity.counts_tokens:
                sending.n_tokens = estimated_tokens(body)
            if self._affinity_header is not None:
                sending.headers = {self._affinity_header: hash_prefix(body)}
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._max_wait_s
        n_failures = n_refusals = 0
        while True:
            if sending.counted and self._cap is not None:
                # Also before the wait: what may not go out should not queue.
                self._cap.check()
            try:
                permit = await capacity.acquire(
                    self._share,
                    kind=sending.kind,
                    n_requests=int(sending.counted),
                    n_tokens=sending.n_tokens,
                    n_failures=n_failures,
                    order=sending.order,
                )
            except JudgeUnavailableError as down:
                raise JudgeUnavailableError(f"{self.public_url}: {down}", kind=down.kind) from None
            outcome = await self._attempt(connection, sending, permit)
            if not isinstance(outcome, _RetryableError):
                return outcome
            if outcome.rate_limited:
                n_refusals += 1
                if loop.time() + capacity.pause_s() > give_up_at:
                    raise self._given_up(outcome, n_failures + n_refusals)
            else:
                n_failures += 1
                wait_s = self._wait_s(outcome, n_failures)
                if n_failures > self._max_retries or loop.time() + wait_s > give_up_at or capacity.is_down(self._share):
                    raise self._given_up(outcome, n_failures + n_refusals)
                await asyncio.sleep(wait_s)

    def _wait_s(self, trouble: _RetryableError, n: int) -> float:
        if trouble.retry_after_s is None:
            # The exponent is bounded so that the thousandth refusal does not overflow.
            return min(_MAX_BACKOFF_S, self._backoff_s * 2.0 ** min(n - 1, 16)) * self._random.uniform(0.5, 1.0)
        # A little more than asked for, since clocks differ; and processes not all at once, though every share of it is
        # lost to a limit of requests a minute.
        return trouble.retry_after_s + 0.005 + self._random.uniform(0, min(0.02 * trouble.retry_after_s, 0.25))

    def _given_up(self, trouble: _RetryableError, n_attempts: int) -> JudgeUnavailableError:
        msg = f"{self.public_url}: {trouble.reason}; gave up after {n_attempts} attempt{'s' if n_attempts > 1 else ''}"
        return JudgeUnavailableError(msg, kind=trouble.kind, retry_after_s=trouble.retry_after_s)

    async def _attempt(
        self, connection: _Connection, sending: _RequestState, permit: Permit
    ) -> dict[str, Any] | _RetryableError:
        """Send once, and tell the capacity how it ended."""
        capacity = self.capacity
        try:
            if sending.counted:
                if self._cap is not None:
                    try:
                        self._cap.begin()
                    except JudgeError:
                        capacity.cancel(permit)
                        raise
                record_usage(Usage(calls=1))
            outcome = await self._exchange(connection, sending)
        except RequestRefusedError:
            capacity.answered(permit, n_tokens=0.0, learn=False)
            raise
        except GeneratorExit:
            capacity.discard(permit)
            raise
        except BaseException:
            capacity.cancel(permit, sent=True)
            raise
        if not isinstance(outcome, _RetryableError):
            usage = usage_of(outcome, self._prices)
            n_tokens = usage.input_tokens + usage.output_tokens
            capacity.answered(permit, n_tokens=n_tokens or None, learn=sending.counted)
            if sending.counted:
                record_usage(usage)
                if self._cap is not None:
                    self._cap.record(usage)
        elif outcome.rate_limited:
            told = outcome.retry_after_s is not None
            wait_s = self._wait_s(outcome, 1 + permit.n_rounds_refused)
            capacity.refused(permit, wait_s=wait_s, told=told)
        else:
            capacity.failed(permit, reason=outcome.reason, kind=outcome.kind, overload=outcome.overload)
        return outcome

    async def _exchange(self, connection: _Connection, sending: _RequestState) -> dict[str, Any] | _RetryableError:
        import aiohttp
        import openai

        try:
            # The client's own time-out bounds each read; this one bounds the whole reply.
            async with asyncio.timeout(self._timeout_s):
                if sending.method == "GET":
                    reply = await connection.client.get(sending.path, cast_to=object)
                else:
                    reply = await connection.client.post(
                        sending.path, cast_to=object, body=sending.body, options={"headers": sending.headers}
                    )
        except openai.APIStatusError as error:
            return self._trouble_from_status(error)
        # What is no HTTP at all gets past the client's own error types.
        except (TimeoutError, openai.APIConnectionError, aiohttp.ClientError) as error:
            # The client calls a refused or lost connection a time-out as well; what caused it knows better.
            causes = causes_of(error)
            if any(isinstance(cause, TimeoutError) for cause in causes):
                return _RetryableError(f"no reply within {self._timeout_s:g} s", kind="timeout", overload=True)
            return _RetryableError(
                f"cannot connect, or the connection broke ({self._redacted(extract_error_message(str(causes[-1])))})"
            )
        except (ValueError, RecursionError):
            return _RetryableError("the reply is not JSON", kind="unparseable")
        if isinstance(reply, str) and sending.path.endswith("/metrics"):
            # The one thing asked for that is text by nature.
            return {"text": reply}
        if not isinstance(reply, dict):
            return _RetryableError("the reply is not a JSON object", kind="unparseable")
        if (failed := reply.get("error")) and not (reply.get("choices") or reply.get("data")):
            # Gateways that have sent their 200 before the model behind them failed.
            return _RetryableError(f"HTTP 200 with an error: {self._redacted(extract_error_message(failed))[:500]}")
        if sending.counted and not reply.get("choices"):
            return _RetryableError(f"the completion has no message, only {sorted(reply)}", kind="unparseable")
        return reply

    def _trouble_from_status(self, error: openai.APIStatusError) -> _RetryableError:
        status = error.status_code
        reason = f"HTTP {status}: {self._redacted(extract_error_message(error.body) or error.message)[:500]}"
        # A quota that is used up is a 429 that does not pass.
        if status == 429 and error.code != "insufficient_quota":
            return _RetryableError(reason, rate_limited=True, retry_after_s=retry_after_s(error.response.headers))
        if status in (408, 409, 425) or status >= 500:
            return _RetryableError(
                reason, retry_after_s=retry_after_s(error.response.headers), overload=status in _OVERLOADED
            )
        msg = f"{self.public_url}: {reason}"
        if status == 401 and not (self._api_key or "@" in urlsplit(self.base_url).netloc):
            msg += f"; no key was given: pass api_key=..., or {NAMED_BY_ENVIRONMENT}"
        raise RequestRefusedError(msg, status=status, param=error.param) from None

    def _redacted(self, text: str) -> str:
        """Servers and proxies like to repeat the key they were sent."""
        for secret in self._secrets:
            text = text.replace(secret, "[api key]")
        return text

    async def _connection(self) -> _Connection:
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is None:
            connection = self._open()
            # To its `yield`; from here on the loop closes it, and with it the client, before it closes itself.
            await anext(connection.keeper)
            with self._connections_lock:
                for closed in [other for other in self._connections if other.is_closed()]:
                    del self._connections[closed]
                self._connections[loop] = connection
        return connection

    def _open(self) -> _Connection:
        import openai

        parts = urlsplit(self.base_url)
        user, at, host = parts.netloc.rpartition("@")
        headers = {}
        if at and not self._api_key:
            # aiohttp refuses a URL with credentials next to the header that the client always sends.
            headers["Authorization"] = basic(user)
        if self._api_key and "/openai/deployments/" in parts.path:
            # Azure looks for keys here; what it takes as bearer tokens is something else.
            headers["api-key"] = self._api_key
        client = openai.AsyncOpenAI(
            # The client would put paths behind the query.
            base_url=urlunsplit(parts._replace(netloc=host, query="")),
            default_query=dict(parse_qsl(parts.query)),
            default_headers=headers,
            # Without a key the client would take OPENAI_API_KEY and show it to whatever server this is.
            api_key=self._api_key or "none",
            max_retries=0,
            timeout=self._timeout_s,
            http_client=openai.DefaultAioHttpClient(),
        )
        return _Connection(client=client, keeper=_get_client_for_loop(client))

    async def aclose(self) -> None:
        """Close the client of the running loop; those of other loops close with their loops."""
        with self._connections_lock:
            connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.keeper.aclose()


async def _get_client_for_loop(client: openai.AsyncOpenAI) -> AsyncGenerator[None, None]:
    """Hold a client open for as long as its event loop lives.

    A client's sockets belong to the loop they were opened on. `asyncio.run` closes unfinished asynchronous generators
    while its loop still works, which is the one hook a library has for letting go in time.
    """
    try:
        yield
    finally:
        await client.close()


def reply_length(body: Mapping[str, Any]) -> int:
    """The most tokens that one reply may have; 0 when the request does not say."""
    for name in ("max_tokens", "max_completion_tokens"):
        if isinstance(length := body.get(name), int):
            return length
    return 0


def estimated_tokens(body: Mapping[str, Any]) -> float:
    """Tokens that a request may take: four characters each, and replies as long as they may get."""
    n = body.get("n")
    replies = reply_length(body) * (n if isinstance(n, int) else 1)
    return sum(_size(text) for text in _texts(body)) + replies


def _size(text: object) -> float:
    if isinstance(text, str):
        return len(text) / _CHARACTERS_PER_TOKEN
    if isinstance(text, list):
        return sum(_size(part) if isinstance(part, list | str) else 1.0 for part in text)
    return 0.0


def _texts(body: Mapping[str, Any]) -> Iterator[object]:
    for message in body.get("messages") or ():
        yield message.get("content")
    yield body.get("prompt")


def hash_prefix(body: Mapping[str, Any]) -> str:
    """A name for how a request begins: the system message and the first 1,024 characters of the first user message.

    Requests of one name share what a server keeps of their beginning, so a router does well to send them to one place.
    Token-id prompts are told apart by their first 256 tokens.
    """
    parts: list[str] = []
    for message in body.get("messages") or ():
        content = str(message.get("content"))
        if message.get("role") == "user":
            parts.append(content[:_AFFINITY_CHARACTERS])
            break
        parts.append(content)
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        parts.append(prompt[:_AFFINITY_CHARACTERS])
    elif isinstance(prompt, list) and prompt:
        tokens = prompt[0] if isinstance(prompt[0], list) else prompt
        parts.append(repr(tokens[: _AFFINITY_CHARACTERS // _CHARACTERS_PER_TOKEN]))
    # A length before each part: two parts never look like one.
    digest = hashlib.sha256("".join(f"{len(part)}:{part}" for part in parts).encode(errors="replace"))
    return digest.hexdigest()[:16]
