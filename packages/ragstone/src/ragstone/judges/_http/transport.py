"""HTTP below an endpoint: one request and its whole reply, whose size is bounded. By aiohttp, or by the user's own client.

A server may send anything, so nothing that it sends is kept without a limit: bodies are cut while they are read, also
when they are compressed, and aiohttp limits the headers. A transport belongs to the event loop in which it was opened.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import io
import json
import os
import ssl
import urllib.request
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary

from ragstone._util.variables import assigned
from ragstone.errors import ConfigurationError
from ragstone.judges._http.errors import basic, causes_of, find_secrets

if TYPE_CHECKING:
    import openai
    from yarl import URL

Method = Literal["GET", "POST"]
ApiKey = str | Callable[[], str | Awaitable[str]]
"""An API key, or a function that returns the current one (a token that expires)."""

MAX_REPLY_BYTES: Final = 4 * 2**20
"""Default limit on a body, before and after decompression. A chat completion has a few KiB."""
_CONNECT_S: Final = 10.0
"""Maximum number of seconds for a connection, with the TLS handshake. Replies may take longer, so they have their own
limit."""
_KEEP_ALIVE_S: Final = 4.0
"""Seconds for which an idle connection is kept. Uvicorn, which most model servers use, closes them after 5."""
_MAX_AT_ONCE: Final = 2**20
"""Bytes of a request that aiohttp sends in one piece. Larger ones are sent in parts, so that the event loop stays
responsive."""
_TOKENS_KEPT: Final = 8
"""Latest keys of a function that are redacted from messages."""
_GZIP: Final = 31


class ConnectionFailedError(Exception):
    """The connection broke before the reply was complete."""


class NotConnectedError(ConnectionFailedError):
    """The server could not be connected, so nothing was sent."""


class NoConnectionError(NotConnectedError):
    """The server did not accept a connection in time. It may also have too many of them."""


class SignInError(Exception):
    """The function or client that provides the key failed."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply with any status."""

    status: int
    headers: Mapping[str, str]
    """By name, independent of upper and lower case."""
    body: bytes
    """Decompressed. Empty if there is a `problem`."""
    problem: str | None = None
    """Why the body was not read to its end ("larger than ..."), or None."""


class Transport(Protocol):
    """Sends requests to one server, within one event loop."""

    secrets: list[str]
    """Keys that were sent and are not known in advance. They must not be in messages."""

    async def send(self, method: Method, url: str, body: Mapping[str, Any] | None, *, max_bytes: int) -> Reply:
        """Send one request, and return the reply with any status. Redirects are not followed, and nothing is repeated.

        The URL is a path below the base URL ("/models"), or a complete one at the same server. The connection is closed
        if the reply's body exceeds `max_bytes`.

        Raises:
            NotConnectedError: If the server cannot be connected.
            ConnectionFailedError: If the connection breaks.
            SignInError: If the key cannot be provided.
            TimeoutError: If the client has a time limit of its own, which ended.
        """

    async def aclose(self) -> None:
        """Close the connections that this transport opened."""


