"""The files of `examples/deploy`: valid for the tools that read them, and their commands, queries and rules work."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import yaml

from ragstone.capture import Application, Capture
from ragstone.requests import TraceDraft
from ragstone.spool import SpoolWriter
from ragstone.worker import spool_directory

pytestmark = pytest.mark.servers

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
PROGRAMS = Path(sys.executable).parent
DEADLINE_S = 180


def check(*command: object, **options: object) -> None:
    """Run a tool that has to be satisfied."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    assert 0 == done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("directory", ["deploy", "fastapi_langchain", "redis"])
def test_the_compose_file_follows_its_specification(directory):
    """By the schema that the Compose project publishes."""
    file = DEPLOY.parent / directory / "compose.yml"
    check(PROGRAMS / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", file)


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("github-workflows", ".github/workflows/*.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*.yml"),
        ("github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
        ("citation-file-format", "CITATION.cff"),
    ],
)
def test_the_files_of_the_forge_follow_their_schemas(schema, pattern):
    """Workflows, issue forms and the citation, by the schemas that are published for them."""
    found = sorted(DEPLOY.parents[1].glob(pattern))
    assert found
    check(PROGRAMS / "check-jsonschema", "--builtin-schema", f"vendor.{schema}", *found)


def test_the_dockerfile_is_clean():
    """Hadolint finds nothing."""
    check(PROGRAMS / "hadolint", DEPLOY / "Dockerfile")


