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
from ragstone.schema import Score
from ragstone.sinks import Delivery, WebhookSink

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
    """The page's blocks, in one file, are a test module that passes."""
    sink, _, contract = _blocks("write-a-sink.md")
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


def test_the_documented_query(tmp_path, monkeypatch):
    """DuckDB answers the query of the page from what the sink has written."""
    duckdb = pytest.importorskip("duckdb")
    from ragstone.sinks import ParquetSink

    (query,) = _blocks("sinks.md", "sql")
    scores = [
        Score(sample_id=f"t{i}", metric="m", metric_version="1", value=i / 2, method="x", details={"i": i})
        for i in range(3)
    ]
    deliveries = [Delivery(outcome=s, trace_id=s.sample_id, requested_at=1_700_000_000.0) for s in scores]
    asyncio.run(ParquetSink(tmp_path / "scores").write(deliveries))
    monkeypatch.chdir(tmp_path)
    ((metric, _, mean, n, failed),) = duckdb.sql(query).fetchall()
    assert ("m", 0.5, 3, 0) == (metric, mean, n, failed)
