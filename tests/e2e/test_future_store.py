"""A store of another version: every command refuses it, and leaves it as it was."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from command_line import run_command
from live_store import make_store

ROWS = '{"id": "r1", "query": "How far?", "contexts": ["2 km."], "response": "2 km."}\n'
JUDGE = ("--judge", "lexical")
COMMANDS = {
    "status": ("status", "STORE"),
    "traces": ("traces", "STORE"),
    "report": ("report", "STORE", "-o", "report.html"),
    "view": ("view", "STORE", "--listen", "127.0.0.1:0"),
    "compare": ("compare", "STORE", "STORE"),
    "watch": ("watch", "STORE"),
    "store deliveries": ("store", "deliveries", "STORE"),
    "worker": ("worker", "STORE", *JUDGE),
    "replay": ("replay", "rows.jsonl", "--store", "STORE", *JUDGE),
    "labels draw": ("labels", "draw", "STORE", "--limit", 1),
    "store verify": ("store", "verify", "STORE"),
    "store backup": ("store", "backup", "STORE", "copy.db"),
    "store prune": ("store", "prune", "STORE", "--bodies-older-than", "1d"),
    "store erase": ("store", "erase", "STORE", "--user", "u1"),
    "store export": ("store", "export", "STORE", "out.jsonl"),
}


@pytest.mark.parametrize("command", list(COMMANDS))
@pytest.mark.parametrize("version", [0, 99])
def test_a_store_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, version: int
) -> None:
    """Exit code 3, a message that says the way out, no traceback, and no byte of the store is changed."""
    monkeypatch.chdir(tmp_path)
    store = make_store(tmp_path / "s.db", 2)
    (tmp_path / "rows.jsonl").write_text(ROWS)
    database = sqlite3.connect(store)
    database.execute(f"PRAGMA user_version = {version}")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    before = store.read_bytes()

    done = run_command(*(store if argument == "STORE" else argument for argument in COMMANDS[command]))

    assert done.returncode == 3, done.stderr
    assert (
        f"the store {str(store)!r} has format version {version}, and this version of Ragstone reads version 1: "
        "use the version of Ragstone that wrote it, or start with a new one"
    ) in " ".join((done.stderr + done.stdout).split())
    assert "Traceback" not in done.stderr
    assert store.read_bytes() == before
