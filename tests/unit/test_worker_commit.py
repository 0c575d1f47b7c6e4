"""The committer of a worker: groups without a timer, errors that keep a group, and the end of threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from builders import make_trace
from ragstone.errors import DataError, StoreError
from ragstone.schema import Captured, LedgerRow, Score
from ragstone.store import Completion, PlannedMetric, SqliteStore
from ragstone.worker import StepErrors
from ragstone.worker._commit import Committer

IDS = [f"t{i}" for i in range(40)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """Forty pending traces."""
    with SqliteStore.open(tmp_path / "s.db", mode="own") as opened:
        opened.plan.set([PlannedMetric(name="m", version="1")], [])
        opened.traces.ingest("a", 1, [Captured(trace=make_trace(trace_id=i)) for i in IDS])
        yield opened


def completion(trace_id: str, value: float = 0.5) -> Completion:
    """The only outcome of a trace."""
    score = Score(sample_id=trace_id, metric="m", metric_version="1", value=value, method="exact")
    return Completion(trace_id=trace_id, outcomes=[score])


def watched(store: SqliteStore, before: Callable[[Sequence[Completion]], object]) -> list[list[str]]:
    """Call a function before each group, and remember the groups."""
    groups: list[list[str]] = []
    real = store.outcomes.complete_many

    def complete_many(completions: Sequence[Completion]) -> list[bool | DataError]:
        groups.append([each.trace_id for each in completions])
        before(completions)
        return real(completions)

    store.outcomes.complete_many = complete_many
    return groups


def test_a_group_gathers_while_another_is_stored(store):
    """The first is stored alone and immediately, and all that arrive meanwhile are stored together."""
    entered, may_end = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        entered.set()
        assert may_end.wait(60)

    groups = watched(store, wait)

    async def use() -> list[bool]:
        committer = Committer(StepErrors(), store)
        first = asyncio.create_task(committer.complete(completion("t0")))
        await asyncio.to_thread(entered.wait, 60)
        others = [asyncio.create_task(committer.complete(completion(i))) for i in IDS[1:]]
        await asyncio.sleep(0)
        may_end.set()
        results = await asyncio.gather(first, *others)
        await committer.aclose()
        return results

    assert [True] * 40 == asyncio.run(use())
    assert [["t0"], IDS[1:]] == groups


def test_the_loop_runs_while_the_store_works(store):
    """A store that does not answer does not stop timers."""
    may_end = threading.Event()
    watched(store, lambda _: may_end.wait(60))

    async def use() -> None:
        committer = Committer(StepErrors(), store)
        task = asyncio.create_task(committer.complete(completion("t0")))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not task.done()
        may_end.set()
        assert await task
        await committer.aclose()

    asyncio.run(use())


@pytest.mark.usefixtures("virtual_time")
def test_a_full_disk_keeps_the_group(store):
    """Nothing is lost: all are stored, once, when there is space."""
    failures = iter([StoreError("no space left")] * 3)
    errors = StepErrors()
    said: list[tuple[str, ...]] = []

    def fail(_: object) -> None:
        said.append(errors.current)
        if (error := next(failures, None)) is not None:
            raise error

    groups = watched(store, fail)

    async def use() -> list[bool]:
        committer = Committer(errors, store)
        results = await asyncio.gather(*(committer.complete(completion(i)) for i in IDS))
        await committer.aclose()
        return results

    assert [True] * 40 == asyncio.run(use())
    assert LedgerRow(captured=40, scored=40) == store.ledger().total
    assert [40, 20, 10, 5, 35] == [len(group) for group in groups]
    assert any("cannot store outcomes: StoreError: no space left" in current for now in said for current in now)
    assert not errors


@pytest.mark.usefixtures("virtual_time")
def test_a_completion_that_the_store_rejects_does_not_stop_the_others(store):
    """A failure of one, for whatever reason, stays with it."""

    def fail(completions: Sequence[Completion]) -> None:
        if "t7" in [each.trace_id for each in completions]:
            raise StoreError("this is a bug")

    watched(store, fail)

    async def use() -> None:
        committer = Committer(StepErrors(), store)
        tasks = {i: asyncio.create_task(committer.complete(completion(i))) for i in IDS}
        await asyncio.gather(*(task for i, task in tasks.items() if i != "t7"))
        assert not tasks["t7"].done()
        tasks["t7"].cancel()
        await asyncio.gather(tasks["t7"], return_exceptions=True)
        await committer.aclose()

    asyncio.run(use())
    assert LedgerRow(captured=40, scored=39, pending=1) == store.ledger().total


def test_an_invalid_completion_raises_where_it_was_made(store):
    """The others of its group are stored."""

    async def use() -> list[object]:
        committer = Committer(StepErrors(), store)
        wrong = Completion(trace_id="nobody", outcomes=[])
        results = await asyncio.gather(
            *(committer.complete(each) for each in (completion("t0"), wrong, completion("t1"))), return_exceptions=True
        )
        await committer.aclose()
        return results

    first, error, last = asyncio.run(use())
    assert (True, True) == (first, last)
    assert isinstance(error, DataError)


def test_a_bug_reaches_the_callers(store):
    """An unexpected exception does not leave them waiting."""

    def fail(_: object) -> None:
        raise ZeroDivisionError

    watched(store, fail)

    async def use() -> None:
        committer = Committer(StepErrors(), store)
        with pytest.raises(ZeroDivisionError):
            await committer.complete(completion("t0"))
        await committer.aclose()

    asyncio.run(use())


def test_closing_stores_what_waits(store):
    """Also for callers that were canceled: their outcomes are paid for."""

    async def use() -> None:
        committer = Committer(StepErrors(), store)
        tasks = [asyncio.create_task(committer.complete(completion(i))) for i in IDS]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await committer.aclose()

    asyncio.run(use())
    assert LedgerRow(captured=40, scored=40) == store.ledger().total


def test_closing_does_not_wait_for_a_store_that_fails(store):
    """The traces stay pending, and the next worker scores them again."""

    def fail(_: object) -> None:
        raise StoreError("gone")

    watched(store, fail)

    async def use() -> None:
        committer = Committer(StepErrors(), store)
        task = asyncio.create_task(committer.complete(completion("t0")))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait_for(committer.aclose(), 30)

    asyncio.run(use())
    assert 40 == store.ledger().total.pending


def test_where_threads_cannot_start_calls_run_directly(store, monkeypatch):
    """As at the end of the interpreter."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    here = threading.get_ident()
    where: list[int] = []
    watched(store, lambda _: where.append(threading.get_ident()))

    async def use() -> None:
        committer = Committer(StepErrors(), store)
        assert await committer.complete(completion("t0"))
        await committer.aclose()

    asyncio.run(use())
    assert [here] == where


def test_the_thread_ends_with_the_worker(store):
    """Workers that are restarted do not leave threads."""

    async def use() -> None:
        committer = Committer(StepErrors(), store)
        await committer.complete(completion("t0"))
        await committer.aclose()

    asyncio.run(use())
    for thread in threading.enumerate():
        if thread.name == "ragstone-store":
            thread.join(30)
            assert not thread.is_alive()
