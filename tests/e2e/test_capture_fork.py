"""A recorder made before a fork works on both sides of it."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.request
from collections import Counter

import pytest

from ragstone.spool import SpoolReader
from waiting import wait_until

PRELUDE = """
import multiprocessing, os, signal, sys, threading, time, warnings
from functools import partial
from ragstone.capture import Capture
from ragstone.requests import TraceDraft
from ragstone.spool import SpoolReader, SpoolWriter

# Newer Pythons warn whoever forks with threads around; that we stand it is what is tested.
warnings.simplefilter("ignore", DeprecationWarning)
signal.alarm(60)
capture = Capture(partial(SpoolWriter, sys.argv[1]), flush_interval_s=30.0)

def record(name, n=1):
    for k in range(n):
        assert capture.record(TraceDraft(trace_id=f"{name}/{k}"))
"""


def found_in(directory) -> Counter[str]:
    """The ids of all traces in a spool, and how often each is there."""
    reader = SpoolReader(directory)
    batches = [reader.read(segment.name, max_entries=100_000) for segment in reader.segments()]
    assert all(batch.at_end for batch in batches)
    return Counter(entry.trace.trace_id for batch in batches for entry in batch.entries)


def run(directory, code: str) -> Counter[str]:
    """Run an application and its children; what is in the spool afterwards."""
    subprocess.run([sys.executable, "-c", PRELUDE + code, str(directory)], check=True)
    return found_in(directory)


def test_what_is_queued_at_the_fork_is_written_once(tmp_path):
    """By the parent; the child writes what it records itself, and both can flush."""
    found = run(
        tmp_path,
        """
record("parent", 5)
assert capture.flush(20)
record("queued", 5)
child = os.fork()
if child == 0:
    assert (capture.pending, capture.counters.recorded) == (0, 0)
    record("child", 5)
    assert capture.flush(20) and capture.counters.written == 5
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
record("after", 5)
assert capture.flush(20) and capture.counters.written == 15
""",
    )
    assert Counter(f"{name}/{k}" for name in ("parent", "queued", "child", "after") for k in range(5)) == found


def test_forks_in_the_middle_of_writing(tmp_path):
    """Whatever the parent's threads hold at the moment of the fork, no child waits for it."""
    found = run(
        tmp_path,
        """
stop = threading.Event()
def busy():
    n = 0
    while not stop.is_set():
        record(f"busy{n}")
        n += 1
        if n % 10 == 0:
            assert capture.flush(20)
    total.append(n)
total = []
thread = threading.Thread(target=busy)
thread.start()
children = []
for n in range(20):
    child = os.fork()
    if child == 0:
        record(f"child{n}", 3)
        os._exit(0 if capture.close(20) else 1)
    children.append(child)
    time.sleep(0.005)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 20
stop.set()
thread.join()
record(f"total{total[0]}")
""",
    )
    total = next(int(name[len("total") : -len("/0")]) for name in found if name.startswith("total"))
    expected = [f"child{n}/{k}" for n in range(20) for k in range(3)] + [f"busy{n}/0" for n in range(total)]
    assert Counter([*expected, f"total{total}/0"]) == found


def test_death_of_the_parent_is_seen_though_children_live(tmp_path):
    """A child does not hold the lock of its parent's segment, so the segment can be drained to its end."""
    code = """
record("parent")
assert capture.flush(20)
[state] = SpoolReader(sys.argv[1]).segments()
assert state.live
if os.fork() == 0:
    sys.stdin.read()  # lives until the test lets it go
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    app = subprocess.Popen([sys.executable, "-c", PRELUDE + code, str(tmp_path)], stdin=subprocess.PIPE)
    try:
        assert -9 == app.wait(240)
        # The child releases the lock when it first runs, which may be after the death of its parent.
        wait_until(lambda: [False] == [segment.live for segment in SpoolReader(tmp_path).segments()])
        assert {"parent/0": 1} == found_in(tmp_path)
    finally:
        app.stdin.close()


def test_a_child_of_a_closed_recorder_records_nothing(tmp_path):
    """A closed recorder stays closed in a process that is forked later. What the child records is counted as dropped."""
    found = run(
        tmp_path,
        """
