"""Each way out of the interpreter, while threads record: what `record` has acknowledged is kept, and scored once.

`RAGSTONE_KILLS=40 nox -s long -- -k test_ways_out -s` ends a process forty times in each way, and prints counts.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from command_line import run_command
from kills import MANY_KILLS, METRICS, check_books
from ragstone.store import open_store

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="sends signals"),
    pytest.mark.timeout(300 + 20 * MANY_KILLS),
]

APPLICATION = """
import atexit, os, resource, signal, sys, threading, time
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft

store, acknowledged, prefix, judge, metrics, scoring, durability, way, wait_s = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
out, refused = (os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND) for path in (acknowledged, acknowledged + ".refused"))
signal.signal(signal.SIGINT, signal.default_int_handler)

def record(name, n):
    if monitor.record(TraceDraft(trace_id=f"{prefix}-{name}-{n}", query="Which stone?", response="The grey stone.")):
        os.write(out, f"{prefix}-{name}-{n}\\n".encode())
    else:
        os.write(refused, b"x")

def record_many(name, count):
    for n in range(1, count + 1):
        record(name, n)
        time.sleep(0.001)

def end_of_program(): pass
def exit_in_main(): sys.exit(0)
def exception_in_main(): raise RuntimeError("expected")
def _exit_without_hooks(): os._exit(0)
def abort(): os.abort()
def interrupt(): signal.raise_signal(signal.SIGINT)
def terminate(): os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)

def in_a_thread(end):
    def run():
        end()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

def exit_in_a_thread(): in_a_thread(lambda: sys.exit(0))
def exception_in_a_thread(): in_a_thread(exception_in_main)
def _exit_in_a_thread(): in_a_thread(_exit_without_hooks)
def thread_that_outlives_main(): threading.Thread(target=record_many, args=("late", 50)).start()
def hook_that_records(): atexit.register(record_many, "hook", 20)

if way == "hook_before_the_monitor":
    atexit.register(record_many, "hook", 20)
    hook_before_the_monitor = end_of_program
monitor = Monitor(store=store, judge=judge, metrics=metrics.split(","), scoring=scoring, durability=durability)
for name in ("one", "two"):
    threading.Thread(target=record_many, args=(name, 10**6), daemon=True).start()
time.sleep(float(wait_s))
globals()[way]()
"""

CLEAN = {
    # The exit codes of the ways out after which Python runs its hooks.
    "end_of_program": 0,
    "exit_in_main": 0,
    "exit_in_a_thread": 0,
    "exception_in_main": 1,
    "exception_in_a_thread": 0,
    "interrupt": -2,
    "thread_that_outlives_main": 0,
    "hook_that_records": 0,
    "hook_before_the_monitor": 0,
}
WITHOUT_HOOKS = {"_exit_without_hooks": 0, "_exit_in_a_thread": 0, "abort": -6, "terminate": -15}


@pytest.mark.parametrize("durability", ["batched", "sync"])
@pytest.mark.parametrize("way", [*CLEAN, *WITHOUT_HOOKS])
@pytest.mark.parametrize(
    "n_runs", [pytest.param(1, marks=pytest.mark.slow), pytest.param(MANY_KILLS, marks=pytest.mark.long)]
)
def test_what_was_acknowledged_is_kept(tmp_path: Path, way: str, durability: str, n_runs: int) -> None:
    """Nothing is lost, unless no hook of Python runs and `record` does not wait for the disk: then the last of each thread."""
    seed = int(os.environ.get("RAGSTONE_SEED", random.randrange(2**32)))
    print(f"RAGSTONE_SEED={seed}")
    moments = random.Random(seed)
    store, acknowledged = tmp_path / "s.db", tmp_path / "acknowledged"
    metrics = ",".join(METRICS)
    for n in range(n_runs):
        scoring = moments.choice(("none", "thread"))
        arguments = [store, acknowledged, n, "lexical", metrics, scoring, durability, way, moments.uniform(0, 0.5)]
        done = subprocess.run(
            [sys.executable, "-c", APPLICATION, *map(str, arguments)], capture_output=True, check=False, timeout=240
        )
        assert done.returncode == (CLEAN | WITHOUT_HOOKS)[way], done.stderr
        expected = 1 if "exception" in way or way == "interrupt" else 0
        assert done.stderr.count(b"Traceback") == expected, done.stderr
    scored = run_command("worker", store, "--judge", "lexical", "--metrics", metrics, "--until-idle")
    assert scored.returncode == 0, scored.stderr
    with open_store(store, mode="read") as opened:
        stored = {trace.trace_id for trace in opened.traces.read()}
        dropped = opened.ledger().total.dropped
    found = acknowledged.read_text(encoding="utf-8").split()
    lost = [trace_id for trace_id in found if trace_id not in stored]
    if durability == "sync" or way in CLEAN:
        assert lost == []
    # What is lost is the end of what a thread has recorded.
    last_stored: Counter[str] = Counter()
    for trace_id in stored & set(found):
        thread, _, number = trace_id.rpartition("-")
        last_stored[thread] = max(last_stored[thread], int(number))
    assert all(int(number) > last_stored[thread] for thread, _, number in (each.rpartition("-") for each in lost))
    check_books(str(store), set(found) - set(lost), METRICS, [])
    n_refused = acknowledged.with_name("acknowledged.refused").stat().st_size
    counts = f"{len(found)} acknowledged, {len(lost)} lost, {n_refused} refused, {dropped} counted as dropped"
    print(f"{way}, {durability}: {n_runs} runs, {counts}")
