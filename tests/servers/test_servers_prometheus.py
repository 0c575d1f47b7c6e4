"""A real Prometheus scrapes the sink, evaluates the shipped alert rules, and a real Alertmanager calls a webhook."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.resources import files
from pathlib import Path

import httpx
import pytest

from ragstone.schema import DeliveryCounts, Ledger, LedgerRow, Score
from ragstone.sinks import Delivery, PrometheusSink

pytestmark = pytest.mark.servers

RULES = files("ragstone.sinks") / "alerts" / "ragstone.rules.yml"
TESTS = Path(__file__).with_name("alerts_test.yml")
DEADLINE_S = 120


def test_the_alert_rules_do_what_they_say(program):
    """Each fires when it should and is silent when it should be, by Prometheus' own evaluator."""
    promtool = program("RAGSTONE_PROMTOOL", "promtool")

    done = subprocess.run([promtool, "test", "rules", TESTS], capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stdout + done.stderr


def test_every_alert_is_tested_both_ways():
    """A rule without a test of its silence would pass if it always fired."""
    defined = re.findall(r"- alert: (\w+)", RULES.read_text())
    tested = re.findall(r"alertname: (\w+)\n +exp_alerts:( \[\])?", TESTS.read_text())
    # This one is held to three metrics at once, of which one may fire.
    silent = {name for name, nothing in tested if nothing} | {"RagstoneMetricFails"}

    assert len(defined) >= 10
    assert set(defined) == {name for name, nothing in tested if not nothing} == silent


def test_the_page_is_as_prometheus_wants_it(program):
    """Names, types and help texts pass Prometheus' own linter."""
    promtool = program("RAGSTONE_PROMTOOL", "promtool")
    sink = PrometheusSink(port=0)

    async def page():
        await sink.write([delivery("t", 0.5)])
        sink.update_status(Ledger(total=LedgerRow(captured=1, scored=1), outbox={"s": DeliveryCounts(sent=1)}))
        try:
            return (await httpx.AsyncClient(trust_env=False).get(f"http://127.0.0.1:{sink.port}/metrics")).text
        finally:
            await sink.aclose()

    text = asyncio.run(page())
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)

    assert "ragstone_score_bucket" in text
    assert (0, "") == (done.returncode, done.stderr)


def test_low_scores_call_somebody(program, port, serving, tmp_path):
    """Scores → sink → scrape → rule → Alertmanager → webhook; and Prometheus has the exemplars that lead to traces."""
    prometheus = program("RAGSTONE_PROMETHEUS", "prometheus")
    alertmanager = program("RAGSTONE_ALERTMANAGER", "prometheus-alertmanager")
    calls = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            calls.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    hook = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=hook.serve_forever, daemon=True).start()
    sink = PrometheusSink(port=0)
    asyncio.run(sink.write([]))
    manager, server = (f"127.0.0.1:{port()}" for _ in range(2))
    rules = RULES.read_text().replace("[1h]", "[1m]")
    (tmp_path / "rules.yml").write_text(re.sub(r"for: \d+m", "for: 1s", rules))
    (tmp_path / "alertmanager.yml").write_text(
        "route: {receiver: hook, group_wait: 0s, group_interval: 1s}\n"
        f"receivers: [{{name: hook, webhook_configs: [{{url: 'http://127.0.0.1:{hook.server_port}/'}}]}}]\n"
    )
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        "rule_files: [rules.yml]\n"
        f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['{manager}']}}]}}]}}\n"
        f"scrape_configs: [{{job_name: ragstone, static_configs: [{{targets: ['127.0.0.1:{sink.port}']}}]}}]\n"
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
            deadline = time.monotonic() + DEADLINE_S
            for i in itertools.count():
                assert time.monotonic() < deadline, (tmp_path / "prometheus.log").read_text()[-2000:]
                asyncio.run(sink.write([delivery(f"{i}-{j}", 0.05) for j in range(10)]))
                sink.update_status(Ledger(total=LedgerRow(captured=i, scored=i)))
                called = {alert["labels"]["alertname"] for call in calls for alert in call["alerts"]}
                if called >= {"RagstoneWorstScoresLow", "RagstoneManyScoresLow"}:
                    break
                time.sleep(0.2)
            query = {"query": "ragstone_score_bucket", "start": time.time() - 600, "end": time.time() + 60}
            found = httpx.get(f"http://{server}/api/v1/query_exemplars", params=query, trust_env=False).json()
    finally:
        hook.shutdown()
        hook.server_close()
        asyncio.run(sink.aclose())

    assert {"RagstoneWorstScoresLow", "RagstoneManyScoresLow"} == called
    (alert,) = {a["annotations"]["summary"] for call in calls for a in call["alerts"] if "tenth" in str(a)}
    assert alert.startswith("The worst tenth of exact_match is below 0.")
    traces = {e["labels"]["trace_id"] for series in found["data"] for e in series["exemplars"]}
    assert traces
    assert all(re.fullmatch("[0-9a-f]{32}", trace) for trace in traces)


def delivery(trace_id, value):
    """A score of a trace that a tracing tool has."""
    outcome = Score(sample_id=trace_id, metric="exact_match", metric_version="1", value=value, method="exact")
    otel = f"{abs(hash(trace_id)):032x}"
    return Delivery(outcome=outcome, trace_id=trace_id, app="app", otel_trace_id=otel, otel_sampled=True)
