"""Messages of exporters, written to the disk before they are acknowledged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from ragstone._util.limited_log import LimitedLog
from ragstone.capture import Redactor
from ragstone.errors import StoreError
from ragstone.ingest._body import PATIENCE_S, BusyError, too_large
from ragstone.ingest._span_buffer import SharedSpanBuffer
from ragstone.reading import BufferedSpan, RejectedRecord
from ragstone.reading.otlp import spans_of_request

logger = logging.getLogger("ragstone")

DEFAULT_MAX_BYTES: Final = 8 * 2**20
"""Largest message, compressed and uncompressed. Exporters send batches of 512 spans."""
LOST: Final = "a message was refused, and its spans are lost"
INVALID: Final = "a message that is not valid OTLP was refused"
FORBIDDEN: Final = "a message without the token or of another host was refused"
_SMALL_BYTES: Final = 256 * 1024
_SMALL_AT_ONCE: Final = 2


class SpanIntake:
    """Writes the spans of OTLP messages to a buffer, for receivers of any protocol.

    It reads one large message at a time, because the objects of a message take many times its bytes. Small messages do
    not wait for large ones. `redact` is applied to everything that an application put into a span, before it is written
    (None: unchanged). `max_bytes` limits a message, compressed and uncompressed.
    """

    def __init__(
        self, buffer: SharedSpanBuffer, redact: Redactor | None, *, max_bytes: int = DEFAULT_MAX_BYTES
    ) -> None:
        self._buffer = buffer
        self._redact = redact
        self._large = asyncio.Lock()
        self._small = asyncio.Semaphore(_SMALL_AT_ONCE)
        self._log = LimitedLog(logger)
        self.max_bytes = max_bytes
        """Largest message."""
        self.n_spans = 0
        """New spans."""
        self.n_rejected = 0
        """Spans that could not be read."""

    async def take(self, unpack: Callable[[int], bytes | None], kind: str, *, is_logs: bool = False) -> list[str]:
        """Write the spans of a message to disk, and return why spans could not be read, for each of them.

        `unpack` returns an `ExportTraceServiceRequest`, uncompressed, or None if it has more bytes than the argument.
        It is called in a thread. `kind` is the content type. With `is_logs`, the message is an
        `ExportLogsServiceRequest`.

        Raises:
            BusyError: If too many other messages wait.
            DataError: If it is not an OTLP message.
            OversizedMessageError: If it has too many bytes, objects or spans.
            MissingExtraError: If it is protobuf and the package for it is not installed.
            StoreError: If the disk does not accept the spans.
        """
        keep = partial(self._keep, unpack, partial(spans_of_request, content_type=kind, is_logs=is_logs))
        rejected = await self._take_turn(self._small, keep, _SMALL_BYTES)
        if rejected is None:
            rejected = await self._take_turn(self._large, keep, self.max_bytes)
        if rejected is None:
            raise too_large(self.max_bytes)
        return rejected

    async def _take_turn(
        self,
        turn: asyncio.Lock | asyncio.Semaphore,
        keep: Callable[[int], tuple[int, list[str]] | None],
        max_bytes: int,
    ) -> list[str] | None:
        """Write the spans of a message when it is its turn. Return None if it has more bytes."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await turn.acquire()
        except TimeoutError:
            raise BusyError from None
        try:
            # Reading needs the processor and writing waits for the disk, so neither is done in the loop.
            kept = await asyncio.to_thread(keep, max_bytes)
        except StoreError as error:
            self._log.log(logging.ERROR, "disk", f"ragstone ingest: {error} (exporters retry)")
            raise
        finally:
            turn.release()
        if kept is None:
            return None
        n_new, rejected = kept
        self.n_spans += n_new
        self.n_rejected += len(rejected)
        return rejected

    def _keep(
        self,
        unpack: Callable[[int], bytes | None],
        read: Callable[..., list[BufferedSpan | RejectedRecord]],
        max_bytes: int,
    ) -> tuple[int, list[str]] | None:
        message = unpack(max_bytes)
        if message is None:
            return None
        spans: list[BufferedSpan] = []
        rejected: list[str] = []
        for item in read(message, redact=self._redact):
            if isinstance(item, BufferedSpan):
                spans.append(item)
            else:
                rejected.append(item.reason)
        return self._buffer.add(spans), rejected


def rejection(reasons: list[str]) -> str:
    """Return the reasons of the first rejected spans."""
    return "; ".join(reasons[:3])


def trace_response(rejected: list[str]) -> bytes:
    """Return an `ExportTraceServiceResponse`, with the number of rejected spans and why. That of logs has the same bytes."""
    if not rejected:
        return b""  # a message without fields
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTracePartialSuccess,
        ExportTraceServiceResponse,
    )

    success = ExportTracePartialSuccess(rejected_spans=len(rejected), error_message=rejection(rejected))
    body: bytes = ExportTraceServiceResponse(partial_success=success).SerializeToString()
    return body
