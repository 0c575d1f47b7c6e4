"""One OpenAI-compatible endpoint: requests with retries, pauses and limits, and an HTTP client for each event loop."""

from __future__ import annotations

import asyncio
import hashlib
import random
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
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
from ragstone.judges._http.whole_prompts import WholePrompts
from ragstone.judges._limits.gate import ClientLimits, Permit, capacity_of
from ragstone.judges._limits.spend import Budget, usage_of
from ragstone.judges._model import record_usage
from ragstone.judges._option_names import OptionNames
from ragstone.schema import Usage

if TYPE_CHECKING:
    import openai

__all__ = [
    "Endpoint",
    "RequestRefusedError",
    "estimated_tokens",
    "hash_prefix",
    "normalize_url",
    "reply_length",
]

_MAX_BACKOFF_S: Final = 30.0
_OVERLOADED: Final = (503, 504, 529)


_NAMED_BY_ENVIRONMENT: Final = (
    ", or use openai:MODEL with OPENAI_BASE_URL set to the URL (and OPENAI_API_KEY, if it needs a key)"
)
"""Hint for callers who pass a URL as text: how to name its model and key."""

_CHARACTERS_PER_TOKEN: Final = 4
_AFFINITY_CHARACTERS: Final = 1024
_CHAT: Final = "/chat/completions"
_EMBEDDINGS: Final = "/embeddings"


class RequestRefusedError(JudgeRejectedError):
    """The endpoint refused the request itself (4xx, except for temporary errors)."""

    def __init__(self, message: str, *, status: int, param: str | None, text: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        """The parameter that the endpoint named, or None."""
        self.text = message if text is None else text
        """Complete text of the endpoint, to find parameter names in. It may contain secrets and must not be shown."""


def normalize_url(base_url: str) -> str:
    """Normalize a base URL: no slash at the end, and `/v1` if the path is empty.

    Raises:
        ConfigurationError: If it is not an http(s) URL with a host.
    """
    try:
        parts = urlsplit(base_url.strip())
    except ValueError as error:
        raise ConfigurationError(
            f"a judge's base_url looks like 'http://host:8000/v1', and the given text is not a URL: {error}"
        ) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if "@" in base_url else base_url
        raise ConfigurationError(f"a judge's base_url looks like 'http://host:8000/v1', got {shown!r}")
    path = parts.path.rstrip("/").removesuffix("/chat/completions") or "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


@dataclass(slots=True)
class _Connection:
    """State of one event loop."""

    client: openai.AsyncOpenAI
    keeper: AsyncGenerator[None, None]
    setup: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class _RetryableError:
    """A failed attempt that may succeed if repeated."""

    reason: str
    kind: Literal["timeout", "unavailable", "unparseable"] = "unavailable"
    retry_after_s: float | None = None
    rate_limited: bool = False
    overload: bool = False
    unreachable: bool = False
    """Whether no server answered, so that another request would have failed as well."""


@dataclass(slots=True, kw_only=True)
class _RequestState:
    """State of one request through all its attempts."""

    method: Literal["GET", "POST"]
    path: str
    body: Mapping[str, Any] | None
    counted: bool
    order: int
    """Its place in the queue, for all attempts."""
    kind: int = 0
    n_tokens: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)


