"""The end of a process: what was in flight is recorded before what it is recorded in closes, whoever came first."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import weakref

import pytest

from ragstone._util.exit import run_exit_hooks
from ragstone.capture import register_exit_hook
from ragstone.spool import SpoolReader
from ragstone.worker import read_ledger

BEGIN = """
import functools, multiprocessing
from ragstone import Monitor
from ragstone.capture import Capture, register_exit_hook
from ragstone.requests import TraceDraft
from ragstone.spool import SpoolWriter

class Handler:
    def __init__(self, recorder, *open):
        self.recorder, self.open = recorder, list(open)
        register_exit_hook(self.leave)

    def leave(self):
        while self.open:
            assert self.recorder.record(TraceDraft(query=self.open.pop(), status="abandoned"))

def monitor():
    return Monitor(metrics=["bleu"], store="r.db", scoring="none")
"""

PROCESSES = {
    "before any record": "recorder = monitor(); handler = Handler(recorder, 'open')",
    "handler first": """
recorder = monitor()
handler = Handler(recorder, 'open')
recorder.record(TraceDraft(query='done'))
""",
    "handler last": """
recorder = monitor()
recorder.record(TraceDraft(query='done'))
handler = Handler(recorder, 'open')
""",
    "two monitors": """
recorder, other = monitor(), Monitor(metrics=["bleu"], store="r.db", scoring="none")
handlers = Handler(recorder, 'open'), Handler(other, 'too')
other.record(TraceDraft(query='done'))
recorder.record(TraceDraft(query='done'))
""",
    "without a monitor": """
recorder = Capture(functools.partial(SpoolWriter, 'r.db.spool'))
handler = Handler(recorder, 'open')
recorder.record(TraceDraft(query='done'))
""",
    "in a child of multiprocessing": """
def child():
    recorder.record(TraceDraft(query='done'))
    handler.open.append('open')

recorder = monitor()
handler = Handler(recorder)
process = multiprocessing.get_context('fork').Process(target=child)
process.start()
process.join()
""",
}


@pytest.mark.parametrize("process", PROCESSES)
def test_open_requests_are_recorded_at_exit(tmp_path, process):
    """Whatever was made, used or registered first, the open requests are in the spool, and nothing is printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BEGIN + PROCESSES[process])],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    reader = SpoolReader(tmp_path / "r.db.spool")
    entries = [entry for segment in reader.segments() for entry in reader.read(segment.name).entries]
    traces = sorted((entry.trace.query, entry.trace.status) for entry in entries if entry.entry == "captured")
    expected = {"open": "abandoned", "too": "abandoned", "done": "ok"}
    assert {"open"} <= {query for query, _ in traces}
    assert [(query, expected[query]) for query, _ in traces] == traces


@pytest.mark.parametrize("fork", [False, True])
def test_requests_of_a_recorder_that_the_application_dropped(tmp_path, fork):
    """The process writes what was recorded just before, once, also if a forked child ends with the same hooks."""
    code = f"""
import gc, os
recorder = Capture(functools.partial(SpoolWriter, 'r.db.spool'), flush_interval_s=60)
recorder.record(TraceDraft(query='done'))
del recorder
gc.collect()
if {fork} and os.fork() != 0:
    assert os.wait()[1] == 0
"""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    reader = SpoolReader(tmp_path / "r.db.spool")
    entries = [entry for segment in reader.segments() for entry in reader.read(segment.name).entries]
    assert ["done"] == [entry.trace.query for entry in entries]


@pytest.mark.parametrize("before", ["", "recorder.record(TraceDraft(query='done'))"], ids=["unused", "used"])
@pytest.mark.parametrize("fork", [False, True])
def test_requests_after_close_are_counted(tmp_path, before, fork):
    """The process writes their number when it ends. A forked child does not write that of its parent again."""
    code = f"""
import os
recorder = monitor()
{before}
recorder.close()
assert [recorder.record(TraceDraft(query='late')) for _ in range(3)] == [False] * 3
if {fork} and os.fork() == 0:
    recorder.record(TraceDraft(query='late'))
elif {fork}:
    assert os.wait()[1] == 0
"""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    reader = SpoolReader(tmp_path / "r.db.spool")
    entries = [entry for segment in reader.segments() for entry in reader.read(segment.name).entries]
    dropped = [(entry.reason, entry.n) for entry in entries if entry.entry == "dropped"]
    assert sorted([("closed", 3), *([("closed", 1)] if fork else [])]) == sorted(dropped)


def test_a_recorder_that_never_closes(tmp_path):
    """Where no capture of ours is at work, what is open still reaches whoever records."""
    code = """
class Handler:
    def leave(self):
        print("open")

from ragstone.capture import register_exit_hook  # and no monitor
handler = Handler()
register_exit_hook(handler.leave)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (0, "open", "") == (done.returncode, done.stdout.partition("\n")[0], done.stderr)


def test_a_worker_at_the_end_of_the_interpreter_is_quiet(tmp_path):
    """Python refuses work to threads before it lets the monitor close: no bug of ours, and nothing is lost."""
    code = """
import concurrent.futures.thread
monitor = Monitor(metrics=["bleu"], store="r.db", sinks=["jsonl:scores.jsonl"])
import time
from pathlib import Path
from ragstone.worker import read_ledger

concurrent.futures.thread._shutdown = True  # as at exit, where the worker may come at any moment
assert monitor.record(TraceDraft(query="done"))
end = time.monotonic() + 240
while time.monotonic() < end and not (Path("r.db").exists() and read_ledger("r.db").total.not_applicable):
    monitor.drain(0.1)
"""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
    # Taken in and scored without a thread; the sink has one, so its outcome waits.
    ledger = read_ledger(tmp_path / "r.db")
    (books,) = ledger.outbox.values()
    assert (1, 1, 1, 0) == (ledger.total.captured, ledger.total.not_applicable, books.pending, books.sent)


def test_registering_keeps_nothing_alive():
    """An object that is gone is not called, and does not stay for the sake of being called."""
    left = []

    class Owner:
        def leave(self):
            left.append("called")

    owner = Owner()
    register_exit_hook(owner.leave)
    register_exit_hook(owner.leave)
    run_exit_hooks()
    assert ["called"] == left
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    run_exit_hooks()
    assert (None, ["called"]) == (gone(), left)


def test_only_methods():
    """A function has no owner whose end would end it."""
    with pytest.raises(TypeError, match="needs a bound method"):
        register_exit_hook(print)