record("parent")
assert capture.close(20)
child = os.fork()
if child == 0:
    assert not capture.record(TraceDraft(trace_id="child"))
    os._exit(0 if capture.counters.dropped == {"closed": 1} else 1)
assert os.waitpid(child, 0)[1] == 0
""",
    )
    assert {"parent/0": 1} == found


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_write_what_they_recorded(tmp_path, method):
    """They end without what Python does at exit, and without a flush of their own."""
    (tmp_path / "app.py").write_text(
        PRELUDE
        + f"""
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    record("parent")
    workers = [context.Process(target=record, args=(f"worker{{n}}", 2)) for n in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
"""
    )
    subprocess.run([sys.executable, str(tmp_path / "app.py"), str(tmp_path / "spool")], check=True)
    names = ["parent/0", "worker0/0", "worker0/1", "worker1/0", "worker1/1"]
    assert Counter(names) == found_in(tmp_path / "spool")


def test_exit_without_close_writes_what_is_queued(tmp_path):
    """An application that just ends, or is ended by an exception, loses nothing."""
    assert {"a/0": 1, "a/1": 1} == run(tmp_path, 'record("a", 2)')
    again = subprocess.run(
        [sys.executable, "-c", PRELUDE + 'record("b")\nsys.exit(3)', str(tmp_path)], check=False, capture_output=True
    )
    assert (3, b"") == (again.returncode, again.stderr)
    assert 3 == found_in(tmp_path).total()


POOLS = {
    "multiprocessing.Pool": """
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(record, names)
        pool.close()
        pool.join()
""",
    "concurrent.futures": """
    from concurrent.futures import ProcessPoolExecutor
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        list(pool.map(record, names))
""",
    "a pool that replaces its processes": """
    with multiprocessing.get_context("fork").Pool(2, maxtasksperchild=1) as pool:
        pool.map(record, names, chunksize=1)
        pool.close()
        pool.join()
""",
}


@pytest.mark.parametrize("pool", POOLS)
def test_processes_of_pools_write_what_they_recorded(tmp_path, pool):
    """Their last requests too, although they end by `os._exit`."""
    body = f"names = [f'task{{n}}' for n in range(20)]\nif True:\n{POOLS[pool]}"
    assert Counter(f"task{n}/0" for n in range(20)) == run(tmp_path, body)


def test_what_is_lost_by_os_exit(tmp_path):
    """Only what was not flushed. The documentation says so."""
    code = """
if os.fork() == 0:
    record("flushed", 3)
    assert capture.flush(20)
    record("lost", 3)
    os._exit(0)
os.wait()
"""
    assert Counter(f"flushed/{k}" for k in range(3)) == run(tmp_path, code)


@pytest.mark.parametrize("preload", [True, False])
def test_workers_of_gunicorn_write_what_they_recorded(tmp_path, preload):
    """When the server is stopped, requests that wait for a full group are written."""
    pytest.importorskip("gunicorn")
    (tmp_path / "app.py").write_text(
        PRELUDE.replace("sys.argv[1]", repr(str(tmp_path / "spool"))).replace("signal.alarm(60)", "")
        + """
def app(environ, start_response):
    record(environ["PATH_INFO"][1:])
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"recorded"]
"""
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "gunicorn", "app:app", "-b", f"127.0.0.1:{port}", "-w", "2", "--no-control-socket"]
    server = subprocess.Popen([*command, *(["--preload"] if preload else [])], cwd=tmp_path)

    def ask(name: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", timeout=20) as reply:
                return reply.status == 200
        except OSError:
            return False

    try:
        wait_until(lambda: ask("first"))
        for n in range(20):
            assert ask(f"request{n}")
        server.terminate()
        assert 0 == server.wait(60)
    finally:
        server.kill()
        server.wait()
    found = found_in(tmp_path / "spool")
    assert Counter(f"request{n}/0" for n in range(20)) == found - Counter({"first/0": found["first/0"]})


def test_a_child_does_not_wait_for_a_lock_that_the_parents_writer_held(tmp_path):
    """A lock of the application, which its function for redaction takes."""
    found = run(
        tmp_path,
        """
