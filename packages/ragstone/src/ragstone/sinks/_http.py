"""JSON over HTTP for sinks: requests, and the meaning of responses for a delivery."""

from __future__ import annotations

import asyncio
import json as jsonlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self
from urllib.parse import SplitResult, urlsplit

from ragstone._util.ascii import without_controls
from ragstone._util.lazy import needs_extra
from ragstone._util.waiting import retry_after_s
from ragstone.errors import (
    ConfigurationError,
    SinkDeniedError,
    SinkError,
    SinkRejectedError,
    SinkTargetMissingError,
    SinkUnavailableError,
)

if TYPE_CHECKING:
    import httpx

_EXCERPT_CHARS: Final = 200
_TRY_LATER: Final = frozenset({408, 425, 429})
WRONG_ADDRESS: Final = frozenset({404, 405})
"""Statuses of a server that does not know a path, so that the URL is probably wrong."""


def parse_url(text: str) -> SplitResult | None:
    """Parse an http(s) URL, or return None if it is not one."""
    try:
        url = urlsplit(text)
        valid = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return None
    return url if valid else None


def host_and_port(url: SplitResult) -> str:
    """Return host and port of a destination, without credentials and path."""
    host = url.hostname or ""
    port = url.port or (443 if url.scheme == "https" else 80)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def json_bytes(value: object) -> bytes:
    """Return `value` as JSON that every server can decode and every database can store.

    Lone surrogates and NUL are replaced.
    """
    return jsonlib.dumps(_storable(value), ensure_ascii=False, allow_nan=False).encode()


class HttpClient:
    """An HTTP client that opens its connections at first use, for the running event loop and process."""

    def __init__(
        self, *, headers: Mapping[str, str] | None = None, auth: tuple[str, str] | None = None, timeout_s: float = 10.0
    ) -> None:
        self._headers = dict(headers or {})
        self._auth = auth
        self._timeout_s = timeout_s
        self._client: httpx.AsyncClient | None = None
        self._owner: tuple[int, asyncio.AbstractEventLoop] | None = None

    async def request(
        self,
        method: str,
        url: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Send one request and return its response with any status, without following redirects.

        `json` is encoded with `json_bytes`. Raise SinkUnavailableError if the connection fails or the request times
        out.
        """
        with needs_extra("", "httpx", "a sink over HTTP"):
            import httpx

        if json is not None:
            content, headers = json_bytes(json), {"Content-Type": "application/json", **(headers or {})}
        owner = (os.getpid(), asyncio.get_running_loop())
        if self._client is None or self._owner != owner:
            self._client = httpx.AsyncClient(headers=self._headers, auth=self._auth, timeout=self._timeout_s)
            self._owner = owner
        try:
            return await self._client.request(method, url, content=content, params=params, headers=headers)
        except httpx.HTTPError as error:
            # The error's message is omitted, because it may quote the URL with credentials.
            raise SinkUnavailableError(
                f"no response from {host_and_port(urlsplit(url))}: {type(error).__name__}"
            ) from None

    async def aclose(self) -> None:
        """Close the connections of this event loop. A later request opens new ones."""
        client, owner, self._client = self._client, self._owner, None
        if client is not None and owner == (os.getpid(), asyncio.get_running_loop()):
            await client.aclose()


class HttpSink:
    """A destination behind a URL: its name, its connections, and its end.

    Raises:
        ConfigurationError: If `url` is not an http(s) URL. The message does not contain it, because it may contain
            credentials.
    """

    _KIND: ClassVar[str]
    _EXAMPLE: ClassVar[str]
    """A specification with a URL, for messages."""

    def __init__(
        self,
        url: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout_s: float = 10.0,
        include_text: bool = False,
    ) -> None:
        parsed = parse_url(url or "")
        if parsed is None:
            raise ConfigurationError(f"the sink {self._KIND!r} needs the URL of its server, such as {self._EXAMPLE!r}")
        self._url = parsed._replace(path=parsed.path.rstrip("/"), query="", fragment="")
        self._name = f"{self._KIND}:{host_and_port(parsed)}"
        self._include_text = include_text
        self._http = HttpClient(headers=headers, auth=auth, timeout_s=timeout_s)
        self._closed = False

    @classmethod
    def from_spec(cls, argument: str, *, include_text: bool = False) -> Self:
        """Create the sink from the argument of its specification: the URL, or nothing for the default.

        Raises:
            ConfigurationError: If the URL is missing or invalid, or a secret is missing or malformed.
        """
        return cls(argument or None, include_text=include_text)

    @property
    def name(self) -> str:
        """Name of the sink: its kind, with host and port of the server."""
        return self._name

    def _check_open(self) -> None:
        if self._closed:
            raise SinkUnavailableError(f"the sink {self.name!r} is closed")

    async def aclose(self) -> None:
        """Close the connections."""
        self._closed = True
        await self._http.aclose()


def parse_error_response(
    response: httpx.Response, *, missing: frozenset[int] = frozenset(), wrong_address: frozenset[int] = frozenset()
) -> SinkError | None:
    """Convert an error response to a sink error, or return None for a success.

    Status codes in `missing` mean that the trace does not exist (yet). Those in `wrong_address` point to a wrong URL:
    like redirects, they keep the delivery pending until the URL is fixed.
    """
    status = response.status_code
    if response.is_success:
        return None
    text = printable(response.text)
    message = f"{host_and_port(urlsplit(str(response.url)))} answered {status}{f': {text}' if text else ''}"
    if status in missing:
        return SinkTargetMissingError(message)
    if status in (401, 403):
        return SinkDeniedError(f"{message}. Check the credentials of this sink.")
    if status in wrong_address or response.is_redirect:
        return SinkUnavailableError(f"{message}. Check the URL of this sink.")
    if status in _TRY_LATER or status >= 500:
        return SinkUnavailableError(message, retry_after_s=retry_after_s(response.headers))
    return SinkRejectedError(message)


def _storable(value: Any) -> Any:
    match value:
        case str():
            return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
        case Mapping():
            return {_storable(key): _storable(item) for key, item in value.items()}
        case list() | tuple():
            return [_storable(item) for item in value]
        case _:
            return value


def printable(text: str) -> str:
    """Return the beginning of a response's text as one line without control characters, for a message."""
    return " ".join(without_controls(text[: 4 * _EXCERPT_CHARS]).split())[:_EXCERPT_CHARS]
