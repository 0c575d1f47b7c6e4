"""Messages of exporters, written to the disk before they are acknowledged."""

from __future__ import annotations

import asyncio
import logging

from ragstone.capture import Redactor
from ragstone.errors import StoreError
from ragstone.ingest._span_buffer import SharedSpanBuffer
from ragstone.replay import BufferedSpan
from ragstone.replay.otlp import spans_of_request

__all__ = ["MAX_BYTES", "SpanIntake"]

logger = logging.getLogger("ragstone")

MAX_BYTES = 64 * 2**20
"""Largest message, compressed and uncompressed. Exporters send batches of 512 spans."""


class SpanIntake:
    """Writes the spans of OTLP messages to a buffer, for receivers of any protocol.

    Args:
        buffer: The buffer.
        redact: Function from text to text, applied to everything that an application put into a span before it is
            written. None writes texts as they are.
    """

    def __init__(self, buffer: SharedSpanBuffer, redact: Redactor | None) -> None:
        self._buffer = buffer
        self._redact = redact
        self._disk_error = ""
        """The last error of the disk, while it accepts nothing."""
        self.n_spans = 0
        """New spans."""
        self.n_rejected = 0
        """Spans that could not be read."""

    async def take(self, message: bytes, kind: str) -> list[str]:
        """Write the spans of a message to disk.

        Args:
            message: An `ExportTraceServiceRequest`, uncompressed.
            kind: Its content type.

        Returns:
            Why spans could not be read, for each of them.

        Raises:
            DataError: If it is not an OTLP message.
            MissingExtraError: If it is protobuf and the package for it is not installed.
            StoreError: If the disk does not accept the spans.
        """
        try:
            # Reading needs the processor and writing waits for the disk, so neither is done in the loop.
            rejected = await asyncio.to_thread(self._keep, message, kind)
        except StoreError as error:
            if str(error) != self._disk_error:
                # Once, because every exporter retries every few seconds.
                self._disk_error = str(error)
                logger.error("ragstone ingest: %s (exporters retry)", error)  # noqa: TRY400
            raise
        self._disk_error = ""
        return rejected

    def _keep(self, message: bytes, kind: str) -> list[str]:
        spans: list[BufferedSpan] = []
        rejected: list[str] = []
        for item in spans_of_request(message, kind, redact=self._redact):
            if isinstance(item, BufferedSpan):
                spans.append(item)
            else:
                rejected.append(item.reason)
        self.n_spans += self._buffer.add(spans)
        self.n_rejected += len(rejected)
        return rejected
