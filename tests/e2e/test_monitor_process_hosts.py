"""`Monitor(scoring="process")` inside of programs that start, fork, reload and kill processes of their own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from command_line import run_command
from ragstone.store import SqliteStore
from ragstone.worker import read_ledger
from waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes by /proc"),
]

MONITOR = """
import os
from ragstone import Monitor
from ragstone.requests import TraceDraft
monitor = Monitor(judge="lexical", metrics=["ccrs.qr", "ccrs.cc"], store=os.environ["HOSTED_STORE"], scoring="process")

def record(i):
    monitor.record(TraceDraft(query=f"What is item {i}?", response=f"Item {i} is a stone."))
"""
WSGI = """
def app(environ, start_response):
    record(environ["PATH_INFO"])
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]
"""
ASGI = """
async def app(scope, receive, send):
    if scope["type"] == "http":
        record(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": VERSION})
VERSION = b"first"
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The path of a store. Its processes are found by it."""
    return tmp_path / "hosted.db"


@contextlib.contextmanager
def running(command: Sequence[str], store: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in a folder, and kill what is left of it at the end."""
    environment = os.environ | {"HOSTED_STORE": str(store), "PYTHONPATH": str(folder), "PYTHONUNBUFFERED": "1"}
    with (folder / "log").open("wb") as log:
        program = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            yield program
        finally:
            for pid in processes(store):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            program.wait()


def processes(store: Path) -> list[int]:
    """The processes that were started for a store, with their children."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"HOSTED_STORE={store}\0".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def owner(store: Path) -> int:
    """The process that owns a store."""
    return int(Path(f"{store}.lock").read_text(encoding="ascii"))


def ask(port: int, path: str) -> bytes:
    """Send a request, with retries until the server listens."""

    def answered() -> bool:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as reply,
        ):
            body.append(reply.read())
        return bool(body)

    body: list[bytes] = []
    wait_until(answered)
    return body[0]


def free_port() -> int:
    """Return a port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def n_scored(store: Path) -> int:
    """Number of scored requests."""
    return read_ledger(store).total.scored if store.exists() else 0


def check_scored(store: Path, n: int) -> None:
    """Each request has one outcome for each metric."""
    ledger = read_ledger(store).total
    assert (ledger.captured, ledger.scored, ledger.pending, ledger.balanced) == (n, n, 0, True)
    with SqliteStore.open(store, mode="read") as opened:
        assert set(Counter((o.sample_id, o.metric) for o in opened.outcomes.read()).values()) == {1}


@pytest.mark.parametrize("preload", [False, True], ids=["each loads", "preload"])
def test_gunicorn(store: Path, tmp_path: Path, preload: bool) -> None:
    """Three workers share one scoring process. If its parent is killed, another worker starts one. SIGTERM ends all."""
    pytest.importorskip("gunicorn")
    (tmp_path / "served.py").write_text(MONITOR + WSGI, encoding="utf-8")
    port = free_port()
    command = [sys.executable, "-m", "gunicorn", "served:app", "--workers=3", f"--bind=127.0.0.1:{port}"]
    with running([*command, *(["--preload"] if preload else [])], store, tmp_path) as server:
        served = {ask(port, f"/{i}") for i in range(30)}
        wait_until(lambda: n_scored(store) == 30)
        scorer = owner(store)
        assert str(scorer).encode() not in served
        parent = int(Path(f"/proc/{scorer}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)
        for i in range(30, 60):
            ask(port, f"/{i}")
        wait_until(lambda: n_scored(store) == 60)
        assert owner(store) != scorer
        server.terminate()
        assert server.wait(60) == 0
        wait_until(lambda: not processes(store))
    check_scored(store, 60)


def test_uvicorn_with_reload(store: Path, tmp_path: Path) -> None:
    """A changed program is loaded again, the new process scores as well, and Ctrl-C ends all processes."""
    pytest.importorskip("uvicorn")
    file = tmp_path / "served.py"
    file.write_text(MONITOR + ASGI, encoding="utf-8")
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "served:app", f"--port={port}", "--reload", f"--reload-dir={tmp_path}"]
    with running([*command, "--reload-include=served.py", "--reload-exclude=hosted.db*"], store, tmp_path) as server:
        for i in range(20):
            assert ask(port, f"/{i}") == b"first"
        wait_until(lambda: n_scored(store) == 20)
        file.write_text((MONITOR + ASGI).replace("first", "second"), encoding="utf-8")
        n = 20

        def is_second() -> bool:
            nonlocal n
            n += 1
            return ask(port, f"/{n}") == b"second"

        wait_until(is_second)
        wait_until(lambda: n_scored(store) == n)
        server.send_signal(signal.SIGINT)
        server.wait(60)
        wait_until(lambda: not processes(store))
    check_scored(store, n)


def test_a_notebook(store: Path) -> None:
    """Cells capture while the process scores. A killed kernel leaves none, and the next kernel scores the rest."""
    jupyter_client = pytest.importorskip("jupyter_client")
    pytest.importorskip("ipykernel")

    @contextlib.contextmanager
    def kernel(*cells: str) -> Iterator[Any]:
        manager = jupyter_client.KernelManager(kernel_name="python3")
        manager.start_kernel(env=os.environ | {"HOSTED_STORE": str(store)})
        client = manager.blocking_client()
        try:
            client.start_channels()
            client.wait_for_ready(timeout=100)
            for cell in cells:
                reply = client.execute_interactive(cell, timeout=200)
                assert reply["content"]["status"] == "ok", reply["content"]
            yield manager
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
            manager.cleanup_resources()

    with kernel(MONITOR, "for i in range(10): record(i)", "assert monitor.drain(100)", "record(10)"):
        assert n_scored(store) >= 10
    wait_until(lambda: not processes(store))
    rest = "for i in range(11, 20): record(i)"
    with kernel(MONITOR, rest, "assert monitor.drain(100)", "monitor.close()"):
        wait_until(lambda: len(processes(store)) == 1)
    # What was recorded in the last tenth of a second before a kernel is killed may be lost.
    n = read_ledger(store).total.captured
    assert n in {19, 20}
    check_scored(store, n)


def test_one_core(store: Path, tmp_path: Path) -> None:
    """The application and its scoring process share a core, and both end."""
    taskset = shutil.which("taskset")
    if taskset is None:
        pytest.skip("needs taskset")
    loop = "with monitor:\n    for i in range(50):\n        record(i)\n"
    (tmp_path / "program.py").write_text(MONITOR + loop, encoding="utf-8")
    core = str(min(os.sched_getaffinity(0)))
    with running([taskset, "-c", core, sys.executable, "program.py"], store, tmp_path) as program:
        assert program.wait(200) == 0
        wait_until(lambda: not processes(store))
    check_scored(store, 50)


def test_pytest_with_xdist(store: Path, tmp_path: Path) -> None:
    """Tests of an application, in two processes that capture into one store and end by `os._exit`."""
    tests = (
        "import pytest\n"
        + MONITOR
        + "\n@pytest.mark.parametrize('i', range(20))\ndef test_request(i):\n    record(i)\n"
    )
    (tmp_path / "test_app.py").write_text(tests, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    with running([sys.executable, "-m", "pytest", "-q", "-n2", "test_app.py"], store, tmp_path) as program:
        assert program.wait(200) == 0, (tmp_path / "log").read_text(encoding="utf-8")
        wait_until(lambda: not processes(store))
    result = run_command("worker", str(store), "--metrics", "ccrs.qr,ccrs.cc", "--judge", "lexical", "--until-idle")
    assert result.returncode == 0, result.stderr
    check_scored(store, 20)
