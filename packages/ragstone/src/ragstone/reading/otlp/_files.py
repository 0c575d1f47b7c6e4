"""Files of OTLP messages: a collector's JSON lines, one JSON document of any size, or protobuf."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ragstone._util.row_limits import BoundedStream
from ragstone.errors import DataError, MissingExtraError
from ragstone.reading._formats import RejectedRecord
from ragstone.reading._json import clean
from ragstone.reading._records import records
from ragstone.reading._source import InputFile
from ragstone.reading.otlp._json_messages import is_request, span_of, spans_of
from ragstone.reading.otlp._protobuf import looks_like_protobuf, spans_in_stream
from ragstone.reading.otlp._span import OtelSpan

_LARGE: Final = 8 * 2**20
"""Bytes of one JSON value above which it is read span by span, because its Python objects take ten times as much."""


def spans_in(source: InputFile) -> Iterator[OtelSpan | RejectedRecord]:
    """Yield the spans of a file or of a directory's files, in order.

    Raises:
        DataError: If the rest of a file is unreadable.
        MissingExtraError: If the file needs a package that is not installed.
    """
    for part in source.parts():
        head = part.head(_LARGE + 1)
        if looks_like_protobuf(head[:64]):
            yield from _protobuf(part)
        elif len(head) > _LARGE and not _has_line_end(head):
            yield from _large(part, head)
        else:
            yield from _json(part)


def _has_line_end(head: bytes) -> bool:
    """Return whether the first value ends within the first bytes, at the end of its line."""
    first, end, rest = head.partition(b"\n")
    return bool(end) and first.rstrip().endswith((b"}", b"]")) and rest.lstrip()[:1] in (b"{", b"[", b"")


def _json(source: InputFile) -> Iterator[OtelSpan | RejectedRecord]:
    for record in records(source, within=()):
        if isinstance(record, RejectedRecord):
            yield record
        elif not is_request(record.value):
            yield RejectedRecord(place=record.place, reason="not an OTLP message: `resourceSpans` is missing")
        else:
            for span in spans_of(record.value):
                yield span if isinstance(span, OtelSpan) else RejectedRecord(place=record.place, reason=span)


def _protobuf(source: InputFile) -> Iterator[OtelSpan | RejectedRecord]:
    with source.open() as stream:
        try:
            for span in spans_in_stream(stream):
                yield span if isinstance(span, OtelSpan) else RejectedRecord(place="the file", reason=span)
        except DataError as error:
            raise DataError(f"{source.name!r} cannot be read on: {error}") from error


def _large(source: InputFile, head: bytes) -> Iterator[OtelSpan | RejectedRecord]:
    """Yield the spans of one document, read incrementally."""
    try:
        import ijson
    except ImportError as error:
        feature = f"A JSON document of more than {_LARGE} bytes"
        raise MissingExtraError(feature=feature, package="ijson", extra="ragstone[replay]") from error
    names = (
        ("resource_spans", "scope_spans") if b'"resource_spans"' in head[:65536] else ("resourceSpans", "scopeSpans")
    )
    path = f"{names[0]}.item.{names[1]}.item.spans.item"
    if re.match(rb"\s*\[", head.removeprefix(b"\xef\xbb\xbf")):
        path = f"item.{path}"
    number = 0
    with source.open() as stream:
        if stream.read(3) != b"\xef\xbb\xbf":
            stream.seek(0)
        bounded = BoundedStream(stream, source.name)
        items = ijson.items(bounded, path, use_float=True, multiple_values=True)
        while True:
            number += 1
            try:
                item = next(items, None)
            except (ijson.JSONError, ValueError, RecursionError, DataError) as error:
                raise DataError(f"{source.name!r} cannot be read on from span {number}: {str(error)[:200]}") from error
            if item is None:
                return
            bounded.next_item()
            try:
                value = clean(item)
            except DataError as error:
                yield RejectedRecord(place=f"span {number}", reason=str(error))
                continue
            span = span_of(value)
            yield span if isinstance(span, OtelSpan) else RejectedRecord(place=f"span {number}", reason=span)
