"""SIGINT, SIGTERM and SIGHUP at random moments of a command, from its first import on. `RAGSTONE_KILLS` sets their number."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from command_line import STARTED, run_in_new_process
from fake_servers import FakeJudgeServer
from kills import MANY_KILLS
from live_store import make_store
from ragstone.store import open_store

pytestmark = [
    pytest.mark.long,  # moments are random, so a few signals would find little, and not always the same
    pytest.mark.skipif(sys.platform == "win32", reason="sends signals"),
    pytest.mark.timeout(300 + 30 * MANY_KILLS),
]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt(arguments: list[object], moments: random.Random, limit_s: float) -> int:
    """Run a command, send it a signal at a random moment, and return its exit code. 0: it has ended before, or stopped as it should."""
    command = [sys.executable, "-c", STARTED, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == "."
        try:
            process.wait(moments.uniform(0, limit_s))
        except subprocess.TimeoutExpired:
            number = moments.choice(SIGNALS)
            process.send_signal(number)
            print(number.name, end=" ", flush=True)
            _, stderr = process.communicate(timeout=120)
            assert process.returncode in (0, 130), (number, stderr)
        else:
            stderr = process.communicate()[1]
            assert process.returncode == 0, stderr
    print(process.returncode, flush=True)
    assert "Traceback" not in stderr
    return process.returncode


def outcomes_of(path: Path) -> list[dict[str, Any]]:
    """The outcomes of a store or a file, without what differs from run to run."""
    if path.suffix == ".db":
        with open_store(path, mode="read") as store:
            assert store.ledger().total.balanced
            assert store.upkeep.recount() == []
            found = [outcome.model_dump(mode="json") for outcome in store.outcomes.read()]
    else:
        found = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(
        (each | {"created_at": 0, "duration_s": 0, "id": "", "usage": None} for each in found),
        key=lambda each: (each["sample_id"], each["metric"]),
    )


@pytest.mark.parametrize("command", ["evaluate", "replay"])
def test_runs_that_signals_end_are_resumed(tmp_path: Path, command: str) -> None:
    """The same command resumes. The outcomes equal those of an uninterrupted run, each once."""
    rows = [
        {"id": f"r{n}", "query": f"How far is {n}?", "contexts": [f"{n} km."], "response": "Far.", "reference": "No."}
        for n in range(60)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    moments = random.Random(seed)
    with FakeJudgeServer(latency_s=0.1) as judge:

        def arguments(output: Path) -> list[object]:
            to = ["--output", output] if command == "evaluate" else ["--store", output]
            return [
                command,
                tmp_path / "rows.jsonl",
                "--judge",
                judge.url,
                "--metrics",
                "ccrs.qr,ccrs.ac",
                *to,
                "--set=limits.concurrency=4",
            ]

        suffix = "jsonl" if command == "evaluate" else "db"
        whole = tmp_path / f"whole.{suffix}"
        assert run_in_new_process(*arguments(whole)).returncode == 0
        n_sent = n_runs = 0
        while n_sent < MANY_KILLS:
            output = tmp_path / f"run{n_runs}.{suffix}"
            n_runs += 1
            while n_sent < MANY_KILLS and interrupt(arguments(output), moments, 8.0) != 0:
                n_sent += 1
            assert run_in_new_process(*arguments(output)).returncode == 0
            assert outcomes_of(output) == outcomes_of(whole)
    print(f"{n_sent} signals in {n_runs} runs of {command}")


def test_signals_end_a_page(tmp_path: Path) -> None:
    """`view` ends with 0 when it serves, with 130 while it starts, and the store stays as it is."""
    store = make_store(tmp_path / "s.db", 4)
    before = outcomes_of(store)
    moments = random.Random()
    for _ in range(MANY_KILLS):
        interrupt(["view", store, "--listen", "127.0.0.1:0"], moments, 6.0)
    assert outcomes_of(store) == before
