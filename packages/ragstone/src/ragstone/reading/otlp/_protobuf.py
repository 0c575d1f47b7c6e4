"""OTLP messages as protobuf: one request, several one after another, or each with its length; and their size."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, starmap
from typing import Any, BinaryIO, Final, NoReturn, TypeVar

from ragstone._util.lazy import needs_extra
from ragstone.errors import DataError
from ragstone.reading._json import clean
from ragstone.reading._source import MAX_RECORD_BYTES
from ragstone.reading.otlp._span import OtelSpan, SpanEvent, read_log, read_span, seconds
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
    inner, after = varint(head, start + 1)
    is_resource = head[start : start + 1] in (b"\x0a", b"\x12") and after - start + inner <= length
    return is_resource and (whole is None or start + length <= whole)


def spans_of_bytes(message: bytes, *, is_logs: bool = False) -> Iterator[OtelSpan | str]:
    """Return the spans of one request, or with `is_logs` the log records with messages of a model (see `read_log`).

    Raise DataError if it is not such a request. Raise MissingExtraError if the package that reads protobuf is not
    installed.
    """
    request_type, decode_error = _messages(is_logs=is_logs)
    signal, names, read, title = _LOGS if is_logs else _TRACES
    try:
        request = request_type.FromString(message)
    except (decode_error, ValueError) as error:
        raise DataError(f"it is not an OTLP {signal} request in protobuf: {error}") from error
    number = 0
    for resource in getattr(request, names[0]):
        about = read_resource(_attributes(resource.resource.attributes))
        for item in (item for scope in getattr(resource, names[1]) for item in getattr(scope, names[2])):
            number += 1
            span = read(item, about)
            if span is not None:
                yield span if isinstance(span, OtelSpan) else f"{title} {number}: {span}"


def spans_in_stream(stream: BinaryIO) -> Iterator[OtelSpan | str]:
    """Yield the spans of a file of requests, one resource at a time.

    Raise DataError if the rest is unreadable, or one part is larger than `MAX_RECORD_BYTES`. Raise MissingExtraError if
    the package that reads protobuf is not installed.
    """
    for number, piece in enumerate(_pieces(stream), start=1):
        for item in spans_of_bytes(piece):
            yield item if isinstance(item, OtelSpan) else f"message {number}, {item}"


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    """Yield complete requests, one after another.

    A request is a sequence of resources with spans, so a file with one request can be read one resource at a time.
    """
    is_delimited = not _is_request(stream.peek(32)[:32])  # type: ignore[attr-defined]
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


def _length(stream: BinaryIO) -> int | None:
    """Read the next number. Return None at the end."""
    data = b""
    while len(data) < 5 and (byte := stream.read(1)):
        data += byte
        if byte[0] < 0x80:
            return varint(data, 0)[0]
    if data:
        raise DataError("the length of a message cannot be read")
    return None


def _as_varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


def _messages(*, is_logs: bool) -> tuple[Any, type[Exception]]:
    with needs_extra("otlp", "opentelemetry-proto", "OTLP in protobuf"):
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    return ExportLogsServiceRequest if is_logs else ExportTraceServiceRequest, DecodeError


def _span(span: Any, resource: dict[str, str]) -> OtelSpan | str:
    events = ((event.name, seconds(event.time_unix_nano), _attributes(event.attributes)) for event in span.events)
    return read_span(
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        name=span.name,
        started_at=seconds(span.start_time_unix_nano),
        ended_at=seconds(span.end_time_unix_nano),
        is_error=span.status.code == _ERROR,
        status_message=span.status.message,
        attributes=_attributes(span.attributes),
        resource=resource,
        events=tuple(starmap(SpanEvent, events)),
    )


def _log(record: Any, resource: dict[str, str]) -> OtelSpan | str | None:
    ids = record.trace_id, record.span_id
    at = seconds(record.time_unix_nano) or seconds(record.observed_time_unix_nano)
    return read_log(ids, record.event_name, at, _attributes(record.attributes), _any_value(record.body, 0), resource)


_TRACES: Final = ("trace", ("resource_spans", "scope_spans", "spans"), _span, "span")
_LOGS: Final = ("log", ("resource_logs", "scope_logs", "log_records"), _log, "log record")
"""Name of a signal, the lists in its message, from outer to inner, the function that reads an item, and its name."""


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


MAX_OBJECTS: Final = 250_000
"""Objects of one message. A batch of 512 spans with 100 attributes each has about 200,000. One object takes up to 250
bytes."""
_MAX_COMMAS: Final = 1_000_000
"""Commas of a JSON text, in its texts too. Only arrays of numbers have more of them within the largest message."""
MAX_SPANS: Final = 50_000
"""Spans of one message. Exporters send 512."""
_SMALL: Final = 2**17
"""Bytes of protobuf that cannot hold too many objects: an empty one takes two bytes there, and about 100 in memory."""

_ADVICE: Final = "Send smaller batches (OTEL_BSP_MAX_EXPORT_BATCH_SIZE)."

_T = TypeVar("_T")
_Fields = dict[int, "_Fields"]
"""The numbers of a message's fields that are messages, each with its own fields."""
_ANY_VALUE: Final[_Fields] = {}
_KEY_VALUE: Final[_Fields] = {2: _ANY_VALUE}
_ANY_VALUE.update({5: {1: _ANY_VALUE}, 6: {1: _KEY_VALUE}})
_SPAN: Final[_Fields] = {9: _KEY_VALUE, 11: {3: _KEY_VALUE}, 13: {4: _KEY_VALUE}, 15: {}}
_RECORD: Final[_Fields] = {5: _ANY_VALUE, 6: _KEY_VALUE}
_REQUEST, _LOGS_REQUEST = ({1: {1: {1: _KEY_VALUE}, 2: {1: {3: _KEY_VALUE}, 2: item}}} for item in (_SPAN, _RECORD))

