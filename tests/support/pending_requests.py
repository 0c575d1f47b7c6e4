"""An application that ends while its judge is down, and the commands that Ragstone prints for its pending requests."""

from __future__ import annotations

import html
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from command_line import MAIN, Done, environment, run_in_new_process
from fake_servers import FakeJudgeServer
from ragstone.errors import StoreError
from ragstone.store import open_store
from ragstone.worker import read_ledger
from waiting import wait_until

__all__ = [
    "N_REQUESTS",
    "capture",
    "check_broker",
    "check_outage",
    "check_parts",
    "follow",
    "read_commands",
    "read_page",
]

N_REQUESTS = 3

_APPLICATION = """
import sys, time
from ragstone.errors import StoreError
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft
from ragstone.store import open_store

store, judge, metrics, scoring, n = sys.argv[1:6]
monitor = Monitor(store=store, judge=judge or None, metrics=metrics.split(","), scoring=scoring)
for i in range(int(n)):
    monitor.record(TraceDraft(query=f"Which stone is {i}?", response="The grey stone.", reference="Grey."))
monitor.flush()
end = time.monotonic() + 60
while time.monotonic() < end:
    try:
        with open_store(store, mode="read") as opened:
            if opened.ledger().total.captured == int(n):
                break
    except StoreError:
        pass
    time.sleep(0.05)
if "wait" in sys.argv:
    sys.stdin.read()
monitor.close()
"""

_SERVER = """
import logging, signal, sys
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft

logging.basicConfig()
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
store, judge, scoring, n = sys.argv[1:5]
monitor = Monitor(store=store, judge=judge, metrics="ccrs.qr", scoring=scoring)
for i in range(int(n)):
    monitor.record(TraceDraft(query=f"Which stone is {i}?", response="The grey stone."))
monitor.flush()
sys.stdin.read()
monitor.close()
"""


