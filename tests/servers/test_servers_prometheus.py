"""A real Prometheus scrapes the sink, evaluates the shipped alert rules, and a real Alertmanager calls a webhook."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest, start_http_server

from ragstone.schema import DeliveryCounts, Ledger, LedgerRow, Score
from ragstone.sinks import Delivery, PrometheusSink
from ragstone.store import open_store
from waiting import wait_until
from watched_store import DAY_S, fill

pytestmark = pytest.mark.servers

RULES = Path(__file__).parents[2] / "examples/deploy/prometheus/ragstone.rules.yml"
TESTS = Path(__file__).with_name("alerts_test.yml")
DEADLINE_S = 120


def test_the_alert_rules_do_what_they_say(program, tmp_path):
    """Each fires when it should and is silent when it should be, by Prometheus' own evaluator."""
    promtool = program("RAGSTONE_PROMTOOL", "promtool")
    (tmp_path / "ragstone.rules.yml").write_text(RULES.read_text())
    tests = re.sub(r"- \.\./\S+/ragstone\.rules\.yml", "- ragstone.rules.yml", TESTS.read_text())
    (tmp_path / "tests.yml").write_text(tests)

    done = subprocess.run(
        [promtool, "test", "rules", tmp_path / "tests.yml"], capture_output=True, text=True, check=False
    )

    assert 0 == done.returncode, done.stdout + done.stderr


def test_every_alert_is_tested_both_ways():
    """A rule without a test of its silence would pass if it always fired."""
    defined = re.findall(r"- alert: (\w+)", RULES.read_text())
    tested = re.findall(r"alertname: (\w+)\n +exp_alerts:( \[\])?", TESTS.read_text())
    # This one is held to three metrics at once, of which one may fire.
    silent = {name for name, nothing in tested if nothing} | {"RagstoneMetricFails"}

    assert len(defined) >= 9
    assert set(defined) == {name for name, nothing in tested if not nothing} == silent


def test_the_page_is_as_prometheus_wants_it(program):
    """Names, types and help texts pass Prometheus' own linter."""
    promtool = program("RAGSTONE_PROMTOOL", "promtool")
    registry = CollectorRegistry()
    sink = PrometheusSink(registry)
    asyncio.run(sink.write([delivery("t", 0.5)]))
    sink.update_status(Ledger(total=LedgerRow(captured=1, scored=1), outbox={"s": DeliveryCounts(sent=1)}))
    text = generate_latest(registry).decode()
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)

    assert "ragstone_score_bucket" in text
    assert (0, "") == (done.returncode, done.stderr)


@contextlib.contextmanager
def called(program, port, serving, tmp_path, *, rules, page):
    """A Prometheus that scrapes a page and evaluates rules, and an Alertmanager: its URL, and what a webhook receives."""
    prometheus = program("RAGSTONE_PROMETHEUS", "prometheus")
    alertmanager = program("RAGSTONE_ALERTMANAGER", "prometheus-alertmanager")
    calls = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            calls.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["alerts"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    hook = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    manager, server = (f"127.0.0.1:{port()}" for _ in range(2))
    (tmp_path / "rules.yml").write_text(re.sub(r"for: \d+m", "for: 1s", rules))
    (tmp_path / "alertmanager.yml").write_text(
        "route: {receiver: hook, group_wait: 0s, group_interval: 1s}\n"
        f"receivers: [{{name: hook, webhook_configs: [{{url: 'http://127.0.0.1:{hook.server_port}/'}}]}}]\n"
    )
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        "rule_files: [rules.yml]\n"
        f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['{manager}']}}]}}]}}\n"
        f"scrape_configs: [{{job_name: ragstone, static_configs: [{{targets: ['{page}']}}]}}]\n"
    )
    commands = {
        manager: [
            *(alertmanager, "--config.file", tmp_path / "alertmanager.yml", "--storage.path", tmp_path / "am"),
            *("--web.listen-address", manager, "--cluster.listen-address="),
        ],
        server: [
            *(prometheus, "--config.file", tmp_path / "prometheus.yml", "--storage.tsdb.path", tmp_path / "tsdb"),
            *("--web.listen-address", server, "--enable-feature=exemplar-storage"),
        ],
    }
    try:
        with (
            serving(commands[manager], ready=f"http://{manager}/-/ready", log=tmp_path / "am.log"),
            serving(commands[server], ready=f"http://{server}/-/ready", log=tmp_path / "prometheus.log"),
        ):
            yield server, calls
    finally:
        hook.shutdown()
        hook.server_close()