_VARINT: Final = 0
_BYTES: Final = 2
_FIXED_SIZES: Final = {1: 8, 5: 4}
"""Kinds of fields in protobuf's encoding, the last two with their bytes."""
_MAX_VARINT: Final = 10
_MAX_PARSED_DEPTH: Final = 100
"""Nesting that the parser of protobuf accepts."""


class OversizedMessageError(DataError):
    """A message has more objects than a receiver reads at once."""


def check_json_size(message: bytes) -> None:
    """Check the number of values of a JSON text. Brackets and commas inside strings count too.

    Raise OversizedMessageError if it has too many.
    """
    if message.count(b"{") + message.count(b"[") > MAX_OBJECTS or message.count(b",") > _MAX_COMMAS:
        _refuse()


def check_protobuf_size(message: bytes, *, is_logs: bool = False) -> None:
    """Check the number of fields of an `ExportTraceServiceRequest`, or with `is_logs` an `ExportLogsServiceRequest`.

    Invalid bytes end the count of their part: the parser refuses the message then. Raise OversizedMessageError if it
    has too many.
    """
    if len(message) <= _SMALL:
        return
    n_objects = place = 0
    open_parts = [(len(message), _LOGS_REQUEST if is_logs else _REQUEST)]
    while open_parts:
        end, fields = open_parts[-1]
        if place >= end:
            place = end
            open_parts.pop()
            continue
        n_objects += 1
        if n_objects > MAX_OBJECTS:
            _refuse()
        tag, place = varint(message, place)
        kind = tag & 7
        if kind == _BYTES:
            length, place = varint(message, place)
            inner = fields.get(tag >> 3)
            if inner is not None and len(open_parts) < _MAX_PARSED_DEPTH:
                open_parts.append((min(place + length, end), inner))
            else:
                place += length
        elif kind == _VARINT:
            _, place = varint(message, place)
        elif kind in _FIXED_SIZES:
            place += _FIXED_SIZES[kind]
        else:  # groups, which OTLP does not use, or damage
            place = end


def first_spans(spans: Iterator[_T]) -> Iterator[_T]:
    """Yield the spans of a message."""
    yield from islice(spans, MAX_SPANS)
    if next(spans, None) is not None:
        raise OversizedMessageError(f"the message has more than {MAX_SPANS} spans. {_ADVICE}")


def varint(message: bytes, place: int) -> tuple[int, int]:
    """Return a number of protobuf's encoding and the place after it. A number that is cut ends at the end."""
    number = shift = 0
    for byte in message[place : place + _MAX_VARINT]:
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
        shift += 7
    return number, place  # damage


def _refuse() -> NoReturn:
    raise OversizedMessageError(f"the message has more than {MAX_OBJECTS} objects. {_ADVICE}")
