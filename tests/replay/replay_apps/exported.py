"""Spans as exporters and collectors write them."""

from __future__ import annotations

import base64
import json
import site
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict, MessageToJson, Parse
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

_IDS = ("traceId", "spanId", "parentSpanId")


def as_protobuf(spans: Sequence[ReadableSpan]) -> bytes:
    """The body of an export."""
    return _message(spans).SerializeToString()


def as_json(spans: Sequence[ReadableSpan]) -> dict[str, Any]:
    """OTLP's own JSON: ids are hex digits."""
    return hex_ids(MessageToDict(_message(spans)))


def _message(spans: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
    """A request, without the folders of whoever records: errors bring their stacks."""
    text = MessageToJson(encode_spans(spans))
    for folder in (*site.getsitepackages(), str(Path(__file__).parents[3]), sys.base_prefix, sys.prefix):
        text = text.replace(f"{folder}/", "")
    return Parse(text, ExportTraceServiceRequest())


def hex_ids(message: Any) -> Any:
    """Protobuf's JSON with the ids as OTLP writes them."""
    if isinstance(message, list):
        return [hex_ids(item) for item in message]
    if not isinstance(message, dict):
        return message
    return {key: base64.b64decode(value).hex() if key in _IDS else hex_ids(value) for key, value in message.items()}


def as_lines(spans: Sequence[ReadableSpan]) -> str:
    """As a collector's file exporter writes what comes trace by trace: one message a line."""
    by_trace: dict[int, list[ReadableSpan]] = {}
    for span in spans:
        by_trace.setdefault(span.context.trace_id, []).append(span)
    return "".join(json.dumps(as_json(group)) + "\n" for group in by_trace.values())


@contextmanager
def recorded(*instrumentors: Any) -> Iterator[tuple[TracerProvider, InMemorySpanExporter]]:
    """Instrument, and take it back."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "lighthouse"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    for instrumentor in instrumentors:
        instrumentor.instrument(tracer_provider=provider)
    try:
        yield provider, exporter
    finally:
        for instrumentor in instrumentors:
            instrumentor.uninstrument()
        provider.shutdown()
