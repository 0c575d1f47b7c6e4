"""`kill -9` and signals at random moments of `ragstone ingest`: what it has acknowledged is stored and scored once.

`RAGSTONE_KILLS=100 nox -s long -- -k test_ingest_kills` repeats the runs.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from command_line import STARTED
from fake_servers import FakeJudgeServer
from kills import MANY_KILLS, METRICS, check_books, runs
from ragstone.errors import StoreError
from ragstone.store import open_store
from waiting import wait_until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="sends signals, and reads /proc"),
    pytest.mark.timeout(600 + 60 * MANY_KILLS),
]

FAULTS = {
    "kills": (signal.SIGKILL,),
    "signals": (signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
}
LIMIT_S = 120.0


class Exporter(threading.Thread):
    """An application that exports the spans of a request in two messages, and repeats a message until it is acknowledged."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._url = f"http://127.0.0.1:{port}/v1/traces"
        self._ended = threading.Event()
        self.acknowledged: list[str] = []
        """Ids of requests of which both messages were answered with 200."""
        self.n_repeated = 0
        """Messages that were sent again, because there was no answer."""
        self.slowest_s = 0.0
        """The longest time until a message was acknowledged, without the time in which nothing listened."""

    def run(self) -> None:
        """Export a request after the other."""
        n = 0
        while not self._ended.is_set():
            n += 1
            # The root comes last. Until then, the request cannot be complete.
            if self._export(n, is_root=False) and self._export(n, is_root=True):
                self.acknowledged.append(f"{n:032x}")

    def end(self) -> None:
        """Stop after the current message."""
        self._ended.set()
        self.join()

    def _export(self, n: int, *, is_root: bool) -> bool:
        body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span(n, is_root=is_root)]}]}]}).encode()
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})  # noqa: S310 - loopback
        while not self._ended.is_set():
            begin = time.monotonic()
            try:
                with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310 - loopback
                    if response.status == 200:
                        self.slowest_s = max(self.slowest_s, time.monotonic() - begin)
                        return True
            except OSError:
                time.sleep(0.05)
            self.n_repeated += 1
        return False


def span(n: int, *, is_root: bool) -> dict[str, object]:
    """One of the two spans of a request, in OTLP's JSON."""
    values = (
        {"openinference.span.kind": "CHAIN", "input.value": f"How tall is {n}?", "output.value": f"{n} m."}
        if is_root
        else {
            "openinference.span.kind": "RETRIEVER",
            "input.value": f"How tall is {n}?",
            "retrieval.documents.0.document.content": f"{n} is {n} m tall.",
        }
    )
    return {
        "traceId": f"{n:032x}",
        "spanId": f"{2 * n + is_root:016x}",
        "name": "a span",
        "startTimeUnixNano": str(10**18 + n),
        "endTimeUnixNano": str(10**18 + n + 1000),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in values.items()],
    } | ({} if is_root else {"parentSpanId": f"{2 * n + 1:016x}"})


class Receiver:
    """`ragstone ingest`, which is started again when it has ended."""

    def __init__(self, folder: Path, judge: str, port: int) -> None:
        self.log = folder / "log"
        self.sink = folder / "scores.jsonl"
        self.store = folder / "s.db"
        options = ["--metrics", ",".join(METRICS), "--judge", judge, "--sink", f"jsonl:{self.sink}"]
        options += [
            "--listen",
            f"127.0.0.1:{port}",
            "--set",
            "receiver.idle_timeout_s=0.3",
            "--set",
            "receiver.rootless_timeout_s=3600",
        ]
        self._command = [sys.executable, "-c", STARTED, "ingest", str(self.store), *options]
        self.peak_mib = 0

    def start(self) -> None:
        """Start the process."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)

    def send(self, number: signal.Signals) -> int:
        """Send a signal after the start of Python itself, and return the exit code."""
        assert self.process.stdout is not None
        assert self.process.stdout.read(1) == b"."
        self.process.stdout.close()
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        self.peak_mib = max(self.peak_mib, 0, *(int(kib) // 1024 for kib in re.findall(r"VmHWM:\s+(\d+)", status)))
        self.process.send_signal(number)
        return self.process.wait(120)


def free_port() -> int:
    """A port that nothing uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def holds(store: Path, n: int) -> Callable[[], bool]:
    """Whether a store has `n` requests, all of them scored and delivered."""

    def check() -> bool:
        try:
            with open_store(store, mode="read") as opened:
                ledger = opened.ledger()
        except StoreError:
            return False
        waits = ledger.total.pending or any(counts.pending for counts in ledger.outbox.values())
        return ledger.total.captured >= n and not waits

    return check


@pytest.mark.parametrize(("name", "n_faults"), runs({"kills": 3, "signals": 3}))
def test_what_a_receiver_has_acknowledged_is_stored_once(tmp_path: Path, name: str, n_faults: int) -> None:
    """Also if the exporter sends a message again, because the receiver ended before it could answer."""
    seed = int(os.environ.get("RAGSTONE_SEED", random.randrange(2**32)))
    print(f"RAGSTONE_SEED={seed}")
    moments = random.Random(seed)
    codes: Counter[str] = Counter()
    port = free_port()
    exporter = Exporter(port)
    with FakeJudgeServer(latency_s=0.02) as judge:
        receiver = Receiver(tmp_path, judge.url, port)
        receiver.start()
        exporter.start()
        try:
            for _ in range(n_faults):
                # A third of them hit a receiver that is starting.
                if moments.random() > 1 / 3:
                    before = len(exporter.acknowledged)
                    wait_until(lambda: len(exporter.acknowledged) > before, limit_s=LIMIT_S)  # noqa: B023 - called here
                time.sleep(moments.uniform(0, 2))
                number = moments.choice(FAULTS[name])
                code = receiver.send(number)
                codes[f"{number.name} {code}"] += 1
                assert code in ((0, 130) if name == "signals" else (-number,)), receiver.log.read_text()
                receiver.start()
            # All faults may have hit a receiver that was starting: at least one request must have been acknowledged.
            wait_until(lambda: bool(exporter.acknowledged), limit_s=LIMIT_S)
            exporter.end()
            acknowledged = exporter.acknowledged
            # If something is lost, this does not come true, and the checks below say what.
            with suppress(AssertionError):
                wait_until(holds(receiver.store, len(acknowledged)), limit_s=LIMIT_S)
            assert receiver.send(signal.SIGTERM) == 0
        finally:
            exporter.end()
            receiver.process.kill()
            receiver.process.wait()
        paid = judge.calls
    with open_store(receiver.store, mode="read") as store:
        texts = {
            trace.trace_id: (trace.query, trace.response, [p.text for r in trace.retrievals for p in r.passages])
            for trace in store.traces.read()
        }
    assert [trace_id for trace_id in acknowledged if trace_id not in texts] == []
    for trace_id in acknowledged:
        n = int(trace_id, 16)
        assert texts[trace_id] == (f"How tall is {n}?", f"{n} m.", [f"{n} is {n} m tall."])
    counts = check_books(str(receiver.store), set(acknowledged), METRICS, [receiver.sink], paid)
    assert "Traceback" not in receiver.log.read_text(encoding="utf-8")
    print(f"{n_faults} {name} {dict(codes)}: {counts}; {exporter.n_repeated} messages sent again")
    print(f"slowest acknowledged message {exporter.slowest_s:.2f} s, peak memory {receiver.peak_mib} MiB")
