"""`ragstone view` as a process: it serves while a worker writes, survives what happens to the store, and stops at once."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from command_line import MAIN, run_command
from live_store import add_requests, make_store
from ragstone.store import SqliteStore
from waiting import wait_until


@pytest.fixture
def served() -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    """A function that starts the command and returns its process and address."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-c", MAIN, "view", *map(str, arguments), "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.stderr.read() if process.stderr else ""
        return process, found[0]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_live_while_somebody_writes_and_stops_with_an_open_page(
    served: Callable[..., tuple[subprocess.Popen[str], str]], tmp_path: Path
):
    """New scores arrive as the names of parts; SIGTERM ends the process with 0 although a browser waits."""
    path = make_store(tmp_path / "s.db", 12)
    process, address = served(path)
    page = httpx.get(address)
    assert "3 of 12 answers" in page.text
    assert 403 == httpx.get(address, headers={"Host": "evil.example"}).status_code
    revision = re.search(r'data-revision="([^"]+)"', page.text)
    assert revision
    with (
        SqliteStore.open(path, mode="own") as store,  # as a worker has it
        httpx.stream("GET", f"{address}events", params={"since": revision[1]}, timeout=60) as stream,
    ):
        lines = stream.iter_lines()
        assert "retry: 2000" == next(lines)
        add_requests(store, 12, 4)
        data = next(line for line in lines if line.startswith("data: "))
        assert "verdict" in json.loads(data.removeprefix("data: "))
        # The first part that arrives may have been made when only some of the requests were stored.
        wait_until(lambda: "4 of 16 answers" in httpx.get(f"{address}parts", params={"name": "verdict"}).text)
        process.send_signal(signal.SIGTERM)
        assert [] == [line for line in lines if line.startswith("data: ")]
    out, error = process.communicate(timeout=60)
    assert (0, "", "") == (process.returncode, out, error)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_browsers_that_do_not_read_are_not_waited_for(
    served: Callable[..., tuple[subprocess.Popen[str], str]], tmp_path: Path
):
    """120 tabs wait for changes, 300 fetch the page, and none reads: others get each change, memory stays small, SIGTERM ends it."""
    path = make_store(tmp_path / "s.db", 12)
    process, address = served(path)
    host, port = re.search(r"//([^:]+):(\d+)", address).groups()  # type: ignore[union-attr]

    def silent(target: str) -> socket.socket:
        browser = socket.socket()
        browser.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        browser.connect((host, int(port)))
        browser.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        return browser

    with contextlib.ExitStack() as browsers, SqliteStore.open(path, mode="own") as store:
        for n in range(420):
            browsers.enter_context(silent("/events" if n < 120 else "/"))
        for n in range(3):
            add_requests(store, 12 + 4 * n, 4)
            wait_until(lambda n=n: f"of {16 + 4 * n} answers" in httpx.get(address, timeout=60).text)
        peak = int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())[1])  # type: ignore[index]
        assert peak < 256 * 1024
        process.send_signal(signal.SIGTERM)
        out, error = process.communicate(timeout=60)
    assert (0, "") == (process.returncode, out)
    assert error.count("\n") <= 5, error


def test_a_token_guards_the_page(served: Callable[..., tuple[subprocess.Popen[str], str]], tmp_path: Path):
    """The printed address has it; without it the page is closed."""
    process, address = served(make_store(tmp_path / "s.db", 4), "--token", "auto")
    bare, _, token = address.partition("?token=")
    assert len(token) >= 24
    assert 401 == httpx.get(bare).status_code
    with httpx.Client(follow_redirects=True) as browser:
        assert "1 of 4 answers" in browser.get(address).text
        assert "1 of 4 answers" in browser.get(bare).text
    process.send_signal(signal.SIGINT)
    assert 0 == process.wait(60)


def test_wrong_input(tmp_path: Path):
    """One message each, with the way out."""
    file = tmp_path / "o.jsonl"
    file.write_text("{}\n")
    newer = make_store(tmp_path / "n.db", 1)
    import sqlite3

    db = sqlite3.connect(newer)
    db.execute("PRAGMA user_version = 99")
    db.close()
    for arguments, code, text in (
        ((file,), 2, "ragstone report FILE -o report.html"),
        ((tmp_path / "none.db",), 2, "none.db"),
        ((newer,), 3, "has format version 99"),
        ((make_store(tmp_path / "s.db", 1), "--listen", "0.0.0.0:0"), 2, "--token auto"),
        ((tmp_path / "s.db", "--target", "udcg=0.5"), 2, "udcg"),
    ):
        done = run_command("view", *arguments)
        assert (code, True) == (done.returncode, text in done.stderr), done.stderr
