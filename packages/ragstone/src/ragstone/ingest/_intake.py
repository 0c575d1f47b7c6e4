"""Messages of exporters, written to the disk before they are acknowledged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ragstone._util.limited_log import LimitedLog
from ragstone.capture import Redactor
from ragstone.errors import StoreError
from ragstone.ingest._body import BusyError
from ragstone.ingest._span_buffer import SharedSpanBuffer
from ragstone.replay import BufferedSpan
from ragstone.replay.otlp import OversizedMessageError, spans_of_request

__all__ = ["DEFAULT_MAX_BYTES", "SpanIntake"]

logger = logging.getLogger("ragstone")

DEFAULT_MAX_BYTES: Final = 8 * 2**20
"""Largest message, compressed and uncompressed. Exporters send batches of 512 spans."""
_PATIENCE_S: Final = 8.0
"""Seconds that a message waits for its turn. Exporters wait for ten."""


class SpanIntake:
    """Writes the spans of OTLP messages to a buffer, for receivers of any protocol.

    It reads one message at a time, because the objects of a message take many times its bytes.

    Args:
        buffer: The buffer.
        redact: Function from text to text, applied to everything that an application put into a span before it is
            written. None writes texts as they are.
        max_bytes: Largest message, compressed and uncompressed.
    """

    def __init__(
        self, buffer: SharedSpanBuffer, redact: Redactor | None, *, max_bytes: int = DEFAULT_MAX_BYTES
    ) -> None:
        self._buffer = buffer
        self._redact = redact
        self._turn = asyncio.Lock()
        self._log = LimitedLog(logger)
        self.max_bytes = max_bytes
        """Largest message."""
        self.n_spans = 0
        """New spans."""
        self.n_rejected = 0
        """Spans that could not be read."""

    async def take(self, unpack: Callable[[], bytes], kind: str) -> list[str]:
        """Write the spans of a message to disk.

        Args:
            unpack: Returns an `ExportTraceServiceRequest`, uncompressed. Called in a thread.
            kind: Its content type.

        Returns:
            Why spans could not be read, for each of them.

        Raises:
            BusyError: If too many other messages wait.
            DataError: If it is not an OTLP message.
            OversizedMessageError: If it has too many objects or spans.
            MissingExtraError: If it is protobuf and the package for it is not installed.
            StoreError: If the disk does not accept the spans.
        """
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._turn.acquire()
        except TimeoutError:
            raise BusyError from None
        try:
            # Reading needs the processor and writing waits for the disk, so neither is done in the loop.
            spans, rejected = await asyncio.to_thread(self._read, unpack, kind)
        except OversizedMessageError as error:
            self.report_oversized(str(error))
            raise
        finally:
            self._turn.release()
        try:
            self.n_spans += await asyncio.to_thread(self._buffer.add, spans)
        except StoreError as error:
            self._log.log(logging.ERROR, "disk", f"ragstone ingest: {error} (exporters retry)")
            raise
        self.n_rejected += len(rejected)
        return rejected

    def report_oversized(self, reason: str) -> None:
        """Log that a message was refused. Its exporter drops it."""
        self._log.log(
            logging.WARNING, "oversized", f"ragstone ingest: a message was refused, and its spans are lost: {reason}"
        )

    def _read(self, unpack: Callable[[], bytes], kind: str) -> tuple[list[BufferedSpan], list[str]]:
        spans: list[BufferedSpan] = []
        rejected: list[str] = []
        for item in spans_of_request(unpack(), kind, redact=self._redact):
            if isinstance(item, BufferedSpan):
                spans.append(item)
            else:
                rejected.append(item.reason)
        return spans, rejected
