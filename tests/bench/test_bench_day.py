"""A day at 1,000 requests a second, sampled at 10 %: what each part can take, and a simulated day that shows which one is full first.

Processor time and bytes of each part are measured, with requests that are kept and with requests that are not. The day has the
usual shape, with twice the mean at its peak, and is played minute by minute with these numbers: a part that gets more than it
can do in a minute keeps the rest for later.
"""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from ragstone import Monitor
from ragstone.store import SqliteStore
from ragstone.worker import ScorerSpec, Worker

pytestmark = pytest.mark.bench

RATE, SAMPLED, PEAK = 1_000.0, 0.1, 2.0
METRICS, N_CALLS = "ccrs", 5
JUDGE_CALLS_S = 300.0
"""Calls that a judge of one GPU answers in a second."""
PASSAGES = [f"Stone {i} was found at the river, near the old mill. " * 16 for i in range(5)]
JUDGE = Path(__file__).parents[1] / "peers" / "judge.py"


class Cost(NamedTuple):
    """What one request costs."""

    application_s: float
    worker_s: float
    store_bytes: float


class Part(NamedTuple):
    """A part of the system, and how many captured requests a second it can take, on one core if it is a process."""

    name: str
    limit: float


@contextmanager
def judge() -> Iterator[str]:
    """A judge that answers after 20 ms."""
    with subprocess.Popen(
        [sys.executable, str(JUDGE), "0.02"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{server.stdout.readline().split()[-1].decode()}/v1"
        server.terminate()


def measure(path: Path, n: int, *, rate: float, url: str) -> Cost:
    """Capture and score `n` requests that are all kept, or none of them."""
    cpu = time.process_time()
    with Monitor(store=path, sample_rate=rate, scoring="none") as monitor:
        for i in range(n):
            with monitor.request(f"Where was stone {i} found?", session_id=f"s{i // 3}") as request:
                request.found(PASSAGES, name="kb")
                request.answer(f"Stone {i} was found at the river. " * 4)
            if i % 500 == 499:
                monitor.flush()  # faster than any application, the loop would fill the queue
    application = time.process_time() - cpu
    setup = ScorerSpec(
        METRICS, judge={"url": url, "model": "m", "max_concurrent_requests": 64}, concurrency=32, deadline_s=600
    )

    async def score() -> None:
        async with setup.open() as scoring:
            await Worker(path, scoring).run(until_idle=True)

    cpu = time.process_time()
    asyncio.run(score())
    worker = time.process_time() - cpu
    with SqliteStore.open(path, mode="read") as store:
        total = store.ledger().total
    assert (n, 0) == (total.scored if rate else total.sampled_out, total.dropped)
    return Cost(application / n, worker / n, path.stat().st_size / n)


def load(minute: int) -> float:
    """Requests a second: the mean over the day is `RATE`, the peak is `PEAK` times as high, and the night is quiet."""
    return RATE * (1 + (PEAK - 1) * math.sin(2 * math.pi * minute / 1440))


def play(limit: float) -> tuple[float, float]:
    """Play three days, and return the longest delay of the last one in hours, and the share of it in which the part is busy."""
    waiting, longest, busy = 0.0, 0.0, 0.0
    for minute in range(3 * 1440):
        can, waiting = limit * 60, waiting + load(minute) * 60
        done = min(can, waiting)
        waiting -= done
        if minute >= 2 * 1440:
            busy += done / can / 1440
            longest = max(longest, waiting / limit / 3600)
    return longest, busy


def test_a_day_at_a_thousand_requests_a_second(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Each part's limit in captured requests a second, its delay on the simulated day, and the size of the store."""
    with judge() as url:
        measure(tmp_path / "warm.db", 100, rate=1.0, url=url)
        # The start of a worker is in both, and negligible.
        out = measure(tmp_path / "out.db", 40_000, rate=0.0, url=url)
        kept = measure(tmp_path / "kept.db", 2_000, rate=1.0, url=url)

    def mixed(of_out: float, of_kept: float) -> float:
        return (1 - SAMPLED) * of_out + SAMPLED * of_kept

    parts = [
        Part("judge, one GPU", JUDGE_CALLS_S / (SAMPLED * N_CALLS)),
        Part("worker, one process", 1 / mixed(out.worker_s, kept.worker_s)),
        Part("application, capture only", 1 / mixed(out.application_s, kept.application_s)),
    ]
    print(f"\na request: {out} not kept, {kept} kept")
    for part in parts:
        delay_h, busy = play(part.limit)
        record_property(part.name, {"limit": part.limit, "delay_h": delay_h, "busy": busy})
        late = f"{delay_h:.1f} h late at most" if part.limit > RATE else "never catches up"
        print(f"{part.name:28} {part.limit:8,.0f} requests a second, busy {busy:4.0%} of the day, {late}")
    for sampled in (0.05, 0.03):
        delay_h, busy = play(JUDGE_CALLS_S / (sampled * N_CALLS))
        print(f"judge, with {sampled:.0%} sampled: busy {busy:.0%} of the day, {delay_h:.1f} h late at most")
    gb = [86_400 * RATE * share * cost.store_bytes / 1e9 for share, cost in ((1 - SAMPLED, out), (SAMPLED, kept))]
    record_property("store", {"ids_gb": gb[0], "kept_gb_a_day": gb[1]})
    print(
        f"store: {gb[0]:.1f} GB of ids of requests that were not kept, and {gb[1]:.1f} GB for each day of what was kept"
    )
    assert min(parts, key=lambda part: part.limit).name == "judge, one GPU"