class Endpoint:
    """Sends requests to one base URL, as many concurrently as the shared `EndpointLimiter` allows.

    Attempts that fail for a temporary reason are retried: timeouts, lost connections, 408, 409 and 5xx up to
    `max_retries` times with exponential backoff, and 429 for up to `max_wait_s`, in which no other request is sent.
    `Retry-After` is respected. During an outage one probe at a time is sent, and other requests wait. A deadline of the
    caller is a cancellation, which needs no support here.
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
        headers: Mapping[str, str] | None = None,
        option_names: OptionNames | None = None,
    ) -> None:
        self.base_url = normalize_url(base_url)
        self._api_key = api_key
        self._headers = dict(headers or {})
        self._option_names = option_names or OptionNames()
        self._secrets = find_secrets(self.base_url, api_key, self._headers)
        self._share = share
        self._impatient_share = replace(share, max_outage_s=0.0)
        """For requests that another endpoint can take."""
        self._timeout_s = share.timeout_s
        self.capacity = capacity_of(self.base_url, api_key)
        self.capacity.join(share)
        self._max_retries = max_retries
        self._max_wait_s = max_wait_s
        self._backoff_s = backoff_s
        self._prices = prices
        self._budget = budget
        self._affinity_header = affinity_header
        self._prompts = WholePrompts(partial(self._send, "POST", _CHAT), name=self.public_url)
        self._connections: dict[asyncio.AbstractEventLoop, _Connection] = {}
        self._after_fork()
        after_fork_in_child(self._after_fork)
        self._random = random.Random()  # noqa: S311  jitter

    def _after_fork(self) -> None:
        # Another thread of the parent may have held the lock.
        self._connections_lock = threading.Lock()

    @property
    def public_url(self) -> str:
        """Base URL without credentials and query."""
        parts = urlsplit(self.base_url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @property
    def _root(self) -> str:
        """URL of the server without credentials and query, and without a `/v1` at the end of the path."""
        parts = urlsplit(self.base_url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.removesuffix("/v1"), "", ""))

    def how_to_set(self, key: str) -> str:
        """Return how the user sets an option of this endpoint ("model", "api_key"), for messages."""
        option = self._option_names.option(key)
        return option + _NAMED_BY_ENVIRONMENT if self._option_names.interface == "python" else option

    async def setup_lock(self) -> asyncio.Lock:
        """Return a lock of the running event loop, for capabilities that are detected once."""
        return (await self._connection()).setup

    async def request(
        self,
        method: Literal["GET", "POST"],
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        counted: bool = True,
        once: bool = False,
    ) -> dict[str, Any]:
        """Send one request, with retries, and return the JSON object of the reply.

        Args:
            method: GET or POST.
            path: Path below the base URL ("/models"), or with two slashes ("//tokenize") below the server's root.
            body: Body of a POST.
            counted: Whether a POST counts as a call in the usage.
            once: Whether to fail after the first failed attempt, or if the endpoint is unavailable, because the caller has
                another endpoint.

        Raises:
            RequestRefusedError: If the status is 4xx.
            JudgeRejectedError: If the server cut the prompt, with kind "prompt_truncated".
            JudgeUnavailableError: If no usable reply is received after all retries. The kind is "timeout", "unavailable",
                or "unparseable" if the reply is not a JSON object (for example a proxy's error page).
        """
        reply = await self._send(method, path, body, counted=counted, once=once)
        if path == _CHAT and body is not None:
            await self._prompts.check(body, reply)
        return reply

    async def _send(
        self,
        method: Literal["GET", "POST"],
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        counted: bool = True,
        once: bool = False,
    ) -> dict[str, Any]:
        connection = await self._connection()
        if path.startswith("//"):
            # The client uses a complete URL unchanged.
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
        # Waiting for an unavailable endpoint does not use up the time for retries.
        give_up_at = loop.time() + self._max_wait_s - capacity.outage_s()
        n_failures = n_in_outage = n_refusals = 0
        while True:
            if sending.counted and self._budget is not None:
                # Checked before the wait as well, so that requests beyond the budget do not queue.
                self._budget.check()
            try:
                permit = await capacity.acquire(
                    self._impatient_share if once else self._share,
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
                if once or loop.time() + capacity.pause_s() > give_up_at + capacity.outage_s():
                    raise self._given_up(outcome, n_failures + n_refusals)
                continue
            n_failures += 1
            # A failure during an outage is not the request's own. The limiter decides when the next probe is sent.
            is_outage = permit.probe or (outcome.unreachable and capacity.breaker.open)
            n_in_outage += is_outage
            wait_s = 0.0 if is_outage else self._wait_s(outcome, n_failures - n_in_outage)
            is_too_late = loop.time() + wait_s > give_up_at + capacity.outage_s()
            if once or n_failures - n_in_outage > self._max_retries or is_too_late or capacity.is_down(self._share):
                raise self._given_up(outcome, n_failures + n_refusals)
            await asyncio.sleep(wait_s)

    def outage(self) -> JudgeUnavailableError | None:
        """Return the error of requests that fail during an outage, or None if they should still wait."""
        error = self.capacity.outage(self._share)
        return None if error is None else JudgeUnavailableError(f"{self.public_url}: {error}", kind=error.kind)

    def waiting_outside(self) -> AbstractContextManager[None]:
        """Count the time of a block as waiting for this endpoint, if it is unavailable."""
        return self.capacity.waiting_outside(self._share)

    def retry_wait_s(self, error: JudgeUnavailableError, n: int) -> float:
        """Return the seconds to wait before the `n`-th retry after a failed attempt."""
        return self._wait_s(_RetryableError("", retry_after_s=error.retry_after_s), n)

    def _wait_s(self, failure: _RetryableError, n: int) -> float:
        if failure.retry_after_s is None:
            # The exponent is limited, so that the thousandth refusal does not overflow.
            return min(_MAX_BACKOFF_S, self._backoff_s * 2.0 ** min(n - 1, 16)) * self._random.uniform(0.5, 1.0)
        # Slightly longer than requested, because clocks differ, and with jitter for several processes. The jitter is
        # small, because it reduces the use of a limit on requests per minute.
        return failure.retry_after_s + 0.005 + self._random.uniform(0, min(0.02 * failure.retry_after_s, 0.25))

    def _given_up(self, failure: _RetryableError, n_attempts: int) -> JudgeUnavailableError:
        msg = f"{self.public_url}: {failure.reason} (gave up after {n_attempts} attempt{'s' if n_attempts > 1 else ''})"
        return JudgeUnavailableError(msg, kind=failure.kind, retry_after_s=failure.retry_after_s)

    async def _attempt(
        self, connection: _Connection, sending: _RequestState, permit: Permit
    ) -> dict[str, Any] | _RetryableError:
        """Send the request once, and report the result to the limiter."""
        capacity = self.capacity
        try:
            if sending.counted:
                if self._budget is not None:
                    try:
                        self._budget.begin()
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
                if self._budget is not None:
                    self._budget.record(usage)
        elif outcome.rate_limited:
            wait_requested = outcome.retry_after_s is not None
            wait_s = self._wait_s(outcome, 1 + permit.n_rounds_refused)
            capacity.refused(permit, wait_s=wait_s, wait_requested=wait_requested)
        else:
            capacity.failed(permit, reason=outcome.reason, kind=outcome.kind, overload=outcome.overload)
        return outcome

    async def _exchange(self, connection: _Connection, sending: _RequestState) -> dict[str, Any] | _RetryableError:
        import aiohttp
        import openai

        try:
            # The client's own timeout limits each read. This one limits the whole reply.
            async with asyncio.timeout(self._timeout_s):
                if sending.method == "GET":
                    reply = await connection.client.get(
                        sending.path, cast_to=object, options={"follow_redirects": False}
                    )
                else:
                    reply = await connection.client.post(
                        sending.path,
                        cast_to=object,
                        body=sending.body,
                        options={"headers": sending.headers, "follow_redirects": False},
                    )
        except openai.APIStatusError as error:
            return self._failure_from_status(error)
        # Replies that are not HTTP raise other exceptions than the client's own.
        except (TimeoutError, openai.APIConnectionError, aiohttp.ClientError) as error:
            # The client also reports a refused or lost connection as a timeout. The cause is more precise.
            causes = causes_of(error)
            if any(isinstance(cause, TimeoutError) for cause in causes):
                return _RetryableError(f"no reply within {self._timeout_s:g} s", kind="timeout", overload=True)
            return _RetryableError(
                f"cannot connect, or the connection broke ({self._redacted(extract_error_message(str(causes[-1])))})",
                unreachable=True,
            )
        except (ValueError, RecursionError):
            return _RetryableError("the reply is not JSON", kind="unparseable")
        if isinstance(reply, str) and sending.path.endswith("/metrics"):
            # The only endpoint whose reply is text.
            return {"text": reply}
        if not isinstance(reply, dict):
            return _RetryableError("the reply is not a JSON object", kind="unparseable")
        if (failed := reply.get("error")) and not (reply.get("choices") or reply.get("data")):
            # Gateways may send status 200 before the model behind them fails.
            return _RetryableError(f"HTTP 200 with an error: {self._redacted(extract_error_message(failed))[:500]}")
        if sending.path == _EMBEDDINGS and not reply.get("data"):
            return _RetryableError(f"the reply does not contain embeddings, only {sorted(reply)}", kind="unparseable")
        if sending.counted and sending.path != _EMBEDDINGS and not reply.get("choices"):
            return _RetryableError(
                f"the completion does not contain a message, only {sorted(reply)}", kind="unparseable"
            )
        return reply

    def _failure_from_status(self, error: openai.APIStatusError) -> _RetryableError:
        status = error.status_code
        text = extract_error_message(error.body) or error.message
        reason = f"HTTP {status}: {self._redacted(text)[:500]}"
        # A quota that is used up is a 429 that is not temporary.
        if status == 429 and error.code != "insufficient_quota":
            return _RetryableError(reason, rate_limited=True, retry_after_s=retry_after_s(error.response.headers))
        if status in (408, 409, 425) or status >= 500:
            return _RetryableError(
                reason,
                retry_after_s=retry_after_s(error.response.headers),
                overload=status in _OVERLOADED,
                unreachable=status in (502, 503, 504),
            )
        msg = f"{self.public_url}: {reason}"
        if 300 <= status < 400:
            # A redirect would send the key and the texts to a server that the user did not name.
            target = error.response.headers.get("location", "")
            msg = (
                f"{self.public_url}: HTTP {status}, a redirect to {_without_secrets(target) or 'an unnamed address'}, which is "
                f"not followed. Name the final URL with {self.how_to_set('url')}"
            )
        if status == 401 and not (self._api_key or "@" in urlsplit(self.base_url).netloc):
            msg += f". No key was given. Set {self.how_to_set('api_key')}"
        raise RequestRefusedError(msg, status=status, param=error.param, text=text) from None

    def _redacted(self, text: str) -> str:
        """Remove secrets from a text, because servers and proxies may repeat the key in errors."""
        for secret in self._secrets:
            text = text.replace(secret, "[api key]")
        return text

    async def _connection(self) -> _Connection:
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is None:
            connection = self._open()
            # Run it up to its `yield`. The event loop then closes it, and with it the client, before it closes itself.
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
        headers: dict[str, str] = {}
        if at and not self._api_key:
            # aiohttp rejects a URL with credentials together with the header that the client always sends.
            headers["Authorization"] = basic(user)
        if self._api_key and "/openai/deployments/" in parts.path:
            # Azure expects keys in this header. Its bearer tokens are something else.
            headers["api-key"] = self._api_key
        # The client sends its own header under this exact name.
        headers |= {"Authorization" if n.lower() == "authorization" else n: v for n, v in self._headers.items()}
        client = openai.AsyncOpenAI(
            # The client would append paths to the query.
            base_url=urlunsplit(parts._replace(netloc=host, query="")),
            default_query=dict(parse_qsl(parts.query)),
            default_headers=headers,
            # Without a key the client would send OPENAI_API_KEY to any server.
            api_key=self._api_key or "none",
            max_retries=0,
            timeout=self._timeout_s,
            http_client=openai.DefaultAioHttpClient(),
        )
        return _Connection(client=client, keeper=_get_client_for_loop(client))

    async def aclose(self) -> None:
        """Close the client of the running event loop. Clients of other event loops close with their loops."""
        with self._connections_lock:
            connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.keeper.aclose()


async def _get_client_for_loop(client: openai.AsyncOpenAI) -> AsyncGenerator[None, None]:
    """Keep a client open as long as its event loop exists.

    The sockets of a client belong to the event loop in which they were opened. `asyncio.run` closes unfinished
    asynchronous generators while its loop still runs, which is the only way for a library to close them in time.
    """
    try:
        yield
    finally:
        await client.close()


def _without_secrets(url: str) -> str:
    """Return an address without credentials and query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def reply_length(body: Mapping[str, Any]) -> int:
    """Return the maximum number of tokens of one reply, or 0 if the request does not contain it."""
    for name in ("max_tokens", "max_completion_tokens"):
        if isinstance(length := body.get(name), int):
            return length
    return 0


def estimated_tokens(body: Mapping[str, Any]) -> float:
    """Estimate the tokens of a request: one per four characters, and the maximum length of the replies."""
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
    yield body.get("input")


def hash_prefix(body: Mapping[str, Any]) -> str:
    """Return a hash of the beginning of a request: the system message and 1,024 characters of the first user message.

    Requests with the same hash share a prefix in the server's cache, so a router should send them to the same replica.
    For token-id prompts the hash covers the first 256 tokens.
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
    if body.get("input"):
        parts.append(repr(body["input"])[:_AFFINITY_CHARACTERS])
    # The length before each part makes the combination of parts unique.
    digest = hashlib.sha256("".join(f"{len(part)}:{part}" for part in parts).encode(errors="replace"))
    return digest.hexdigest()[:16]
