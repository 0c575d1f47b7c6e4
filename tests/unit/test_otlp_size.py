"""Messages of receivers: counted before they become objects."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.reading.otlp import OversizedMessageError, spans_of_request
from ragstone.reading.otlp import _protobuf as size

pytest.importorskip("opentelemetry.proto")


def field(number: int, body: bytes) -> bytes:
    """A field of protobuf that holds bytes."""
    length, encoded = len(body), bytearray()
    while length > 127:
        encoded.append(length & 127 | 128)
        length >>= 7
    return bytes([number << 3 | 2, *encoded, length]) + body


def batch(n_spans: int, n_attributes: int, chars: int = 20) -> bytes:
    """What an exporter sends."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    message = ExportTraceServiceRequest()
    scope = message.resource_spans.add().scope_spans.add()
    for n in range(n_spans):
        span = scope.spans.add(trace_id=b"t" * 16, span_id=n.to_bytes(8, "big"), name="a span")
        for k in range(n_attributes):
            span.attributes.add(key=f"key.{k}").value.string_value = "x" * chars
    return message.SerializeToString()


def span_of(*parts: bytes) -> bytes:
    """A message with one span."""
    return field(1, field(2, field(2, b"".join(parts))))


@pytest.mark.parametrize("message", [batch(512, 100), batch(512, 5, 3000), batch(2000, 10)])
def test_batches_of_exporters_are_read(message):
    """With a hundred attributes a span, or long texts."""
    size.check_protobuf_size(message)
    assert len(message) > size._SMALL


@pytest.mark.parametrize(
    "message",
    [
        field(1, field(2, b"\x12\x00" * 300_000)),  # empty spans
        field(1, b"\x12\x00" * 300_000),  # empty scopes
        b"\x0a\x00" * 300_000,  # empty resources
        span_of(b"\x4a\x00" * 300_000),  # empty attributes
        span_of(field(9, field(2, field(5, b"\x0a\x00" * 300_000)))),  # an array of empty values
        span_of(field(9, field(2, field(6, b"\x0a\x00" * 300_000)))),  # an object of empty items
        span_of(field(11, b"\x1a\x00" * 300_000)),  # attributes of an event
        field(1, field(1, b"\x0a\x00" * 300_000)),  # attributes of a resource
        b"\x08\x01" * 300_000,  # fields that nobody knows
    ],
    ids=range(9),
)
def test_many_small_objects_are_refused_wherever_they_are(message):
    """A few hundred kilobytes would take a hundred times that in memory."""
    with pytest.raises(OversizedMessageError, match=r"more than 250000 objects. Send smaller batches"):
        spans_of_request(message, "application/x-protobuf")


@pytest.mark.parametrize(
    "record",
    [
        field(5, field(5, b"\x0a\x00" * 300_000)),  # a body that is an array of empty values
        field(5, field(6, b"\x0a\x00" * 300_000)),  # a body that is an object of empty items
        field(6, field(2, field(5, b"\x0a\x00" * 300_000))),  # an array in an attribute
    ],
    ids=range(3),
)
def test_many_small_objects_of_log_records_are_refused(record):
    """Their fields have other numbers than those of spans."""
    with pytest.raises(OversizedMessageError, match=r"more than 250000 objects"):
        spans_of_request(span_of(record), "application/x-protobuf", is_logs=True)


@pytest.mark.parametrize(
    "text",
    [
        '{"resourceSpans":[' + "{}," * 300_000 + "{}]}",
        '{"resourceSpans":' + "[" * 300_000,
        '{"resourceSpans":[' + "0," * 1_100_000 + "0]}",
    ],
    ids=["objects", "nested", "numbers"],
)
def test_the_same_for_json(text):
    """Counted by its brackets and commas."""
    with pytest.raises(OversizedMessageError, match="more than 250000 objects"):
        spans_of_request(text.encode(), "application/json")


def test_many_spans_are_refused(monkeypatch):
    """One more than the limit, valid or not."""
    monkeypatch.setattr(size, "MAX_SPANS", 3)
    spans = [{"traceId": "a" * 32, "spanId": f"{n:016x}"} for n in range(4)]

    def message(n: int) -> bytes:
        return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans[:n]}]}]}).encode()

    assert 3 == len(spans_of_request(message(3), "application/json"))
    with pytest.raises(OversizedMessageError, match="more than 3 spans"):
        spans_of_request(message(4), "application/json")


@given(st.binary(max_size=300), st.data())
def test_damaged_messages_are_counted_without_an_error(noise: bytes, data: st.DataObject):
    """Wherever bytes are wrong or missing; the parser refuses the message afterwards."""
    message = bytearray(batch(3, 3))
    start = data.draw(st.integers(0, len(message)))
    message[start : start + len(noise)] = noise
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(size, "_SMALL", 0)
        size.check_protobuf_size(bytes(message))
        size.check_protobuf_size(bytes(message[:start]))
        size.check_protobuf_size(noise)
