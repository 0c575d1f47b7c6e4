"""`examples/operator`: the commands of its README with real servers, an outage of its database, and its alarm."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from postgres_server import serve_postgres
from waiting import wait_until

pytestmark = pytest.mark.servers

EXAMPLES = Path(__file__).parents[2] / "examples"
README = (EXAMPLES / "operator" / "README.md").read_text()
PROGRAMS = Path(sys.executable).parent
OUTAGE_S = 8
LIMIT_S = 120


def blocks():
    """The commands of the README, in its order: installation, services, first requests, planted drop."""
    return [block.split("\n    ") for block in re.findall(r"^    (\S.*(?:\n    .*)*)", README, re.MULTILINE)]


def get(url):
    """Status and JSON of an answer, or status 0 without one."""
    try:
        reply = httpx.get(url, timeout=5, trust_env=False)
    except httpx.HTTPError:
        return 0, {}
    return reply.status_code, reply.json()


@pytest.fixture(scope="module")
def database():
    """A PostgreSQL server of its own, which the test stops."""
    with serve_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def operator(database, program, port, serving, tmp_path_factory):
    """The running example, in a copy with free ports: `run` and `start` take a command of the README."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(EXAMPLES / "deploy", folder / "deploy")
    shutil.copytree(
        EXAMPLES / "operator", folder / "operator", ignore=shutil.ignore_patterns(".venv", "__pycache__", "*-data")
    )
    ports = {number: str(port()) for number in ("8001", "8080", "9464", "9190", "9193", "8484")}
    ports["5432"] = re.search(r":(\d+)/", database.url())[1]

    def replaced(text):
        text = re.sub(rf"(?<=[: ])({'|'.join(ports)})\b", lambda found: ports[found[0]], text)
        return text.replace("sudo -u postgres psql", f"psql {database.url()}")

    for path in (folder / "operator").iterdir():
        path.write_text(replaced(path.read_text()))
    known = {
        "prometheus": ("RAGSTONE_PROMETHEUS", "prometheus"),
        "prometheus-alertmanager": ("RAGSTONE_ALERTMANAGER", "prometheus-alertmanager"),
        "amtool": ("RAGSTONE_AMTOOL", "amtool"),
        "psql": ("RAGSTONE_PSQL", "psql"),
    }
    environment = {
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "PGPASSWORD": "touchstone",
        "RAGSTONE_SPOOL": str(folder / "spool"),
    }

    def real(command):
        name, *rest = replaced(command).split(" ", 1)
        return " ".join([shlex.quote(program(*known[name])) if name in known else name, *rest])

    def run(command):
        done = subprocess.run(
            ["bash", "-c", real(command)], cwd=folder / "operator", env=os.environ | environment, capture_output=True,
            text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        assert 0 == done.returncode, (command, done.stdout, done.stderr)
        return done.stdout

    install, services, _, _ = blocks()
    assert "pip install -r requirements.txt" in install
    run(install[-1])
    ready = ["8001/v1/models", "8080/openapi.json", "9464/readyz", "9190/-/ready", "9193/-/ready", "8484/"]
    with contextlib.ExitStack() as stack:
        for command, path in zip(services, ready, strict=True):
            url = "http://127.0.0.1:" + replaced(f":{path}")[1:]
            log = folder / f"{path[:4]}.log"
            stack.enter_context(
                serving(
                    shlex.split(real(command)), ready=url, log=log, environment=environment, cwd=folder / "operator"
                )
            )
        store = replaced(re.search(r"postgresql://\S+", README)[0])
        yield SimpleNamespace(
            run=run,
            url=lambda path: replaced(f"http://127.0.0.1:{path}"),
            store=store,
            status=f"ragstone status {store}",
            log=lambda number: (folder / f"{number}.log").read_text(),
        )


def stored(operator):
    """The counts of all requests."""
    return json.loads(operator.run(f"{operator.status} --json"))["total"]


def found(operator, command, text):
    """The output of a command, once it contains a text."""
    outputs = [""]
    wait_until(lambda: outputs.append(operator.run(command)) or text in outputs[-1], limit_s=LIMIT_S)
    return outputs[-1]


def test_the_commands_of_the_readme_lead_to_an_alert(operator):
    """All requests are scored, a model that gets worse is an alarm in Alertmanager, and its text names the store."""
    _, _, (ask, ready, status), (decline, ask_again, sleep, watch, alerts) = blocks()
    before = stored(operator)["scored"]
    assert "60 answered" in operator.run(ask)
    wait_until(lambda: stored(operator)["scored"] == before + 60, limit_s=LIMIT_S)
    assert json.loads(operator.run(ready))["ready"]
    assert f"ragstone report {operator.store}" in operator.run(status)

    operator.run(decline)
    assert "60 answered" in operator.run(ask_again)
    assert sleep.startswith("sleep ")
    assert f"ragstone traces {operator.store} --alarm 1" in found(operator, watch, "ALARM 1")
    alert = found(operator, alerts, "RagstoneQualityDropped")
    assert f"ragstone watch {operator.store}" in alert
    assert "production.md#ragstonequalitydropped" in alert
    query = {"query": 'process_resident_memory_bytes{job="ragstone"}'}
    memory = httpx.get(operator.url("9190/api/v1/query"), params=query, trust_env=False).json()["data"]["result"]
    assert operator.store == memory[0]["metric"]["store"]


def test_an_outage_of_the_database_has_one_cause_and_loses_nothing(operator, database):
    """The service answers meanwhile, readiness has one error, and all requests are scored when the database is back."""
    is_over, sent, causes = threading.Event(), [0], []
    before = stored(operator)["scored"]

    def ask():
        with httpx.Client(base_url=operator.url("8080"), timeout=60, trust_env=False) as client:
            while not is_over.is_set():
                question = {"question": "Must dogs be on a lead?", "session_id": f"session-{sent[0]}"}
                sent[0] += client.post("/ask", json=question).is_success
                time.sleep(0.05)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        wait_until(lambda: sent[0] > 20)
        database.stop()
        end = time.monotonic() + OUTAGE_S
        try:
            wait_until(lambda: get(operator.url("9464/readyz"))[0] == 503)
            while time.monotonic() < end:
                causes.append(get(operator.url("9464/readyz"))[1]["store_errors"])
                time.sleep(0.1)
        finally:
            database.start()
        wait_until(lambda: get(operator.url("9464/readyz"))[0] == 200)
    finally:
        is_over.set()
        asking.join()
    wait_until(lambda: stored(operator)["scored"] == before + sent[0], limit_s=LIMIT_S)
    assert {1} == {len(errors) for errors in causes}
    assert "cannot be used now" in causes[-1][0]
    log = operator.log("9464")
    assert 1 <= log.count("cannot be used now") <= 5
    assert "Traceback" not in log
