"""`kill -9` of the application and of the scorer: what was acknowledged is scored exactly once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest

from command_line import run_in_new_process
from fake_servers import FakeJudgeServer
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft
from ragstone.store import SqliteStore
from ragstone.worker import read_ledger

MANY = int(os.environ.get("RAGSTONE_KILLS", "8"))
kills = pytest.mark.parametrize("kills", [1, pytest.param(MANY, marks=pytest.mark.slow)])
METRICS = ("ccrs.cc", "ccrs.qr", "ccrs.id", "ccrs.ac", "ccrs.ir")

APP = textwrap.dedent("""
    import os, sys
    from ragstone.requests import PassageDraft, RetrievalDraft, TraceDraft
    from ragstone.monitor import Monitor

    store, acknowledged, prefix, limit, durability, scoring = sys.argv[1:7]
    out = os.open(acknowledged, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    monitor = Monitor(judge="lexical", metrics=["ccrs"], store=store, durability=durability, scoring=scoring,
                      sinks=[] if scoring == "none" else ["jsonl:" + store + ".jsonl"], queue_size=100_000)
    for i in range(int(limit)):
        draft = TraceDraft(
            trace_id=f"{prefix}-{i}", query=f"What is item {i}?", response=f"Item {i} is a stone.",
            retrievals=[RetrievalDraft(passages=[PassageDraft(text=f"Item {i} is a stone found at the river. " * 5)])],
            reference=[f"Item {i} is a stone."],
        )
        if monitor.record(draft) and durability == "sync":
            os.write(out, f"{prefix}-{i}\\n".encode())
    if durability == "batched" and monitor.flush(60):
        os.write(out, "".join(f"{prefix}-{i}\\n" for i in range(int(limit))).encode())
    monitor.close()
""")


def start(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    """Run code in a fresh interpreter."""
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)])


def worker(store: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Run `ragstone worker`."""
    command = ["worker", str(store), "--metrics", "ccrs", "--sink", f"jsonl:{store}.jsonl", *arguments]
    return start("import sys; from ragstone.cli import main; main(sys.argv[1:])", *command)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill -9, and collect the body."""
    process.send_signal(signal.SIGKILL)
    process.wait()


def check_books(store: Path, acknowledged: set[str]) -> None:
    """Every acknowledged trace has exactly one outcome per metric, everywhere; and the ledger adds up."""
    ledger = read_ledger(store)
    assert ledger.total.balanced
    assert all(row.balanced for row in ledger.metrics.values())
    assert 0 == ledger.total.pending
    with SqliteStore.open(store, mode="read") as opened:
        outcomes = Counter((o.sample_id, o.metric) for o in opened.outcomes())
        assert [] == opened.recount(correct=False)
    assert acknowledged <= {trace for trace, _ in outcomes}
    captured = {trace for trace, _ in outcomes}
    assert {(t, m): 1 for t in captured for m in METRICS} == dict(outcomes)
    assert len(captured) == ledger.total.captured - ledger.total.dropped
    lines = [json.loads(line) for line in Path(f"{store}.jsonl").read_text(encoding="utf-8").splitlines()]
    assert Counter(o["id"] for o in lines).most_common(1)[0][1] == 1
    assert len(outcomes) == len(lines)


@kills
def test_the_application_is_killed_at_random_moments(tmp_path: Path, kills: int) -> None:
    """Nothing that `record` acknowledged (sync) is lost, whenever the process dies."""
    store, acknowledged = tmp_path / "a.db", tmp_path / "ack.txt"
    acknowledged.touch()
    moments = random.Random(11)
    for round_ in range(kills):
        process = start(APP, store, acknowledged, f"r{round_}", 1_000_000, "sync", "thread")
        before = acknowledged.stat().st_size
        patience = time.monotonic() + 240
        while acknowledged.stat().st_size == before and time.monotonic() < patience:
            time.sleep(0.005)
        time.sleep(moments.uniform(0, 0.4))
        kill(process)
        ledger = read_ledger(store)
        assert ledger.total.balanced

    assert 0 == worker(store, "--judge", "lexical", "--until-idle").wait(timeout=300)

    done = {line for line in acknowledged.read_text().splitlines() if line}
    assert len(done) >= kills
    check_books(store, done)


@kills
def test_the_scorer_is_killed_at_random_moments(tmp_path: Path, kills: int) -> None:
    """A scorer that dies in the middle leaves nothing half done and nothing done twice."""
    store = tmp_path / "s.db"
    monitor = Monitor(judge="lexical", store=store, scoring="none")
    ids = {f"t{i}" for i in range(40 * kills)}
    for trace_id in sorted(ids):
        assert monitor.record(TraceDraft(trace_id=trace_id, query="Which stone?", response="The grey stone."))
    monitor.close()
    assert len(ids) == read_ledger(store).total.pending
    moments = random.Random(12)
    with FakeJudgeServer(latency_s=0.02) as server:
        for _ in range(kills):
            process = worker(store, "--judge", server.url, "--concurrency", "4")
            seen = server.calls
            patience = time.monotonic() + 240
            while server.calls == seen and time.monotonic() < patience:
                time.sleep(0.005)
            time.sleep(moments.uniform(0, 0.4))
            kill(process)
            assert read_ledger(store).total.balanced
        assert 0 == worker(store, "--judge", server.url, "--until-idle").wait(timeout=300)

    check_books(store, ids)


@pytest.mark.parametrize("traces", [50, pytest.param(400, marks=pytest.mark.slow)])
def test_four_processes_and_one_worker(tmp_path: Path, traces: int) -> None:
    """Four applications capture into one store while one worker owns it: none lost, none doubled."""
    store, acknowledged = tmp_path / "m.db", tmp_path / "ack.txt"
    owner = worker(store, "--judge", "lexical")
    apps = [start(APP, store, acknowledged, f"p{i}", traces, "batched", "none") for i in range(4)]
    assert [0] * 4 == [app.wait(timeout=300) for app in apps]
    expected = 4 * traces
    patience = time.monotonic() + 600
    while time.monotonic() < patience:
        ledger = read_ledger(store)
        assert ledger.total.balanced
        if ledger.total.captured == expected and ledger.total.pending == 0:
            break
        time.sleep(0.2)
    owner.send_signal(signal.SIGTERM)
    assert 0 == owner.wait(timeout=240)
    assert 0 == worker(store, "--judge", "lexical", "--until-idle").wait(timeout=300)

    assert expected == read_ledger(store).total.captured
    check_books(store, set(acknowledged.read_text().split()))


def test_a_second_owner_is_refused_by_name(tmp_path: Path) -> None:
    """A worker on a store that another process owns names that process and stops with exit code 3."""
    store = tmp_path / "o.db"
    with SqliteStore.open(store, mode="own"):
        second = run_in_new_process("worker", store, "--judge", "lexical")

    assert 3 == second.returncode
    assert str(os.getpid()) in second.stderr


@pytest.mark.parametrize("durability", ["batched", "sync"])
def test_leaving_the_interpreter_keeps_what_was_recorded(tmp_path: Path, durability: str) -> None:
    """A script that records and simply ends, without close or flush, loses nothing."""
    store = tmp_path / "x.db"
    code = textwrap.dedent("""
        import sys
        from ragstone.requests import TraceDraft
        from ragstone.monitor import Monitor
        monitor = Monitor(judge="lexical", store=sys.argv[1], durability=sys.argv[2])
        for i in range(50):
            monitor.record(TraceDraft(trace_id=str(i), query="q", response="r"))
    """)
    assert 0 == start(code, store, durability).wait(timeout=240)

    total = read_ledger(store).total
    assert (50, 0, True) == (total.captured, total.dropped, total.balanced)
