"""OTLP over gRPC, with the real exporter: on the disk before the reply, and refused with a code that exporters know."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragstone.errors import ConfigurationError, StoreError
from ragstone.ingest import Access, OtlpGrpcReceiver, OtlpTraceSource, SharedSpanBuffer
from ragstone.store import SqliteStore
from ragstone.worker import StepErrors

LATER = 10.0**10


@pytest.fixture
def buffer(tmp_path: Path) -> Iterator[SharedSpanBuffer]:
    """Return a buffer on the disk."""
    opened = SharedSpanBuffer(tmp_path / "s.db.spans")
    yield opened
    opened.close()


def spans(secret: str = ""):
    """Return the finished spans of a RAG request."""
    provider, memory = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("test")
    root = {"openinference.span.kind": "CHAIN", "input.value": "How tall?", "output.value": f"31 m. {secret}"}
    with tracer.start_as_current_span("ask", attributes=root):
        found = {
            "openinference.span.kind": "RETRIEVER",
            "input.value": "How tall?",
            "retrieval.documents.0.document.content": "It is 31 m tall.",
        }
        tracer.start_span("search", attributes=found).end()
    provider.shutdown()
    return memory.get_finished_spans()


def with_receiver(buffer, use, **options):
    """Call a blocking function with the endpoint of a receiver, while it runs."""

    async def session():
        receiver = OtlpGrpcReceiver(buffer, port=0, **options)
        await receiver.start()
        try:
            return await asyncio.to_thread(use, receiver.url)
        finally:
            await receiver.aclose()

    return asyncio.run(session())


def export(buffer, exported, **options):
    """Send spans with the exporter of OpenTelemetry."""

    def use(url):
        exporter = OTLPSpanExporter(endpoint=url, insecure=True, timeout=100, **options)
        try:
            return exporter.export(exported)
        finally:
            exporter.shutdown()

    return with_receiver(buffer, use)


def call(buffer, stub, message):
    """Send a message with gRPC's own client."""

    def use(url):
        with grpc.insecure_channel(url.removeprefix("http://")) as channel:
            return stub(channel).Export(message, timeout=100)

    return with_receiver(buffer, use)


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_the_exporters_spans_become_a_request(buffer, tmp_path, compression):
    """What the exporter sends is the same request as over HTTP, compressed or not."""
    assert SpanExportResult.SUCCESS is export(buffer, spans(), compression=compression)
    with SqliteStore.open(tmp_path / "s.db", mode="own") as store:
        OtlpTraceSource(buffer, clock=lambda: LATER).transfer_batch(store, StepErrors())
        (trace,) = store.traces.read()
    assert ("How tall?", "31 m. ", ["It is 31 m tall."]) == (
        trace.query,
        trace.response,
        [passage.text for passage in trace.prompt_contexts],
    )


def test_what_was_confirmed_survives_the_process(buffer, tmp_path):
    """The next one finds the spans on the disk, redacted."""
    export(buffer, spans("Ask ada@example.org."))
    assert all(b"ada@" not in file.read_bytes() for file in tmp_path.iterdir())
    buffer.close()
    again = SharedSpanBuffer(tmp_path / "s.db.spans")
    assert 1 == len(again)
    again.close()


def test_a_full_disk_is_reported_so_that_exporters_retry(buffer, monkeypatch, caplog):
    """Nothing that is not on the disk is confirmed; the log says it once."""

    def full(_):
        raise StoreError("no space left")

    monkeypatch.setattr(buffer, "add", full)

    def use(url):
        with grpc.insecure_channel(url.removeprefix("http://")) as channel:
            for _ in range(2):
                with pytest.raises(grpc.RpcError) as error:
                    TraceServiceStub(channel).Export(ExportTraceServiceRequest(), timeout=100)
                yield_ = error.value
            return yield_

    error = with_receiver(buffer, use)
    assert (grpc.StatusCode.UNAVAILABLE, "the disk is unavailable") == (error.code(), error.details())
    assert 1 == caplog.text.count("no space left")


