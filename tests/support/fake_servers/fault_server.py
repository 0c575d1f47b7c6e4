"""A server that answers with given bytes, whole or in part: what proxies, crashing servers and hostile ones send."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NoReturn

from fake_servers.loopback import LoopbackServer, Reply, Request, parsed_head

__all__ = ["ANSWER", "FAULTS", "Answer", "FaultServer", "http_reply", "stream"]

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]
"""Bytes after which the connection stays open, or a function that writes and then has the connection closed."""

ANSWER: Final[dict[str, Any]] = {
    "choices": [{"message": {"content": "85"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
}
"""A usable chat completion."""


def http_reply(
    body: object = ANSWER,
    *headers: str,
    status: str = "200 OK",
    kind: str | None = "application/json",
    length: int | None = None,
    version: str = "1.1",
) -> bytes:
    """A whole reply. `length` of -1 sends no `Content-Length`, None sends the true one."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/{version} {status}", *headers]
    if kind is not None:
        lines.append(f"Content-Type: {kind}")
    if length != -1:
        lines.append(f"Content-Length: {len(content) if length is None else length}")
    return "\r\n".join([*lines, "", ""]).encode() + content


def stream(head: bytes, piece: bytes, times: int) -> Answer:
    """A reply whose body is sent piece by piece."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        for _ in range(times):
            writer.write(piece)
            await writer.drain()

    return write


def _closing(content: bytes) -> Answer:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()

    return write


async def _reset(writer: asyncio.StreamWriter) -> None:
    _abort(writer)


async def _reset_in_body(writer: asyncio.StreamWriter) -> None:
    writer.write(http_reply(length=4000))
    await writer.drain()
    await asyncio.sleep(0.01)
    _abort(writer)


def _abort(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _silence(_: asyncio.StreamWriter) -> NoReturn:
    await asyncio.Event().wait()
    raise AssertionError("an event that nobody sets")


async def _slow_head(writer: asyncio.StreamWriter) -> None:
    await _drip(writer, http_reply()[:60])
    await _silence(writer)


async def _slow_body(writer: asyncio.StreamWriter) -> None:
    writer.write(http_reply(b"", length=2000))
    await _drip(writer, b" " * 2000)


async def _drip(writer: asyncio.StreamWriter, content: bytes) -> None:
    for byte in content:
        await asyncio.sleep(0.1)
        if writer.transport.is_closing():
            return
        writer.write(bytes([byte]))


def _error(status: str, *headers: str, code: str | None = None) -> bytes:
    error = {"message": "the words of the server", "param": "model", "code": code, "type": "fake"}
    return http_reply({"error": error}, *headers, status=status)


_GZIP: Final = gzip.compress(json.dumps(ANSWER).encode())
_PAGE: Final = b"<html><body>The gateway is not available</body></html>"
_CHUNKED: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
_MIB: Final = 2**20


def _chunk(content: bytes) -> bytes:
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"


def bomb(size: int, *, times: int = 1) -> bytes:
    """A small compressed body of `size` bytes of spaces, compressed `times` times."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    content = b"".join(packer.compress(b" " * _MIB) for _ in range(size // _MIB)) + packer.flush()
    for _ in range(times - 1):
        content = gzip.compress(content)
    return content


_WHOLE: Final = _chunk(json.dumps(ANSWER).encode()) + b"0\r\n\r\n"

