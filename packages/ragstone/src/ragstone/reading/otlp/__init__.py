"""OpenTelemetry's spans: the containers they come in, and the conventions that put RAG requests into them."""

from ragstone.reading.otlp._files import OtlpFormat as OtlpFormat
from ragstone.reading.otlp._files import requests_of as requests_of
from ragstone.reading.otlp._files import spans_of_request as spans_of_request
from ragstone.reading.otlp._files import traces_of as traces_of
from ragstone.reading.otlp._protobuf import OversizedMessageError as OversizedMessageError
from ragstone.reading.otlp._span import OtelSpan as OtelSpan
from ragstone.reading.otlp._span import SpanEvent as SpanEvent
from ragstone.reading.otlp._span import hex_id as hex_id
