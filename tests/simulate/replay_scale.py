"""Replays synthetic traces, and prints how time, memory and the store grow with them.

    python tests/simulate/replay_scale.py 1000000 /tmp/folder

Rates are traces per second of CPU time, so other programs on the machine disturb them less.
"""

from __future__ import annotations

import asyncio
import json
import re
import resource
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ragstone.replay import ReplayTraceSource, areplay_traces
from ragstone.worker import Worker

METRIC = "ccrs.qr"


def write(path: Path, n: int) -> None:
    """Write rows of about 900 bytes, with two passages."""
    with path.open("w", encoding="utf-8") as file:
        for i in range(n):
            passages = [
                f"Station {i} of line {j} lies {i * 7 % 97} km from the center, and trains leave every {j + 4} minutes. "
                * 3
                for j in range(2)
            ]
            row = {"id": f"trace-{i}", "query": f"How far is station {i} from the center?", "contexts": passages,
                   "response": f"Station {i} is {i * 7 % 97} km from the center."}  # fmt: skip
            file.write(json.dumps(row) + "\n")


def fixed_work() -> float:
    """Return the CPU seconds of work that is always the same, which tells how fast the machine is at the moment."""
    text = "Trains leave every four minutes, and station 7 lies 12 km from the center. " * 20
    before = time.thread_time()
    for _ in range(2_500):
        row = json.loads(json.dumps({"id": "x", "contexts": [text] * 3}))
        zlib.compress(json.dumps(row).encode(), 1)
        Counter(re.findall(r"\w+", row["contexts"][0]))
    return time.thread_time() - before


def measure() -> tuple[float, float, float]:
    """Return the CPU seconds of this process, its peak memory in MiB, and the time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024
    return used.ru_utime + used.ru_stime, peak, time.perf_counter()


def replay(rows: Path, store: Path, marks: Sequence[int]) -> dict[int, tuple[float, float, float]]:
    """Replay a file, and measure when so many traces are scored."""
    measured: dict[int, tuple[float, float, float]] = {}
    n_scored = 0
    work_s, first_s = 0.0, 0.0

    def add(n: int) -> None:
        nonlocal work_s, first_s
        cpu, peak, wall = measure()
        measured[n] = (cpu - work_s, peak, wall)
        taken = fixed_work()
        work_s += taken
        first_s = first_s or taken
        if n:
            before = max(place for place in measured if place < n)
            rate = (n - before) / (measured[n][0] - measured[before][0])
            print(
                f"{n:>12,} {rate:>36,.0f} {taken / first_s:>11.2f} {peak:>9.0f} {wall - measured[0][2]:>8.0f}",
                flush=True,
            )

    def count(_trace: object, _outcomes: object, is_last: bool) -> None:
        nonlocal n_scored
        n_scored += is_last
        if is_last and n_scored in marks:
            add(n_scored)

    def watch(_source: ReplayTraceSource, worker: Worker) -> None:
        add(0)
        worker.on_outcomes = count

    asyncio.run(areplay_traces([str(rows)], METRIC, store=store, judge="lexical", started=watch))
    return measured


def main(n: int, folder: Path) -> None:
    """Run everything, and print a table."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, store = folder / "rows.jsonl", folder / "replay.db"
    write(rows, n)
    marks = sorted({10**k for k in range(3, 10) if 10**k <= n} | {n // 10 * k for k in range(1, 11)})
    print(f"{n:,} traces, {rows.stat().st_size / n:.0f} bytes each, metric {METRIC}, lexical judge")
    print(
        f"{'traces':>12} {'traces/s of CPU since the last line':>36} {'fixed work':>11} {'peak MiB':>9} {'wall s':>8}",
        flush=True,
    )
    measured = replay(rows, store, marks)
    print(
        f"all: {n / (measured[n][0] - measured[0][0]):,.0f} traces/s of CPU; store {store.stat().st_size / n:.0f} bytes a trace"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", "from ragstone.cli import main; main()", "status", str(store)],
        check=True,
        capture_output=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"`ragstone status`: {time.perf_counter() - started:.2f} s, {cpu:.2f} s of CPU")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
