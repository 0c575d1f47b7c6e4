"""A small HTTP server for routes of aiohttp that slow or hostile clients cannot block."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from ragstone._util.addresses import listen_error
from ragstone._util.limited_log import LimitedLog

if TYPE_CHECKING:
    from aiohttp import web

logger = logging.getLogger("ragstone")

_HEAD_S: Final = 10.0
"""Seconds after its connection in which a client must send the first line and the headers of a request."""
_IDLE_S: Final = 30.0
"""Seconds between a response and the headers of the client's next request."""
_READ_S: Final = 60.0
"""Seconds in which a client must read what was written to it."""
_SHUTDOWN_S: Final = 5.0
"""Seconds that open requests have when the server stops."""
_MAX_CONNECTIONS: Final = 512
_ACCEPTED_AT_ONCE: Final = 16
"""Connections that asyncio accepts before the server can close one of them. It takes the argument `backlog` for this number."""
_QUEUE: Final = 1024
"""Connections that the operating system keeps until they are accepted."""
_FREE_DESCRIPTORS: Final = 64
"""File descriptors that the process keeps for its store, its judge and its files."""


class HttpServer:
    """Serves an application, with limits on connections and on the time until a request is complete.

    When all connections are in use, a new one replaces another one. It is a connection without a complete request, of
    the client that has most of them, and the one that has been silent for longest. If all have a request, it is the
    oldest one for the path `replaceable`. Malformed requests get a response with status 400, and the log counts them
    once a minute. `port` 0 selects a free port. The default of `max_connections` is 512, or what the limit of file
    descriptors allows. A new client must send the first line and the headers of a request in `head_s` seconds. All
    must read what was written to them in `read_s`. Clients of `replaceable` connect again, so their responses may end.
    """

    def __init__(
        self,
        app: web.Application,
        *,
        host: str,
        port: int,
        title: str,
        max_connections: int | None = None,
        head_s: float = _HEAD_S,
        read_s: float = _READ_S,
        replaceable: str | None = None,
    ) -> None:
        self._app = app
        self._host = host
        self.port = port
        """Port. Final after `start`."""
        self._read_s = read_s
        self._log = LimitedLog(logger)
        self._title = title
        limit = _default_limit() if max_connections is None else max_connections
        self._connections = _Connections(limit, head_s=head_s, replaceable=replaceable, on_refused=self._refused)
        app.middlewares.insert(0, self._connections.middleware())
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Base URL. Final after `start`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    async def start(self) -> None:
        """Start to listen. Raise ConfigurationError if the address is not available."""
        from aiohttp import web

        # Bodies are decompressed by their handlers, which limit the size.
        self._runner = web.AppRunner(
            self._app,
            access_log=None,
            auto_decompress=False,
            handle_signals=False,
            keepalive_timeout=_IDLE_S,
            shutdown_timeout=_SHUTDOWN_S,
            logger=_ServerLog(self._log, self._title),
        )
        await self._runner.setup()
        make_handler = cast("web.Server", self._runner.server)  # `setup` makes it

        def connect() -> _Connection:
            return _Connection(self._connections, make_handler(), read_s=self._read_s)

        try:
            self._listener = await asyncio.get_running_loop().create_server(
                connect, self._host, self.port, backlog=_ACCEPTED_AT_ONCE
            )
        except OSError as error:
            await self.aclose()
            raise listen_error(self._host, self.port, error.strerror or error) from None
        self.port = self._listener.sockets[0].getsockname()[1]
        for listening in self._listener.sockets:
            with listening.dup() as same:
                same.listen(_QUEUE)

    async def aclose(self) -> None:
        """Finish open requests and stop listening. Can be called twice."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def _refused(self, what: str) -> None:
        self._log.log(logging.WARNING, what, f"{self._title}: {what}")


class _Connection(asyncio.Protocol):
    """A connection, between its transport and aiohttp's handler."""

    def __init__(self, connections: _Connections, handler: Any, *, read_s: float) -> None:
        self._connections = connections
        self._read_s = read_s
        self._read_deadline: asyncio.TimerHandle | None = None
        self._handler = handler
        self._is_open = False
        self._deadline: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport
        self.peer = ""
        self.request: web.Request | None = None
        """The request that is being processed."""

    @property
    def is_waiting(self) -> bool:
        """Whether the server waits for bytes of the client."""
        return self.request is None or not self.request.content.is_eof()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if isinstance(peer, tuple) else ""
        if not self._connections.admit(self):
            self.transport.abort()
            return
        self._is_open = True
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self._connections.head_s, self._connections.give_up, self)
        self._handler.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self.complete()
        self._note_read()
        if self._is_open:
            self._is_open = False
            self._handler.connection_lost(exc)

    def complete(self) -> None:
        """Note that the headers of the first request are complete: from here on the handler watches the time."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def data_received(self, data: bytes) -> None:
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        result: bool | None = self._handler.eof_received()
        return result

    def pause_writing(self) -> None:
        self._read_deadline = asyncio.get_running_loop().call_later(self._read_s, self.transport.abort)
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._note_read()
        self._handler.resume_writing()

    def _note_read(self) -> None:
        if self._read_deadline is not None:
            self._read_deadline.cancel()


class _Connections:
    """The open connections of a server, the one that waits longest first."""

    def __init__(
        self, limit: int, *, head_s: float, replaceable: str | None, on_refused: Callable[[str], None]
    ) -> None:
        self._limit = limit
        self._replaceable = replaceable
        self._on_refused = on_refused
        self.head_s = head_s
        self._open: dict[asyncio.Transport, _Connection] = {}
        self._per_peer: Counter[str] = Counter()

    def admit(self, connection: _Connection) -> bool:
        """Add a connection, and return whether there was room for it."""
        if len(self._open) >= self._limit and not self._make_room(connection.peer):
            return False
        self._open[connection.transport] = connection
        self._per_peer[connection.peer] += 1
        return True

    def _make_room(self, peer: str) -> bool:
        """Close the connection that waits longest, of the client that has most connections."""
        waiting = [other for other in self._open.values() if other.is_waiting]
        waiting = waiting or [
            other
            for other in self._open.values()
            if other.request is not None and other.request.path == self._replaceable
        ]
        if not waiting:
            self._on_refused(f"all {self._limit} connections have a request in work, so a new one was closed")
            return False
        busiest = max(waiting, key=lambda other: (self._per_peer[other.peer], other.peer == peer)).peer
        oldest = next(other for other in waiting if other.peer == busiest)
        self._on_refused(f"{self._limit} connections are open, so one that waits was closed for a new one")
        self._drop(oldest)
        return True

    def give_up(self, connection: _Connection) -> None:
        """Close a connection whose client did not send a request in time."""
        self._on_refused(f"a client sent no complete request within {self.head_s:g} s, so its connection was closed")
        self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        self.remove(connection)
        connection.transport.abort()

    def remove(self, connection: _Connection) -> None:
        """Remove a connection. Can be called twice."""
        if self._open.pop(connection.transport, None) is not None:
            self._per_peer[connection.peer] -= 1
            self._per_peer += Counter()  # without the zeros

    def middleware(self) -> Any:
        """Return the middleware of aiohttp that notes which connections have a request."""
        from aiohttp import web

        @web.middleware
        async def note(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            connection = self._open.get(request.transport)  # type: ignore[arg-type]
            if connection is None:
                return await handler(request)
            connection.complete()
            connection.request = request
            try:
                return await handler(request)
            finally:
                connection.request = None
                if self._open.pop(connection.transport, None) is not None:
                    self._open[connection.transport] = connection  # the last one that waits

        return note


class _ServerLog(logging.Logger):
    """What aiohttp logs: malformed requests without their bytes and without a traceback, each kind once a minute."""

    def __init__(self, log: LimitedLog, title: str) -> None:
        super().__init__("ragstone", logging.WARNING)
        self._limited = log
        self._title = title

    def exception(self, msg: object, *args: object, **options: Any) -> None:
        from aiohttp.http_exceptions import HttpProcessingError

        error = options.get("exc_info")
        if isinstance(error, HttpProcessingError):
            self._limited.log(logging.WARNING, "malformed", f"{self._title}: a client sent a malformed HTTP request")
        else:
            shown = error if isinstance(error, BaseException) else None
            with suppress(TypeError, ValueError):
                msg = str(msg) % args
            self._limited.log(logging.ERROR, "failed", f"{self._title}: {msg}", exc_info=shown)


def _default_limit() -> int:
    """Return the largest number of connections that leaves file descriptors for the rest of the process."""
    try:
        import resource
    except ImportError:  # Windows
        return _MAX_CONNECTIONS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    return max(8, min(_MAX_CONNECTIONS, soft - _FREE_DESCRIPTORS))
