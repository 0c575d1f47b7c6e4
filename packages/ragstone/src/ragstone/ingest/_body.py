"""Bodies of requests, within a limit for each one and one for all together."""

from __future__ import annotations

import asyncio
import zlib
from typing import Final, Self

import aiohttp
from aiohttp import web

from ragstone.errors import DataError
from ragstone.reading.otlp import OversizedMessageError

_DEADLINE_S: Final = 30.0
_BROKEN: Final = (OSError, aiohttp.ClientError, web.RequestPayloadError)
_TOGETHER: Final = 4
"""How many bodies of the largest size may be in memory at once."""


class BusyError(Exception):
    """Too many messages at once. The client shall send this one again."""


def too_large(max_bytes: int) -> OversizedMessageError:
    """Return the error of a message that has too many bytes."""
    return OversizedMessageError(
        f"the message has more than {max_bytes} bytes. Send smaller batches, or set receiver.max_message_mib."
    )


class BodyReader:
    """Reads bodies as they come, compressed or not, of at most `max_bytes` and complete within `deadline_s` seconds."""

    def __init__(self, max_bytes: int, *, deadline_s: float = _DEADLINE_S) -> None:
        self.max_bytes = max_bytes
        """Largest body."""
        self._free = _TOGETHER * max_bytes
        self._deadline_s = deadline_s

    async def read(self, request: web.Request) -> Body:
        """Read a body. Use the result in a `with` block: its end makes room for other bodies.

        Raises:
            BusyError: If too many bodies are in memory.
            DataError: If it ends too early, or is not encoded correctly.
            OversizedMessageError: If it is too large.
            TimeoutError: If it is not complete in time.
        """
        if (request.content_length or 0) > self.max_bytes:
            raise too_large(self.max_bytes)
        body = Body(self)
        try:
            async with asyncio.timeout(self._deadline_s):
                async for chunk in request.content.iter_any():
                    body.extend(chunk)
        except BaseException as error:
            body.close()
            # The time limit is an `OSError` too.
            if isinstance(error, _BROKEN) and not isinstance(error, TimeoutError):
                raise DataError("the body is incomplete, or damaged") from error
            raise
        return body

    def take(self, n_bytes: int) -> None:
        """Reserve memory, or raise `BusyError`."""
        if n_bytes > self._free:
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
        self.content = bytearray()

    def extend(self, chunk: bytes) -> None:
        """Append bytes as they come."""
        self._reader.take(len(chunk))
        self._n_bytes += len(chunk)
        if self._n_bytes > self._reader.max_bytes:
            raise too_large(self._reader.max_bytes)
        self.content += chunk

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
