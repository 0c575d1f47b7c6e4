"""OTLP messages as protobuf: one request, several one after another, or each with its length before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from ragstone.errors import DataError, MissingExtraError
from ragstone.reading._json import clean
from ragstone.reading._source import MAX_RECORD_BYTES
from ragstone.reading.otlp._size import varint
from ragstone.reading.otlp._span import OtelSpan, SpanEvent, hex_id, seconds
from ragstone.requests import read_resource

_MAX_DEPTH: Final = 16
_ERROR: Final = 2


def looks_like_protobuf(head: bytes) -> str | None:
    """Return the evidence that a file has trace requests; None if it is something else.

    A resource's spans begin with the resource (field 1) or with a scope's spans (field 2), each with its length.
    """
    if _is_request(head):
        return "an OTLP trace request in protobuf"
    length, start = varint(head, 0)
    if length and _is_request(head[start : start + length], whole=length):
        return "OTLP trace requests in protobuf, each with its length before it"
    return None


def _is_request(head: bytes, *, whole: int | None = None) -> bool:
    if head[:1] != b"\x0a":
        return False
    length, start = varint(head, 1)
    if (
        not length
        or (whole is not None and start + length > whole)
        or head[start : start + 1] not in (b"\x0a", b"\x12")
    ):
        return False
    inner, after = varint(head, start + 1)
    return after - start + inner <= length


def spans_of_bytes(message: bytes) -> Iterator[OtelSpan | str]:
    """Return the spans of one request.

    Raises:
        DataError: If it is not such a request.
        MissingExtraError: If the package that reads protobuf is not installed.
    """
    request_type, decode_error = _messages()
    try:
        request = request_type.FromString(message)
    except (decode_error, ValueError) as error:
        raise DataError(f"it is not an OTLP trace request in protobuf: {error}") from error
    number = 0
    for resource in request.resource_spans:
        about = read_resource(_attributes(resource.resource.attributes))
        for span in (span for scope in resource.scope_spans for span in scope.spans):
            number += 1
            read = _span(span, about)
            yield read if isinstance(read, OtelSpan) else f"span {number}: {read}"


def spans_in_stream(stream: BinaryIO) -> Iterator[OtelSpan | str]:
    """Yield the spans of a file of requests, one resource at a time.

    Raises:
        DataError: If the rest is unreadable, or one part is larger than `MAX_RECORD_BYTES`.
        MissingExtraError: If the package that reads protobuf is not installed.
    """
    for number, piece in enumerate(_pieces(stream), start=1):
        for item in spans_of_bytes(piece):
            yield item if isinstance(item, OtelSpan) else f"message {number}, {item}"


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    """Yield complete requests, one after another.

    A request is a sequence of resources with spans, so a file with one request can be read one resource at a time.
    """
    head = stream.read(32)
    is_delimited = not _is_request(head)
    stream = _Pushed(head, stream)  # type: ignore[assignment]
    while True:
        if not is_delimited and (tag := stream.read(1)) != b"\x0a":
            if tag:
                raise DataError(f"byte {tag.hex()} where the spans of a resource should begin")
            return
        length = _length(stream)
        if length is None:
            return
        if length > MAX_RECORD_BYTES:
            raise DataError(f"it holds a message of {length} bytes; at most {MAX_RECORD_BYTES} are read as one")
        body = stream.read(length)
        if len(body) < length:
            raise DataError("it ends inside a message")
        yield body if is_delimited else b"\x0a" + _as_varint(length) + body


class _Pushed:
    """A stream whose first bytes can be read again."""

    def __init__(self, first: bytes, rest: BinaryIO) -> None:
        self._first = first
        self._rest = rest

    def read(self, n: int) -> bytes:
        taken, self._first = self._first[:n], self._first[n:]
        return taken if len(taken) == n else taken + self._rest.read(n - len(taken))


def _length(stream: BinaryIO) -> int | None:
    """Read the next number. Return None at the end."""
    data = b""
    while byte := stream.read(1):
        data += byte
        if byte[0] < 0x80:
            return varint(data, 0)[0]
        if len(data) == 5:
            break
    if not data:
        return None
    raise DataError("the length of a message cannot be read")


def _as_varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


def _messages() -> tuple[Any, type[Exception]]:
    try:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError as error:
        raise MissingExtraError(
            feature="OTLP in protobuf", package="opentelemetry-proto", extra="ragstone[otlp]"
        ) from error
    return ExportTraceServiceRequest, DecodeError


def _span(span: Any, resource: dict[str, str]) -> OtelSpan | str:
    trace_id, span_id = hex_id(span.trace_id, n_bytes=16), hex_id(span.span_id, n_bytes=8)
    if trace_id is None or span_id is None:
        return "no trace id of 16 bytes and span id of 8 bytes"
    return OtelSpan(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=hex_id(span.parent_span_id, n_bytes=8),
        name=span.name,
        started_at=seconds(span.start_time_unix_nano),
        ended_at=seconds(span.end_time_unix_nano),
        is_error=span.status.code == _ERROR,
        status_message=span.status.message,
        attributes=_attributes(span.attributes),
        resource=resource,
        events=tuple(
            SpanEvent(event.name, seconds(event.time_unix_nano), _attributes(event.attributes)) for event in span.events
        ),
    )


def _attributes(items: Any) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for item in items:
        attributes.setdefault(item.key, _any_value(item.value, 0))
    return attributes


def _any_value(value: Any, depth: int) -> Any:
    kind = value.WhichOneof("value")
    if kind is None or depth >= _MAX_DEPTH:
        return None
    inner = getattr(value, kind)
    if kind == "array_value":
        return [_any_value(item, depth + 1) for item in inner.values]
    if kind == "kvlist_value":
        return {item.key: _any_value(item.value, depth + 1) for item in inner.values}
    return clean(inner)
