"""Programs of servers, started on loopback in processes of their own, and stopped with all that they started."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest

# Importing themselves takes Phoenix and MLflow a minute and a half on a busy machine with two cores.
START_LIMIT_S = 240
STOP_LIMIT_S = 20


def free_port():
    """A loopback port that no one listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def executable(variable, name, *, folders=()):
    """The program that an environment variable names, or that is on the path or in one of `folders`; else no test."""
    places = os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])
    found = os.environ.get(variable) or shutil.which(name, path=places)
    if found is None:
        # Where the servers must be tested, a skip would look like success.
        refuse = pytest.fail if os.environ.get("RAGSTONE_REQUIRE_SERVERS") else pytest.skip
        refuse(f"needs {name}: run `nox -s servers`, or let {variable} name the program")
    return found


def healthy(url):
    """Whether a GET is answered with success."""
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url, timeout=5, trust_env=False).is_success
    return False


def launch(command, *, ready, log, environment=None, cwd=None):
    """Start a server in a process of its own, and return the process when the server has said it is well.

    Args:
        command: Program and arguments.
        ready: The URL that answers with success, or a function that says so.
        log: Where its output goes, and whose end is shown when it does not start.
        environment: Added to ours.
        cwd: Where it runs.
    """
    is_ready = (lambda: healthy(ready)) if isinstance(ready, str) else ready
    with Path(log).open("ab") as output:
        process = subprocess.Popen(
            list(map(str, command)), env=os.environ | (environment or {}), cwd=cwd, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + START_LIMIT_S
        while not is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                end = Path(log).read_text(errors="replace")[-4000:]
                pytest.fail(f"{command[0]} did not start (exit status {process.poll()}); its log ends:\n{end}")
            time.sleep(0.05)
    except BaseException:
        stop(process)
        raise
    return process


@contextlib.contextmanager
def serve(command, **options):
    """A server that `launch` has started; stopped at the end, with the processes it started."""
    process = launch(command, **options)
    try:
        yield process
    finally:
        stop(process)


def stop(process):
    """Ask a server to stop, then do not ask."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_LIMIT_S)
    # What it started may outlive it: they are a process group of their own.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
