"""Connections of the live page: slow, silent, malformed and too many clients, and a page that answers others meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from ragstone.live._connections import bounded_protocol

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = b"x" * 30_000_000


async def _app(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body; `/wait` then waits for ever, `/large` sends 30 MB, others answer at once."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    if scope["path"] == "/wait":
        await send({"type": "http.response.body", "body": b"started", "more_body": True})
        await asyncio.Event().wait()
    await send({"type": "http.response.body", "body": BODY if scope["path"] == "/large" else b"done"})


@asynccontextmanager
async def serving(**limits: Any) -> AsyncIterator[int]:
    """A server, and its port."""
    protocol = bounded_protocol(**limits)
    config = uvicorn.Config(_app, port=0, http=protocol, ws="none", log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await task


async def ask(port: int, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection and send something."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    await writer.drain()
    return reader, writer


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Whether the server closes the connection within 5 s."""
    try:
        await asyncio.wait_for(reader.read(), 5)
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


async def answered(port: int) -> bool:
    """Whether a client gets an answer."""
    reader, writer = await ask(port, GET)
    try:
        return b"200" in await asyncio.wait_for(reader.readline(), 5)
    finally:
        writer.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine with a limit."""
    asyncio.run(asyncio.wait_for(test(), 60))


@pytest.mark.parametrize(
    "start",
    [b"", b"GET / HT", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc", GET + b"GET / HT", GET],
    ids=["silent", "head", "body", "second head", "idle"],
)
def test_an_incomplete_request_ends(start: bytes) -> None:
    """Single bytes do not extend the time."""

    async def test() -> None:
        async with serving(request_s=0.3) as port:
            reader, writer = await ask(port, start)
            closed = asyncio.ensure_future(is_closed(reader))
            for _ in range(10):
                await asyncio.sleep(0.05)
                if start not in {b"", GET} and not closed.done():
                    writer.write(b"a")
            assert await closed
            writer.close()

    run(test)


def test_a_request_that_waits_for_changes_stays() -> None:
    """Also if it is the second one of its connection."""

    async def test() -> None:
        async with serving(request_s=0.2) as port:
            reader, writer = await ask(port, GET)
            assert b"200" in await reader.readline()
            writer.write(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await asyncio.wait_for(reader.readuntil(b"started"), 5)
            await asyncio.sleep(0.5)
            assert not reader.at_eof()
            writer.close()

    run(test)


@pytest.mark.parametrize("request_", [b"", b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n"], ids=["silent", "waiting"])
def test_new_clients_take_the_place_of_old_ones(request_: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """A full server answers, and says so once."""

    async def test() -> None:
        async with serving(max_connections=8) as port:
            clients = [await ask(port, request_) for _ in range(40)]
            assert await answered(port)
            assert await is_closed(clients[0][0])
            for _, writer in clients:
                writer.close()

    with caplog.at_level(logging.WARNING):
        run(test)
    assert ["live page: all 8 connections are in use"] == [
        record.getMessage() for record in caplog.records if record.name == "ragstone"
    ]


def test_waiting_requests_are_kept_before_silent_clients() -> None:
    """A tab keeps its connection while somebody opens many."""

    async def test() -> None:
        async with serving(max_connections=8) as port:
            reader, writer = await ask(port, b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await asyncio.wait_for(reader.readuntil(b"started"), 5)
            clients = [await ask(port, b"") for _ in range(40)]
            assert await answered(port)
            assert not reader.at_eof()
            for each in (writer, *(other for _, other in clients)):
                each.close()

    run(test)


def test_a_client_that_does_not_read_is_dropped() -> None:
    """Its response does not stay in memory."""

    async def test() -> None:
        async with serving(read_s=0.3) as port:
            reader, writer = await ask(port, b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            writer.transport.pause_reading()
            await asyncio.sleep(1.0)
            writer.transport.resume_reading()
            got = b""
            try:
                while part := await asyncio.wait_for(reader.read(65536), 5):
                    got += part
            except ConnectionResetError:
                pass
            assert len(got) < len(BODY)
            writer.close()

    run(test)


def test_malformed_requests_are_counted_without_their_text(caplog: pytest.LogCaptureFixture) -> None:
    """One line for all of them."""

    async def test() -> None:
        async with serving() as port:
            for _ in range(20):
                reader, writer = await ask(port, b"\x00\x1b[31mevil\r\n\r\n")
                assert b"400" in await reader.readline()
                writer.close()
            assert await answered(port)

    with caplog.at_level(logging.WARNING):
        run(test)
    assert ["live page: a request was malformed"] == [
        record.getMessage() for record in caplog.records if record.name == "ragstone"
    ]
