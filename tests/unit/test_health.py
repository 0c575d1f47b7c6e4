"""Health checks, JSON logs and systemd's notifications, part by part."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys

import pytest
from aiohttp.test_utils import TestClient, TestServer

from ragstone._util.systemd import notify, watchdog_interval_s
from ragstone.capture import Capture
from ragstone.cli._health import watchdog
from ragstone.cli._logs import _JsonFormatter
from ragstone.errors import JudgeUnavailableError
from ragstone.requests import TraceDraft
from ragstone.spool import SpoolWriter
from ragstone.testing import FakeJudge
from ragstone.worker import (
    ScoringSetup,
    Worker,
    WorkerState,
    add_health_routes,
    read_ledger,
    spool_directory,
)
from ragstone.worker._intake import SpoolTraceSource


def state(**changes) -> WorkerState:
    return WorkerState(**({"owns_store": True, "since_poll_s": 1.0, "store_errors": (), "judge_error": None} | changes))


@pytest.mark.parametrize(
    ("current", "alive", "ready"),
    [
        (state(), 200, 200),
        (state(judge_error="connection refused"), 200, 200),
        (state(store_errors=("cannot store outcomes: disk full",)), 200, 503),
        (state(owns_store=False), 200, 503),
        (state(since_poll_s=31.0), 503, 503),
        (WorkerState(), 200, 503),
    ],
)
def test_statuses_of_the_checks(current, alive, ready):
    """A worker that hangs is restarted; one that cannot store is not ready; a judge that is down changes neither."""

    async def ask() -> list[tuple[int, dict]]:
        from aiohttp import web

        app = web.Application()
        add_health_routes(app, lambda: current, None)
        async with TestClient(TestServer(app)) as client:
            answers = [await client.get("/healthz"), await client.get("/readyz"), await client.get("/metrics")]
            assert 501 == answers[2].status
            assert "ragstone[prometheus]" in await answers[2].text()
            return [(answer.status, await answer.json()) for answer in answers[:2]]

    (healthz, _), (readyz, body) = asyncio.run(ask())

    assert (alive, ready) == (healthz, readyz)
    assert current.judge_error == body["judge_error"]
    assert list(current.store_errors) == body["store_errors"]


@pytest.mark.parametrize("accepted", ["text/plain", "application/openmetrics-text"])
def test_metrics_have_the_format_that_the_scraper_accepts(accepted):
    """Prometheus asks for either of two formats."""

    async def ask() -> str:
        from aiohttp import web
        from prometheus_client import CollectorRegistry

        app = web.Application()
        add_health_routes(app, WorkerState, CollectorRegistry())
        async with TestClient(TestServer(app)) as client:
            answer = await client.get("/metrics", headers={"Accept": f"{accepted};version=1.0.0"})
            return answer.headers["Content-Type"]

    assert asyncio.run(ask()).startswith(accepted)


@pytest.mark.usefixtures("virtual_time")
def test_a_worker_says_why_it_does_not_score(tmp_path):
    """While the judge cannot be reached it stores requests; then it scores them, and has nothing to say."""
    store, reachable = tmp_path / "r.db", False

    class Judge(FakeJudge):
        async def prepare(self) -> None:
            if not reachable:
                raise JudgeUnavailableError("connection refused")

    with Capture(lambda: SpoolWriter(spool_directory(store))) as recorder:
        recorder.record(TraceDraft(trace_id="t", query="How tall?", response="31 m."))
    with Capture(lambda: SpoolWriter(tmp_path / "elsewhere")) as recorder:
        recorder.record(TraceDraft(trace_id="u", query="How tall?", response="31 m."))

    class Elsewhere(SpoolTraceSource):
        """A source beside the spool of the store, as a message broker is."""

        may_have_more = True

    beside = Elsewhere(tmp_path / "elsewhere")
    worker = Worker(store, ScoringSetup("ccrs.qr", judge=Judge()), intakes=[beside])
    states = [worker.state]

    async def main() -> None:
        nonlocal reachable
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(10)
        states.append(worker.state)
        assert 2 == read_ledger(store).total.pending
        reachable = True
        await asyncio.sleep(60)
        states.append(worker.state)
        worker.stop()
        await running
        states.append(worker.state)

    asyncio.run(main())

    assert [False, True, True, False] == [one.owns_store for one in states]
    assert [None, "connection refused", None, None] == [one.judge_error for one in states]
    assert 2 == read_ledger(store).total.scored


def test_a_json_log_line_has_no_text_of_an_exception():
    """Type and place of the error are enough to find it; its message may quote what a user asked."""
    try:
        int("the user's secret question")
    except ValueError:
        record = logging.LogRecord("ragstone", logging.ERROR, __file__, 1, "trace %s failed", ("t1",), sys.exc_info())
    record.trace_id, record.app, record.metric = "t1", "bot", None

    text = _JsonFormatter().format(record)

    line = json.loads(text)
    assert "secret" not in text
    assert "\n" not in text
    assert ("error", "trace t1 failed", "t1", "bot", "ValueError") == (
        line["level"], line["event"], line["trace_id"], line["app"], line["error"]
    )  # fmt: skip
    assert "metric" not in line
    assert __file__ in line["frames"][0]


@pytest.mark.parametrize(
    ("usec", "pid", "expected"),
    [("2000000", "", 1.0), ("", "", None), ("0", "", None), ("x", "", None), ("9", "1", None)],
)
def test_the_watchdog_is_heard_twice_in_its_limit(monkeypatch, usec, pid, expected):
    """A watchdog of another process, or none, is not served."""
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.setenv("WATCHDOG_PID", pid)

    assert expected == watchdog_interval_s()


@pytest.mark.usefixtures("virtual_time")
def test_the_watchdog_does_not_hear_of_a_worker_that_hangs(monkeypatch):
    """Systemd restarts the service then."""
    monkeypatch.setenv("WATCHDOG_USEC", "2000000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    heard: list[str] = []
    monkeypatch.setattr("ragstone.cli._health.notify", heard.append)
    current = state(since_poll_s=31.0)

    async def main() -> None:
        nonlocal current
        async with watchdog(lambda: current):
            await asyncio.sleep(9.5)
            assert [] == heard
            current = state()
            await asyncio.sleep(1.0)
            assert ["WATCHDOG=1"] == heard

    asyncio.run(main())


@pytest.mark.parametrize("address", ["", "relative", "/does/not/exist", "@ragstone-no-such-socket"])
def test_without_a_manager_nothing_is_sent(monkeypatch, address):
    """A command started by hand runs as before."""
    monkeypatch.setenv("NOTIFY_SOCKET", address)

    notify("READY=1")


def test_an_abstract_socket_is_reached(monkeypatch):
    """Systemd writes its zero byte as @."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("")
        name = manager.getsockname()
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + name[1:].decode())
        notify("READY=1")
        manager.settimeout(10)
        assert b"READY=1" == manager.recv(100)
