"""What a reader of the documentation has: an empty directory, the commands, and the servers that the pages name."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fake_servers import FakeJudgeServer, RecordingServer
from fake_servers.embedding_server import FakeEmbeddingServer
from fake_servers.loopback import Reply, Request
from fork_server import fork_server, write_program
from ragstone.cli._doctor_items import ITEMS

SUPPORT = Path(__file__).parents[1] / "support"

_SERVERS = ("worker", "ingest", "view")
_WRAPPER = f"""\
#!{sys.executable} -S
# `ragstone`: commands that run until they are stopped run in the background, as in another terminal.
import os, sys, time
directory = os.path.dirname(os.path.realpath(__file__))
words = sys.argv[1:]
command = next((word for word in words if word in {_SERVERS!r}), None)
forked = [os.path.join(directory, "ragstone-forked"), *words]
if command is None or {{"--until-idle", "--help"}} & set(words):
    os.execv(forked[0], forked)
if command == "view" and "--listen" not in words:
    forked += ["--listen", "127.0.0.1:0"]
if command == "ingest" and "--listen" not in words:
    forked += ["--listen", os.environ["PAGE_INGEST"]]
# One terminal: the command that ran there before is stopped first.
for name in os.listdir(os.environ["PAGE_SERVERS"]):
    if name.startswith(command) and name.endswith(".pid"):
        former = int(open(os.path.join(os.environ["PAGE_SERVERS"], name)).read())
        try:
            os.kill(former, 15)
            while os.path.exists(f"/proc/{{former}}"):
                time.sleep(0.05)
        except ProcessLookupError:
            pass
log = os.path.join(os.environ["PAGE_SERVERS"], f"{{command}}-{{time.monotonic_ns()}}")
with open(log + ".log", "w") as output:
    streams = [(os.POSIX_SPAWN_DUP2, output.fileno(), stream) for stream in (1, 2)]
    pid = os.posix_spawn(forked[0], forked, os.environ, file_actions=streams, setpgroup=0)
with open(log + ".pid", "w") as file:
    file.write(str(pid))
port = int(forked[forked.index("--listen") + 1].rpartition(":")[2]) or None if "--listen" in forked else None
for _ in range(600):
    time.sleep(0.1)
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended:
        sys.stderr.write(open(log + ".log").read())
        sys.exit(os.waitstatus_to_exitcode(status))
    if port is None and (os.path.getsize(log + ".log") or _ > 20):
        break
    if port is not None:
        import socket
        with socket.socket() as trial:
            if not trial.connect_ex(("127.0.0.1", port)):
                break
"""

_PIP = f"""\
#!{sys.executable}
# `pip install`: our distributions are installed already, so this only checks that they and their extras exist.
import re, sys
from importlib.metadata import metadata
assert sys.argv[1] == "install", sys.argv
for word in sys.argv[2:]:
    if word.startswith("-"):
        continue
    name, _, extras = word.removesuffix("]").partition("[")
    offered = metadata(name).get_all("Provides-Extra") or []
    missing = set(filter(None, extras.split(","))) - set(offered)
    sys.exit(f"{{name}} has no extra {{missing}}") if missing else None
