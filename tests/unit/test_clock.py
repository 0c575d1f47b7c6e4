"""Clocks that are put back or forward."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ragstone._util.clock import SteadyClock, steady_time
from ragstone.reading import BufferedSpan, SpanBuffer

DAY_S = 86_400.0


def test_a_clock_that_is_put_back_does_not_change_the_time():
    """The time continues, follows a clock that is put forward, and does not go back with it."""
    wall, elapsed = [1000.0], [0.0]
    clock = SteadyClock(lambda: wall[0], lambda: elapsed[0])
    assert 1000.0 == clock()

    wall[0] -= 30 * DAY_S
    elapsed[0] += 5
    assert 1005.0 == clock()
    wall[0] = 2000.0
    assert 2000.0 == clock()
    elapsed[0] += 1
    assert 2001.0 == clock()


@given(st.lists(st.tuples(st.floats(-1e7, 1e7), st.floats(0, 1e5)), max_size=30))
def test_the_time_never_goes_back(steps: list[tuple[float, float]]):
    """And it advances at least as much as time has passed."""
    wall, elapsed = [1.8e9], [0.0]
    clock = SteadyClock(lambda: wall[0], lambda: elapsed[0])
    before = clock()
    for jump, passed in steps:
        wall[0] += jump + passed
        elapsed[0] += passed
        now = clock()
        assert now >= before + passed - 1e-3
        assert now >= wall[0] - 1e-3
        before = now


def test_the_clock_of_this_process():
    """It is close to the time of the system."""
    import time

    assert abs(steady_time() - time.time()) < 60


def test_spans_of_the_future_count_as_received_now(tmp_path: Path):
    """After a restart with a clock that was put back, they settle after the usual time."""
    now = [1.8e9]
    path = tmp_path / "spans.db"
    span = BufferedSpan(trace_id="t", span_id="s", is_root=True, body=b"x")
    with SpanBuffer(path, clock=lambda: now[0]) as buffer:
        buffer.add([span])
    now[0] -= 30 * DAY_S
    with SpanBuffer(path, clock=lambda: now[0]) as buffer:
        settled = lambda: list(buffer.traces(untouched_since=now[0] - 300, rooted_since=now[0] - 10))  # noqa: E731
        assert [] == settled()
        now[0] += 9
        assert [] == settled()
        now[0] += 1
        assert ["t"] == [trace.trace_id for trace in settled()]
