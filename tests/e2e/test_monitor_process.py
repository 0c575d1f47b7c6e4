"""`Monitor(scoring="process")`: a worker process that starts with the first request and ends with the application."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest

from fake_servers import FakeJudgeServer
from memory_sink import MemorySink
from processes import is_running
from ragstone import Monitor
from ragstone.errors import ConfigurationError
from ragstone.judges import OpenAICompatibleJudge
from ragstone.requests import TraceDraft
from ragstone.store import SqliteStore
from ragstone.worker import read_ledger
from waiting import wait_until

APP = """
import sys, time
from ragstone import Monitor
from ragstone.requests import TraceDraft
monitor = Monitor(judge="lexical", metrics=["ccrs"], store=sys.argv[1], scoring="process")
for i in range(20):
    monitor.record(TraceDraft(query=f"What is {i}?", response=f"{i} is a stone."))
"""


def start(code: str, *arguments: object, **options: object) -> subprocess.Popen[bytes]:
    """Run a program as a shell does."""
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)], **options)  # type: ignore[call-overload]


def worker_pid(store: Path) -> int:
    """The process that owns a store, which is not this one."""
    return int(Path(f"{store}.lock").read_text(encoding="ascii"))


def draft(i: int) -> TraceDraft:
    """A finished request."""
    return TraceDraft(query=f"What is item {i}?", response=f"Item {i} is a stone.")


def check_scored(store: Path, n: int) -> None:
    """Each request has one outcome for each metric."""
    ledger = read_ledger(store).total
    assert (ledger.captured, ledger.scored, ledger.pending, ledger.balanced) == (n, n, 0, True)
    with SqliteStore.open(store, mode="read") as opened:
        assert set(Counter((o.sample_id, o.metric) for o in opened.outcomes.read()).values()) == {1}


def test_a_process_scores_and_ends_with_the_program(tmp_path: Path) -> None:
    """The program itself does not own the store, everything is scored and delivered, and the process ends."""
    store, file = tmp_path / "r.db", tmp_path / "out.jsonl"
    code = APP + "\nassert monitor.drain(90)\nmonitor.close()"
    code = code.replace('scoring="process"', f'scoring="process", sinks=["jsonl:{file}"]')
    program = start(code, store)
    assert program.wait(100) == 0
    check_scored(store, 20)
    assert len(file.read_text(encoding="utf-8").splitlines()) == 100
    pid = worker_pid(store)
    assert pid != program.pid
    wait_until(lambda: not is_running(pid))


def test_drain_waits_for_what_an_idle_process_has_not_seen(tmp_path: Path) -> None:
    """The process says that it is idle, of a time before the request."""
    store = tmp_path / "r.db"
    with (
        FakeJudgeServer(latency_s=0.2) as judge,
        Monitor(judge=judge.url, metrics="ccrs.qr", store=store, scoring="process") as monitor,
    ):
        for n in range(1, 4):
            monitor.record(draft(n))
            assert monitor.drain(90)
            check_scored(store, n)
            time.sleep(2.0)


def test_with_waits_for_the_process(tmp_path: Path) -> None:
    """A script without a guard of `__main__`, read from standard input, ends when its requests are scored."""
    store = tmp_path / "r.db"
    code = APP.replace("monitor = Monitor(", "with Monitor(").replace(
        'scoring="process")', 'scoring="process") as monitor:'
    )
    head, _, loop = code.partition("for i in")
    loop = "    for i in" + loop.replace("\n    ", "\n        ")
    program = subprocess.run([sys.executable, "-", str(store)], input=(head + loop).encode(), timeout=100, check=False)
    assert program.returncode == 0
    check_scored(store, 20)


def test_the_process_ends_if_the_application_is_killed(tmp_path: Path) -> None:
    """After `kill -9` of the application the process hands its work back, also if a forked child still lives."""
    store = tmp_path / "r.db"
    code = (
        APP
        + """
import os
while not monitor._background.worker: time.sleep(0.01)
if os.fork() == 0:
    time.sleep(600)
    os._exit(0)
print("ready", flush=True)
time.sleep(600)
"""
    )
    program = start(code, store, stdout=subprocess.PIPE, start_new_session=True)
    assert program.stdout is not None
    assert program.stdout.readline() == b"ready\n"
    pid = worker_pid(store)
    assert is_running(pid)
    # 19 is the lowest priority there is, and tests may run with it.
    assert os.getpriority(os.PRIO_PROCESS, pid) >= min(19, os.getpriority(os.PRIO_PROCESS, program.pid) + 1)
    program.kill()
    program.wait()
    wait_until(lambda: not is_running(pid))
    os.killpg(program.pid, signal.SIGKILL)
    program.stdout.close()
    with Monitor(judge="lexical", metrics=["ccrs"], store=store) as monitor:
        monitor.start()
        assert monitor.drain(90)
    check_scored(store, 20)


def test_a_killed_process_is_replaced(tmp_path: Path) -> None:
    """After `kill -9` of the process, another one scores, and no outcome is lost or repeated."""
    store = tmp_path / "r.db"
    with Monitor(judge="lexical", metrics=["ccrs"], store=store, scoring="process") as monitor:
        for i in range(20):
            monitor.record(draft(i))
        wait_until(lambda: monitor._background.worker is not None)
        pid = worker_pid(store)
        assert pid != os.getpid()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_running(pid))
        monitor.record(draft(20))
        assert monitor.drain(90)
        assert worker_pid(store) != pid
    check_scored(store, 21)


def test_a_thread_scores_if_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning says so, and nothing else changes."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    with Monitor(judge="lexical", metrics=["ccrs"], store=tmp_path / "r.db", scoring="process") as monitor:
        monitor.record(draft(0))
        assert monitor.drain(90)
    warnings = [r.getMessage() for r in caplog.records if "cannot be started" in r.getMessage()]
    assert len(warnings) == 1
    assert "scores in a thread" in warnings[0]
    check_scored(tmp_path / "r.db", 1)


def test_a_second_application_does_not_start_a_process(tmp_path: Path) -> None:
    """While another process owns the store, no worker is started."""
    store = tmp_path / "r.db"
    with SqliteStore.open(store, mode="own"), Monitor(judge="lexical", store=store, scoring="process") as monitor:
        monitor.record(draft(0))
        wait_until(lambda: monitor._background.state == "not_owner")
        time.sleep(0.1)
        assert monitor._background.candidate is None


def test_objects_that_cannot_be_sent_are_refused(tmp_path: Path) -> None:
    """A judge or a sink with connections is an error that names the alternatives."""
    judge = OpenAICompatibleJudge("http://127.0.0.1:9/v1", model="m")
    with pytest.raises(ConfigurationError, match=r"judge: .* cannot be sent .*judge='http://host:8000/v1'"):
        Monitor(judge=judge, store=tmp_path / "r.db", scoring="process")
    sink = MemorySink()
    sink.unpicklable = lambda: None  # type: ignore[attr-defined]
    with pytest.raises(ConfigurationError, match=r"sinks: .* cannot be sent .*scoring='thread'"):
        Monitor(judge="lexical", store=tmp_path / "r.db", sinks=[sink], scoring="process")
    with pytest.raises(ConfigurationError, match="must be one of 'thread', 'process', 'none', got 'auto'"):
        Monitor(judge="lexical", store=tmp_path / "r.db", scoring="auto")  # type: ignore[arg-type]
