"""One OpenAI-compatible endpoint: requests with our own retries, pauses and limits; a client for each event loop."""

from __future__ import annotations

import asyncio
import base64
import email.utils
import random
import re
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from ragstone.errors import (
    ConfigurationError,
    JudgeRejectedError,
    JudgeUnavailableError,
)
from ragstone.judges._usage import record_usage
from ragstone.schema import Usage

if TYPE_CHECKING:
    import openai

__all__ = ["Endpoint", "RequestRefusedError", "normalised_url", "retry_after_s"]

_MAX_BACKOFF_S: Final = 30.0


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
    parts = urlsplit(base_url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        msg = f"a judge's base_url looks like 'http://host:8000/v1', got {base_url!r}"
        raise ConfigurationError(msg)
    path = parts.path.rstrip("/").removesuffix("/chat/completions") or "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


@dataclass(slots=True)
class _Connection:
    """What belongs to one event loop."""

    client: openai.AsyncOpenAI
    keeper: AsyncGenerator[None, None]
    slots: asyncio.Semaphore
    setup: asyncio.Lock = field(default_factory=asyncio.Lock)
    resume_at: float = 0.0
    """Loop time before which nothing is sent, because the endpoint asked for a pause."""


@dataclass(slots=True)
class _Trouble:
    """A failed attempt that may succeed when repeated."""

    reason: str
    kind: Literal["timeout", "unavailable", "unparseable"] = "unavailable"
    retry_after_s: float | None = None
    rate_limited: bool = False


class Endpoint:
    """Sends requests to one base URL, at most `concurrency` at a time on each event loop.

    Attempts that fail for a reason that may pass are repeated: time-outs, lost connections, 408, 409 and 5xx up to
    `max_retries` times with exponential back-off; 429 for up to `max_wait_s`, and meanwhile nothing else is sent.
    `Retry-After` is honoured. The caller's own deadline is a cancellation, and needs nothing from here.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None,
        concurrency: int,
        timeout_s: float,
        max_retries: int,
        max_wait_s: float,
        backoff_s: float,
    ) -> None:
        self.base_url = normalised_url(base_url)
        self._api_key = api_key
        self._concurrency = concurrency
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self._max_wait_s = max_wait_s
        self._backoff_s = backoff_s
        self._connections: dict[asyncio.AbstractEventLoop, _Connection] = {}
        self._connections_lock = threading.Lock()
        self._random = random.Random()  # noqa: S311  jitter

    @property
    def shown_url(self) -> str:
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
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._max_wait_s
        n_failures = n_refusals = 0
        while True:
            outcome = await self._attempt(connection, method, path, body, counted=counted)
            if not isinstance(outcome, _Trouble):
                return outcome
            if outcome.rate_limited:
                n_refusals += 1
                wait_s = self._wait_s(outcome, n_refusals)
                if loop.time() + wait_s > give_up_at:
                    raise self._given_up(outcome, n_failures + n_refusals)
                connection.resume_at = max(connection.resume_at, loop.time() + wait_s)
            else:
                n_failures += 1
                wait_s = self._wait_s(outcome, n_failures)
                if n_failures > self._max_retries or loop.time() + wait_s > give_up_at:
                    raise self._given_up(outcome, n_failures + n_refusals)
                await asyncio.sleep(wait_s)

    def _wait_s(self, trouble: _Trouble, n: int) -> float:
        # The exponent is bounded so that the thousandth refusal does not overflow.
        backoff_s = min(_MAX_BACKOFF_S, self._backoff_s * 2.0 ** min(n - 1, 16)) * self._random.uniform(0.5, 1.0)
        if trouble.retry_after_s is None:
            return backoff_s
        # A little more than asked for, and not everybody at once.
        return trouble.retry_after_s + self._random.uniform(0, min(self._backoff_s, 0.25))

    def _given_up(self, trouble: _Trouble, n_attempts: int) -> JudgeUnavailableError:
        msg = f"{self.shown_url}: {trouble.reason}; gave up after {n_attempts} attempt{'s' if n_attempts > 1 else ''}"
        return JudgeUnavailableError(msg, kind=trouble.kind, retry_after_s=trouble.retry_after_s)

    async def _attempt(
        self,
        connection: _Connection,
        method: Literal["GET", "POST"],
        path: str,
        body: Mapping[str, Any] | None,
        *,
        counted: bool,
    ) -> dict[str, Any] | _Trouble:
        import aiohttp
        import openai

        loop = asyncio.get_running_loop()
        try:
            async with connection.slots:
                # Waiting inside the slot is harmless (nobody may send now), and keeps the order of arrival.
                while (pause_s := connection.resume_at - loop.time()) > 0:  # noqa: ASYNC110  the pause may grow
                    await asyncio.sleep(pause_s)
                # The client's own time-out bounds each read; this one bounds the whole reply.
                async with asyncio.timeout(self._timeout_s):
                    if method == "GET":
                        reply = await connection.client.get(path, cast_to=object)
                    else:
                        if counted:
                            record_usage(Usage(calls=1))
                        reply = await connection.client.post(path, cast_to=object, body=body)
        except openai.APIStatusError as error:
            return self._trouble_from_status(error)
        # What is no HTTP at all gets past the client's own error types.
        except (TimeoutError, openai.APIConnectionError, aiohttp.ClientError) as error:
            # The client calls a refused or lost connection a time-out as well; what caused it knows better.
            causes = _causes(error)
            if any(isinstance(cause, TimeoutError) for cause in causes):
                return _Trouble(f"no reply within {self._timeout_s:g} s", kind="timeout")
            return _Trouble(f"cannot connect, or the connection broke ({self._redacted(_message(str(causes[-1])))})")
        except (ValueError, RecursionError):
            return _Trouble("the reply is not JSON", kind="unparseable")
        if isinstance(reply, str) and path.endswith("/metrics"):
            # The one thing asked for that is text by nature.
            return {"text": reply}
        if not isinstance(reply, dict):
            return _Trouble("the reply is not a JSON object", kind="unparseable")
        if (failed := reply.get("error")) and not (reply.get("choices") or reply.get("data")):
            # Gateways that have sent their 200 before the model behind them failed.
            return _Trouble(f"HTTP 200 with an error: {self._redacted(_message(failed))[:500]}")
        return reply

    def _trouble_from_status(self, error: openai.APIStatusError) -> _Trouble:
        status = error.status_code
        reason = f"HTTP {status}: {self._redacted(_message(error.body) or error.message)[:500]}"
        # A quota that is used up is a 429 that does not pass.
        if status == 429 and error.code != "insufficient_quota":
            return _Trouble(reason, rate_limited=True, retry_after_s=retry_after_s(error.response.headers))
        if status in (408, 409, 425) or status >= 500:
            return _Trouble(reason, retry_after_s=retry_after_s(error.response.headers))
        msg = f"{self.shown_url}: {reason}"
        raise RequestRefusedError(msg, status=status, param=error.param) from None

    def _redacted(self, text: str) -> str:
        """Servers and proxies like to repeat the key they were sent."""
        return text.replace(self._api_key, "[api key]") if self._api_key else text

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
            headers["Authorization"] = _basic(user)
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
        return _Connection(client=client, keeper=_kept_open(client), slots=asyncio.Semaphore(self._concurrency))

    async def aclose(self) -> None:
        """Close the client of the running loop; those of other loops close with their loops."""
        with self._connections_lock:
            connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.keeper.aclose()


async def _kept_open(client: openai.AsyncOpenAI) -> AsyncGenerator[None, None]:
    """Hold a client open for as long as its event loop lives.

    A client's sockets belong to the loop they were opened on. `asyncio.run` closes unfinished asynchronous generators
    while its loop still works, which is the one hook a library has for letting go in time.
    """
    try:
        yield
    finally:
        await client.close()


def _basic(user: str) -> str:
    """The header for `user:password` as it stands in a URL."""
    return f"Basic {base64.b64encode(unquote(user).encode()).decode()}"


def _message(body: object) -> str:
    """What an error's body says, in one line: OpenAI's form, FastAPI's (`detail`), a bare text; "" when it says nothing."""
    if isinstance(body, str):
        return " ".join(body.split())
    if isinstance(body, list):
        return "; ".join(text for item in body if (text := _message(item)))
    if not isinstance(body, Mapping):
        return ""
    if "loc" in body and "msg" in body:
        # A validation error; its `input` would repeat the whole request.
        where = body["loc"]
        return f"{'.'.join(map(str, where)) if isinstance(where, list) else where}: {body['msg']}"
    return next((text for key in ("message", "detail", "error") if (text := _message(body.get(key)))), "")


def _causes(error: BaseException) -> list[BaseException]:
    """The error and what caused it, down to the first cause."""
    causes = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    return causes


def retry_after_s(headers: Mapping[str, str], *, clock: Callable[[], float] = time.time) -> float | None:
    """Read how long the endpoint wants to be left alone, in seconds from now.

    Understands `retry-after-ms`, and `retry-after` in seconds or as an HTTP date; None when absent or unreadable.
    """
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        if re.fullmatch(r"\s*\d+(?:\.\d+)?\s*", value):
            return float(value) * unit_s
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, date.timestamp() - clock())
