"""`kill -9` of the application and of the scorer: what was acknowledged is scored exactly once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from command_line import run_in_new_process
from kills import MANY_KILLS, Deployment, check_books, kill_and_check, runs
from ragstone.store import SqliteStore
from ragstone.worker import read_ledger

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
    command = [
        "worker",
        str(store),
        "--judge",
        "lexical",
        "--metrics",
        "ccrs",
        "--sink",
        f"jsonl:{store}.jsonl",
        *arguments,
    ]
    return start("import sys; from ragstone.cli import main; main(sys.argv[1:])", *command)


COMBINATIONS = {
    # How requests are scored, victims, and the number of kills of the short run.
    "thread": ({"scoring": "thread"}, ("application",), 1),
    "process": ({"scoring": "process"}, ("child", "owner and child", "application"), 3),
    "worker": ({}, ("application and owner", "owner", "application"), 1),
    "processes": ({"processes": 2}, ("child", "owner and child", "application and owner", "owner", "application"), 3),
}


@pytest.mark.parametrize(("name", "n_kills"), runs({name: quick for name, (*_, quick) in COMBINATIONS.items()}))
@pytest.mark.timeout(300 + 60 * MANY_KILLS)
def test_books_after_kills(tmp_path: Path, name: str, n_kills: int) -> None:
    """What `record` acknowledged (sync) is scored exactly once, whatever dies at which moment, and each sink has it once."""
    options, victims, _ = COMBINATIONS[name]
    kill_and_check(Deployment(str(tmp_path / "s.db"), tmp_path, **options), victims, n_kills)


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
    check_books(str(store), set(acknowledged.read_text().split()), METRICS, [Path(f"{store}.jsonl")])


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
