"""A real OTLP/HTTP receiver on loopback, on the protobuf messages that OpenTelemetry generates."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord


def _plain(value: AnyValue) -> object:
    return getattr(value, value.WhichOneof("value"))


@dataclass
class Answer:
    """What the receiver answers instead of an empty 200."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    rejected: int = 0


@dataclass
class OtlpReceiver:
    """Collects what arrives; `answers` are given first, one a request."""

    answers: list[Answer] = field(default_factory=list)
    requests: list[ExportLogsServiceRequest] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    port: int = 0

    @property
    def endpoint(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def records(self) -> list[LogRecord]:
        """All log records, in the order of arrival."""
        return [
            record
            for request in self.requests
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    @property
    def resource(self) -> dict[str, object]:
        """The resource attributes of the first request."""
        return {a.key: _plain(a.value) for a in self.requests[0].resource_logs[0].resource.attributes}

    def attributes(self, i: int = 0) -> dict[str, object]:
        """The attributes of record `i`."""
        return {a.key: _plain(a.value) for a in self.records[i].attributes}

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[Answer, bytes]:
        """Note a request and return what to answer."""
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.paths.append(path)
        self.headers.append(headers)
        answer = self.answers.pop(0) if self.answers else Answer()
        if answer.status < 300:
            self.requests.append(ExportLogsServiceRequest.FromString(body))
        response = ExportLogsServiceResponse()
        if answer.rejected:
            response.partial_success.rejected_log_records = answer.rejected
            response.partial_success.error_message = "too old"
        return answer, response.SerializeToString()


@pytest.fixture
def otlp_receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpReceiver]:
    """An empty receiver, and no OpenTelemetry settings from outside."""
    for name in ("ENDPOINT", "HEADERS", "PROTOCOL", "TIMEOUT", "COMPRESSION"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_LOGS_{name}", raising=False)
    receiver = OtlpReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer, body = receiver.take(self.path, headers, self.rfile.read(length))
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield receiver
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def answer() -> type[Answer]:
    """Makes answers for `otlp_receiver.answers`."""
    return Answer


@pytest.fixture
def unused_tcp_port_url() -> Iterator[str]:
    """A URL with credentials where no one listens: the port is bound, so that no one else gets it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://user:hunter2@127.0.0.1:{taken.getsockname()[1]}"
