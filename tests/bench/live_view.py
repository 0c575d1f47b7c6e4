"""Processor time of `ragstone view` with two tabs of Chromium, while a worker completes requests in the same store.

Run it in the environment of `nox -s browser`:

    python tests/bench/live_view.py [--rate 20] [--seconds 60]

It prints the share of a core of the process that serves the page: without a tab, and twice with two tabs. At most 3% is wanted.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from playwright.sync_api import sync_playwright
from test_bench_report import METRICS, request, scores

from ragstone.schema import Captured
from ragstone.store import Completion, PlannedMetric, SqliteStore

AT_START = 2_000
"""Requests before the measurement."""
PARTS_PER_S = 4


def cpu_s(pid: int) -> float:
    """Return the processor time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Writer(threading.Thread):
    """Completes requests at a constant rate."""

    def __init__(self, store: SqliteStore, rate: int) -> None:
        super().__init__()
        self._store, self._size = store, max(rate // PARTS_PER_S, 1)
        self._numbers = itertools.count()
        self.stopped = threading.Event()
        self.n = 0

    def put(self, n: int) -> None:
        """Complete a number of requests in one transaction."""
        numbers = list(itertools.islice(self._numbers, n))
        self._store.traces.ingest("bench", numbers[-1] + 1, [Captured(trace=request(k)) for k in numbers])
        self._store.outcomes.complete_many([Completion(trace_id=f"t{k}", outcomes=scores(f"t{k}", k)) for k in numbers])
        self.n += n

    def run(self) -> None:
        """Write until stopped."""
        due = time.monotonic()
        while not self.stopped.is_set():
            self.put(self._size)
            due += 1 / PARTS_PER_S
            time.sleep(max(due - time.monotonic(), 0))


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=20, help="requests per second")
    parser.add_argument("--seconds", type=float, default=60, help="length of each measurement")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "live.db"
        with SqliteStore.open(path, mode="own") as store:
            store.plan.set([PlannedMetric(name=name, version="1", judge_hash="h") for name in METRICS], [])
            writer = Writer(store, options.rate)
            writer.put(AT_START)
            measure(path, writer, options.seconds)


def measure(path: Path, writer: Writer, seconds: float) -> None:
    """Serve the page, and print the share of a core that the server takes."""
    command = [Path(sys.executable).with_name("ragstone"), "view", path, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        address = next(word for word in server.stdout.readline().split() if word.startswith("http"))
        writer.start()
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=os.environ.get("RAGSTONE_CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
                )
                for label in ("no tab", "two tabs", "two tabs"):
                    if label != "no tab" and not browser.contexts:
                        for _ in range(2):
                            browser.new_page().goto(address, timeout=120_000)
                    time.sleep(10)
                    start, cpu, n = time.monotonic(), cpu_s(server.pid), writer.n
                    time.sleep(seconds)
                    took = time.monotonic() - start
                    share = 100 * (cpu_s(server.pid) - cpu) / took
                    print(f"{label}: {share:.2f}% of a core at {(writer.n - n) / took:.1f} requests/s", flush=True)
                browser.close()
        finally:
            writer.stopped.set()
            writer.join()
            server.terminate()


if __name__ == "__main__":
    main()
