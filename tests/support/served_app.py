"""Applications of aiohttp behind the server of Ragstone, with a client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from aiohttp import web

from ragstone._util.http_server import HttpServer


@asynccontextmanager
async def client_of(app: web.Application, *, host: str = "localhost") -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application that is served on a free port of loopback.

    Args:
        app: The application.
        host: Header `Host` of the client's requests.
    """
    server = HttpServer(app, host="127.0.0.1", port=0, title="test")
    await server.start()
    try:
        async with httpx.AsyncClient(base_url=server.url, headers={"Host": host}, trust_env=False) as client:
            yield client
    finally:
        await server.aclose()
