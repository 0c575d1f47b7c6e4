"""`worker` and `ingest` as services: health, readiness and metrics from the start, JSON logs, systemd, judge down."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from ragstone.capture import Capture
from ragstone.requests import TraceDraft
from ragstone.spool import SpoolWriter
from ragstone.worker import read_ledger, spool_directory
from waiting import wait_until

START_S = 120


class Service:
    """A running command, and the lines that it writes to standard error."""

    def __init__(self, *arguments: object, **environment: str) -> None:
        program = Path(sys.executable).with_name("ragstone")
        self.process = subprocess.Popen(
            [program, *map(str, arguments)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **environment},
        )  # fmt: skip
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stderr:
            self.lines.append(line)

    def find(self, pattern: str) -> str:
        """Wait for a line with the pattern, and return its first group."""
        found: list[re.Match[str]] = []

        def look() -> bool:
            found[:] = [match for line in list(self.lines) if (match := re.search(pattern, line))]
            return bool(found) or self.process.poll() is not None

        wait_until(look)
        assert found, f"no line with {pattern!r} in {self.lines}"
        return found[0][1]

    def stop(self) -> int:
        """Stop it as a service manager does, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end, and return its exit code."""
        code = self.process.wait(START_S)
        self._reader.join(START_S)
        return code


@contextlib.contextmanager
def service(*arguments: object, **environment: str):
    """Run a command, and kill it at the end if it still runs."""
    running = Service(*arguments, **environment)
    try:
        yield running
    finally:
        running.process.kill()
        running.wait()
        running.process.stderr.close()


def get(url: str) -> tuple[int, str]:
    """Status and body."""
    try:
        with urllib.request.urlopen(url, timeout=START_S) as answer:  # noqa: S310 - loopback
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
def closed_port():
    """The URL of a judge that is down: a port that is bound, so that nobody else takes it, and not listened on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


def capture(store, n: int) -> None:
    """Write requests to the spool of a store, as an application does."""
    with Capture(lambda: SpoolWriter(spool_directory(store))) as recorder:
        for number in range(n):
            recorder.record(TraceDraft(trace_id=f"t{number}", query="How tall?", response="31 m.", contexts=[]))


def test_a_worker_whose_judge_is_down_serves_health_and_stores_requests(tmp_path, closed_port):
    """Before the first attempt to reach the judge ends, it is alive and ready, and /metrics shows what waits."""
    store = tmp_path / "r.db"
    capture(store, 3)
    arguments = ("worker", store, "--judge", closed_port, "--metrics", "ccrs.qr")
    with service("--log-format", "json", *arguments, "--listen", "127.0.0.1:0") as worker:
        url = worker.find(r"health and metrics at (http://[\d.:]+)")
        wait_until(lambda: get(f"{url}/readyz")[0] == 200)
        alive, ready = get(f"{url}/healthz"), get(f"{url}/readyz")
        wait_until(lambda: "ragstone_queue_depth 3.0" in get(f"{url}/metrics")[1])
        assert 0 == worker.stop()

    assert (200, True) == (alive[0], json.loads(alive[1])["alive"])
    assert 200 == ready[0]
    state = json.loads(ready[1])
    assert (True, True, []) == (state["ready"], state["owns_store"], state["store_errors"])
    assert "31 m" not in ready[1]
    assert 3 == read_ledger(store).total.pending
    logged = [json.loads(line) for line in worker.lines]
    assert all({"time", "level", "logger", "event"} <= line.keys() for line in logged)
    assert [line for line in logged if line["level"] == "info" and "owning" in line["event"]]


def test_ingest_serves_the_same_at_its_port(tmp_path, closed_port):
    """One port for spans, health and metrics."""
    arguments = ("ingest", tmp_path / "r.db", "--judge", closed_port, "--judge-model", "m", "--listen", "127.0.0.1:0")
    with service(*arguments) as worker:
        url = worker.find(r"listening at (http://[\d.:]+)/v1/traces")
        wait_until(lambda: get(f"{url}/readyz")[0] == 200)
        assert 200 == get(f"{url}/healthz")[0]
        assert {"ragstone_info", "process_resident_memory_bytes"} <= set(
            re.findall(r"^\w+", get(f"{url}/metrics")[1], re.MULTILINE)
        )
        assert 0 == worker.stop()


def test_metrics_count_scores_without_a_sink(tmp_path):
    """Scores are on the page when they are stored, and the store has no deliveries for it."""
    store = tmp_path / "r.db"
    capture(store, 3)
    with service("worker", store, "--judge", "lexical", "--metrics", "ccrs.cc", "--listen", "127.0.0.1:0") as worker:
        url = worker.find(r"health and metrics at (http://[\d.:]+)")
        wait_until(lambda: re.search(r"ragstone_outcomes_total\{.*\} 3\.0", get(f"{url}/metrics")[1]))
        assert 0 == worker.stop()
    assert {} == read_ledger(store).outbox


def test_systemd_hears_that_a_service_is_ready_and_alive(tmp_path):
    """READY when the store is owned, then WATCHDOG for as long as the worker polls."""
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(START_S)
        with service(
            "worker", tmp_path / "r.db", "--judge", "lexical", NOTIFY_SOCKET=str(address), WATCHDOG_USEC="200000"
        ):
            # The worker may report that it is alive while it still opens the store, which systemd allows.
            while "READY=1" != manager.recv(100).decode():
                pass
            heard = [manager.recv(100).decode() for _ in range(3)]

    assert ["WATCHDOG=1"] * 3 == heard


def test_an_address_in_use_is_named(tmp_path):
    """Before the store is touched, with the option to change."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with service("worker", tmp_path / "r.db", "--judge", "lexical", "--listen", f"127.0.0.1:{port}") as worker:
            worker.find(rf"(cannot listen on 127\.0\.0\.1:{port}: .* Set another --listen)")
            assert 2 == worker.wait()
    assert not (tmp_path / "r.db").exists()
