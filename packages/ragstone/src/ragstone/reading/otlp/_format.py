"""The format of OTLP files, of any convention."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from ragstone.reading._formats import RejectedRecord
from ragstone.reading._source import InputFile
from ragstone.reading._stage import by_trace
from ragstone.reading.otlp._conventions import CONVENTIONS
from ragstone.reading.otlp._files import spans_in
from ragstone.reading.otlp._protobuf import looks_like_protobuf
from ragstone.reading.otlp._requests import traces_of
from ragstone.reading.otlp._span import OtelSpan
from ragstone.requests import RetrieverTools
from ragstone.schema import Trace

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
    """Group spans by trace, and yield their requests (see `by_trace`)."""
    buffered = (span if isinstance(span, RejectedRecord) else span.staged() for span in spans)
    return by_trace(buffered, partial(traces_of, retriever_tools=retriever_tools))
