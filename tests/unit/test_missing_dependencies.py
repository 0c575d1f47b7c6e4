"""An installation without Ragstone's dependencies (`pip install --no-deps`): it captures, and names what else it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numpy", "scipy", "nltk", "openai", "httpx", "aiohttp", "certifi", "typer", "rich")
CAPTURE = """
from ragstone import Monitor

with Monitor(store="shop.db", scoring="none") as monitor, monitor.request("How tall?") as request:
    request.answer("31 m.")
"""
USES = {
    "scipy": "from ragstone.stats import kendall; kendall([1, 2, 3], [1, 3, 2])",
    "nltk": """
import ragstone
rows = [{"query": "q", "response": "walking home", "reference": "walked homes"}]
(outcome,) = ragstone.evaluate(rows, "rouge_l@stem=true").outcomes
print(outcome.reason)
""",
    "openai": "from ragstone.judges import OpenAICompatibleJudge; OpenAICompatibleJudge(client=object(), model='m')",
    "httpx": """
import asyncio
from ragstone.schema import Score
from ragstone.sinks import Delivery, WebhookSink
score = Score(sample_id="t", metric="m", metric_version="1", value=1.0, method="exact")
asyncio.run(WebhookSink("http://127.0.0.1:9/").write([Delivery(outcome=score, trace_id="t")]))
""",
}


def run_without(packages: tuple[str, ...], code: str, tmp_path) -> subprocess.CompletedProcess[str]:
    """Run code in a process in which these packages cannot be imported."""
    hide = f"import sys; sys.modules.update(dict.fromkeys({packages!r}))\n"
    return subprocess.run(
        [sys.executable, "-c", hide + code], capture_output=True, text=True, cwd=tmp_path, check=False, timeout=100
    )


def test_an_application_captures_with_pydantic_alone(tmp_path):
    """A service that only captures needs neither a numeric library nor a client for a model."""
    done = run_without(HEAVY, CAPTURE, tmp_path)
    assert done.returncode == 0, done.stderr
    (segment,) = (tmp_path / "shop.db.spool").iterdir()
    assert b"How tall?" in segment.read_bytes()


@pytest.mark.parametrize("package", USES)
def test_a_missing_dependency_is_named_where_it_is_needed(package, tmp_path):
    """The message has the package, what needs it, and the command that installs it."""
    done = run_without((package,), USES[package], tmp_path)
    shown = done.stdout + done.stderr
    assert f"needs the package {package!r}, which is not installed. Install it with: pip install 'ragstone'" in shown