FAULTS: Final[dict[str, Answer]] = {
    "reset": _reset,
    "closed": _closing(b""),
    "reset in the body": _reset_in_body,
    "closed in the body": _closing(http_reply(length=4000)),
    "silence": _silence,
    "slow headers": _slow_head,
    "slow body": _slow_body,
    "truncated JSON": http_reply(json.dumps(ANSWER).encode()[:-9]),
    "chunk of a wrong size": _closing(_CHUNKED + b"zz\r\nnothing\r\n"),
    "no last chunk": _closing(_CHUNKED + _chunk(json.dumps(ANSWER).encode())),
    "400": _error("400 Bad Request"),
    "401": _error("401 Unauthorized"),
    "403": _error("403 Forbidden"),
    "404": _error("404 Not Found"),
    "408": _error("408 Request Timeout"),
    "409": _error("409 Conflict"),
    "413": _error("413 Content Too Large"),
    "422": _error("422 Unprocessable Content"),
    "425": _error("425 Too Early"),
    "429": _error("429 Too Many Requests"),
    "429 with Retry-After": _error("429 Too Many Requests", "Retry-After: 1"),
    "429 with an absurd Retry-After": _error("429 Too Many Requests", "Retry-After: 99999999999"),
    "429 with a Retry-After of 400 digits": _error("429 Too Many Requests", f"Retry-After: {'9' * 400}"),
    "429 with a negative Retry-After": _error("429 Too Many Requests", "Retry-After: -5"),
    "429 with a used-up quota": _error("429 Too Many Requests", code="insufficient_quota"),
    "500": _error("500 Internal Server Error"),
    "502": _error("502 Bad Gateway"),
    "503": _error("503 Service Unavailable"),
    "503 with an absurd Retry-After": _error("503 Service Unavailable", "Retry-After: 99999999999"),
    "504": _error("504 Gateway Timeout"),
    "page with status 200": http_reply(_PAGE, kind="text/html"),
    "page with status 502": http_reply(_PAGE, kind="text/html", status="502 Bad Gateway"),
    "page with status 404": http_reply(_PAGE, kind="text/html", status="404 Not Found"),
    "empty body": http_reply(b""),
    "status 204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "list": http_reply([1, 2]),
    "error with status 200": http_reply({"error": {"message": "no upstream"}}),
    "without choices": http_reply({"object": "chat.completion"}),
    "deep JSON": http_reply(b"[" * 100_000),
    "integer of 100,000 digits": http_reply(b'{"choices": ' + b"9" * 100_000 + b"}"),
    "text as type": http_reply(kind="text/plain"),
    "no type": http_reply(kind=None),
    "gzip": http_reply(_GZIP, "Content-Encoding: gzip"),
    "gzip in upper case": http_reply(_GZIP, "Content-Encoding: GZIP"),
    "encoding identity": http_reply(ANSWER, "Content-Encoding: identity"),
    "gzip that is none": http_reply(ANSWER, "Content-Encoding: gzip"),
    "gzip cut short": http_reply(_GZIP[:-9], "Content-Encoding: gzip"),
    "gzip bomb": http_reply(bomb(8 * _MIB), "Content-Encoding: gzip"),
    "gzip bomb with status 500": http_reply(
        bomb(8 * _MIB), "Content-Encoding: gzip", status="500 Internal Server Error"
    ),
    "gzip bomb in gzip": http_reply(bomb(8 * _MIB, times=2), "Content-Encoding: gzip, gzip"),
    "redirect": _error("307 Temporary Redirect", "Location: http://user:pass@127.0.0.2:9/v1/x?key=secret"),
    "redirect without an address": _error("302 Found"),
    "huge body": stream(http_reply(b"", length=32 * _MIB), b" " * _MIB, 32),
    "huge body in chunks": stream(_CHUNKED, _chunk(b" " * _MIB), 32),
    "huge body with status 500": stream(
        http_reply(b"", length=32 * _MIB, status="500 Internal Server Error"), b" " * _MIB, 32
    ),
    "long header": http_reply(ANSWER, f"X-Long: {'x' * 200_000}"),
    "5,000 headers": http_reply(ANSWER, *(f"X-{n}: {n}" for n in range(5_000))),
    "HTTP/1.0": _closing(http_reply(version="1.0", length=-1)),
    "no length": _closing(http_reply(length=-1)),
    "length twice": http_reply(ANSWER, f"Content-Length: {len(json.dumps(ANSWER))}"),
    "two lengths": http_reply(ANSWER, "Content-Length: 3"),
    "length and chunks": _closing(
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + _WHOLE
    ),
    "negative length": _closing(http_reply(length=-7)),
    "invalid UTF-8": http_reply(b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'),
    "byte order mark": http_reply(b"\xef\xbb\xbf" + json.dumps(ANSWER).encode()),
    "early hints": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + http_reply(),
    "no HTTP": _closing(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "usage of 10^30 tokens": http_reply({**ANSWER, "usage": {"prompt_tokens": 10**30, "completion_tokens": 10**9}}),
    "usage of text": http_reply({**ANSWER, "usage": {"prompt_tokens": "7", "completion_tokens": -2}}),
    "usage of NaN": http_reply({**ANSWER, "usage": {"prompt_tokens": float("nan"), "completion_tokens": True}}),
    "200 choices": http_reply({**ANSWER, "choices": ANSWER["choices"] * 200}),
}
"""Answers by name."""


class FaultServer(LoopbackServer):
    """Answers the requests in turn, all later ones like the last, and notes what was asked.

    Example:
        ```python
        with FaultServer(FAULTS["500"], http_reply()) as server:
            judge = OpenAICompatibleJudge(server.url, model="m")
        ```
    """

    def __init__(self, *answers: Answer) -> None:
        super().__init__(api_key=None)
        self._answers: Sequence[Answer] = answers
        self.requests: list[Request] = []

    async def _answer(self, request: Request) -> Reply:
        raise NotImplementedError(request)

    async def _connection(self, reader: Any, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                method, target, headers = parsed_head(head)
                content = await reader.readexactly(int(headers.get("content-length", "0")))
                path, _, query = target.partition("?")
                self.requests.append(Request(method, path, query, headers, content))
                answer = self._answers[min(len(self.requests), len(self._answers)) - 1]
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                    continue
                await answer(writer)
                return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()
