"""OpenTelemetry's spans: the containers they come in, and the conventions that put RAG requests into them."""

from ragstone.reading.otlp._files import OtlpFormat, requests_of, spans_of_request, traces_of
from ragstone.reading.otlp._protobuf import OversizedMessageError
from ragstone.reading.otlp._span import OtelSpan, SpanEvent, hex_id, read_span

__all__ = ["OtlpFormat"]
