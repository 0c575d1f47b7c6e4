"""`ragstone store verify`: counters that are wrong are found and shown."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from builders import make_trace
from command_line import run_in_new_process
from completions import complete
from ragstone.schema import Captured, Score
from ragstone.store import PlannedMetric, SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two scored requests and one that is pending."""
    path = tmp_path / "s.db"
    with SqliteStore.open(path, mode="own") as opened:
        opened.plan.set([PlannedMetric(name="m", version="1")], [])
        opened.traces.ingest("a", 1, [Captured(trace=make_trace(trace_id=t)) for t in "abc"])
        for t in "ab":
            complete(opened, t, [Score(sample_id=t, metric="m", metric_version="1", value=0.5, method="exact")])
    return path


def spoil(path: Path) -> None:
    """Make three counters wrong, as a bug or another program would."""
    db = sqlite3.connect(path)
    db.executescript(
        """
        UPDATE outcome_counts SET n = 7;
        UPDATE counters SET n = 0 WHERE name = 'state:scored';
        INSERT INTO counters VALUES ('state:failed', 4);
        """
    )
    db.close()


def test_right_counters_are_no_damage(store):
    """A store with right counters has no damage."""
    result = run_in_new_process("store", "verify", store)
    assert (0, "No damage found.") == (result.returncode, result.stdout.splitlines()[-1])


def test_wrong_counters_are_shown(store):
    """Wrong counters are listed with exit code 1."""
    spoil(store)
    shown = run_in_new_process("store", "verify", store, "--json")
    assert 1 == shown.returncode
    assert [
        "m score (version '1', judge ''): 7 stored, 2 counted",
        "traces failed: 4 stored, 0 counted",
        "traces scored: 0 stored, 2 counted",
    ] == json.loads(shown.stdout)["counters"]


def test_a_missing_store_is_not_created(store, tmp_path):
    """And one in use is verified."""
    with SqliteStore.open(store, mode="own"):
        assert 0 == run_in_new_process("store", "verify", store).returncode
    missing = run_in_new_process("store", "verify", tmp_path / "none.db")
    assert (2, True) == (missing.returncode, "not found" in missing.stderr)
    assert not (tmp_path / "none.db").exists()
