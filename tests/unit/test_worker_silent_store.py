"""A store that does not answer: the loop runs, readiness says so, and a stopped worker ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ragstone.capture import Capture
from ragstone.errors import StoreError
from ragstone.judges.lexical import LexicalJudge
from ragstone.requests import TraceDraft
from ragstone.spool import SpoolWriter
from ragstone.store import SqliteStore
from ragstone.store._leases import Leases
from ragstone.store._outcomes import Outcomes
from ragstone.worker import ScoringSetup, Worker, read_ledger, spool_directory
from ragstone.worker._commit import StoreCalls, StoreSilentError


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what a thread does."""
    while not condition():  # noqa: ASYNC110 - a thread does not set an event of the loop
        await asyncio.sleep(0.01)


def test_a_call_ends_when_it_is_given_up():
    """Its step still runs, later calls fail immediately, and an earlier result is not affected."""
    may_end, ended = threading.Event(), threading.Event()

    async def use() -> None:
        calls = StoreCalls("a test")
        assert 7 == await calls.call(lambda: 7)
        waiting = asyncio.create_task(calls.call(lambda: may_end.wait(60) and ended.set()))
        await until(lambda: calls.waiting_s > 0)
        calls.give_up()
        with pytest.raises(StoreSilentError):
            await waiting
        with pytest.raises(StoreSilentError):
            await calls.call(lambda: 7)
        calls.shutdown()

    asyncio.run(use())
    assert not ended.is_set()
    may_end.set()
    assert ended.wait(60)


def test_a_caller_that_was_canceled_does_not_stop_its_step():
    """What was begun is stored."""
    may_end, done = threading.Event(), []

    async def use() -> None:
        calls = StoreCalls("a test")
        waiting = asyncio.create_task(calls.call(lambda: (may_end.wait(60), done.append(1))))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        may_end.set()
        await calls.call(lambda: None)
        calls.shutdown()

    asyncio.run(use())
    assert [1] == done


@pytest.mark.parametrize(
    ("owner", "method"),
    [
        (SqliteStore, "open"),
        (Leases, "release_all"),
        (Leases, "claim"),
        (Outcomes, "complete_many"),
        (Leases, "release"),
    ],
)
def test_a_stopped_worker_ends_although_the_store_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, owner: type, method: str
):
    """Wherever it waits. The next worker scores what could not be stored."""
    monkeypatch.setattr("ragstone.worker._times.STOP_S", 0.2)
    monkeypatch.setattr("ragstone.worker._times.SILENT_S", 0.0)
    store = tmp_path / "ragstone.db"
    with Capture(lambda: SpoolWriter(spool_directory(store))) as capture:
        capture.record(TraceDraft(query="Why?", response="Because."))
    silent, may_end = threading.Event(), threading.Event()
    real = getattr(owner, method)

    def wait(*arguments: object, **options: object) -> object:
        silent.set()
        assert may_end.wait(60)
        return real(*arguments, **options)

    async def use() -> None:
        async with ScoringSetup("ccrs", judge=LexicalJudge()) as setup:
            worker = Worker(store, setup)
            monkeypatch.setattr(owner, method, wait)
            running = asyncio.create_task(worker.run())
            if method == "release":
                await until(lambda: worker.poll_count >= 2)
                worker.stop()
            await until(silent.is_set)
            since_poll_s = worker.state.since_poll_s
            await asyncio.sleep(0.05)
            # A worker that only waits for the store must not be restarted.
            assert min(worker.state.since_poll_s for _ in range(10)) < since_poll_s + 0.04
            assert any("has not answered for" in error for error in worker.state.store_errors)
            assert not worker.state.is_ready
            assert worker.state.is_alive
            worker.stop()
            started = time.monotonic()
            await running
            assert time.monotonic() - started < 30

    try:
        asyncio.run(use())
    finally:
        may_end.set()
        monkeypatch.undo()
    assert "the store did not answer within" in caplog.text

    async def finish() -> None:
        async with ScoringSetup("ccrs", judge=LexicalJudge()) as setup:
            await Worker(store, setup).run(until_idle=True)

    deadline = time.monotonic() + 60
    while True:
        try:
            asyncio.run(finish())
            break
        except StoreError:
            # The thread of the first worker closes the store when its call ends.
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert 1 == read_ledger(store).total.scored
