"""Commands with a judge that fails: they stop early, or their exit code says it, and the last line says why."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from command_line import run_command
from fake_servers import FakeJudgeServer
from ragstone.schema import Captured, Trace
from ragstone.store import SqliteStore
from ragstone.worker import read_ledger

pytestmark = pytest.mark.usefixtures("virtual_time")

N = 40


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a file of samples, of which the last one has an empty response."""
    monkeypatch.chdir(tmp_path)
    samples = [
        {"id": f"q{i}", "query": f"Why {i}?", "contexts": ["So."], "response": "So." if i < N - 1 else ""}
        for i in range(N)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


def options(server: FakeJudgeServer) -> list[str]:
    """Options of a judge with a key."""
    return [
        f"--judge={server.url}",
        "--judge-model=fake-judge",
        "--set=judge.api_key_env=K",
        "--metrics=ccrs.qr,ccrs.id",
    ]


@pytest.mark.parametrize("command", ["evaluate", "replay"])
def test_a_wrong_key_stops_the_run(rows, command):
    """Exit code 3, the cause in the last line, and few calls. Without stopping early, each outcome fails."""
    store = ["--store", "r.db"] if command == "replay" else []
    with FakeJudgeServer(api_key="right") as server:
        done = run_command(command, rows, *store, *options(server), "--set=limits.concurrency=4", K="wrong")
        assert 3 == done.returncode
        last = done.stderr.splitlines()[-1]
        assert re.search("stopped after|fails systematically", last)
        assert "HTTP 401" in last
        assert "wrong" not in last.replace("wrong key", "")
        if command == "replay":
            assert (0, N) == (read_ledger("r.db").total.failed, read_ledger("r.db").total.pending)
            done = run_command(command, rows, *store, *options(server), K="right")
            assert (0, N) == (done.returncode, read_ledger("r.db").total.scored)

        store = ["--store", "s.db"] if command == "replay" else []
        done = run_command(command, rows, *store, *options(server), "--set", "limits.stop_early=false", K="wrong")
    assert 3 == done.returncode
    assert (
        f"exit code 3: {2 * N - 2} of {2 * N - 2} judged outcomes failed (100%), more than the limit of 50% "
        f"(limits.max_failed_share). By kind: {2 * N - 2} rejected." == done.stderr.splitlines()[-1]
    )


@pytest.mark.parametrize(
    ("limit", "code"), [([], 3), (["--set=limits.max_failed_share=0.8"], 0), (["--set=limits.max_failed_share=0"], 3)]
)
@pytest.mark.parametrize("command", ["evaluate", "replay", "worker"])
def test_the_limit_of_failures_is_an_option(rows, command, limit, code):
    """The share is of judged outcomes: about two thirds fail here, because their replies are not numbers."""
    with SqliteStore.open("w.db", mode="own") as store:
        samples = map(json.loads, rows.read_text().splitlines())
        traces = [
            Trace(
                trace_id=s["id"],
                started_at=1,
                query=s["query"],
                response=s["response"],
                prompt_contexts=[{"text": "So."}],
            )
            for s in samples
        ]
        store.traces.ingest("s", 1, [Captured(trace=trace) for trace in traces])

    def reply(body: object) -> str:
        return "5" if re.search(r"Why \d?[147]\?", json.dumps(body)) else "none"

    with FakeJudgeServer(reply=reply, structured="refused") as server:
        arguments = [f"--judge={server.url}", "--metrics=ccrs.qr", *limit]
        what = {"evaluate": [rows], "replay": [rows, "--store=r.db"], "worker": ["w.db", "--until-idle"]}[command]
        done = run_command(command, *what, *arguments)
    assert code == done.returncode, done.stderr
    assert (code == 3) == ("of 39 judged outcomes failed" in done.stderr.splitlines()[-1])


def test_one_empty_response_is_not_a_success(rows):
    """Its zero does not need a judge, so it does not show that the judge works."""
    Path("two.jsonl").write_text("".join(rows.read_text().splitlines(keepends=True)[-2:]))
    with FakeJudgeServer(api_key="right") as server:
        done = run_command("evaluate", "two.jsonl", *options(server), K="wrong")
    assert 3 == done.returncode
    assert "exit code 3: 2 of 2 judged outcomes failed (100%)" in done.stderr.splitlines()[-1]
