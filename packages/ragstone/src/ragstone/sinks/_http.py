"""JSON over HTTP, and what an answer means for a delivery; shared by the sinks that speak it."""

from __future__ import annotations

import asyncio
import json as jsonlib
import os
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from time import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlsplit

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

__all__ = ["HttpClient", "base_url", "host_and_port", "json_bytes", "parse_error_response", "printable"]

_EXCERPT_CHARS: Final = 200
_TRY_LATER: Final = frozenset({408, 425, 429})


def base_url(text: str, *, sink: str, example: str) -> SplitResult:
    """Check the address of a destination.

    Args:
        text: What the user gave.
        sink: Name of the kind of sink, for the message.
        example: An address that would work, for the message.

    Raises:
        ConfigurationError: It is no http(s) URL. The message does not show it: it may hold credentials.
    """
    try:
        url = urlsplit(text)
        valid = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ConfigurationError(f"the sink {sink!r} needs the address of its server, such as {example!r}")
    return url._replace(path=url.path.rstrip("/"), query="", fragment="")


def host_and_port(url: SplitResult) -> str:
    """Name a destination without its credentials and path."""
    host = url.hostname or ""
    port = url.port or (443 if url.scheme == "https" else 80)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def json_bytes(value: object) -> bytes:
    """Return `value` as JSON that every server can decode and every database can store.

    Half of a surrogate pair and NUL are replaced.
    """
    return jsonlib.dumps(_storable(value), ensure_ascii=False, allow_nan=False).encode()


class HttpClient:
    """A client that is made where it is first used: a connection belongs to one event loop of one process.

    Args:
        headers: Sent with each request.
        auth: User name and password of basic authentication.
        timeout_s: Seconds for one request.
    """

    def __init__(
        self, *, headers: Mapping[str, str] | None = None, auth: tuple[str, str] | None = None, timeout_s: float = 10.0
    ) -> None:
        self._headers = dict(headers or {})
        self._auth = auth
        self._timeout_s = timeout_s
        self._client: httpx.AsyncClient | None = None
        self._home: tuple[int, asyncio.AbstractEventLoop] | None = None

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
        """Send one request and return its answer, whatever its status; redirects are not followed.

        `json` is sent as `json_bytes` writes it.

        Raises:
            SinkUnavailableError: No connection, or no answer in time.
        """
        import httpx

        if json is not None:
            content, headers = json_bytes(json), {"Content-Type": "application/json", **(headers or {})}
        home = (os.getpid(), asyncio.get_running_loop())
        if self._client is None or self._home != home:
            self._client = httpx.AsyncClient(headers=self._headers, auth=self._auth, timeout=self._timeout_s)
            self._home = home
        try:
            return await self._client.request(method, url, content=content, params=params, headers=headers)
        except httpx.HTTPError as error:
            # Not the message of every error: some quote the URL, which may hold credentials.
            raise SinkUnavailableError(
                f"no answer from {host_and_port(urlsplit(url))}: {type(error).__name__}"
            ) from None

    async def aclose(self) -> None:
        """Close the connections of this loop; a later request opens new ones."""
        client, home, self._client = self._client, self._home, None
        if client is not None and home == (os.getpid(), asyncio.get_running_loop()):
            await client.aclose()


def parse_error_response(
    response: httpx.Response, *, missing: frozenset[int] = frozenset(), wrong_address: frozenset[int] = frozenset()
) -> SinkError | None:
    """What an answer means for the delivery; None when it was taken.

    Args:
        response: The answer.
        missing: Statuses by which this server says that the trace is not there (yet).
        wrong_address: Statuses that say more of the address than of the delivery, which waits until one of them is mended; as
            a redirection always does.
    """
    status = response.status_code
    if response.is_success:
        return None
    words = f"{host_and_port(urlsplit(str(response.url)))} answered {status}{_excerpt(response)}"
    if status in missing:
        return SinkTargetMissingError(words)
    if status in (401, 403):
        return SinkDeniedError(f"{words}; check the credentials of this sink")
    if status in wrong_address or response.is_redirect:
        return SinkUnavailableError(f"{words}; check the address of this sink")
    if status in _TRY_LATER or status >= 500:
        return SinkUnavailableError(words, retry_after_s=_retry_after_s(response))
    return SinkRejectedError(words)


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


def _excerpt(response: httpx.Response) -> str:
    text = printable(response.text)
    return f": {text}" if text else ""


def printable(text: str) -> str:
    """Return the beginning of what a server said, for a message of ours: one line, no control characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * _EXCERPT_CHARS]).split())
    return line[:_EXCERPT_CHARS]


def _retry_after_s(response: httpx.Response) -> float | None:
    value = response.headers.get("Retry-After")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time())
    except (ValueError, TypeError):
        return None
