"""`examples/redis`: the commands of its README in an empty directory, with a real Redis, and its compose file."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.servers

EXAMPLE = Path(__file__).parents[2] / "examples" / "redis"
PROGRAMS = Path(sys.executable).parent
QUEUE = "redis://127.0.0.1/handbook"


@pytest.fixture
def redis_of_the_example(start_redis):
    """A Redis server with the file of the example, on a free port."""
    lines = [line.split() for line in (EXAMPLE / "redis.conf").read_text().splitlines() if not line.startswith("#")]
    return start_redis(*(part for name, *values in lines for part in (f"--{name}", *values)))


@pytest.fixture
def run(redis_of_the_example, tmp_path):
    """The function that runs a command of the README in an empty directory."""
    shutil.copy(EXAMPLE / "app.py", tmp_path)
    url = redis_of_the_example.url("handbook")
    (tmp_path / "app.py").write_text((EXAMPLE / "app.py").read_text().replace(QUEUE, url))

    def run(command):
        name, *arguments = shlex.split(command.replace(QUEUE, url))
        program = sys.executable if name == "python" else PROGRAMS / name
        return subprocess.run(
            [program, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=True,
            env=os.environ | {"RAGSTONE_SPOOL": str(tmp_path / "spool")},
        ).stdout  # fmt: skip

    return run


def commands():
    """The commands of the README that run without Docker, but for the installation and Redis itself."""
    lines = re.findall(r"^    (\w.*)$", (EXAMPLE / "README.md").read_text(), re.MULTILINE)
    assert lines[:2] == ["pip install -r requirements.txt", "redis-server redis.conf"]
    return lines[2:]


def test_the_commands_of_the_readme(run):
    """The application does not need the store, and the worker scores what waits in Redis."""
    ask, waiting, score, done = commands()
    assert run(ask).splitlines() == [
        "Dogs travel free and must be on a lead.",
        "The Gannet carries 180 passengers and 24 cars.",
    ]
    assert "2 waiting" in run(waiting)
    run(score)
    assert "0 waiting, 0 in progress" in run(done)
    total = json.loads(run(f"{done} --json"))["total"]
    assert (total["captured"], total["scored"]) == (2, 2)


def test_the_parts_of_the_compose_file_agree():
    """Application and worker use one queue and one password, and each part has a volume of its own."""
    services = yaml.safe_load((EXAMPLE / "compose.yml").read_text())["services"]
    queue = "redis://redis/handbook"
    command = services["worker"]["command"]
    assert services["app"]["environment"]["RAGSTONE_STORE"] == queue == command[command.index("--from") + 1]
    app, worker = (services[name]["environment"]["RAGSTONE_BROKER_PASSWORD"] for name in ("app", "worker"))
    assert app == worker == services["redis"]["environment"]["REDISCLI_AUTH"]
    volumes = {name: service["volumes"][-1].split(":")[0] for name, service in services.items()}
    assert volumes == {"app": "spool", "redis": "redis", "worker": "store"}