def test_an_alarm_calls_somebody(program, port, serving, tmp_path):
    """A worker folds a drop, and its alarm comes by scrape, rule and Alertmanager to a webhook, also after a restart."""
    store, page = tmp_path / "r.db", f"127.0.0.1:{port()}"
    with open_store(store, mode="own") as opened:
        fill(opened, time.time() - 11.6 * DAY_S)
    command = [
        Path(sys.executable).with_name("ragstone"),
        "worker",
        store,
        "--metrics",
        "ccrs.qr",
        "--judge",
        "lexical",
    ]
    worker = {"command": [*command, "--listen", page], "ready": f"http://{page}/readyz", "log": tmp_path / "worker.log"}
    with called(program, port, serving, tmp_path, rules=RULES.read_text(), page=page) as (server, calls):

        def drops():
            """Calls about quality. While the worker starts, another rule may say that none is scraped."""
            return [c for c in calls if c["labels"]["alertname"] == "RagstoneQualityDropped"]

        with serving(**worker):
            wait_until(lambda: [c for c in drops() if c["status"] == "firing"], limit_s=DEADLINE_S)
        seen = drops()
        with serving(**worker):
            # Nothing is left to fold, and the gauge is there again.
            wait_until(lambda: "ragstone_watch_alarm{" in get(f"http://{page}/metrics"), limit_s=DEADLINE_S)
            lines = [line for line in get(f"http://{page}/metrics").splitlines() if "ragstone_watch" in line]

            def scraped():
                """Whether Prometheus has the gauge again, for which it needs a scrape."""
                return json.loads(get(f"http://{server}/api/v1/query?query=ragstone_watch_mean"))["data"]["result"]

            wait_until(scraped, limit_s=DEADLINE_S)

    (alert,) = {json.dumps([c["labels"], c["annotations"]["summary"]], sort_keys=True) for c in seen}
    assert "ccrs.qr of qa-bot got worse" in alert
    labels = '{app="qa-bot",kind="score",metric="ccrs.qr"}'
    values = {line.split("{")[0]: float(line.split()[-1]) for line in lines if labels in line}
    assert 1 == values["ragstone_watch_alarm"] <= values["ragstone_watch_alarms_total"]
    assert values["ragstone_watch_low"] < values["ragstone_watch_mean"] < values["ragstone_watch_high"]
    assert values["ragstone_watch_mean"] < values["ragstone_watch_reference"]
    assert 0 == values["ragstone_watch_learning"]
    assert 0 <= values["ragstone_watch_evidence"] < 1


def get(url):
    """The text of a page, or nothing if the server is not there."""
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url, trust_env=False).text
    return ""


def test_a_rule_of_the_user_calls_somebody(program, port, serving, tmp_path):
    """Scores → sink → scrape → rule → Alertmanager → webhook; and Prometheus has the exemplars that lead to traces."""
    registry = CollectorRegistry()
    sink = PrometheusSink(registry)
    page, thread = start_http_server(0, "127.0.0.1", registry)
    rules = """
groups:
  - name: of-the-user
    rules:
      - alert: MeanIsLow
        expr: |
          sum by (metric) (increase(ragstone_score_sum[1m])) / sum by (metric) (increase(ragstone_score_count[1m])) < 0.8
        for: 10m
        annotations:
          summary: The mean of {{ $labels.metric }} is {{ $value }}
"""
    try:
        with called(program, port, serving, tmp_path, rules=rules, page=f"127.0.0.1:{page.server_port}") as (
            server,
            calls,
        ):
            deadline = time.monotonic() + DEADLINE_S
            for i in itertools.count():
                assert time.monotonic() < deadline, (tmp_path / "prometheus.log").read_text()[-2000:]
                asyncio.run(sink.write([delivery(f"{i}-{j}", 0.05) for j in range(10)]))
                sink.update_status(Ledger(total=LedgerRow(captured=i, scored=i)))
                if calls:
                    break
                time.sleep(0.2)
            query = {"query": "ragstone_score_bucket", "start": time.time() - 600, "end": time.time() + 60}
            found = httpx.get(f"http://{server}/api/v1/query_exemplars", params=query, trust_env=False).json()
    finally:
        page.shutdown()
        page.server_close()
        thread.join()

    assert {"MeanIsLow"} == {call["labels"]["alertname"] for call in calls}
    assert calls[0]["annotations"]["summary"].startswith("The mean of exact_match is 0.0")
    traces = {e["labels"]["trace_id"] for series in found["data"] for e in series["exemplars"]}
    assert traces
    assert all(re.fullmatch("[0-9a-f]{32}", trace) for trace in traces)


def delivery(trace_id, value):
    """A score of a trace that a tracing tool has."""
    outcome = Score(sample_id=trace_id, metric="exact_match", metric_version="1", value=value, method="exact")
    otel = f"{abs(hash(trace_id)):032x}"
    return Delivery(outcome=outcome, trace_id=trace_id, app="app", otel_trace_id=otel, otel_sampled=True)
