"""The reply cache as a user meets it: a second run costs nothing, and a damaged cache fails nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import run_command
from fake_servers import FakeJudgeServer


def result(*arguments: object, **environment: str) -> dict[str, Any]:
    """Run a command with `--json`, and read what it says."""
    done = run_command(*arguments, "--json", **environment)
    assert 0 == done.returncode, done.stderr
    read: dict[str, Any] = json.loads(done.stdout)
    return read


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """Four samples with references."""
    path = tmp_path / "samples.jsonl"
    rows = [
        {
            "id": f"s{i}",
            "query": f"Where is stone {i}?",
            "contexts": ["At the river."],
            "response": f"At river {i}.",
            "reference": "At the river.",
        }
        for i in range(4)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("by_environment", [False, True], ids=["option", "environment"])
def test_a_second_run_asks_nothing(samples: Path, tmp_path: Path, by_environment: bool) -> None:
    """No call, no token, the same scores; the cached replies are told."""
    folder = tmp_path / "cache"
    environment = {"RAGSTONE_CACHE": str(folder)} if by_environment else {}
    with FakeJudgeServer() as server:
        command = ["evaluate", samples, "--judge", server.url, *([] if by_environment else [f"--set=cache={folder}"])]
        first = result(*command, **environment)
        n_calls = server.calls
        second = result(*command, **environment)
        told = run_command(*command, **environment)
        assert n_calls == server.calls

    # One call before the samples learns what the server refuses. This is in the cache as well.
    assert (21, 21, 0) == (n_calls, first["usage"]["calls"], first["usage"]["cached"])
    assert {
        "calls": 0,
        "cached": 20,
        "input_tokens": 0,
        "output_tokens": 0,
        "cost_usd": None,
        "priced_calls": 0,
        "counted_calls": 0,
    } == second["usage"]
    assert (first["metrics"], first["judge"]) == (second["metrics"], second["judge"])
    assert "0 calls, 0 + 0 tokens, 20 replies from the cache" in told.stderr


def test_without_a_cache_every_run_asks(samples: Path) -> None:
    """Keeping replies is opted in to; nothing is said of a cache."""
    with FakeJudgeServer() as server:
        outputs = [run_command("evaluate", samples, "--judge", server.url).stderr for _ in range(2)]
        assert 2 * 21 == server.calls
    assert [] == [output for output in outputs if "cache" in output.replace(str(samples), "")]


def test_a_damaged_cache_fails_nothing(samples: Path, tmp_path: Path) -> None:
    """One warning on stderr, all scores."""
    (tmp_path / "replies.sqlite").write_bytes(b"no database" * 1000)
    with FakeJudgeServer() as server:
        done = run_command("evaluate", samples, "--judge", server.url, f"--set=cache={tmp_path}", "--json")

    assert 0 == done.returncode
    assert [4] * 5 == [metric["n_scored"] for metric in json.loads(done.stdout)["metrics"]]
    assert 1 == done.stderr.count("WARNING")
    assert "replies.sqlite" in done.stderr
