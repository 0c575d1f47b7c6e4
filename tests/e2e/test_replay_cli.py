"""`ragstone replay`, `outbox` and `ingest` as users run them: stopped, killed, started again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from command_line import Done, run_command
from fake_servers import FakeJudgeServer
from ragstone.schema import Score
from ragstone.store import SqliteStore
from ragstone.worker import read_ledger

MANY_TRACES = int(os.environ.get("RAGSTONE_REPLAYED", "200"))
MANY_KILLS = int(os.environ.get("RAGSTONE_KILLS", "5"))
IN_FLIGHT = 8
METRICS = ("ccrs.cc", "ccrs.qr", "ccrs.id")


def rows(path: Path, n: int) -> Path:
    """Rows of a data set, as many."""
    with path.open("w", encoding="utf-8") as file:
        for i in range(n):
            row = {
                "id": f"t{i}",
                "query": f"What is item {i}?",
                "contexts": [f"Item {i} is a stone found at the river."],
                "response": f"Item {i} is a stone.",
            }
            file.write(json.dumps(row) + "\n")
    return path


def start(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    """Run `ragstone` in a process of its own."""
    code = "import sys; from ragstone.cli import main; main(sys.argv[1:])"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def finish(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    """Wait for a process that ends by itself."""
    out, err = process.communicate(timeout=240)
    assert code == process.returncode, err
    return out, err


def ragstone(*arguments: object) -> Done:
    """Run a command that succeeds, in this process."""
    done = run_command(*arguments)
    assert 0 == done.returncode, done.stderr
    return done


class Asked:
    """Counts what a judge was asked."""

    def __init__(self) -> None:
        self.questions: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> str:
        """Answer every question alike."""
        with self._lock:
            self.questions[json.dumps(body["messages"])] += 1
        return "70"

    def wait_for(self, n: int) -> None:
        """Until so many questions have come, in all."""
        end = time.monotonic() + 240
        while self.questions.total() < n and time.monotonic() < end:
            time.sleep(0.005)


def outcomes_in(store: Path) -> Counter[tuple[str, str]]:
    """How often each trace has an outcome of each metric."""
    with SqliteStore.open(store, mode="read") as opened:
        return Counter((o.sample_id, o.metric) for o in opened.outcomes.read() if isinstance(o, Score))


@pytest.mark.parametrize(
    ("n_traces", "n_kills"), [(40, 1), pytest.param(MANY_TRACES, MANY_KILLS, marks=pytest.mark.long)]
)
def test_a_replay_is_killed_again_and_again(tmp_path, n_traces, n_kills):
    """Every trace has one outcome a metric, and a question is asked twice at most if it was unanswered at a kill."""
    file, store, asked, moments = rows(tmp_path / "rows.jsonl", n_traces), tmp_path / "r.db", Asked(), random.Random(5)
    with FakeJudgeServer(reply=asked, latency_s=0.01) as server:
        command = ["replay", file, "--store", store, "--judge", server.url, "--metrics", ",".join(METRICS)]
        command += ["--set", f"judge.max_concurrent_requests={IN_FLIGHT}", f"--set=limits.concurrency={IN_FLIGHT}"]
        for _ in range(n_kills):
            process = start(*command)
            asked.wait_for(asked.questions.total() + moments.randint(1, 3 * n_traces // (n_kills + 1)))
            process.kill()
            process.communicate()
        finish(start(*command))
        n_asked, n_questions = asked.questions.total(), len(asked.questions)
        out, _ = finish(start(*command, "--json"))

    expected = {(f"t{i}", metric): 1 for i in range(n_traces) for metric in METRICS}
    assert expected == dict(outcomes_in(store))
    ledger = read_ledger(store)
    assert (n_traces, n_traces, True) == (ledger.total.captured, ledger.total.scored, ledger.total.balanced)
    # A trace waits until each of its replies is on the disk, so no more than these can be unanswered or unwritten.
    assert n_asked - n_questions <= n_kills * len(METRICS) * IN_FLIGHT
    assert n_asked == asked.questions.total(), "a run that finds everything done asks nothing"
    told = json.loads(out)
    assert (0, n_traces) == (told["files"][0]["n_new"], told["files"][0]["n_known"])


def test_ctrl_c_lets_go_cleanly_and_says_how_to_go_on(tmp_path):
    """Exit code 130; the same command ends the work."""
    file, store, asked = rows(tmp_path / "rows.jsonl", 60), tmp_path / "r.db", Asked()
    with FakeJudgeServer(reply=asked, latency_s=0.02) as server:
        command = [
            "replay",
            file,
            "--store",
            store,
            "--judge",
            server.url,
            "--metrics",
            "ccrs.qr",
            "--set=limits.concurrency=2",
        ]
        process = start(*command)
        asked.wait_for(10)
        process.send_signal(signal.SIGINT)
        _, err = finish(process, 130)
        assert "stopped. Run the same command to resume." in err
        assert 0 < read_ledger(store).total.scored < 60
        finish(start(*command))

    assert 60 == read_ledger(store).total.scored
    assert {1} == set(outcomes_in(store).values())


def test_a_dry_run_says_what_it_would_take_and_asks_nobody(tmp_path):
    """Format and how it is known, what applies, what is missing, calls, tokens, money, time; no store is made."""
    asked = Asked()
    file, store = rows(tmp_path / "rows.jsonl", 10), tmp_path / "r.db"
    with FakeJudgeServer(reply=asked) as server:
        out = ragstone(
            "replay", file, "--store", store, "--judge", server.url, "--metrics", "ccrs.qr,ccrs.ac", "--dry-run",
            "--set", "judge.usd_per_million_tokens=1,2", "--set", "limits.call_latency_s=2", "--set", "judge.max_concurrent_requests=5",
        ).stdout  # fmt: skip

    assert "10 traces, of which 10 would be scored" in out
    assert "ccrs.qr: 10 applicable" in out
    assert "ccrs.ac: 0 applicable, 10 not applicable, most often (10): the sample has no reference" in out
    assert "about 10 calls" in out
    assert "USD), 4 s at 2 s per call and 5 concurrent requests" in out
    assert (0, False) == (asked.questions.total(), store.exists())


def test_dead_letters_are_listed_and_sent_again(tmp_path):
    """A webhook that refuses everything, then takes it."""
    taken: list[dict[str, Any]] = []
    refusing = True

    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not refusing:
                taken.extend(body["outcomes"])
            self.send_response(422 if refusing else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Be quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        sink = f"webhook:http://127.0.0.1:{server.server_port}/scores"
        file, store = rows(tmp_path / "rows.jsonl", 3), tmp_path / "r.db"
        command = ["replay", file, "--store", store, "--judge", "lexical", "--metrics", "ccrs.qr", "--sink", sink]
        assert "3 failed" in ragstone(*command).stderr
        listed = ragstone("store", "deliveries", store)
        assert (3, True) == (listed.stdout.count("ccrs.qr"), "3 failed" in listed.stderr)
        assert 3 == len(json.loads(ragstone("store", "deliveries", store, "--json").stdout)["deliveries"])

        refusing = False
        assert "3 deliveries are pending again" in ragstone("store", "deliveries", store, "--retry").stdout
        ragstone(*command)
        assert {"t0", "t1", "t2"} == {score["trace_id"] for score in taken}
        assert "0 failed" in ragstone("store", "deliveries", store).stderr
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def span(trace: int, n: int, parent: int | None = None, **attributes: str) -> dict[str, Any]:
    """A span in OTLP's JSON."""
    return {
        "traceId": f"{trace:032x}",
        "spanId": f"{trace * 100 + n:016x}",
        **({} if parent is None else {"parentSpanId": f"{trace * 100 + parent:016x}"}),
        "name": "step",
        "startTimeUnixNano": str(time.time_ns()),
        "endTimeUnixNano": str(time.time_ns()),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }


