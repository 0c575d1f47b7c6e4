"""What capture costs with everything behind it: the request's own thread, and the whole process with its writer."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest

from ragstone.monitor import Monitor
from ragstone.requests import PassageDraft, RetrievalDraft, TraceDraft

ROUNDS = 15
REQUESTS = 200
WORK_S = 0.001
"""CPU a request spends on itself: a fast one."""

pytestmark = pytest.mark.bench


def request(record: Callable[[TraceDraft], object]) -> None:
    """A request that computes for a millisecond and hands over a record of 4 KB, as an integration does."""
    end = time.thread_time() + WORK_S
    while time.thread_time() < end:
        pass
    passages = [PassageDraft(text="word " * 200, id=str(i), score=0.5) for i in range(4)]
    record(TraceDraft(query="question?", response="answer", retrievals=[RetrievalDraft(query="q", passages=passages)]))


def measure(record: Callable[[TraceDraft], object], settle: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds of the requests' thread, and of the whole process until everything is on the disk."""
    thread, process = time.thread_time(), time.process_time()
    for _ in range(REQUESTS):
        request(record)
    thread = time.thread_time() - thread
    settle()
    return thread, time.process_time() - process


def test_capture_to_disk(tmp_path):
    """The writer's work stays off the request's thread; the numbers are printed, the thread's ratio is gated."""
    with Monitor(judge="lexical", store=tmp_path / "b.db", scoring="none") as monitor:
        variants = {
            "no capture": (lambda _: None, lambda: None),
            "again": (lambda _: None, lambda: None),
            "ragstone": (monitor.record, lambda: monitor.flush(30)),
        }
        rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
        names = list(variants)
        for i in range(ROUNDS):
            for name in names[i % 3 :] + names[: i % 3]:
                rounds[name].append(measure(*variants[name]))
        assert {} == dict(monitor.counters.dropped)

    def ratio(name: str, which: int) -> float:
        pairs = zip(rounds[name], rounds["no capture"], strict=True)
        return statistics.median(ours[which] / theirs[which] for ours, theirs in pairs)

    print()
    for name, values in rounds.items():
        thread_us, process_us = (statistics.median(v[k] for v in values) / REQUESTS * 1e6 for k in (0, 1))
        print(
            f"  {name:<10} request thread {thread_us:6.0f} us x{ratio(name, 0):.2f}   "
            f"process {process_us:6.0f} us x{ratio(name, 1):.2f}"
        )
    assert ratio("ragstone", 0) <= 1.1
