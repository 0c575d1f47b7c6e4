"""Connections whose bytes are passed on to another listener of the same process, which does not limit them itself."""

from __future__ import annotations

import asyncio

from ragstone._util.listener import Connection


class _End(asyncio.Protocol):
    """An end of a relayed connection. What arrives at it is written to the other one, as fast as that is read."""

    def __init__(self, other: asyncio.Transport | None = None) -> None:
        self.other = other

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.write(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - a method of all protocols
        if self.other is not None:
            self.other.close()

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.resume_reading()


class Relay(_End):
    """The handler of an admitted connection. Its first bytes connect it with a port of 127.0.0.1."""

    def __init__(self, connection: Connection, port: int) -> None:
        super().__init__()
        self._connection = connection
        self._port = port
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        pass

    async def _connect(self, data: bytes) -> None:
        client = self._connection.transport
        loop = asyncio.get_running_loop()
        try:
            self.other, _ = await loop.create_connection(lambda: _End(client), "127.0.0.1", self._port)
        except OSError:
            client.abort()
        else:
            self.other.write(data)
            client.resume_reading()

    def data_received(self, data: bytes) -> None:
        self._connection.is_alive()
        if self._connecting is None:
            self._connection.transport.pause_reading()
            self._connecting = asyncio.create_task(self._connect(data))
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        super().connection_lost(exc)
