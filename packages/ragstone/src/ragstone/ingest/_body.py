"""Bodies of requests, within a limit for each one and one for all together."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Self

import aiohttp
from aiohttp import web

from ragstone.errors import DataError
from ragstone.reading.otlp import OversizedMessageError

_DEADLINE_S: Final = 30.0
_BROKEN: Final = (OSError, aiohttp.ClientError, web.RequestPayloadError)
_TOGETHER: Final = 4
"""How many bodies of the largest size may be in memory at once, and how many messages of gRPC may arrive at once."""
PATIENCE_S: Final = 6.0
"""Seconds that a message waits for its turn. Exporters wait for ten."""
_SLOW_S: Final = 1.0
"""Seconds after which a body that still arrives makes room for another one."""
_MOST_WAITING: Final = 256
"""Calls that wait for their turn."""
_TURN_POLL_S: Final = 0.02


class BusyError(Exception):
    """Too many messages at once. The client shall send this one again."""


def too_large(max_bytes: int) -> OversizedMessageError:
    """Return the error of a message that has too many bytes."""
    return OversizedMessageError(
        f"the message has more than {max_bytes} bytes. Send smaller batches, or set receiver.max_message_mib."
    )


class BodyReader:
    """Reads bodies as they come, compressed or not, of at most `max_bytes` and complete within `deadline_s` seconds.

    If the memory for bodies is full, those that have been arriving for a second or more make room, the oldest first.
    """

    def __init__(self, max_bytes: int, *, deadline_s: float = _DEADLINE_S) -> None:
        self.max_bytes = max_bytes
        """Largest body."""
        self._free = _TOGETHER * max_bytes
        self._deadline_s = deadline_s
        self._arriving: dict[Body, float] = {}
        self._turn = asyncio.Lock()
        self._n_waiting = 0

    async def read(self, request: web.Request) -> Body:
        """Read a body. Use the result in a `with` block: its end makes room for other bodies.

        Raise BusyError if too many bodies are in memory. Raise DataError if it ends too early, or is not encoded
        correctly. Raise OversizedMessageError if it is too large. Raise TimeoutError if it is not complete in time.
        """
        if (request.content_length or 0) > self.max_bytes:
            raise too_large(self.max_bytes)
        body = Body(self)
        async with self._arrival(body):
            async for chunk in request.content.iter_any():
                body.extend(chunk)
        return body

    async def read_message(self, messages: AsyncIterator[bytes]) -> Body:
        """Read the only message of a gRPC call as `read` does. It waits for its turn, because a message arrives as a whole."""
        body = Body(self)
        await self._wait_for_turn()
        async with self._arrival(body):
            async for message in messages:
                body.count(len(message))
                body.content = message
                return body
        raise DataError("the call ended before its message")

    @asynccontextmanager
    async def _arrival(self, body: Body) -> AsyncIterator[None]:
        """Limit the time in which a body arrives. After an error it is closed."""
        self._arriving[body] = time.monotonic()
        try:
            async with asyncio.timeout(self._deadline_s) as body.arrival:
                yield
        except BaseException as error:
            body.close()
            # The time limit is an `OSError` too.
            if isinstance(error, TimeoutError):
                if body not in self._arriving:
                    raise BusyError from None
            elif isinstance(error, _BROKEN):
                raise DataError("the body is incomplete, or damaged") from error
            raise
        else:
            if body not in self._arriving:  # dropped just when it was complete
                raise BusyError
        finally:
            self._arriving.pop(body, None)

    async def _wait_for_turn(self) -> None:
        if self._n_waiting >= _MOST_WAITING:
            raise BusyError
        self._n_waiting += 1
        try:
            async with asyncio.timeout(PATIENCE_S), self._turn:
                while len(self._arriving) >= _TOGETHER and not self._drop_slow():  # noqa: ASYNC110 - bodies become slow without an event
                    await asyncio.sleep(_TURN_POLL_S)
        except TimeoutError:
            raise BusyError from None
        finally:
            self._n_waiting -= 1

    def _drop_slow(self) -> bool:
        """Drop the body that has been arriving for longest, if it is slow. Return whether there was one."""
        slow, since = next(iter(self._arriving.items()), (None, 0.0))
        if slow is None or since > time.monotonic() - _SLOW_S:
            return False
        del self._arriving[slow]
        slow.drop()
        return True

    def take(self, n_bytes: int) -> None:
        """Reserve memory, or raise `BusyError`."""
        while n_bytes > self._free:
            if not self._drop_slow():
                raise BusyError
        self._free -= n_bytes

    def give_back(self, n_bytes: int) -> None:
        """Free memory that was reserved."""
        self._free += n_bytes


class Body:
    """A body in memory."""

    def __init__(self, reader: BodyReader) -> None:
        self._reader = reader
        self._n_bytes = 0
        self.content: bytes | bytearray = bytearray()
        self.arrival: asyncio.Timeout
        """The limit of the time in which it arrives."""

    def extend(self, chunk: bytes) -> None:
        """Append bytes as they come."""
        self.count(len(chunk))
        self.content += chunk

    def count(self, n_bytes: int) -> None:
        """Count bytes in memory. Raise `BusyError` or OversizedMessageError if they are too many."""
        self._reader.take(n_bytes)
        self._n_bytes += n_bytes
        if self._n_bytes > self._reader.max_bytes:
            raise too_large(self._reader.max_bytes)

    def drop(self) -> None:
        """End the arrival of a body that is slow, and free its memory."""
        self.close()
        self.arrival.reschedule(asyncio.get_running_loop().time())

    def close(self) -> None:
        """Free the memory. Can be called twice."""
        self._reader.give_back(self._n_bytes)
        self._n_bytes = 0
        self.content = bytearray()

    def __enter__(self) -> Self:
        """Return the body."""
        return self

    def __exit__(self, *_: object) -> None:
        """Free the memory."""
        self.close()


def decompress(body: bytes | bytearray, encoding: str, max_bytes: int) -> bytes | None:
    """Decompress a body. Return None if it has more bytes then.

    Raise DataError if the encoding is unknown, or the body is damaged.
    """
    if encoding in ("identity", ""):
        return bytes(body) if len(body) <= max_bytes else None
    if encoding not in ("gzip", "deflate"):
        raise DataError(f"unknown content encoding {encoding[:40]!r}. Send gzip, or uncompressed data.")
    decompressor = zlib.decompressobj(wbits=47)
    try:
        content = decompressor.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise DataError(f"the body is not valid {encoding}: {error}") from None
    if len(content) > max_bytes:
        return None
    if not decompressor.eof:
        raise DataError(f"the body's {encoding} data is incomplete")
    return content
