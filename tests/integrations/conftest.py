"""What tests of both frameworks share: a collector that other tools report to, and processes to run them in."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ragstone.schema import Ledger

_HERE = Path(__file__).parent


class Collector:
    """Stands for the servers of LangSmith and Langfuse on loopback, and keeps what they are sent."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, bytes]] = []
        """Path and body, unpacked."""
        self.url = ""

    def settings(self) -> dict[str, str]:
        """The environment of a process in which LangSmith traces, and Langfuse reports, to this collector."""
        return {
            "LANGSMITH_TRACING": "true",
            "LANGSMITH_ENDPOINT": self.url,
            "LANGSMITH_API_KEY": "none",
            "LANGSMITH_PROJECT": "test",
            "LANGSMITH_DISABLE_RUN_COMPRESSION": "true",
            "LANGFUSE_PUBLIC_KEY": "pk-none",
            "LANGFUSE_SECRET_KEY": "sk-none",
            "LANGFUSE_BASE_URL": self.url,
        }

    def langsmith_runs(self) -> dict[str, dict[str, Any]]:
        """Runs by id, as far as they were told: what their start says, and their end."""
        runs: dict[str, dict[str, Any]] = {}
        for path, body in list(self.posts):
            if path.endswith("/runs/batch"):
                batch = json.loads(body)
                for run in (*batch.get("post", ()), *batch.get("patch", ())):
                    runs.setdefault(run["id"], {}).update({key: value for key, value in run.items() if value})
        return runs

    def langfuse_spans(self) -> list[Any]:
        """OpenTelemetry's spans, as Langfuse exports them."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        return [
            span
            for path, body in list(self.posts)
            if path.endswith("/otel/v1/traces")
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def langfuse_scores(self) -> list[dict[str, Any]]:
        """Scores, as Langfuse sends them."""
        return [
            event["body"]
            for path, body in list(self.posts)
            if path.endswith("/ingestion")
            for event in json.loads(body)["batch"]
            if event["type"] == "score-create"
        ]


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that listens."""
    kept = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            # LangSmith asks how it may send: as plain JSON.
            batches = {
                "use_multipart_endpoint": False, "size_limit": 100, "size_limit_bytes": 1_000_000,
                "scale_up_qsize_trigger": 1000, "scale_up_nthreads_limit": 2, "scale_down_nempty_trigger": 4,
            }  # fmt: skip
            self.answer(200, json.dumps({"batch_ingest_config": batches}).encode())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Content-Encoding"] == "gzip":
                body = gzip.decompress(body)
            kept.posts.append((self.path, body))
            if self.path.endswith("/ingestion"):
                self.answer(207, b'{"successes": [], "errors": []}')
            elif self.path.endswith("/otel/v1/traces"):
                self.answer(200, b"")
            else:
                self.answer(202, b"{}")

        def log_message(self, *_: object) -> None:
            """Nothing: the tests print."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    kept.url = f"http://127.0.0.1:{server.server_port}"
    yield kept
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run code in a process of its own, in the test's folder; `neighbours` can be imported there."""

    def run(code: str, *arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            # The frameworks cannot all be imported without warnings of pydantic's.
            [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), *arguments],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, (str(_HERE), os.environ.get("PYTHONPATH")))),
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[str], Callable[[str], str]]]:
    """Serve a WSGI application by two preloaded workers of gunicorn, as its users run it; returns what gets a path.

    `serve.stop()` ends it as an orchestrator does, and waits until all of it has gone.
    """
    pytest.importorskip("gunicorn", reason="installed with the group `beside`")
    servers: list[subprocess.Popen[bytes]] = []
    log = tmp_path / "gunicorn.log"

    def stop() -> None:
        while servers:
            server = servers.pop()
            server.terminate()
            server.wait(60)

    def serve(code: str) -> Callable[[str], str]:
        (tmp_path / "application.py").write_text(textwrap.dedent(code), encoding="utf-8")
        with log.open("wb") as file:
            server = subprocess.Popen(
                [
                    sys.executable, "-W", "ignore", "-m", "gunicorn", "--preload", "--workers", "2",
                    "--bind", "127.0.0.1:0", "--no-control-socket", "--graceful-timeout", "30", "application",
                ],
                cwd=tmp_path, stdout=file, stderr=file,
            )  # fmt: skip
        servers.append(server)
        end = time.monotonic() + 60
        while not (line := next((line for line in log.read_text().splitlines() if "Listening at: " in line), None)):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        url = line.partition("Listening at: ")[2].partition(" ")[0]

        def get(path: str) -> str:
            with urllib.request.urlopen(f"{url}/{path}", timeout=60) as response:  # noqa: S310 - our own server
                return response.read().decode()

        return get

    serve.stop = stop  # type: ignore[attr-defined]
    yield serve
    stop()


@pytest.fixture
def books(tmp_path: Path) -> Callable[[], Books]:
    """Score what the processes of a test left in its folder, and look at it."""

    def look() -> Books:
        from ragstone import Monitor
        from ragstone.store import SqliteStore

        store = tmp_path / "r.db"
        with Monitor(judge="lexical", metrics="ccrs.qr", store=store) as monitor:
            assert monitor.drain(60)
            ledger = monitor.ledger()
        with SqliteStore.open(store, mode="read") as opened:
            traces = list(opened.traces.read())
        return Books(ledger, Counter((trace.query, trace.response, trace.status) for trace in traces))

    return look


class Books(NamedTuple):
    """What a store knows of its requests."""

    ledger: Ledger
    traces: Counter[tuple[str | None, str | None, str]]
    """How often each question was captured, with its answer and status."""