class AiohttpTransport:
    """Sends requests with aiohttp.

    Proxies come from the environment (`HTTPS_PROXY`, `NO_PROXY`), and certificate authorities from the system, or from
    `SSL_CERT_FILE` and `SSL_CERT_DIR`. Credentials of `.netrc` are not sent, and cookies are not kept. Credentials and
    query of `base_url` are sent with each request, and `api_key` as bearer token, to Azure in its own header. `headers`
    replace these. `timeout_s` for a reply is an upper limit for the connection, too.

    Raises:
        ConfigurationError: If the proxy of the environment is not an HTTP proxy.
    """

    def __init__(self, base_url: str, *, api_key: ApiKey | None, headers: Mapping[str, str], timeout_s: float) -> None:
        import aiohttp
        from multidict import CIMultiDict

        parts = urlsplit(base_url)
        user, at, host = parts.netloc.rpartition("@")
        self._parts = parts._replace(netloc=host)
        self._key = api_key
        self._is_azure = "/openai/deployments/" in parts.path
        self._headers = CIMultiDict(
            {
                "Accept": "application/json",
                # The only encoding: zlib limits its output.
                "Accept-Encoding": "gzip",
                "Content-Type": "application/json",
                "User-Agent": "ragstone",
            }
        )
        if at and not api_key:
            self._headers["Authorization"] = basic(user)
        if isinstance(api_key, str) and api_key:
            self._headers.update(self._sign_in(api_key))
        self._own = dict(headers)
        self._headers.update(headers)
        self._urls: dict[str, URL] = {}
        self.secrets: list[str] = []
        self._proxy = _proxy_of(parts.scheme, host)
        self._session = aiohttp.ClientSession(
            # The limiter of the endpoint decides how many requests are sent at once.
            connector=aiohttp.TCPConnector(
                limit=0, ssl=tls_context() if parts.scheme == "https" else True, keepalive_timeout=_KEEP_ALIVE_S
            ),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(_CONNECT_S, timeout_s)),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    def _sign_in(self, key: str) -> dict[str, str]:
        # Azure expects keys in this header. The tokens of a function are bearer tokens there, too.
        azure = {"api-key": key} if self._is_azure and isinstance(self._key, str) else {}
        return {"Authorization": f"Bearer {key}", **azure}

    async def send(self, method: Method, url: str, body: Mapping[str, Any] | None, *, max_bytes: int) -> Reply:
        import aiohttp

        sent = self._headers.copy()
        if callable(self._key):
            token = await _called(self._key)
            _remember(self.secrets, [token])
            sent.update(self._sign_in(token))
            sent.update(self._own)
        data: bytes | io.BytesIO | None = None if body is None else _json_bytes(body)
        if isinstance(data, bytes) and len(data) > _MAX_AT_ONCE:
            data = io.BytesIO(data)
        try:
            # A body that is not read to its end closes the connection.
            async with self._session.request(
                method, self._url(url), data=data, headers=sent, allow_redirects=False, proxy=self._proxy
            ) as response:
                received = _BoundedBody(response.headers.get("Content-Encoding", ""), max_bytes)
                if received.expect(response.headers.get("Content-Length")):
                    async for chunk in response.content.iter_any():
                        if not received.feed(chunk):
                            break
                    else:
                        return Reply(response.status, response.headers, received.content)
                response.close()
                return Reply(response.status, response.headers, b"", received.problem)
        except aiohttp.ConnectionTimeoutError:
            raise NoConnectionError(f"no connection within {self._session.timeout.sock_connect:g} s") from None
        # What is not HTTP raises other exceptions than those of connections.
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _connection_failure(error) from error

    def _url(self, url: str) -> URL:
        if (known := self._urls.get(url)) is None:
            from yarl import URL

            parts = urlsplit(url) if "://" in url else self._parts._replace(path=self._parts.path + url)
            known = self._urls[url] = URL(urlunsplit(parts._replace(query=self._parts.query)))
        return known

    async def aclose(self) -> None:
        await self._session.close()


