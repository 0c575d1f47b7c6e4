"""OTLP files of any convention: a collector's JSON lines, one JSON document of any size, or protobuf."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from ragstone.errors import DataError
from ragstone.reading._formats import RejectedRecord
from ragstone.reading._records import large_records, read_each, records
from ragstone.reading._source import MAX_RECORD_BYTES, InputFile
from ragstone.reading._stage import by_trace
from ragstone.reading.otlp._conventions import CONVENTIONS
from ragstone.reading.otlp._json_messages import span_of, spans_of_message
from ragstone.reading.otlp._protobuf import looks_like_protobuf, spans_in_stream
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


def spans_in(source: InputFile) -> Iterator[OtelSpan | RejectedRecord]:
    """Yield the spans of a file or of a directory's files, in order.

    Raises:
        DataError: If the rest of a file is unreadable.
        MissingExtraError: If the file needs a package that is not installed.
    """
    for part in source.parts():
        head = part.head(MAX_RECORD_BYTES + 1)
        if looks_like_protobuf(head[:64]):
            yield from _protobuf(part)
        elif len(head) > MAX_RECORD_BYTES and not _has_line_end(head):
            yield from _large(part, head)
        else:
            yield from _json(part)


def _has_line_end(head: bytes) -> bool:
    """Return whether the first value ends within the first bytes, at the end of its line."""
    first, end, rest = head.partition(b"\n")
    return bool(end) and first.rstrip().endswith((b"}", b"]")) and rest.lstrip()[:1] in (b"{", b"[", b"")


def _json(source: InputFile) -> Iterator[OtelSpan | RejectedRecord]:
    return read_each(records(source, within=()), spans_of_message)


def _protobuf(source: InputFile) -> Iterator[OtelSpan | RejectedRecord]:
    with source.open() as stream:
        try:
            for span in spans_in_stream(stream):
                yield span if isinstance(span, OtelSpan) else RejectedRecord(place="the file", reason=span)
        except DataError as error:
            raise DataError(f"{source.name!r} cannot be read on: {error}") from error


def _large(source: InputFile, head: bytes) -> Iterator[OtelSpan | RejectedRecord]:
    """Yield the spans of one document, read incrementally."""
    is_snake = b'"resource_spans"' in head[:65536]
    path = "resource_spans.item.scope_spans.item" if is_snake else "resourceSpans.item.scopeSpans.item"
    prefix = "item." if re.match(rb"\s*\[", head.removeprefix(b"\xef\xbb\xbf")) else ""
    items = large_records(source, f"{prefix}{path}.spans.item", kind="span")
    return read_each(items, lambda value: [span_of(value)])
