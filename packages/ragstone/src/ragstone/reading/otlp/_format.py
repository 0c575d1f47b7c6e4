"""The format of OTLP files, of any convention."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ragstone.errors import DataError
from ragstone.reading._formats import RejectedRecord
from ragstone.reading._source import InputFile
from ragstone.reading._stage import BufferedSpan, SpanBuffer
from ragstone.reading.otlp._files import spans_in
from ragstone.reading.otlp._protobuf import looks_like_protobuf
from ragstone.reading.otlp._requests import CONVENTIONS, traces_of
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import RetrieverTools
from ragstone.schema import Trace

_BATCH: Final = 500
"""Spans that are kept in one transaction."""
_MESSAGE: Final = re.compile(
    rb'\A(?:\xef\xbb\xbf)?\s*+(?:\[\s*+)?\{\s*"resource_?(?:[sS]pans|[lL]ogs|[mM]etrics|[pP]rofiles)"'
)


class OtlpFormat:
    """OpenTelemetry's spans, as a collector writes them to files and as exporters send them: JSON, JSON lines, protobuf.

    The attributes may follow OpenInference, OpenTelemetry's GenAI convention, Traceloop, Langfuse's SDK or MLflow; each
    trace is read by the convention that has most of its fields, and `source` names that convention.
    """

    name = "otlp"

    def detect(self, head: bytes) -> str | None:
        """Detect OTLP messages; see `TraceFormat`."""
        by_protobuf = looks_like_protobuf(head)
        if by_protobuf is None and not _MESSAGE.match(head):
            return None
        found = _conventions_in(head)
        return f"{by_protobuf or 'OTLP messages in JSON'}{f', with spans of {found}' if found else ''}"

    def read(self, source: InputFile) -> Iterator[Trace | RejectedRecord]:
        """Read the requests; spans of a trace may be anywhere in the file. See `TraceFormat`."""
        return requests_of(spans_in(source), source.retriever_tools)


def _conventions_in(head: bytes) -> str:
    """Return the titles of the conventions whose attributes are in the first bytes of a file."""
    return ", ".join(
        convention.title for convention in CONVENTIONS if any(marker.encode() in head for marker in convention.markers)
    )


def requests_of(
    spans: Iterator[OtelSpan | RejectedRecord], retriever_tools: RetrieverTools
) -> Iterator[Trace | RejectedRecord]:
    """Group spans by trace, on disk, and yield their requests.

    If reading the spans fails, the requests read before are yielded first.
    """
    with SpanBuffer() as stage:
        damage: DataError | None = None
        batch: list[BufferedSpan] = []
        try:
            for span in spans:
                if isinstance(span, RejectedRecord):
                    yield span
                    continue
                batch.append(span.staged())
                if len(batch) >= _BATCH:
                    stage.add(batch)
                    batch.clear()
        except DataError as error:
            damage = error
        stage.add(batch)
        for staged in stage.traces():
            yield from traces_of(staged, retriever_tools)
        if damage is not None:
            raise damage
