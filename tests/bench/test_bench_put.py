"""What one `record` costs the thread of the user, against calling a function that does nothing."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import pytest

from ragstone.capture import Capture
from ragstone.requests import PassageDraft, RetrievalDraft, TraceDraft
from ragstone.spool import SpoolReader, SpoolWriter

pytestmark = pytest.mark.bench

ROUNDS, PER_ROUND = 40, 250
BUDGET_P99_US = 50.0

PASSAGES = [PassageDraft(text="A passage of some length. " * 20, score=0.5, metadata={"source": "x"}) for _ in range(5)]


def draft() -> TraceDraft:
    """A request as an integration hands it over."""
    return TraceDraft(
        query="Why?", response="Because. " * 50, retrievals=[RetrievalDraft(query="why", passages=PASSAGES)]
    )


def nothing(_: TraceDraft) -> bool:
    """What an empty call costs."""
    return True


def measure(call: Callable[[TraceDraft], bool], drafts: list[TraceDraft], pause_s: float) -> list[float]:
    """Microseconds of each call."""
    took = []
    for one in drafts:
        start = time.perf_counter_ns()
        call(one)
        took.append((time.perf_counter_ns() - start) / 1_000)
        if pause_s:
            time.sleep(pause_s)
    return took


@pytest.mark.parametrize("pause_s", [0.0, 0.001], ids=["without a pause", "one request a millisecond"])
def test_put_stays_within_its_budget(tmp_path, pause_s):
    """50 µs at the 99th percentile, with a real spool written and synced behind it."""
    empty: list[float] = []
    put: list[float] = []
    with Capture(partial(SpoolWriter, tmp_path), queue_size=ROUNDS * PER_ROUND) as capture:
        for _ in range(ROUNDS):
            drafts = [draft() for _ in range(PER_ROUND)]
            # Interleaved, so that what else this machine does falls on both.
            empty += measure(nothing, drafts, 0.0)
            put += measure(capture.record, drafts, pause_s)
        assert capture.flush(60)
        assert {} == capture.counters.dropped
    assert len(put) == sum(
        len(SpoolReader(tmp_path).read(segment.name, max_entries=10**6).entries)
        for segment in SpoolReader(tmp_path).segments()
    )

    def percentile(values: list[float], percent: int) -> float:
        return statistics.quantiles(values, n=100)[percent - 1]

    print()
    for percent in (50, 99):
        ours, base = percentile(put, percent), percentile(empty, percent)
        print(f"record() p{percent}: {ours:.2f} µs = {ours / base:.1f} x an empty call ({base:.2f} µs)")
    print(f"longest: {max(put):.0f} µs, of an empty call: {max(empty):.0f} µs")
    assert percentile(put, 99) < BUDGET_P99_US