def capture(store: str, *, judge: str, metrics: str = "ccrs.qr,ccrs.id", scoring: str = "thread") -> str:
    """Capture requests in another process, which ends when they are in the store. Return what it has written to stderr."""
    arguments = [store, judge, metrics, scoring, str(N_REQUESTS)]
    command = [sys.executable, "-c", _APPLICATION, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == done.returncode, done.stderr
    return done.stderr


def read_commands(text: str) -> list[list[str]]:
    """Return the arguments of the different commands of workers in a text, exactly as they are printed."""
    found = dict.fromkeys(re.findall(r"ragstone worker [^\n`]*", text))
    return [shlex.split(command)[1:] for command in found]


def follow(text: str, **variables: str) -> Done:
    """Run the only command of a worker in a text, exactly as it is printed."""
    (command,) = read_commands(text)
    return run_in_new_process(*command, **variables)


def read_page(store: str) -> str:
    """Serve a store with `ragstone view`, and return the text of the page."""
    command = [sys.executable, "-c", MAIN, "view", store, "--listen", "127.0.0.1:0"]
    variables = {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(variables)) as serving:
        assert serving.stdout is not None
        address = serving.stdout.readline().split()[2]
        page = httpx.get(address).text
        serving.send_signal(signal.SIGTERM)
        serving.communicate(timeout=60)
    return html.unescape(re.sub("<[^>]*>", "\n", page))


def check_broker(queue: str, store: str, server: FakeJudgeServer) -> None:
    """Do what a full queue and `status` advise, with the placeholders replaced. The named judge scores all requests.

    Args:
        queue: URL of an empty queue, which takes `N_REQUESTS` entries.
        store: A store that does not exist so far.
        server: The judge, which is running.
    """
    replaced = {"STORE": store, "JUDGE": server.url}
    with _serve(queue, server) as (application, _):
        wait_until(lambda: f"{N_REQUESTS} waiting" in run_in_new_process("status", queue).stdout)
        application.communicate("", timeout=60)
    with _serve(queue, server) as (application, log):
        wait_until(lambda: "Start a worker: " in log.read_text(encoding="utf-8"))
        texts = [log.read_text(encoding="utf-8"), run_in_new_process("status", queue).stdout]
        (first,), (second,) = [
            [[replaced.get(word, word) for word in command] for command in read_commands(text)] for text in texts
        ]
        assert first == second
        with _running(first) as worker:
            wait_until(lambda: 2 * N_REQUESTS == _captured(store))
            worker.send_signal(signal.SIGTERM)
            assert 0 == worker.wait(60)
        application.communicate("", timeout=60)
    while read_commands(status := run_in_new_process("status", store).stdout):
        done = follow(status)
        assert 0 == done.returncode, done.stderr
    with open_store(store, mode="read") as opened:
        found = {(outcome.sample_id, str(outcome.judge).partition(" ")[0]) for outcome in opened.outcomes.read()}
    assert (2 * N_REQUESTS, {"fake-judge"}) == (len(found), {judge for _, judge in found})


@contextmanager
def _serve(
    store: str, server: FakeJudgeServer, scoring: str = "thread"
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start a server that captures requests until its standard input ends. Yield its process and its log."""
    with tempfile.NamedTemporaryFile("w") as log:
        command = [sys.executable, "-c", _SERVER, store, server.url, scoring, str(N_REQUESTS)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log, text=True) as application:
            try:
                yield application, Path(log.name)
            finally:
                application.kill()


@contextmanager
def _running(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", MAIN, *command], env=environment({})) as process:
        try:
            yield process
        finally:
            process.kill()


def check_outage(store: str, server: FakeJudgeServer, **variables: str) -> None:
    """Follow each hint while the judge is down and afterwards, with wrong commands between them.

    In the end the judge of the application has scored everything, and no outcome is hidden.

    Args:
        store: A store that does not exist so far.
        server: The judge, which is down.
        variables: Variables of the environment with the credentials of a database.
    """
    texts = [capture(store, judge=server.url)]
    for name in ("report", "status", "traces"):
        done = run_in_new_process(name, store, **variables)
        texts.append(done.stdout + done.stderr)
    commands = [read_commands(text) for text in texts]
    assert [[["--until-idle"]]] * 4 == [[command[2:] for command in found] for found in commands]

    arguments = [sys.executable, "-c", MAIN, *commands[0][0]]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment(variables)) as waiting:
        assert waiting.stderr is not None
        assert "owning" in waiting.stderr.readline()
        waiting.send_signal(signal.SIGTERM)
        waiting.communicate(timeout=60)
    assert N_REQUESTS == read_ledger(store).total.pending

    for wrong in ({"RAGSTONE_JUDGE": "lexical"}, {}):
        options = [] if wrong else ["--judge", "lexical"]
        done = run_in_new_process("worker", store, "--until-idle", *options, **variables, **wrong)
        text = " ".join(done.stderr.split())
        assert (2, True) == (done.returncode, f"judge.url: plan {server.url}, here lexical" in text), text
    with server:
        done = follow(run_in_new_process("status", store, **variables).stdout, **variables)
    assert 0 == done.returncode, done.stderr

    with open_store(store, mode="read") as opened:
        ledger, judges = opened.ledger(), [str(outcome.judge).partition(" ")[0] for outcome in opened.outcomes.read()]
    assert ["fake-judge"] * 2 * N_REQUESTS == judges
    assert (N_REQUESTS, 0, {}) == (ledger.total.scored, ledger.total.pending, ledger.other_outcomes)
    assert {N_REQUESTS} == {row.scored for row in ledger.metrics.values()}
    for name in ("report", "status", "traces"):
        done = run_in_new_process(name, store, **variables)
        assert (0, []) == (done.returncode, read_commands(done.stdout + done.stderr))


def check_parts(store: str, server: FakeJudgeServer, **variables: str) -> None:
    """Score the metrics that need no judge without one, and the others later with the hint of `status`, each once.

    Args:
        store: A store that does not exist so far.
        server: The judge, which is not running yet.
        variables: Variables of the environment with the credentials of a database.
    """
    arguments = [store, "", "rouge_l,ccrs.qr,token_f1", "thread", str(N_REQUESTS), "wait"]
    command = [sys.executable, "-c", _APPLICATION, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as application:
        wait_until(lambda: N_REQUESTS == _scored(store).get("token_f1"))
        assert {"rouge_l": N_REQUESTS, "ccrs.qr": 0, "token_f1": N_REQUESTS} == _scored(store)
        first = _times(store)
        ledger = read_ledger(store)
        assert (N_REQUESTS, N_REQUESTS, 0) == (ledger.total.captured, ledger.total.pending, ledger.total.scored)
        assert {"pending": N_REQUESTS, "scored": 0}.items() <= ledger.metrics["ccrs.qr"].model_dump().items()
        status = run_in_new_process("status", store, **variables).stdout
        with server:
            # While the application runs.
            done = follow(status.replace("--judge=JUDGE", f"--judge={server.url}"), **variables)
            assert 0 == done.returncode, done
        _, stderr = application.communicate("", timeout=60)
        assert 0 == application.returncode, stderr
    assert 1 == stderr.count("only metrics that need no model are scored"), stderr
    assert dict.fromkeys(("rouge_l", "ccrs.qr", "token_f1"), N_REQUESTS) == _scored(store)
    ledger, last = read_ledger(store), _times(store)
    assert (N_REQUESTS, 0, {}) == (ledger.total.scored, ledger.total.pending, ledger.other_outcomes)
    assert 3 * N_REQUESTS == len(last)
    assert first.items() <= last.items()
    for name in ("report", "status", "traces"):
        done = run_in_new_process(name, store, **variables)
        assert (0, []) == (done.returncode, read_commands(done.stdout + done.stderr)), done.stderr


def _scored(store: str) -> dict[str, int]:
    try:
        return {name: row.scored for name, row in read_ledger(store).metrics.items()}
    except StoreError:
        return {}


def _captured(store: str) -> int:
    try:
        return read_ledger(store).total.captured
    except StoreError:
        return 0


def _times(store: str) -> dict[tuple[str, str], float]:
    """Return the time of each outcome, by request and metric."""
    with open_store(store, mode="read") as opened:
        return {(outcome.sample_id, outcome.metric): outcome.created_at for outcome in opened.outcomes.read()}
