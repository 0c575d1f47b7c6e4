"""Workers, single backends and the whole of PostgreSQL are killed at random moments: the books, outcomes and sinks agree.

`RAGSTONE_KILLS=100` sets the number of kills.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import psycopg
import pytest

from command_line import run_in_new_process
from fake_servers import FakeJudgeServer
from ragstone.errors import StoreError
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft
from ragstone.store import open_store

pytestmark = [pytest.mark.servers, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("RAGSTONE_KILLS", "4"))
PER_KILL = 25
DEADLINE_S = 300
VICTIMS = ("worker", "backend", "server")


def start_worker(database: str, judge: str, sinks: list[str]) -> subprocess.Popen[bytes]:
    """`ragstone worker` in a process of its own."""
    code = "import sys; from ragstone.cli import main; main(sys.argv[1:])"
    command = ["worker", database, "--judge", judge, "--metrics", "ccrs.qr,ccrs.ac", "--concurrency", "4"]
    for sink in sinks:
        command += ["--sink", sink]
    return subprocess.Popen([sys.executable, "-c", code, *command], stderr=subprocess.DEVNULL)


def ask(database: str, statement: str) -> list[tuple]:
    """Ask the database itself. Nothing while it is away."""
    try:
        with psycopg.connect(database, autocommit=True, connect_timeout=5) as db:
            return db.execute(statement).fetchall()
    except psycopg.Error:
        return []


def kill_backend(database: str, moments: random.Random) -> None:
    """Kill -9 the server's process of one worker. The server then ends all others and recovers."""
    pids = [pid for (pid,) in ask(database, "SELECT pid FROM pg_stat_activity WHERE application_name = 'ragstone'")]
    if pids:
        os.kill(moments.choice(pids), signal.SIGKILL)


def eventually(condition) -> None:
    """Wait for a condition, within reason."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.1)


def test_the_books_agree_after_kills(postgres, database, tmp_path, monkeypatch):
    """Each request has one outcome for each metric, each sink has each outcome, and counters equal a recount."""
    monkeypatch.setenv("RAGSTONE_SPOOL", str(tmp_path / "spool"))
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    sinks = [f"jsonl:{file}" for file in files]
    ids = {f"t{i}" for i in range(KILLS * PER_KILL)}
    with Monitor(store=database, scoring="none", judge="lexical") as monitor:
        for trace_id in sorted(ids):
            assert monitor.record(TraceDraft(trace_id=trace_id, query="Which stone?", response="The grey stone."))
        assert monitor.flush(60)
    moments = random.Random(17)
    killed = Counter[str]()

    def finished() -> bool:
        try:
            with open_store(database, mode="read") as store:
                ledger = store.ledger()
        except StoreError:
            return False
        waits = ledger.total.pending or any(counts.pending for counts in ledger.outbox.values())
        return ledger.total.captured == len(ids) and not waits

    with FakeJudgeServer(latency_s=0.02) as server:
        workers = [start_worker(database, server.url, sinks) for _ in range(2)]

        def supervise() -> None:
            """Start a worker again that found no database when it started, as a supervisor does."""
            for place, each in enumerate(workers):
                if each.poll() is not None:
                    workers[place] = start_worker(database, server.url, sinks)

        try:
            for place in range(KILLS):
                calls = server.calls
                eventually(lambda calls=calls: supervise() or server.calls > calls or finished())
                time.sleep(moments.uniform(0, 0.5))
                victim = VICTIMS[place % len(VICTIMS)]
                killed[victim] += 1
                if victim == "worker":
                    dead = workers.pop(moments.randrange(2))
                    dead.kill()
                    dead.wait()
                    workers.append(start_worker(database, server.url, sinks))
                elif victim == "backend":
                    kill_backend(database, moments)
                else:
                    postgres.kill()
                    postgres.start_again()
            eventually(lambda: supervise() or finished())
        finally:
            for each in workers:
                each.terminate()
            for each in workers:
                each.wait()

    with open_store(database, mode="own") as store:
        ledger = store.ledger()
        assert [] == store.recount(correct=False)
        outcomes = Counter((outcome.sample_id, outcome.metric) for outcome in store.outcomes())
        stored = {outcome.id for outcome in store.outcomes()}
    assert (len(ids), True) == (ledger.total.captured, ledger.total.balanced)
    assert all(row.balanced and row.pending == 0 for row in ledger.metrics.values())
    assert {(trace_id, metric): 1 for trace_id in ids for metric in ledger.metrics} == dict(outcomes)
    for file, sink in zip(files, ledger.outbox, strict=True):
        lines = Counter(json.loads(line)["id"] for line in file.read_text(encoding="utf-8").splitlines())
        assert stored == set(lines)
        assert len(stored) == ledger.outbox[sink].sent
        assert 1 == max(lines.values())
    done = run_in_new_process("store", "recount", database, "--dry-run", "--json")
    assert 0 == done.returncode, done.stderr
    assert [] == json.loads(done.stdout)["differences"]
    print(f"killed: {dict(killed)}; {len(outcomes)} outcomes")
