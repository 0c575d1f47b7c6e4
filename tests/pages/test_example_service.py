"""`examples/fastapi_langchain`: the commands of its README in an empty directory, and its compose file."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from waiting import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "fastapi_langchain"
PROGRAMS = Path(sys.executable).parent


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


@pytest.fixture
def service(tmp_path):
    """The address of the service, whose store is in the current directory."""
    shutil.copy(EXAMPLE / "app.py", tmp_path)
    port = _free_port()
    command = [PROGRAMS / "uvicorn", "app:app", "--port", str(port)]
    environment = os.environ | {"RAGSTONE_STORE": str(tmp_path / "ragstone.db")}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE) as process:
        address = f"http://127.0.0.1:{port}"
        try:
            wait_until(lambda: process.poll() is not None or _answers(address), limit_s=200)
            assert process.poll() is None, process.stderr.read().decode()
            yield address
        finally:
            process.terminate()
            process.wait(60)


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/openapi.json").status_code == 200
    except httpx.TransportError:
        return False


def _ragstone(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [PROGRAMS / "ragstone", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=True)


def test_the_service_answers_and_the_worker_scores(service, tmp_path):
    """What the service captured, with the feedback of a user, is scored by another process."""
    reply = httpx.post(f"{service}/ask", json={"question": "Do dogs pay?", "session_id": "s-1"}).json()
    assert reply["answer"] == "Dogs travel free, on a lead."
    assert httpx.post(f"{service}/feedback/{reply['id']}", json={"value": 1}).status_code == 200
    wait_until(lambda: any((tmp_path / "ragstone.db.spool").rglob("*")))
    _ragstone(tmp_path, "worker", "ragstone.db", "--metrics", "ccrs", "--judge", "lexical", "--until-idle")
    status = json.loads(_ragstone(tmp_path, "status", "ragstone.db", "--json").stdout)
    assert (1, 1) == (status["total"]["captured"], status["total"]["scored"])
    trace = _ragstone(tmp_path, "traces", "ragstone.db", reply["id"]).stdout
    assert "Do dogs pay?" in trace
    assert "feedback" in trace.lower()


def test_service_and_worker_share_the_store():
    """One volume, the same path, and the command that the README shows."""
    services = yaml.safe_load((EXAMPLE / "compose.yml").read_text(encoding="utf-8"))["services"]
    assert services["service"]["volumes"] == services["worker"]["volumes"] == ["store:/data"]
    dockerfile = (EXAMPLE / "Dockerfile").read_text(encoding="utf-8")
    assert "RAGSTONE_STORE=/data/ragstone.db" in dockerfile
    assert services["worker"]["command"][:3] == ["ragstone", "worker", "/data/ragstone.db"]
