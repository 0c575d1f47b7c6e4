"""A receiver whose system clock is put back by 30 days, with libfaketime."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from command_line import MAIN
from ragstone.errors import StoreError
from ragstone.worker import read_ledger
from waiting import wait_until

LIBRARIES = sorted(Path("/usr/lib").glob("**/faketime/libfaketime.so.1"))

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not LIBRARIES, reason="needs libfaketime (apt install faketime)")]


def free_port() -> int:
    """A loopback port that no one listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def message(trace_id: str) -> bytes:
    """The OTLP message of one request."""
    texts = {"openinference.span.kind": "CHAIN", "input.value": "Why?", "output.value": "Because."}
    span = {
        "traceId": trace_id * 32,
        "spanId": trace_id * 16,
        "name": "ask",
        "startTimeUnixNano": "1767225600000000000",
        "endTimeUnixNano": "1767225601000000000",
        "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in texts.items()],
    }
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def test_spans_are_scored_after_the_clock_was_put_back(tmp_path: Path):
    """Those received before it, and those received after it, while the process runs and after a restart."""
    offset, store, port = tmp_path / "offset", tmp_path / "ragstone.db", free_port()
    environment = os.environ | {
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    assert shutil.which("faketime")

    def set_clock(text: str) -> None:
        other = tmp_path / "other"
        other.write_text(text)
        other.replace(offset)

    def send(trace_id: str) -> bool:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/traces", message(trace_id), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310 - loopback
                return reply.status == 200
        except (urllib.error.URLError, ConnectionError):
            return False

    def scored() -> int:
        try:
            return read_ledger(store).total.scored
        except StoreError:
            return 0

    command = [sys.executable, "-c", MAIN, "ingest", str(store), "--listen", f"127.0.0.1:{port}", "--judge", "lexical"]

    def start(idle_timeout_s: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*command, "--set", f"receiver.idle_timeout_s={idle_timeout_s!s}"], env=environment)

    set_clock("+0")
    process = start(3)
    try:
        wait_until(lambda: send("a"))
        set_clock("-30d")
        assert send("b")
        wait_until(lambda: scored() == 2, limit_s=60)
        process.terminate()
        assert 0 == process.wait(60)

        set_clock("+0")
        process = start(3600)
        wait_until(lambda: send("c"))
        process.kill()
        process.wait()
        set_clock("-30d")
        process = start(3)
        wait_until(lambda: scored() == 3, limit_s=60)
    finally:
        process.kill()
        process.wait()
