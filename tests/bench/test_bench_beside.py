"""What scoring costs the application that it runs in: in a thread, in a child process, and in a worker of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pytest

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

JUDGE = Path(__file__).parents[1] / "peers" / "judge.py"
ROUNDS = 3
N_REQUESTS, RATE = 600, 40
"""Requests of a round, and requests a second: less than what one core scores."""
MAX_CPU_SHARE = 0.15
"""Processor time that a request with scoring in a child costs the application, as a share of scoring in a thread."""
MAX_P99 = 2.5
"""Its 99th percentile against an application without Ragstone. The child, the judge and the application share the processors."""

APPLICATION = """
import json, sys, time

how, url, store, n, rate = sys.argv[1:]
n, pause_s = int(n), 1 / float(rate)
from ragstone.requests import PassageDraft, RetrievalDraft, TraceDraft

monitor = None
if how != "alone":
    from ragstone.monitor import Monitor

    judge = None
    if how != "none":
        from ragstone.judges import OpenAICompatibleJudge
        judge = url
    monitor = Monitor(store=store, judge=judge, metrics=["ccrs"], scoring=how)

def answer():
    # Two milliseconds of work that holds the lock of the interpreter, as parsing and rendering do.
    end = time.thread_time() + 0.002
    while time.thread_time() < end:
        sum(range(200))

def serve(number):
    answer()
    if monitor is not None:
        passages = [PassageDraft(text=f"Item {i} is a stone found at the river. " * 15) for i in range(5)]
        draft = TraceDraft(
            query=f"What is item {number}?", response="A stone. " * 40,
            retrievals=[RetrievalDraft(query="item", passages=passages)],
        )
        assert monitor.record(draft)

for number in range(40):  # imports, connections, the first segment of the spool
    serve(-number)
    time.sleep(pause_s)
time.sleep(2.0)
took, cpu, start = [], time.process_time(), time.monotonic()
for number in range(n):
    due = start + number * pause_s
    time.sleep(max(0.0, due - time.monotonic()))
    begun = time.perf_counter()
    serve(number)
    took.append(time.perf_counter() - begun)
cpu = time.process_time() - cpu
took.sort()
result = {"cpu_ms": cpu / n * 1e3, "p50_ms": took[n // 2] * 1e3, "p99_ms": took[int(n * 0.99)] * 1e3}
if monitor is not None:
    if how != "none":
        assert monitor.drain(300)
        ledger = monitor.ledger()
        assert ledger.total.scored == n + 40, ledger.total
    monitor.close()
print(json.dumps(result))
"""
"""Serves requests at a fixed rate, and prints processor time, median and 99th percentile of a request in milliseconds."""


@contextmanager
def judge_url() -> Iterator[str]:
    """A judge in a process of its own, which answers after 20 ms."""
    command = [sys.executable, str(JUDGE), "0.02"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{server.stdout.readline().split()[-1]}/v1"
        finally:
            server.terminate()


def measure(how: str, url: str, folder: Path) -> dict[str, float]:
    """One round of one way to score."""
    folder.mkdir()
    store = str(folder / "s.db")
    worker = None
    arguments = [how if how != "worker" else "none", url, store, str(N_REQUESTS), str(RATE)]
    if how == "worker":
        command = ["worker", store, "--judge", url, "--metrics", "ccrs"]
        worker = subprocess.Popen([sys.executable, "-c", "from ragstone.cli import main; main()", *command], cwd=folder)
    try:
        done = subprocess.run(
            [sys.executable, "-c", APPLICATION, *arguments], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
        )
    finally:
        if worker is not None:
            worker.terminate()
            worker.wait()
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_scoring_beside_an_application(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Each way in turn: what a request costs the process of the application, and how long its users wait."""
    ways = ("alone", "none", "worker", "process", "thread")
    rounds: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    with judge_url() as url:
        for number in range(ROUNDS):
            for way in ways:
                rounds[way].append(measure(way, url, tmp_path / f"{way}-{number}"))
    figures = {way: {name: median(found[name] for found in each) for name in each[0]} for way, each in rounds.items()}
    alone = figures["alone"]
    print(f"\n{'scoring':>9} {'CPU ms':>8} {'added':>7} {'p50 ms':>8} {'p99 ms':>8} {'p99 ratio':>9}")
    for way, found in figures.items():
        print(
            f"{way:>9} {found['cpu_ms']:>8.2f} {found['cpu_ms'] - alone['cpu_ms']:>7.2f} {found['p50_ms']:>8.2f} "
            f"{found['p99_ms']:>8.2f} {found['p99_ms'] / alone['p99_ms']:>9.1f}"
        )
    record_property("beside", figures)
    added = {way: found["cpu_ms"] - alone["cpu_ms"] for way, found in figures.items()}
    assert added["process"] <= MAX_CPU_SHARE * added["thread"]
    assert figures["process"]["p99_ms"] <= MAX_P99 * alone["p99_ms"]