@pytest.mark.parametrize("unit", ["ragstone-worker.service", "ragstone-ingest.service"])
def test_the_units_are_what_systemd_reads(tmp_path, unit):
    """With a program that exists: a misspelled key or value is an error or a warning."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze, which a machine without systemd does not have")
    text = (DEPLOY / "systemd" / unit).read_text()
    (tmp_path / unit).write_text(text.replace("/opt/ragstone/bin/ragstone", "/bin/true"))

    done = subprocess.run(
        [analyze, "verify", "--man=no", str(tmp_path / unit)], capture_output=True, text=True, check=False
    )

    assert (0, []) == (done.returncode, [line for line in done.stderr.splitlines() if unit in line])


def test_what_compose_mounts_exists():
    """Paths of the host, and names of volumes."""
    compose = yaml.safe_load((DEPLOY / "compose.yml").read_text())
    sources = [v.split(":")[0] for service in compose["services"].values() for v in service.get("volumes", ())]

    assert len(sources) > 5
    for source in sources:
        assert (DEPLOY / source).exists() if source.startswith(".") else source in compose["volumes"], source


def commands() -> dict[str, list[str]]:
    """What the image, the compose file and the units run, without the program."""
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    entry, command = (
        json.loads(re.search(rf"^{key} (\[.*\])$", dockerfile, re.MULTILINE)[1]) for key in ("ENTRYPOINT", "CMD")
    )
    compose = yaml.safe_load((DEPLOY / "compose.yml").read_text())
    found = {"image": [*entry, *command], "compose": [*entry, *compose["services"]["ingest"]["command"]]}
    for unit in sorted((DEPLOY / "systemd").glob("*.service")):
        found[unit.name] = shlex.split(re.search(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)[1])
    return {name: parts[1:] for name, parts in found.items()}


@pytest.mark.parametrize("name", commands())
def test_each_command_runs_in_an_empty_folder(tmp_path, name, serving, port, request):
    """With its paths, ports and database replaced, it becomes ready and stops cleanly."""
    address = f"127.0.0.1:{port()}"
    (tmp_path / "ragstone.toml").write_text('judge = "lexical"\n[scoring]\nmetrics = ["ccrs"]\n')
    arguments = []
    for part in commands()[name]:
        if part.startswith("postgresql://"):
            part = request.getfixturevalue("database")  # noqa: PLW2901
        part = re.sub(r"^(/data|/var/lib/ragstone|/etc/ragstone)/", f"{tmp_path}/", part)  # noqa: PLW2901
        arguments.append(re.sub(r"^(0\.0\.0\.0|127\.0\.0\.1):\d+$", address, part))
    environment = {"RAGSTONE_JUDGE": "lexical", "RAGSTONE_SPOOL": str(tmp_path / "spool")}
    log = tmp_path / "log"

    with serving(
        [PROGRAMS / "ragstone", *arguments], ready=f"http://{address}/readyz", log=log, environment=environment,
        cwd=tmp_path,
    ) as process:  # fmt: skip
        assert httpx.get(f"http://{address}/healthz", trust_env=False).json()["owns_store"]
        process.terminate()
        assert 0 == process.wait(60)
    assert [json.loads(line)["event"] for line in log.read_text().splitlines()]


def test_every_query_of_the_dashboard_works(tmp_path, program, serving, port):
    """A worker scores requests of two applications, Prometheus scrapes it as configured, and each panel shows data."""
    prometheus = program("RAGSTONE_PROMETHEUS", "prometheus")
    store, scraped, server = tmp_path / "r.db", f"127.0.0.1:{port()}", f"127.0.0.1:{port()}"
    config = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    config = re.sub(r"(\w+_interval): 15s", r"\1: 1s", config).replace("ingest:9464", scraped)
    (tmp_path / "prometheus.yml").write_text(config)
    shutil.copy(DEPLOY / "prometheus" / "ragstone.rules.yml", tmp_path)
    dashboard = json.loads((DEPLOY / "grafana" / "dashboards" / "ragstone.json").read_text())
    queries = {
        (panel["title"], target["refId"]): target["expr"]
        .replace("$__rate_interval", "1m")
        .replace("$app", "chat|search")
        for panel in dashboard["panels"]
        for target in panel["targets"]
    }
    # The lexical judge uses no tokens, and no sink is configured.
    silent = {("Judge tokens", "A"), ("Deliveries not sent", "A"), ("Deliveries not sent", "B")}
    assert silent < queries.keys()
    worker = [PROGRAMS / "ragstone", "worker", store, "--judge", "lexical", "--metrics", "ccrs", "--listen", scraped]
    scrape = [prometheus, "--config.file", tmp_path / "prometheus.yml", "--storage.tsdb.path", tmp_path / "tsdb",
              "--web.listen-address", server]  # fmt: skip
    with (
        serving(worker, ready=f"http://{scraped}/readyz", log=tmp_path / "worker.log"),
        serving(scrape, ready=f"http://{server}/-/ready", log=tmp_path / "prometheus.log"),
        httpx.Client(base_url=f"http://{server}/api/v1", trust_env=False) as client,
        applications(store) as recorders,
    ):
        deadline = time.monotonic() + DEADLINE_S
        missing = set(queries) - silent
        for number in range(10**6):
            assert time.monotonic() < deadline, f"no data for {missing}"
            for app, recorder in recorders.items():
                recorder.record(
                    TraceDraft(trace_id=f"{app}-{number}", query="How tall?", response="31 m.", contexts=[])
                )
            missing = {key for key in missing if not values(client, queries[key])}
            if not missing:
                break
            time.sleep(0.5)
        for key in silent:
            values(client, queries[key])
        labels = client.get("/label/app/values").json()["data"]
        rules = client.get("/rules").json()["data"]["groups"]
    assert {"chat", "search"} <= set(labels)
    assert [] == [rule["lastError"] for group in rules for rule in group["rules"] if rule.get("lastError")]
    assert len(rules) > 0


def values(client: httpx.Client, query: str) -> list[object]:
    """What Prometheus answers. NaN is no data."""
    answer = client.get("/query", params={"query": query}).json()
    assert "success" == answer["status"], (query, answer)
    return [series for series in answer["data"]["result"] if series["value"][1] != "NaN"]


@contextlib.contextmanager
def applications(store: Path):
    """Recorders of two applications that write to the spool of a store, by name."""
    recorders = {
        app: Capture(lambda: SpoolWriter(spool_directory(store)), application=Application.from_settings(app=app))
        for app in ("chat", "search")
    }
    try:
        yield recorders
    finally:
        for recorder in recorders.values():
            recorder.close()