def send_http(url: str, message: dict[str, Any]) -> None:
    """Send a span as JSON over HTTP."""
    answer = httpx.post(url, json={"resourceSpans": [{"scopeSpans": [{"spans": [message]}]}]}, timeout=240)
    assert 200 == answer.status_code


def send_grpc(url: str, message: dict[str, Any]) -> None:
    """Send the same span over gRPC."""
    sent = ExportTraceServiceRequest()
    made = (
        sent.resource_spans.add()
        .scope_spans.add()
        .spans.add(
            trace_id=bytes.fromhex(message["traceId"]),
            span_id=bytes.fromhex(message["spanId"]),
            parent_span_id=bytes.fromhex(message.get("parentSpanId", "")),
            name=message["name"],
            start_time_unix_nano=int(message["startTimeUnixNano"]),
            end_time_unix_nano=int(message["endTimeUnixNano"]),
        )
    )
    for entry in message["attributes"]:
        made.attributes.add(key=entry["key"]).value.string_value = entry["value"]["stringValue"]
    with grpc.insecure_channel(url.removeprefix("http://")) as channel:
        TraceServiceStub(channel).Export(sent, timeout=240)


@pytest.mark.parametrize(
    ("send_to", "kills"), [(send_http, 1), (send_grpc, 1), pytest.param(send_http, 3, marks=pytest.mark.slow)]
)
def test_ingest_is_killed_and_keeps_what_it_answered(tmp_path, send_to, kills):
    """Spans of requests, each in two messages; the receiver is killed in between; each request is scored once."""
    n = 12 * (kills + 1)
    store = tmp_path / "app.db"
    process: subprocess.Popen[str] | None = None
    url = ""

    def serve() -> subprocess.Popen[str]:
        nonlocal url
        made = start(
            "ingest",
            store,
            "--listen",
            "127.0.0.1:0",
            "--listen-grpc",
            "127.0.0.1:0",
            "--judge",
            "lexical",
            "--metrics",
            "ccrs.qr",
            "--set",
            "receiver.idle_timeout_s=1",
        )
        assert made.stderr is not None
        # It prints the two endpoints with "and" between them.
        url = made.stderr.readline().split()[2 if send_to is send_http else 4]
        return made

    try:
        for i in range(1, n + 1):
            if i % 12 == 1:
                if process is not None:
                    process.kill()
                    process.communicate()
                process = serve()
            kind = {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": f"Item {i}."}
            send_to(url, span(i, 2, 1, **{"input.value": f"What is item {i}?", **kind}))
            root = {"openinference.span.kind": "CHAIN", "output.value": f"Item {i} is a stone."}
            send_to(url, span(i, 1, **{"input.value": f"What is item {i}?", **root}))
        end = time.monotonic() + 240
        while read_ledger(store).total.scored < n and time.monotonic() < end:
            time.sleep(0.1)
        assert process is not None
        process.send_signal(signal.SIGTERM)
        finish(process)
    finally:
        if process is not None and process.poll() is None:
            process.kill()
            process.communicate()

    ledger = read_ledger(store)
    assert (n, n, True) == (ledger.total.captured, ledger.total.scored, ledger.total.balanced)
    assert {1} == set(outcomes_in(store).values())
    with SqliteStore.open(store, mode="read") as opened:
        assert all(len(trace.prompt_contexts or ()) == 1 for trace in opened.traces.read())
