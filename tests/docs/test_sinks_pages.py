"""What the pages on sinks promise beyond running: a signature that holds, and a sink that passes the contract."""

from __future__ import annotations

import asyncio
import base64
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fake_servers import RecordingServer
from ragstone.schema import Failure, Score
from ragstone.sinks import Delivery, WebhookSink, export_row, write_export

PAGES = Path(__file__).parents[2] / "docs" / "how-to"


def _blocks(page: str, language: str = "python") -> list[str]:
    text = (PAGES / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_documented_check_of_a_signature(monkeypatch):
    """It holds for what the sink sends now, and for nothing else."""
    (block,) = [block for block in _blocks("sinks.md") if "def is_genuine" in block]
    names: dict = {}
    exec(block, names)  # noqa: S102
    monkeypatch.setenv("RAGSTONE_WEBHOOK_SECRET", "whsec_" + base64.b64encode(b"\x00\xff key").decode())
    score = Score(sample_id="t1", metric="m", metric_version="1", value=0.5, method="x")

    async def send(url: str) -> None:
        for clock in ({}, {"clock": lambda: 1_700_000_000.0}):
            sink = WebhookSink(url, **clock)
            await sink.write([Delivery(outcome=score, trace_id="t1")])
            await sink.aclose()

    with RecordingServer() as server:
        asyncio.run(send(server.address))
    now, long_ago = server.requests
    assert names["is_genuine"](dict(now.headers), now.content)
    assert not names["is_genuine"](dict(now.headers), now.content + b" ")
    assert not names["is_genuine"](now.headers | {"webhook-id": "another"}, now.content)
    assert not names["is_genuine"](dict(long_ago.headers), long_ago.content)


def test_the_documented_sink_passes_the_contract(tmp_path):
    """The page's two blocks on a sink, in one file, are a test module that passes."""
    sink, contract = [block for block in _blocks("extend.md") if re.search(r"class \w*TableSink\b", block)]
    (tmp_path / "test_table.py").write_text(sink + contract, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "test_table.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def _two_rates() -> list[Delivery]:
    """100 good answers of which a tenth was kept, all of the 10 bad ones, and a failure: the mean is 100 of 110."""
    sampled = [(f"good{i}", 1.0, 0.1) for i in range(10)] + [(f"bad{i}", 0.0, 1.0) for i in range(10)]
    deliveries = [
        Delivery(
            outcome=Score(sample_id=id_, metric="m", metric_version="1", value=value, method="x"),
            trace_id=id_,
            requested_at=1_700_000_000.0,
            inclusion_probability=p,
        )
        for id_, value, p in sampled
    ]
    failure = Failure(sample_id="f", metric="m", metric_version="1", kind="timeout", reason="slow")
    return [
        *deliveries,
        Delivery(outcome=failure, trace_id="f", requested_at=1_700_000_000.0, inclusion_probability=0.1),
    ]


def test_the_documented_query(tmp_path, monkeypatch):
    """DuckDB computes the weighted mean of two sampling rates from an exported file with the query of the page."""
    duckdb = pytest.importorskip("duckdb")
    (query,) = _blocks("sinks.md", "sql")
    write_export(tmp_path / "scores.jsonl", (export_row(row, {}, None, include_text=False) for row in _two_rates()))
    monkeypatch.chdir(tmp_path)
    ((metric, _, mean, n, failed),) = duckdb.sql(query).fetchall()
    assert ("m", 20, 1) == (metric, n, failed)
    assert 100 / 110 == pytest.approx(mean)
