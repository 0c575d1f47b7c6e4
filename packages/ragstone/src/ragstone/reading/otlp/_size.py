"""The size of OTLP messages in objects, which is found without reading the message into objects."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, NoReturn, TypeVar

from ragstone.errors import DataError

MAX_OBJECTS: Final = 250_000
"""Objects of one message. A batch of 512 spans with 100 attributes each has about 200,000. One object takes up to 250 bytes."""
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
_REQUEST: Final[_Fields] = {1: {1: {1: _KEY_VALUE}, 2: {1: {3: _KEY_VALUE}, 2: _SPAN}}}

_VARINT: Final = 0
_BYTES: Final = 2
_FIXED_SIZES: Final = {1: 8, 5: 4}
"""Kinds of fields in protobuf's encoding, the last two with their bytes."""
_MAX_VARINT: Final = 10
_MAX_DEPTH: Final = 100
"""Nesting that the parser of protobuf accepts."""


class OversizedMessageError(DataError):
    """A message has more objects than a receiver reads at once."""


def check_json_size(message: bytes) -> None:
    """Check the number of values of a JSON text. Brackets and commas inside strings count too.

    Raises:
        OversizedMessageError: If it has too many.
    """
    if message.count(b"{") + message.count(b"[") > MAX_OBJECTS or message.count(b",") > _MAX_COMMAS:
        _refuse()


def check_protobuf_size(message: bytes) -> None:
    """Check the number of fields of an `ExportTraceServiceRequest`.

    Invalid bytes end the count of their part: the parser refuses the message then.

    Raises:
        OversizedMessageError: If it has too many.
    """
    if len(message) <= _SMALL:
        return
    n_objects = place = 0
    open_parts = [(len(message), _REQUEST)]
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
            if inner is not None and len(open_parts) < _MAX_DEPTH:
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
    """Yield the spans of a message.

    Raises:
        OversizedMessageError: After `MAX_SPANS` spans, if there are more.
    """
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