def test_spans_that_cannot_be_read_are_reported(buffer):
    """As a partial success; the others are kept."""
    message = ExportTraceServiceRequest()
    scope = message.resource_spans.add().scope_spans.add()
    scope.spans.add(trace_id=b"1" * 16, span_id=b"1" * 8, name="ask", start_time_unix_nano=1, end_time_unix_nano=2)
    scope.spans.add(trace_id=b"x", span_id=b"y")
    reply = call(buffer, TraceServiceStub, message)
    assert 1 == reply.partial_success.rejected_spans
    assert reply.partial_success.error_message
    assert 1 == len(buffer)


def test_log_records_of_model_calls_are_stored_and_others_are_not(buffer):
    """An application whose exporters share an endpoint sees no errors."""
    message = ExportLogsServiceRequest()
    record = message.resource_logs.add().scope_logs.add().log_records.add(trace_id=b"t" * 16, span_id=b"s" * 8)
    for name, n_stored in (("session.start", 0), ("gen_ai.choice", 1)):
        record.event_name = name
        assert 0 == call(buffer, LogsServiceStub, message).partial_success.rejected_log_records
        assert n_stored == len(buffer)


@pytest.mark.parametrize(
    ("method", "message", "code"),
    [
        ("/opentelemetry.proto.collector.trace.v1.TraceService/Export", b"\xff\xff", grpc.StatusCode.INVALID_ARGUMENT),
        ("/opentelemetry.proto.collector.trace.v1.TraceService/Other", b"", grpc.StatusCode.UNIMPLEMENTED),
    ],
)
def test_other_messages_are_refused(buffer, method, message, code):
    """With a code after which exporters do not retry."""

    def use(url):
        with grpc.insecure_channel(url.removeprefix("http://")) as channel, pytest.raises(grpc.RpcError) as error:
            channel.unary_unary(method)(message, timeout=100)
        return error.value.code()

    assert code == with_receiver(buffer, use)
    assert 0 == len(buffer)


def test_a_port_that_is_taken(buffer):
    """The message names the address and the option."""

    async def session():
        first = OtlpGrpcReceiver(buffer, port=0)
        await first.start()
        second = OtlpGrpcReceiver(buffer, port=int(first.url.rpartition(":")[2]))
        try:
            with pytest.raises(ConfigurationError, match=r"cannot listen on 127.0.0.1:\d+: .*--listen-grpc HOST:PORT"):
                await second.start()
        finally:
            await second.aclose()
            await first.aclose()

    asyncio.run(session())


def test_messages_without_the_token_are_refused(buffer):
    """Of spans and of logs; the exporter sends it as a header."""
    token = "0123456789abcdef"

    def use(url):
        codes = []
        with grpc.insecure_channel(url.removeprefix("http://")) as channel:
            traces, logs = TraceServiceStub(channel), LogsServiceStub(channel)
            for stub, message in ((traces, ExportTraceServiceRequest()), (logs, ExportLogsServiceRequest())):
                for metadata in ((), (("authorization", "Bearer wrong"),), (("authorization", f"Bearer {token}"),)):
                    try:
                        stub.Export(message, timeout=100, metadata=metadata)
                        codes.append(grpc.StatusCode.OK)
                    except grpc.RpcError as error:
                        codes.append(error.code())
        return codes

    refused = grpc.StatusCode.UNAUTHENTICATED
    assert [refused, refused, grpc.StatusCode.OK] * 2 == with_receiver(buffer, use, access=Access(token))


@pytest.mark.parametrize("size", [8 * 2**20 + 100, 300_000])
def test_too_large_messages_are_refused(buffer, size):
    """In bytes, or in objects; exporters do not send them again."""
    message = b"\x0a\x00" * (size if size < 2**20 else size // 2)

    def use(url):
        with grpc.insecure_channel(url.removeprefix("http://")) as channel, pytest.raises(grpc.RpcError) as error:
            channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")(message, timeout=100)
        return error.value.code()

    assert grpc.StatusCode.RESOURCE_EXHAUSTED == with_receiver(buffer, use)