lock, inside = threading.Lock(), threading.Event()
def redact(text):
    with lock:
        inside.set()
        time.sleep(0.3)
    return text
capture = Capture(partial(SpoolWriter, sys.argv[1]), flush_interval_s=0.001, redact=redact)
assert capture.record(TraceDraft(trace_id="parent/0", query="q"))
assert inside.wait(20)
child = os.fork()
if child == 0:
    assert capture.record(TraceDraft(trace_id="child/0", query="q"))
    os._exit(0 if capture.flush(20) else 1)
assert os.waitpid(child, 0)[1] == 0
assert capture.record(TraceDraft(trace_id="parent/1", query="q")) and capture.flush(20)
""",
    )
    assert Counter(["parent/0", "child/0", "parent/1"]) == found


def test_a_fork_waits_a_second_for_a_writer_that_does_not_end(tmp_path):
    """The child records, and forks itself without a wait."""
    found = run(
        tmp_path,
        """
hold, inside = threading.Event(), threading.Event()
def redact(text):
    if text == "stuck":
        inside.set()
        hold.wait(30)
    return text
capture = Capture(partial(SpoolWriter, sys.argv[1]), flush_interval_s=0.001, redact=redact)
assert capture.record(TraceDraft(trace_id="parent/0", query="stuck"))
assert inside.wait(20)
start = time.monotonic()
child = os.fork()
if child == 0:
    start = time.monotonic()
    grandchild = os.fork()
    assert time.monotonic() - start < 0.5
    if grandchild > 0:
        assert os.waitpid(grandchild, 0)[1] == 0
    assert capture.record(TraceDraft(trace_id="child/0" if grandchild else "grandchild/0", query="q"))
    os._exit(0 if capture.flush(20) else 1)
assert time.monotonic() - start >= 0.9
assert os.waitpid(child, 0)[1] == 0
hold.set()
assert capture.flush(20)
""",
    )
    assert Counter(["parent/0", "child/0", "grandchild/0"]) == found


def test_a_function_for_redaction_can_fork(tmp_path):
    """The writer's own thread forks inside a group, and does not wait for itself."""
    found = run(
        tmp_path,
        """
def redact(text):
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os._exit(0 if time.monotonic() - start < 0.5 else 1)
    assert os.waitpid(child, 0)[1] == 0
    return text
capture = Capture(partial(SpoolWriter, sys.argv[1]), flush_interval_s=0.001, redact=redact)
for k in range(3):
    assert capture.record(TraceDraft(trace_id=f"parent/{k}", query="q")) and capture.flush(20)
""",
    )
    assert Counter(f"parent/{k}" for k in range(3)) == found


def test_a_fork_in_the_first_serialization(tmp_path):
    """Pydantic imports a module at its first serialization in a process, under a lock that no child could release."""
    found = run(
        tmp_path,
        """
import builtins
import_module = builtins.__import__
def slow(name, *arguments, **keywords):
    if threading.current_thread() is not threading.main_thread():
        names.append(name)
        time.sleep(0.3)
    return import_module(name, *arguments, **keywords)
names = []
builtins.__import__ = slow
capture.record(TraceDraft(trace_id="parent/0"))
threading.Thread(target=capture.flush, args=(20,)).start()
time.sleep(0.1)
child = os.fork()
if child == 0:
    assert capture.record(TraceDraft(trace_id="child/0"))
    os._exit(0 if capture.flush(20) else 1)
assert os.waitpid(child, 0)[1] == 0 and capture.flush(20)
assert "pydantic_core" not in names, names
""",
    )
    assert Counter(["parent/0", "child/0"]) == found
