"""A server that slow and hostile clients cannot block."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from ragstone._util.http_server import HttpServer
from ragstone._util.limited_log import LimitedLog

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
CLIENTS: list[Client] = []
"""Clients of the current test."""
LARGE = b"x" * 30_000_000
BODY = b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"


@asynccontextmanager
async def serving(release: asyncio.Event | None = None, **limits: float) -> AsyncIterator[HttpServer]:
    """A server with a quick route, one that reads a body, a large one, and two that wait for an event."""

    async def quick(_: web.Request) -> web.Response:
        return web.Response(text="quick")

    async def body(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    async def wait(_: web.Request) -> web.Response:
        assert release is not None
        await release.wait()
        return web.Response(text="waited")

    async def large(_: web.Request) -> web.Response:
        return web.Response(body=LARGE)

    app = web.Application()
    app.router.add_get("/", quick)
    app.router.add_post("/body", body)
    app.router.add_get("/wait", wait)
    app.router.add_get("/follow", wait)
    app.router.add_get("/large", large)
    server = HttpServer(app, host="127.0.0.1", port=0, title="a server", replaceable="/follow", **limits)  # type: ignore[arg-type]
    await server.start()
    CLIENTS.clear()
    try:
        yield server
    finally:
        for client in CLIENTS:
            client.close()
        await server.aclose()


class Client:
    """A connection that sends bytes as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, text: bytes = REQUEST) -> bytes:
        """The first line of the response to a request."""
        self.writer.write(text)
        line = await asyncio.wait_for(self.reader.readline(), 20)
        while (await asyncio.wait_for(self.reader.readline(), 20)).strip():
            pass
        return line

    async def is_closed(self) -> bool:
        """Wait until the server closes the connection without a response."""
        try:
            return await asyncio.wait_for(self.reader.read(1), 20) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        """End it."""
        self.writer.close()


async def connect(server: HttpServer, text: bytes = b"") -> Client:
    """A new client that has sent these bytes."""
    client = Client(*await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2])))
    client.writer.write(text)
    CLIENTS.append(client)
    return client


def run(check: Callable[[], Awaitable[None]]) -> None:
    """Run a check in a loop."""
    asyncio.run(check())  # type: ignore[arg-type]


def test_a_client_without_a_complete_request_is_disconnected():
    """In the time that the server gives it, also when it sends bytes now and then."""

    async def check() -> None:
        async with serving(head_s=0.2) as server:
            silent, slow = await connect(server), await connect(server, b"GET / HT")
            assert await silent.is_closed()
            assert await slow.is_closed()
            assert b"200" in await (await connect(server)).ask()

    run(check)


def test_a_connection_stays_open_between_requests():
    """The time limit is for the first request only."""

    async def check() -> None:
        async with serving(head_s=0.2) as server:
            client = await connect(server)
            assert b"200" in await client.ask()
            await client.reader.read(5)
            await asyncio.sleep(0.4)
            assert b"200" in await client.ask()

    run(check)


def test_a_new_client_takes_the_place_of_the_one_that_waits_longest():
    """A hundred clients that send one byte do not keep out one that sends a request."""

    async def check() -> None:
        async with serving(max_connections=3) as server:
            waiting = []
            for _ in range(3):
                waiting.append(await connect(server, b"G"))
                await asyncio.sleep(0.05)
            assert b"200" in await (await connect(server)).ask()
            assert await waiting[0].is_closed()
            for other in waiting[1:]:
                assert b"200" in await other.ask(REQUEST[1:])

    run(check)


def test_a_request_whose_body_is_not_complete_waits_too():
    """Else slow bodies would keep everybody out."""

    async def check() -> None:
        async with serving(max_connections=2) as server:
            slow = [await connect(server, BODY + b"1234") for _ in range(2)]
            await asyncio.sleep(0.2)
            assert b"200" in await (await connect(server)).ask()
            assert [True, False] == [await slow[0].is_closed(), slow[1].reader.at_eof()]
            assert b"200" in await slow[1].ask(b"56789")

    run(check)


def test_requests_in_work_are_never_closed_for_new_ones():
    """A new client is refused then."""

    async def check() -> None:
        release = asyncio.Event()
        async with serving(release, max_connections=2) as server:
            text = REQUEST.replace(b"/ ", b"/wait ")
            busy = [await connect(server, text) for _ in range(2)]
            await asyncio.sleep(0.2)
            assert await (await connect(server)).is_closed()
            release.set()
            for client in busy:
                assert b"200" in await client.ask(b"")

    run(check)


