"""`SinkContract`, which our users write sinks against, run for each of ours.

Servers are stand-ins here, which keep requests as the real ones are documented to. That we send what the real ones take is
tested in `test_sink_requests.py` and `tests/servers`. `PrometheusSink` is not here: counters do not contain ids.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from fake_servers import RecordingServer, Reply, Request
from memory_sink import MemorySink
from ragstone.sinks import (
    JsonlSink,
    LangfuseSink,
    LangsmithSink,
    MlflowSink,
    OtlpSink,
    PhoenixSink,
    Sink,
    WebhookSink,
)
from ragstone.testing import SinkContract, SinkOutageContract


class TestMemorySink(SinkContract):
    """`MemorySink`, which our users test with."""

    @pytest.fixture(autouse=True)
    def _one(self):
        self.sink = MemorySink()

    def open(self, where: Path) -> Sink:
        return self.sink

    def delivered(self, sink: Sink, where: Path) -> Sequence[str]:
        assert isinstance(sink, MemorySink)
        return list(sink.by_id)


class TestJsonlSink(SinkOutageContract):
    """`JsonlSink`: down means that something else stands in the file's place."""

    def open(self, where: Path) -> Sink:
        return JsonlSink(where / "out.jsonl")

    def delivered(self, sink: Sink, where: Path) -> Sequence[str]:
        path = where / "out.jsonl"
        return [json.loads(line)["id"] for line in path.read_bytes().splitlines()] if path.exists() else []

    def take_down(self, sink: Sink, where: Path) -> None:
        (where / "out.jsonl").mkdir()

    def bring_up(self, sink: Sink, where: Path) -> None:
        (where / "out.jsonl").rmdir()


class OfServer(SinkOutageContract):
    """For destinations behind HTTP: a server a test, which keeps what is posted by its key."""

    @pytest.fixture(autouse=True)
    def _server(self):
        self.kept: dict[object, str] = {}
        with RecordingServer(self.take) as self.server:
            yield

    def take(self, request: Request) -> Reply:
        """Keep what is posted."""
        raise NotImplementedError

    def delivered(self, sink: Sink, where: Path) -> Sequence[str]:
        return list(self.kept.values())

    def take_down(self, sink: Sink, where: Path) -> None:
        self.server.down = True

    def bring_up(self, sink: Sink, where: Path) -> None:
        self.server.down = False


class TestLangfuseSink(OfServer):
    """`LangfuseSink` and a server that takes arrays."""

    arrays = True

    def open(self, where: Path) -> Sink:
        return LangfuseSink(self.server.address, public_key="pk", secret_key="sk")

    def take(self, request: Request) -> Reply:
        body = json.loads(request.content)
        if isinstance(body, list) is not self.arrays:
            return Reply(400, {"message": "Invalid request data"})
        for score in body if self.arrays else [body]:
            self.kept[score["id"], score["timestamp"]] = score["id"]
        return Reply(202, {"message": "Accepted"}) if self.arrays else Reply(200, {"id": body["id"]})


class TestLangfuseSinkAndAnOlderServer(TestLangfuseSink):
    """The same, and a server that takes one score a request."""

    arrays = False


class TestLangsmithSink(OfServer):
    """`LangsmithSink`."""

    def open(self, where: Path) -> Sink:
        return LangsmithSink(self.server.address, api_key="key", project="p")

    def take(self, request: Request) -> Reply:
        if request.path == "/sessions":
            return Reply(200, json.dumps([{"id": "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}]))
        body = json.loads(request.content)
        self.kept[body["id"]] = body["id"]
        return Reply(200, {})


class TestWebhookSink(OfServer):
    """`WebhookSink`."""

    def open(self, where: Path) -> Sink:
        return WebhookSink(f"{self.server.address}/scores")

    def take(self, request: Request) -> Reply:
        for outcome in json.loads(request.content)["outcomes"]:
            self.kept[outcome["id"]] = outcome["id"]
        return Reply(200, {})


class TestPhoenixSink(OfServer):
    """`PhoenixSink` and a server that identifies an annotation by span, name and identifier."""

    def open(self, where: Path) -> Sink:
        return PhoenixSink(self.server.address)

    def take(self, request: Request) -> Reply:
        for row in json.loads(request.content)["data"]:
            self.kept[row["span_id"], row["name"], row["identifier"]] = row["identifier"]
        return Reply(200, {"data": []})


class TestMlflowSink(OfServer):
    """`MlflowSink` and a server that rejects a second assessment with the same id."""

    def open(self, where: Path) -> Sink:
        return MlflowSink(self.server.address)

    def take(self, request: Request) -> Reply:
        if request.method == "GET":
            assessment_id = request.path.rpartition("/")[2]
            return Reply(200 if assessment_id in self.kept else 404, {"assessment": {"assessment_id": assessment_id}})
        assessment = json.loads(request.content)["assessment"]
        if assessment["assessment_id"] in self.kept:
            return Reply(500, {"error_code": "INTERNAL_ERROR"})
        self.kept[assessment["assessment_id"]] = assessment["metadata"]["id"]
        return Reply(200, {"assessment": assessment})


class TestOtlpSink(SinkContract):
    """`OtlpSink` and a receiver that keeps events by `ragstone.evaluation.id`, as OTLP does not have keys.

    Outages are tested with the exporter's retries in `tests/integrations/otlp`.
    """

    @pytest.fixture(autouse=True)
    def _server(self):
        self.kept: dict[str, str] = {}
        with RecordingServer(self.take) as self.server:
            yield

    def open(self, where: Path) -> Sink:
        return OtlpSink(self.server.address, timeout_s=60)

    def delivered(self, sink: Sink, where: Path) -> Sequence[str]:
        return list(self.kept.values())

    def take(self, request: Request) -> Reply:
        received = ExportLogsServiceRequest.FromString(request.content)
        for event in received.resource_logs[0].scope_logs[0].log_records:
            (id_,) = (a.value.string_value for a in event.attributes if a.key == "ragstone.evaluation.id")
            self.kept[id_] = id_
        return Reply(200, {})
