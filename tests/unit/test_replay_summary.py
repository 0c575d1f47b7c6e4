"""The summary that `ragstone replay` prints: of all outcomes of the store, whichever run has stored them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import run_command
from ragstone.store import SqliteStore

METRICS = "ccrs.cc,ccrs.qr,crux.coverage,token_f1"


def write(path: Path, n: int) -> Path:
    """Write a file of requests, of which every third one has a reference, and every fourth one has no contexts."""
    rows = [
        {
            "id": f"q{i}",
            "query": f"When does ferry {i} leave?",
            "response": f"Ferry {i} leaves at {i % 5}.",
            "contexts": [] if i % 4 == 3 else [f"Ferry {i} leaves at {i % 3}."],
            **({} if i % 3 else {"reference": f"At {i % 2}."}),
        }
        for i in range(n)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def replay(file: Path, store: Path, metrics: str = METRICS) -> dict[str, Any]:
    """Replay a file and return what the command prints about the scores."""
    done = run_command("replay", file, "--store", store, "--metrics", metrics, "--judge", "lexical", "--json")
    assert 0 == done.returncode, done.stderr
    printed = json.loads(done.stdout)
    return {name: printed[name] for name in ("metrics", "notes", "judge_is_baseline")}


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, Any]:
    """What one run over all requests prints."""
    printed = replay(write(tmp_path / "whole.jsonl", 24), tmp_path / "whole.db")
    assert [24, 24, 24, 24] == [m["n_scored"] + m["n_failed"] + m["n_not_applicable"] for m in printed["metrics"]]
    assert {0, 6} <= {m["n_not_applicable"] for m in printed["metrics"]}
    return printed


@pytest.mark.parametrize("first", [24, 10, 1])
def test_a_run_after_others_prints_the_scores_of_all(tmp_path: Path, whole: dict[str, Any], first: int) -> None:
    """Also if the first run has scored everything, so that the last one has no outcome of its own."""
    replay(write(tmp_path / "a.jsonl", first), tmp_path / "r.db")
    assert whole == replay(write(tmp_path / "b.jsonl", 24), tmp_path / "r.db")


def test_outcomes_of_another_version_are_not_in_the_mean(tmp_path: Path, whole: dict[str, Any]) -> None:
    """A store that has as many outcomes of this run, and older ones of another judge, prints one judge."""
    file, store = write(tmp_path / "a.jsonl", 24), tmp_path / "r.db"
    replay(file, store)
    with SqliteStore.open(store, mode="own") as opened:
        older = [
            outcome.model_copy(update={"judge_hash": "older", "judge": "older"})
            for outcome in opened.outcomes.read(metric="ccrs.cc")
        ]
        for outcome in older:
            assert 1 == opened.outcomes.add_backfilled(outcome.sample_id, [outcome])
    assert whole == replay(file, store)


def test_a_run_alone_does_not_read_its_outcomes_again(
    tmp_path: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary is made of the outcomes that the run has in hand."""
    with SqliteStore.open(tmp_path / "whole.db", mode="read") as opened:
        monkeypatch.setattr(type(opened.outcomes), "read", None)
    assert whole == replay(write(tmp_path / "a.jsonl", 24), tmp_path / "r.db")
