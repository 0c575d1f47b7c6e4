"""`ragstone store recount`: counters that are wrong are found, shown and corrected."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from command_line import run_in_new_process
from ragstone.schema import Captured, LedgerRow, Score
from ragstone.store import PlannedMetric, SqliteStore
from ragstone.testing import make_trace


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two scored requests and one that is pending."""
    path = tmp_path / "s.db"
    with SqliteStore.open(path, mode="own") as opened:
        opened.set_plan([PlannedMetric(name="m", version="1")], [])
        opened.ingest("a", 1, [Captured(trace=make_trace(trace_id=t)) for t in "abc"])
        for t in "ab":
            opened.complete(t, [Score(sample_id=t, metric="m", metric_version="1", value=0.5, method="exact")])
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


def test_right_counters_are_left_alone(store):
    """With and without changes, and exit code 0."""
    for options in ([], ["--dry-run"]):
        result = run_in_new_process("store", "recount", store, *options)
        assert (0, "All counters are right.") == (result.returncode, result.stdout.strip())


def test_wrong_counters_are_shown_and_corrected(store):
    """First only shown, with exit code 1; then corrected."""
    spoil(store)
    shown = run_in_new_process("store", "recount", store, "--dry-run", "--json")
    assert 1 == shown.returncode
    assert {
        "corrected": False,
        "differences": [
            {"name": "m score (version '1', judge '')", "stored": 7, "counted": 2},
            {"name": "traces failed", "stored": 4, "counted": 0},
            {"name": "traces scored", "stored": 0, "counted": 2},
        ],
    } == json.loads(shown.stdout)

    corrected = run_in_new_process("store", "recount", store)

    assert 0 == corrected.returncode
    assert "3 counters were wrong and are corrected." in corrected.stdout
    with SqliteStore.open(store, mode="read") as opened:
        assert LedgerRow(captured=3, scored=2, pending=1) == opened.ledger().total
        assert {"m": LedgerRow(captured=3, scored=2, pending=1)} == opened.ledger().metrics
    assert 0 == run_in_new_process("store", "recount", store, "--dry-run").returncode


def test_refusals(store, tmp_path):
    """A store in use is not corrected, and a missing one is not created."""
    with SqliteStore.open(store, mode="own"):
        assert 3 == run_in_new_process("store", "recount", store).returncode
        assert 0 == run_in_new_process("store", "recount", store, "--dry-run").returncode
    missing = run_in_new_process("store", "recount", tmp_path / "none.db")
    assert (2, True) == (missing.returncode, "not found" in missing.stderr)
    assert not (tmp_path / "none.db").exists()
