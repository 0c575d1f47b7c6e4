"""`SinkContract`, which our users write sinks against, run for each of ours.

Langfuse, LangSmith and webhooks are stand-ins here, which keep what they are sent as the real ones are documented to;
that we send what the real ones take is tested in `test_sink_requests.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fake_servers import RecordingServer, Reply, Request
from ragstone.sinks import JsonlSink, LangfuseSink, LangsmithSink, ParquetSink, Sink, WebhookSink
from ragstone.testing import MemorySink, SinkContract, SinkOutageContract


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


class TestParquetSink(SinkOutageContract):
    """`ParquetSink`: down means that something else stands in the directory's place."""

    def open(self, where: Path) -> Sink:
        return ParquetSink(where / "out")

    def delivered(self, sink: Sink, where: Path) -> Sequence[str]:
        return [id_ for path in (where / "out").glob("*.parquet") for id_ in pq.read_table(path)["id"].to_pylist()]

    def take_down(self, sink: Sink, where: Path) -> None:
        (where / "out").touch()

    def bring_up(self, sink: Sink, where: Path) -> None:
        (where / "out").unlink()


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