"""


_RATED = {
    f"<query>\n{query}\n</query>\n<response>\n{answer}\n</response>": share
    for query, _, right, wrong in ITEMS
    for answer, share in ((right, 0.9), (wrong, 0.1))
}
"""Fields of the prompts for the items of `ragstone doctor`, and the share of the scale that a usable judge gives."""


class _Models(FakeJudgeServer):
    """A judge that rates the items of `ragstone doctor` as a usable judge does, and that also embeds."""

    def __init__(self) -> None:
        super().__init__()
        self._embedder = FakeEmbeddingServer()

    def _verdict(self, question: str, low: int, high: int) -> int:
        share = next((share for fields, share in _RATED.items() if fields in question), None)
        return super()._verdict(question, low, high) if share is None else low + round((high - low) * share)

    async def _answer(self, request: Request) -> Reply:
        if request.path == "/v1/embeddings":
            return await self._embedder._answer(request)
        reply = await super()._answer(request)
        if request.path == "/v1/chat/completions" and json.loads(request.content).get("stream"):
            choice = reply.body["choices"][0]
            chunk = reply.body | {"choices": [choice | {"delta": choice["message"], "message": None}]}
            return Reply(200, f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n")
        return reply


@pytest.fixture(scope="session")
def programs() -> Iterator[Path]:
    """A directory with the commands that pages call."""
    # Not pytest's directory: the path of a socket has at most 107 bytes.
    with tempfile.TemporaryDirectory() as name, fork_server(Path(name)) as address:
        directory = Path(name)
        write_program(directory / "ragstone-forked", address, "ragstone")
        write_program(directory / "run-page", address, str(SUPPORT / "run_page.py"))
        for program, text in (("ragstone", _WRAPPER), ("pip", _PIP)):
            (directory / program).write_text(text, encoding="utf-8")
            (directory / program).chmod(0o755)
        yield directory


@pytest.fixture(scope="session")
def models() -> Iterator[_Models]:
    """A judge, reader and embedder."""
    with _Models() as server:
        yield server


@pytest.fixture(scope="session")
def receiver() -> Iterator[RecordingServer]:
    """A server that takes whatever sinks deliver."""
    with RecordingServer() as server:
        yield server


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


@pytest.fixture
def run_page(
    tmp_path: Path, programs: Path, models: _Models, receiver: RecordingServer
) -> Iterator[Callable[[Path], None]]:
    """Run all blocks of a page in an empty directory."""
    desk, aside = tmp_path / "desk", tmp_path / "aside"
    desk.mkdir()
    aside.mkdir()
    own = {name: f"127.0.0.1:{_free_port()}" for name in ("4318", "9464")}
    # In this order: an address that is the end of another one comes after it.
    replaced = dict.fromkeys(
        (
            "http://localhost:8000/v1", "http://localhost:8001/v1", "http://localhost:11434/v1", "http://gpu-1:8000/v1",
            "http://gpu-2:8000/v1", "http://router:8000/v1", "http://127.0.0.1:8000/v1",
        ),
        models.url,
    )  # fmt: skip
    replaced |= dict.fromkeys(
        ("http://localhost:6006", "http://localhost:5000", "http://localhost:4318", "https://example.com"),
        receiver.address,
    )
    replaced |= {"db.example.com": "127.0.0.1:9", "https://hooks.slack.com": receiver.address}
    replaced |= {
        "10.0.0.5:4318": f"127.0.0.1:{_free_port()}",
        "127.0.0.1:4318": own["4318"],
        "127.0.0.1:9464": own["9464"],
    }
    replaced |= {"start_http_server(9464": "start_http_server(" + own["9464"].rpartition(":")[2]}
    (aside / "replaced.json").write_text(json.dumps(replaced), encoding="utf-8")
    environment = {key: os.environ[key] for key in ("LANG", "LC_ALL", "TZ") if key in os.environ} | {
        "PATH": os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"])),
        "HOME": str(aside),
        "COLUMNS": "80",
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": models.url,
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.address,
        "LANGFUSE_HOST": receiver.address,
        "LANGSMITH_ENDPOINT": receiver.address,
        "LANGSMITH_TRACING": "false",
        "PAGE_SERVERS": str(aside),
        "PAGE_INGEST": own["4318"],
        "PYTHONPATH": f"{SUPPORT}{os.pathsep}{desk}",
    }

    def run(page: Path) -> None:
        command = [programs / "run-page", page, aside / "replaced.json", aside / "environment"]
        done = subprocess.run(command, cwd=desk, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    yield run
    assert not (aside / "network").exists(), (aside / "network").read_text()
    for file in aside.glob("*.pid"):
        _stop(int(file.read_text()), file.with_suffix(".log"))


def _stop(pid: int, log: Path) -> None:
    """End a command that runs in the background, which must end cleanly."""
    try:
        os.kill(pid, 15)
    except ProcessLookupError:
        return
    for _ in range(300):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.1)
    os.kill(pid, 9)
    raise AssertionError(f"{log.name} did not end: {log.read_text()}")