class ClientTransport:
    """Sends requests with a client of the `openai` package that the user made: Azure, other sign-ins, own HTTP clients.

    A client with the SDK's default HTTP client is copied for each event loop, because connections belong to the loop in
    which they were opened. One with an HTTP client of the user's is used as it is, in one event loop. Raise
    ConfigurationError if another event loop has used it.
    """

    def __init__(self, client: openai.AsyncOpenAI) -> None:
        import openai

        self._is_copy = type(getattr(client, "_client", None)).__name__ == "AsyncHttpxClientWrapper"
        if self._is_copy:
            client = client.copy(http_client=openai.DefaultAioHttpClient(verify=tls_context()))
        else:
            loop = asyncio.get_running_loop()
            if _loop_of.setdefault(client, loop) is not loop:
                raise ConfigurationError(
                    "the client has an HTTP client of its own (http_client=...), whose connections belong to the event loop that "
                    "used it first. Make a new client and judge for each event loop (each call of evaluate), or pass a "
                    "client without http_client"
                )
        self._client = client
        self.secrets: list[str] = []
        hooks = client._client.event_hooks["response"]  # noqa: SLF001  the SDK does not offer another way to read a body in parts
        if _take_reply not in hooks:
            hooks.append(_take_reply)

    async def send(self, method: Method, url: str, body: Mapping[str, Any] | None, *, max_bytes: int) -> Reply:
        exchange = _Exchange(max_bytes)
        options: Any = {"headers": {"Accept-Encoding": "gzip"}, "follow_redirects": False, "max_retries": 0}
        failure: Exception | None = None
        try:
            with assigned(_exchange, exchange):
                if method == "GET":
                    await self._client.get(url, cast_to=str, options=options)
                else:
                    await self._client.post(url, cast_to=str, body=body, options=options)
        except Exception as error:  # noqa: BLE001  the user's sign-in may raise anything
            failure = error
        finally:
            _remember(self.secrets, find_secrets("", None, exchange.sent))
        if exchange.reply is not None:
            # With a status above 299 the client raises its own exceptions.
            return exchange.reply
        raise _client_failure(failure) from failure

    async def aclose(self) -> None:
        if self._is_copy:
            await self._client.close()


def _client_failure(error: Exception | None) -> Exception:
    """Return the exception of a transport for one of the SDK without a reply."""
    import aiohttp
    import openai

    if error is None:
        return ConnectionFailedError("the client returned without a reply")
    causes = causes_of(error)
    if not any(isinstance(cause, openai.APIConnectionError | aiohttp.ClientError | OSError) for cause in causes):
        return SignInError(f"the client raised {type(error).__name__}: {error}")
    if not isinstance(causes[-1], TimeoutError):
        return _connection_failure(error)
    if isinstance(causes[-1], aiohttp.ConnectionTimeoutError) or any(
        type(cause).__name__ in ("ConnectTimeout", "PoolTimeout") for cause in causes
    ):
        return NoConnectionError("no connection in time")
    return TimeoutError()


def _connection_failure(error: Exception) -> ConnectionFailedError:
    import aiohttp

    unsent = (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError, aiohttp.InvalidURL)
    if any(isinstance(cause, unsent) or type(cause).__name__ == "ConnectError" for cause in causes_of(error)):
        return NotConnectedError(_first_cause(error))
    return ConnectionFailedError(_first_cause(error))


def _first_cause(error: BaseException) -> str:
    """Return the message of the first cause of an exception. The others repeat the URL, whose query may be secret."""
    first = causes_of(error)[-1]
    return str(getattr(first, "message", "") or first) or type(first).__name__


@dataclass(slots=True)
class _Exchange:
    """The request of `ClientTransport` in this task, and its reply."""

    max_bytes: int
    reply: Reply | None = None
    sent: Mapping[str, str] | None = None
    """Headers of the request."""


_exchange: Final[ContextVar[_Exchange | None]] = ContextVar("ragstone_exchange", default=None)
_loop_of: Final[WeakKeyDictionary[Any, asyncio.AbstractEventLoop]] = WeakKeyDictionary()
"""The event loop that uses a client with its own HTTP client."""


async def _take_reply(response: Any) -> None:
    """Read the body of a reply up to the limit, before the client reads all of it. Other requests of the client are left alone."""
    if (exchange := _exchange.get()) is None:
        return
    body = _BoundedBody(response.headers.get("content-encoding", ""), exchange.max_bytes)
    if body.expect(response.headers.get("content-length")):
        async for chunk in response.aiter_raw():
            if not body.feed(chunk):
                break
    await response.aclose()
    exchange.sent = dict(response.request.headers)
    exchange.reply = Reply(response.status_code, response.headers.copy(), body.content, body.problem)
    # The client may still act on the reply (a new token after 401), and then reads this body.
    for name in ("content-encoding", "content-length", "transfer-encoding"):
        response.headers.pop(name, None)
    response.stream = type(response)(response.status_code, content=body.content).stream
    response.is_stream_consumed = response.is_closed = False


