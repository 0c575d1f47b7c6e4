"""`ragstone status`, in process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import run_command
from ragstone.schema import Captured, Failure, Score, Trace
from ragstone.store import PlannedMetric, SqliteStore

PLANNED = PlannedMetric(name="ccrs.qr", version="1", judge_hash="j")


def stored(path: Path, probabilities: list[float]) -> str:
    """A store of a score for each probability, 1 for sure and else 0, and one failure."""
    with SqliteStore.open(path, mode="own") as store:
        store.set_plan([PLANNED], [])
        key = {"metric": "ccrs.qr", "metric_version": "1", "judge": "lexical baseline", "judge_hash": "j"}
        for n, probability in enumerate([*probabilities, 1.0]):
            trace = Trace(trace_id=f"t{n}", started_at=1.0, query="Why?", inclusion_probability=probability)
            store.ingest("s", n + 1, [Captured(trace=trace)])
            outcome = (
                Score(sample_id=f"t{n}", value=float(probability == 1), method="exact", **key)
                if n < len(probabilities)
                else Failure(sample_id=f"t{n}", kind="timeout", reason="too slow", **key)
            )
            store.complete(f"t{n}", [outcome])
    return str(path)


def status(*arguments: str) -> str:
    return run_command("status", *arguments).stdout


def test_status_begins_with_the_means(tmp_path: Path) -> None:
    """With the metric's display name, its interval and its counts; then the ledger."""
    text = status(stored(tmp_path / "a.db", [1.0] * 3))
    assert "Question relevance (ccrs.qr)" in text.splitlines()[2]
    assert "3 / 1 / 0" in text.splitlines()[2]
    assert "1 failed. Depending on their scores, the mean lies in [0.750, 1.000]" in text
    assert "which is not a judge" in text
    assert "captured = scored" in text


def test_json_has_them_too(tmp_path: Path) -> None:
    """And says that the judge is a baseline."""
    found = json.loads(status(stored(tmp_path / "a.db", [1.0] * 3), "--json"))
    assert found["judge_is_baseline"]
    (scores,) = found["scores"]
    assert ("Question relevance", 1.0, 3, 1) == tuple(scores[k] for k in ("title", "mean", "n_scored", "n_failed"))


def test_means_of_sampled_requests_are_weighted(tmp_path: Path) -> None:
    """A request that was kept with probability 0.1 stands for ten."""
    (scores,) = json.loads(status(stored(tmp_path / "a.db", [1.0, 0.1, 1.0]), "--json"))["scores"]
    assert "hajek" == scores["method"]
    assert pytest.approx(2 / 12) == scores["mean"]
    assert scores["bounds"] is None
