"""PostgreSQL that is down at the start, that is frozen, or that denies privileges; and workers that are frozen."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from command_line import MAIN
from completions import complete
from fake_servers.judge_server import FakeJudgeServer
from ragstone.errors import StoreError, StoreUnavailableError
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft
from ragstone.schema import Captured, Score, Trace
from ragstone.store import PlannedMetric, open_store
from ragstone.store import postgres as postgres_store
from ragstone.worker import read_ledger
from waiting import wait_until

pytestmark = pytest.mark.servers

EXACT = PlannedMetric(name="exact", version="1")
GRACE_S = 30
"""Time after which service managers kill a process that they have asked to stop."""
SPAN = {
    "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
    "spanId": "00f067aa0ba902b7",
    "name": "ask",
    "startTimeUnixNano": "1767225600000000000",
    "endTimeUnixNano": "1767225601000000000",
    "attributes": [
        {"key": "openinference.span.kind", "value": {"stringValue": "CHAIN"}},
        {"key": "input.value", "value": {"stringValue": "Why is the sky blue?"}},
        {"key": "output.value", "value": {"stringValue": "Because of Rayleigh scattering."}},
    ],
}


def message():
    """The OTLP message of one request, which has just ended."""
    return {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}


@pytest.fixture(autouse=True)
def spool(tmp_path, monkeypatch):
    """Where captures and spans of this test wait."""
    monkeypatch.setenv("RAGSTONE_SPOOL", str(tmp_path / "spool"))


@contextlib.contextmanager
def running(log, *arguments):
    """`ragstone ARGUMENTS` in a process of its own."""
    with Path(log).open("wb") as output:
        process = subprocess.Popen([sys.executable, "-c", MAIN, *map(str, arguments)], stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def told(url):
    """Status and body of a health check."""
    try:
        reply = httpx.get(url, timeout=5, trust_env=False)
    except httpx.HTTPError:
        return 0, {}
    return reply.status_code, reply.json()


def seconds_to_end(process):
    """Ask a process to stop, and measure how long it takes."""
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.wait(2 * GRACE_S)
    return time.monotonic() - started


def test_a_receiver_starts_while_the_database_is_down(postgres, port, tmp_path):
    """It keeps spans on its disk and is not ready; when the database is up, their requests reach it."""
    database, listen = postgres.new_database(), port()
    base = f"http://127.0.0.1:{listen}"
    postgres.stop()
    is_up = False
    try:
        command = [
            "ingest",
            database,
            "--listen",
            f"127.0.0.1:{listen}",
            "--judge",
            "lexical",
            "--set",
            "receiver.idle_timeout_s=0",
        ]
        with running(tmp_path / "log", *command) as process:
            wait_until(lambda: told(f"{base}/readyz")[0] == 503)
            assert 200 == httpx.post(f"{base}/v1/traces", json=message(), timeout=30, trust_env=False).status_code
            wait_until(lambda: told(f"{base}/readyz")[1].get("store_errors"))
            assert "cannot be used now" in told(f"{base}/readyz")[1]["store_errors"][0]
            assert 200 == told(f"{base}/healthz")[0]

            postgres.start()
            is_up = True

            wait_until(lambda: told(f"{base}/readyz")[0] == 200)
            wait_until(lambda: read_ledger(database).total.captured == 1)
            assert seconds_to_end(process) < GRACE_S
            assert 0 == process.returncode
    finally:
        if not is_up:
            postgres.start()
    assert Path(tmp_path / "log").read_text().count("cannot score now") == 1


def test_a_worker_of_a_frozen_server_says_so_and_can_be_stopped(postgres, database, port, tmp_path):
    """It stays alive, is not ready, does not blame the judge, and ends in its grace period with nothing lost."""
    listen = port()
    base = f"http://127.0.0.1:{listen}"
    with FakeJudgeServer() as judge:
        command = ["worker", database, "--judge", judge.url, "--listen", f"127.0.0.1:{listen}"]
        with running(tmp_path / "log", *command) as process:
            wait_until(lambda: told(f"{base}/readyz")[0] == 200)
            with postgres.frozen():
                with Monitor(judge="lexical", store=database, scoring="none") as monitor:
                    monitor.record(TraceDraft(query="Why?", response="Because."))
                wait_until(lambda: told(f"{base}/readyz")[0] == 503)
                assert "has not answered for" in told(f"{base}/readyz")[1]["store_errors"][0]
                assert 200 == told(f"{base}/healthz")[0]
                assert seconds_to_end(process) < GRACE_S
    log = (tmp_path / "log").read_text()
    assert 0 == process.returncode
    assert "did not answer within 20 s" in log
    assert "judge is unavailable" not in log
    assert "Traceback" not in log
    with running(tmp_path / "log2", "worker", database, "--judge", "lexical", "--until-idle") as next_one:
        assert 0 == next_one.wait(100)
    assert 1 == read_ledger(database).total.scored


def test_a_call_ends_when_the_server_does_not_answer(postgres, database, monkeypatch):
    """The limit is the client's own, because a frozen server cannot keep one; later the store works again."""
    monkeypatch.setattr(postgres_store, "_ANSWER_S", 0.5)
    monkeypatch.setitem(postgres_store._CONNECT, "connect_timeout", 2)
    store = open_store(database, mode="own")
    store.plan.set([EXACT], [])
    with postgres.frozen():
        with pytest.raises(StoreUnavailableError, match="did not answer within"):
            store.ledger()
        started = time.monotonic()
        store.close()
        assert time.monotonic() - started < 10
    again = open_store(database, mode="own")
    assert 0 == again.ledger().total.captured
    again.close()


