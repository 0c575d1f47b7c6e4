"""A budget that is exhausted in the middle of the work: the next worker makes the remaining calls."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from builders import make_trace
from memory_sink import MemorySink
from ragstone.errors import JudgeError
from ragstone.schema import Captured, Failure, Score
from ragstone.settings import Limits
from ragstone.store import SqliteStore
from ragstone.testing import FakeJudge
from ragstone.worker import ScoringSetup, Worker, read_ledger

METRICS = ("ccrs.qr", "ccrs.id")


def capped(n_calls: int) -> FakeJudge:
    """A judge that no one pays for after so many calls."""
    left = n_calls

    def fail(_: object) -> JudgeError | None:
        nonlocal left
        left -= 1
        return JudgeError("the budget is exhausted", kind="budget") if left < 0 else None

    return FakeJudge(fail=fail)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with ten requests."""
    path = tmp_path / "r.db"
    with SqliteStore.open(path, mode="own") as opened:
        opened.traces.ingest("app", 10, [Captured(trace=make_trace(f"t{i}")) for i in range(10)])
    return path


def work(store: Path, judge: FakeJudge, *, ends_at_cap: bool) -> tuple[Worker, MemorySink]:
    """Let a worker do what there is."""
    sink = MemorySink()
    worker = Worker(
        store, ScoringSetup(METRICS, judge=judge, sinks=[sink], limits=Limits(concurrency=2)), ends_at_cap=ends_at_cap
    )
    asyncio.run(asyncio.wait_for(worker.run(until_idle=True), 60))
    return worker, sink


def test_the_next_worker_goes_on_where_the_money_ended(store):
    """What was paid for is kept and delivered; nothing has failed; as many caps as it takes, it ends."""
    for done in (3, 7):
        worker, sink = work(store, capped(7), ends_at_cap=True)
        ledger = read_ledger(store).total
        assert (True, True) == (worker.budget_exhausted, ledger.balanced)
        assert (0, done, 10 - done) == (ledger.failed, ledger.scored, ledger.pending)
        assert {"score"} == {delivery.outcome.outcome for delivery in sink.deliveries}

    worker, _ = work(store, capped(7), ends_at_cap=True)
    assert (False, 10) == (worker.budget_exhausted, read_ledger(store).total.scored)


def test_requests_that_a_cap_stopped_are_not_given_up(store):
    """They come again and again, each time without a fault of theirs."""
    for _ in range(8):
        work(store, capped(0), ends_at_cap=True)
    with SqliteStore.open(store, mode="read") as opened:
        assert [0] * 10 == [opened.traces.explain(f"t{i}").attempts for i in range(10)]
    work(store, capped(99), ends_at_cap=True)

    assert 10 == read_ledger(store).total.scored


def test_a_worker_that_goes_on_fails_what_is_not_paid_for(store):
    """Beside a live application no one comes later: the rest is told as failed, and counted."""
    worker, sink = work(store, capped(5), ends_at_cap=False)

    assert (True, 0) == (worker.budget_exhausted, read_ledger(store).total.pending)
    kinds = [getattr(d.outcome, "kind", None) for d in sink.deliveries if isinstance(d.outcome, Failure)]
    assert (["budget"] * 15, 5) == (kinds, sum(isinstance(d.outcome, Score) for d in sink.deliveries))
