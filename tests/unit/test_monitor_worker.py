"""The worker's beginning and end."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from builders import make_trace
from ragstone.errors import StoreError
from ragstone.monitor import Monitor
from ragstone.schema import Captured
from ragstone.settings import Limits
from ragstone.sinks.jsonl import JsonlSink
from ragstone.spool import SpoolWriter
from ragstone.store import SqliteStore
from ragstone.testing import FakeJudge
from ragstone.worker import ScoringSetup, Worker, spool_directory
from ragstone.worker._commit import Committer


class SilentJudge(FakeJudge):
    """A judge whose endpoint takes the connection and never says who it is."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.left = threading.Event()

    async def prepare(self) -> None:
        self.asked.set()
        try:
            await asyncio.sleep(3600)
        finally:
            self.left.set()


def test_a_worker_stops_while_the_judge_does_not_say_who_it_is(tmp_path: Path) -> None:
    """Ctrl-C and SIGTERM come to `stop`: they must not wait for an endpoint that hangs."""
    judge = SilentJudge()
    worker = Worker(tmp_path / "r.db", ScoringSetup("ccrs.qr", judge=judge))

    async def main() -> None:
        running = asyncio.create_task(worker.run())
        await asyncio.to_thread(judge.asked.wait, 30)
        worker.stop()
        await asyncio.wait_for(running, 100)

    asyncio.run(main())
    assert judge.left.is_set()


def test_a_monitor_closes_while_the_judge_does_not_say_who_it_is(tmp_path: Path) -> None:
    """An application's exit does not wait out its deadline for a judge that hangs."""
    judge = SilentJudge()
    monitor = Monitor(judge=judge, metrics="ccrs.qr", store=tmp_path / "r.db")
    monitor.start()
    assert judge.asked.wait(100)
    monitor.close(timeout_s=30)
    assert judge.left.is_set()


def test_until_idle_does_not_call_it_done_what_could_not_be_read(tmp_path: Path) -> None:
    """A segment of a newer Ragstone stays in the spool, so a batch job must not end in success."""
    spool = spool_directory(tmp_path / "r.db")
    writer = SpoolWriter(spool)
    writer.append([b"{}"])
    writer.close()
    (segment,) = spool.glob("*.seg")
    segment.write_bytes(segment.read_bytes().replace(b'"format": 1', b'"format": 999'))
    worker = Worker(tmp_path / "r.db", ScoringSetup("ccrs.qr", judge=FakeJudge()))

    with pytest.raises(StoreError, match="format version 999"):
        asyncio.run(asyncio.wait_for(worker.run(until_idle=True), 30))


def test_until_idle_delivers_what_was_stored_during_the_last_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outcomes and deliveries that end while a turn runs are seen by the next turn, before the worker ends."""
    path, lines = tmp_path / "s.db", tmp_path / "scores.jsonl"
    with SqliteStore.open(path, mode="own") as store:
        store.traces.ingest("a", 1, [Captured(trace=make_trace(trace_id=f"t{n}")) for n in range(5)])
    call = Committer.call

    async def call_slowly(self: Committer, step: Any) -> Any:
        result = await call(self, step)
        if getattr(getattr(step, "func", None), "__name__", "") == "_turn":
            await asyncio.sleep(0.2)  # what was in work ends meanwhile
        return result

    monkeypatch.setattr(Committer, "call", call_slowly)
    setup = ScoringSetup(["ccrs.ac"], judge="lexical", sinks=[JsonlSink(lines)], limits=Limits(concurrency=2))
    asyncio.run(Worker(path, setup).run(until_idle=True))

    assert 5 == len(lines.read_text().splitlines())