def test_a_frozen_worker_loses_its_sinks(database, monkeypatch):
    """The server ends the session of a worker that does not look for work anymore, and another one delivers."""
    monkeypatch.setattr(postgres_store, "_IDLE_S", 1)
    first, second = (open_store(database, mode="own") for _ in range(2))
    for store in (first, second):
        store.plan.set([EXACT], ["s"])
    first.traces.ingest("a", 1, [Captured(trace=Trace(trace_id="t", started_at=1.0, query="q"))])
    score = Score(sample_id="t", metric="exact", metric_version="1", value=1.0, method="exact")
    complete(first, "t", [score])
    assert 1 == len(first.deliveries.due("s", limit=9))
    assert [] == second.deliveries.due("s", limit=9)

    wait_until(lambda: len(second.deliveries.due("s", limit=9)) == 1, limit_s=60)

    with pytest.raises(StoreError, match="idle-session timeout"):
        first.deliveries.due("s", limit=9)
    assert [] == first.deliveries.due("s", limit=9)
    first.close()
    second.close()


def test_a_role_without_privileges_is_told_what_to_grant(database):
    """The statements of the message are enough to read, and to write."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    open_store(database, mode="own").close()
    admin = psycopg.connect(database, autocommit=True)
    role = f"Reader {time.monotonic_ns()}"
    admin.execute(f"CREATE ROLE \"{role}\" LOGIN PASSWORD 'p'".encode())
    parts = conninfo_to_dict(database)
    url = f"postgresql://{role.replace(' ', '%20')}:p@127.0.0.1:{parts['port']}/{parts['dbname']}"
    try:
        for mode in ("read", "own"):
            with pytest.raises(StoreError, match="GRANT USAGE ON SCHEMA ragstone") as refused:
                open_store(url, mode=mode)
            text = str(refused.value)
            assert "backup" not in text
            for statement in text[text.index("GRANT") :].split(";"):
                if statement.strip():
                    admin.execute(statement.encode())
            with open_store(url, mode=mode) as store:
                assert 0 == store.ledger().total.captured
    finally:
        for statement in (f'DROP OWNED BY "{role}"', f'DROP ROLE "{role}"'):
            admin.execute(statement.encode())
        admin.close()