class _BoundedBody:
    """Collects a body, decompressed, up to a limit on both sizes."""

    def __init__(self, encoding: str, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._n_read = self._n_kept = 0
        self.problem: str | None = None
        names = [name for part in encoding.split(",") if (name := part.strip().lower()) not in ("", "identity")]
        self._inflate: Any = None
        if names in (["gzip"], ["x-gzip"]):
            self._inflate = zlib.decompressobj(_GZIP)
        elif names:
            self.problem = f"its encoding {encoding[:40]!r} was not requested"

    @property
    def content(self) -> bytes:
        """The body."""
        return b"" if self.problem is not None else b"".join(self._parts)

    def expect(self, length: str | None) -> bool:
        """Return whether a body with this `Content-Length` should be read."""
        if length is not None and length.isdecimal() and (len(length) > 18 or int(length) > self._max_bytes):
            self._refuse()
        return self.problem is None

    def feed(self, chunk: bytes) -> bool:
        """Add a part as it was sent. Return whether to continue."""
        self._n_read += len(chunk)
        if self._inflate is not None:
            try:
                chunk = self._inflate.decompress(chunk, self._max_bytes - self._n_kept + 1)
            except zlib.error as error:
                self.problem = f"it cannot be decompressed ({error})"
                return False
        self._n_kept += len(chunk)
        if max(self._n_read, self._n_kept) > self._max_bytes:
            self._refuse()
            return False
        self._parts.append(chunk)
        return True

    def _refuse(self) -> None:
        self._parts.clear()
        self.problem = f"it is larger than {self._max_bytes / 2**20:.3g} MiB"


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Return the certificate authorities of this process: of the system, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`."""
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509"] and not {"SSL_CERT_FILE", "SSL_CERT_DIR"} & os.environ.keys():
        import certifi

        # Pythons that are not part of the system may not find its authorities.
        context.load_verify_locations(certifi.where())
    return context


def _proxy_of(scheme: str, host: str) -> str | None:
    """Return the URL of the environment's proxy for a host, with its credentials."""
    proxies = urllib.request.getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or urllib.request.proxy_bypass(host):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    parts = urlsplit(proxy)
    netloc = parts.netloc.rpartition("@")[2]
    if parts.scheme not in ("http", "https") or not netloc:
        raise ConfigurationError(
            f"the proxy of the environment ({scheme.upper()}_PROXY or ALL_PROXY) is {parts.scheme}://{netloc}, and only http "
            "and https proxies are supported. Add the host to NO_PROXY, or pass client=AsyncOpenAI(http_client=...)"
        )
    return proxy


async def _called(key: Callable[[], str | Awaitable[str]]) -> str:
    """Return the key of a function, which is called in a thread unless it is asynchronous, because it may ask a server."""
    try:
        found = key() if inspect.iscoroutinefunction(key) else await asyncio.to_thread(key)
        token = await found if inspect.isawaitable(found) else found
    except Exception as error:
        raise SignInError(f"the function given as api_key raised {type(error).__name__}: {error}") from error
    if not isinstance(token, str) or not token.strip() or not token.isprintable():
        raise SignInError(f"the function given as api_key returned {type(token).__name__} without a usable key")
    return token


def _remember(tokens: list[str], new: Sequence[str]) -> None:
    for token in new:
        if token not in tokens:
            tokens.append(token)
    del tokens[:-_TOKENS_KEPT]


def _json_bytes(body: Mapping[str, Any]) -> bytes:
    # A lone surrogate cannot be encoded.
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
