"""A worker whose judge fails systematically keeps its traces pending."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from builders import make_trace
from ragstone.errors import JudgeRejectedError
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft
from ragstone.schema import Captured, Failure
from ragstone.settings import Limits
from ragstone.store import SqliteStore
from ragstone.testing import FakeJudge
from ragstone.worker import ScoringSetup, Worker, read_ledger
from ragstone.worker._hold import FailureHold

pytestmark = pytest.mark.usefixtures("virtual_time")


def store_of(path: Path, n: int) -> Path:
    """A store with `n` requests."""
    with SqliteStore.open(path, mode="own") as opened:
        opened.traces.ingest("app", n, [Captured(trace=make_trace(f"t{i}")) for i in range(n)])
    return path


class Key:
    """A judge that rejects all calls until its key is valid."""

    def __init__(self, *, is_valid_after: float = float("inf")) -> None:
        self.n_calls = 0
        self.is_valid_after = is_valid_after
        self.judge = FakeJudge(fail=self._fail)

    def _fail(self, _: object) -> Exception | None:
        self.n_calls += 1
        if self.n_calls > self.is_valid_after:
            return None
        return JudgeRejectedError("HTTP 401: wrong key")


def make_worker(store: Path, judge: FakeJudge, *, concurrency: int = 4, **options: object) -> Worker:
    """A worker with two judged metrics."""
    setup = ScoringSetup(("ccrs.qr", "ccrs.id"), judge=judge, limits=Limits(concurrency=concurrency))
    return Worker(store, setup, **options)


@pytest.mark.parametrize("concurrency", [1, 4, 64])
def test_a_run_stops_with_the_cause_and_fails_nothing(tmp_path, concurrency):
    """The next run, with a valid key, scores everything."""
    store, key = store_of(tmp_path / "r.db", 40), Key()
    worker = make_worker(store, key.judge, concurrency=concurrency)
    asyncio.run(worker.run(until_idle=True))
    assert "fails systematically" in worker.stopped_early
    assert "HTTP 401: wrong key" in worker.stopped_early
    assert (0, 40) == (read_ledger(store).total.failed, read_ledger(store).total.pending)
    assert 20 <= key.n_calls <= 20 + 2 * 2 * concurrency

    worker = make_worker(store, FakeJudge())
    asyncio.run(worker.run(until_idle=True))
    assert (None, 40) == (worker.stopped_early, read_ledger(store).total.scored)


def test_a_pause_and_a_cancellation_at_once_end_all_traces():
    """A trace that is canceled in the turn of the loop in which the pause begins does not wait for its turn to try."""
    about = {"metric": "m", "metric_version": "1", "judge": "j", "judge_hash": "h"}

    async def run() -> int:
        blocked = asyncio.Event()
        hold = FailureHold(role="the judge", on_pause=lambda _: blocked.set())

        async def attempt(number: int) -> list[Failure]:
            await asyncio.sleep(0.001 * number)
            return [Failure(sample_id=f"s{number}", kind="truncated", reason="cut", **about)]

        tasks = [
            asyncio.create_task(hold.score(partial(attempt, number), extend_lease=lambda: None)) for number in range(24)
        ]
        await blocked.wait()
        for task in tasks:
            task.cancel()
        _, pending = await asyncio.wait(tasks, timeout=5)
        return len(pending)

    assert 0 == asyncio.run(run())


def test_a_running_worker_pauses_and_resumes(tmp_path):
    """It tries from time to time. After the first score it scores all, also the traces that had failed before."""
    store, key = store_of(tmp_path / "r.db", 40), Key(is_valid_after=44)
    worker = make_worker(store, key.judge)
    n_stored = 0

    def stop_at_the_end(_trace: object, _outcomes: object, is_last: bool) -> None:
        nonlocal n_stored
        n_stored += is_last
        if n_stored == 40:
            worker.stop()

    worker.on_outcomes = stop_at_the_end
    asyncio.run(worker.run())
    ledger = read_ledger(store).total
    assert (40, 0, 0) == (ledger.scored, ledger.failed, ledger.pending)
    assert key.n_calls < 44 + 80 + 20


def test_few_failures_are_final(tmp_path):
    """Three traces cannot show that a judge fails systematically, and a run must end."""
    store = store_of(tmp_path / "r.db", 3)
    worker = make_worker(store, Key().judge)
    asyncio.run(worker.run(until_idle=True))
    assert (None, 3) == (worker.stopped_early, read_ledger(store).total.failed)


def test_failures_are_final_while_a_monitor_is_drained(tmp_path):
    """The caller waits for these requests, so the worker does not wait for others. Later failures are held back again."""
    monitor = Monitor(metrics="ccrs.qr", judge=Key().judge, store=tmp_path / "r.db")
    for n in range(2):
        monitor.record(TraceDraft(trace_id=f"t{n}", query="q", response="r"))
        assert monitor.drain(30)
        assert n + 1 == monitor.ledger().total.failed
    monitor.record(TraceDraft(trace_id="t2", query="q", response="r"))
    monitor.close()
    assert (2, 1) == (read_ledger(tmp_path / "r.db").total.failed, read_ledger(tmp_path / "r.db").total.pending)


def test_failures_of_a_judge_with_scores_are_final(tmp_path):
    """Some traces are rejected by a judge that works (for example because they are too long)."""
    store = store_of(tmp_path / "r.db", 40)
    judge = FakeJudge(
        fail=lambda prompt: JudgeRejectedError("too long") if prompt.construct == "information_density" else None
    )
    worker = make_worker(store, judge)
    asyncio.run(worker.run(until_idle=True))
    metrics = read_ledger(store).metrics
    assert (None, 40, 40) == (worker.stopped_early, metrics["ccrs.qr"].scored, metrics["ccrs.id"].failed)


def test_without_stop_early_all_failures_are_final(tmp_path):
    """Each trace is tried once."""
    store, key = store_of(tmp_path / "r.db", 40), Key()
    worker = make_worker(store, key.judge, stop_early=False)
    asyncio.run(worker.run(until_idle=True))
    assert (None, 40, 80) == (worker.stopped_early, read_ledger(store).total.failed, key.n_calls)
