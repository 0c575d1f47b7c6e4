"""A listener whose connections are limited: those of slow or hostile clients make room for others."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from ragstone._util.limited_log import LimitedLog
from ragstone.errors import ConfigurationError

if TYPE_CHECKING:
    from aiohttp import web

HEAD_S: Final = 10.0
"""Seconds after its connection in which a client must send the first line and the headers of a request."""
IDLE_S: Final = 30.0
"""Seconds between a response and the headers of the client's next request."""
READ_S: Final = 60.0
"""Seconds in which a client must read what was written to it."""
_MAX_CONNECTIONS: Final = 512
_ACCEPTED_AT_ONCE: Final = 16
"""Connections that asyncio accepts before the listener can close one of them. It takes the argument `backlog` for this
number."""
_QUEUE: Final = 1024
"""Connections that the operating system keeps until they are accepted."""
_FREE_DESCRIPTORS: Final = 64
"""File descriptors that the process keeps for its store, its judge and its files."""


class Listener:
    """Listens at an address, and gives each connection that it admits a handler, which `make_handler` returns.

    When all connections are in use, a new one replaces another one. It is a connection without a complete request, of
    the client that has most of them, and the one that has been silent for longest. If all have a request, it is the
    oldest one for the path `replaceable`. The log counts closed connections once a minute. The other arguments are
    those of `HttpServer`.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        title: str,
        log: LimitedLog,
        max_connections: int,
        head_s: float = HEAD_S,
        read_s: float = READ_S,
        replaceable: str | None = None,
    ) -> None:
        self._host = host
        self.port = port
        """Port. Final after `listen`."""
        self._title = title
        self._log = log
        self._read_s = read_s
        self.connections = _Connections(max_connections, head_s=head_s, replaceable=replaceable, on_refused=self.report)
        self._listener: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Base URL. Final after `listen`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    async def listen(self, make_handler: Callable[[Connection], Any], *, option: str = "--listen") -> None:
        """Start to listen. Raise ConfigurationError, which names the option, if the address is not available."""

        def connect() -> Connection:
            return Connection(self.connections, make_handler, read_s=self._read_s)

        try:
            self._listener = await asyncio.get_running_loop().create_server(
                connect, self._host, self.port, backlog=_ACCEPTED_AT_ONCE
            )
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {self._host}:{self.port}: {error.strerror or error}. Set another {option} HOST:PORT. "
                "Port 0 takes a free one."
            ) from None
        self.port = self._listener.sockets[0].getsockname()[1]
        for listening in self._listener.sockets:
            with listening.dup() as same:
                same.listen(_QUEUE)

    def close(self) -> None:
        """Stop listening. Can be called twice."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    def report(self, what: str, why: str = "") -> None:
        """Log what was refused, once a minute. Only the reason may contain text from outside."""
        self._log.log(logging.WARNING, what, f"{self._title}: {what}{why}")


class Connection(asyncio.Protocol):
    """A connection, between its transport and its handler, which has the methods of a protocol."""

    def __init__(self, connections: _Connections, make_handler: Callable[[Connection], Any], *, read_s: float) -> None:
        self._connections = connections
        self._read_s = read_s
        self._read_deadline: asyncio.TimerHandle | None = None
        self._handler = make_handler(self)
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

    def is_alive(self) -> None:
        """Note that the client has just sent something, so that others have been silent for longer."""
        self.complete()
        self._connections.move_to_end(self)

    def complete(self) -> None:
        """Note that the first request has begun: from here on the handler watches the time."""
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
        self._open: dict[asyncio.Transport, Connection] = {}
        self._per_peer: Counter[str] = Counter()

    def admit(self, connection: Connection) -> bool:
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

    def give_up(self, connection: Connection) -> None:
        """Close a connection whose client did not send a request in time."""
        self._on_refused(f"a client sent no complete request within {self.head_s:g} s, so its connection was closed")
        self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self.remove(connection)
        connection.transport.abort()

    def remove(self, connection: Connection) -> None:
        """Remove a connection. Can be called twice."""
        if self._open.pop(connection.transport, None) is not None:
            self._per_peer[connection.peer] -= 1
            self._per_peer += Counter()  # without the zeros

    def move_to_end(self, connection: Connection) -> None:
        """Make an open connection the last one that waits."""
        if self._open.pop(connection.transport, None) is not None:
            self._open[connection.transport] = connection

    def find(self, transport: asyncio.BaseTransport | None) -> Connection | None:
        """Return an open connection."""
        return self._open.get(cast("asyncio.Transport", transport))


def default_max_connections(n_descriptors: int = 1) -> int:
    """Return the largest number of connections of a listener that leaves file descriptors for the rest of the process.

    `n_descriptors` is how many files one connection of each listener of the process opens together.
    """
    try:
        import resource
    except ImportError:  # Windows
        return _MAX_CONNECTIONS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    return max(8, min(_MAX_CONNECTIONS, (soft - _FREE_DESCRIPTORS) // n_descriptors))