def test_responses_that_may_end_are_closed_for_new_ones():
    """The oldest first, and only if no other client is without a complete request."""

    async def check() -> None:
        release = asyncio.Event()
        async with serving(release, max_connections=3) as server:
            followers = []
            for path in (b"/follow ", b"/wait ", b"/follow "):
                followers.append(await connect(server, REQUEST.replace(b"/ ", path)))
                await asyncio.sleep(0.1)
            assert b"200" in await (await connect(server)).ask()
            assert await followers[0].is_closed()
            assert b"200" in await (await connect(server)).ask()  # in the place of the idle client
            release.set()
            for client in followers[1:]:
                assert b"200" in await client.ask(b"")

    run(check)


def test_a_client_that_does_not_read_is_disconnected():
    """Its response does not stay in memory."""

    async def check() -> None:
        async with serving(read_s=0.3) as server:
            client = await connect(server, REQUEST.replace(b"/ ", b"/large "))
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.sleep(1.0)
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            received = 0
            with suppress(ConnectionError):
                while part := await asyncio.wait_for(client.reader.read(65536), 20):
                    received += len(part)
            assert received < len(LARGE)

    run(check)


POST = b"POST /body HTTP/1.1\r\nHost: x\r\n"
ATTACKS = {
    "length and chunks": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + REQUEST,
    "two lengths": POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "two encodings": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + REQUEST,
    "unknown encoding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "length with a sign": POST + b"Content-Length: +4\r\n\r\nabcd",
    "space before the colon": POST + b"Content-Length : 4\r\n\r\nabcd",
    "header over two lines": REQUEST[:-2] + b"X: a\r\n b\r\n\r\n",
    "size of a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
    "end of a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n1;a\nb\r\na\r\n0\r\n\r\n",
    "lines without CR": REQUEST.replace(b"\r", b""),
    "CR in a value": REQUEST[:-2] + b"X: a\rY: b\r\n\r\n",
    "two hosts": REQUEST[:-2] + b"Host: y\r\n\r\n",
    "chunks in HTTP 1.0": POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + REQUEST,
    "long path": REQUEST.replace(b"/ ", b"/" + b"a" * 100_000 + b" "),
    "long value": REQUEST[:-2] + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
    "many headers": REQUEST[:-2] + b"".join(b"X-%d: a\r\n" % n for n in range(10_000)) + b"\r\n",
    "another protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_ambiguous_and_huge_requests_end_the_connection(attack: bytes):
    """One response with status 400, so that a proxy in front of the server cannot mistake what follows for a response."""

    async def check() -> None:
        async with serving() as server:
            client = await connect(server, attack)
            received = b""
            with suppress(ConnectionError):
                while part := await asyncio.wait_for(client.reader.read(65536), 20):
                    received += part
            assert received == b"" or received.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
            assert len(re.findall(rb"HTTP/1\.[01] \d{3} ", received)) <= 1
            assert b"200" in await (await connect(server)).ask()

    run(check)


def test_malformed_requests_are_logged_once_without_their_bytes(caplog):
    """A status of 400 for each, and one line for all of them."""

    async def check() -> None:
        async with serving() as server:
            for text in (
                b"GET / HTTP/1.1\r\nX-Evil: \x00secret\r\n\r\n",
                b"nonsense secret\r\n\r\n",
                b"\x16\x03secret\r\n\r\n",
            ):
                assert b"400" in await (await connect(server)).ask(text)

    with caplog.at_level(logging.DEBUG, "ragstone"):
        run(check)

    assert ["a server: a client sent a malformed HTTP request"] == [
        record.getMessage() for record in caplog.records if record.name == "ragstone"
    ]
    assert "secret" not in caplog.text


def test_the_number_of_connections_leaves_descriptors(monkeypatch):
    """A process with few of them can still open its files."""
    resource = pytest.importorskip("resource")
    from ragstone._util.listener import default_max_connections

    for soft, expected in ((128, 64), (20, 8), (10_000, 512), (resource.RLIM_INFINITY, 512)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert expected == default_max_connections()


def test_a_topic_is_logged_once_a_minute(caplog):
    """With the number of messages that were left out."""
    now = [0.0]
    log = LimitedLog(logging.getLogger("ragstone"), clock=lambda: now[0])

    for at, topic in ((0, "a"), (1, "a"), (2, "b"), (59, "a"), (60, "a"), (61, "a"), (180, "a")):
        now[0] = float(at)
        log.log(logging.WARNING, topic, f"{topic} at {at}")

    assert [
        "a at 0",
        "b at 2",
        "a at 60 (2 more since the last such message)",
        "a at 180 (1 more since the last such message)",
    ] == [record.getMessage() for record in caplog.records]
