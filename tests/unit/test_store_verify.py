"""`ragstone store verify`, `backup` and `restore`."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from command_line import run_command
from live_store import add_requests, make_store
from ragstone.errors import ConfigurationError, StoreCorruptError, StoreError, StoreOwnedError, StoreVersionError
from ragstone.schema import Score
from ragstone.store import SqliteStore, StoredLabel, backup_store, restore_store
from ragstone.store._checksums import last_key

PAGE_SIZE = 4096


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Forty scored requests, and a label."""
    path = make_store(tmp_path / "a.db", 40)
    with SqliteStore.open(path, mode="own") as opened:
        opened.labels.save([StoredLabel(next(opened.traces.read()).trace_id, "ann", 1.0, 7.0)])
        opened.checkpoint()
    return path


def alter(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        db.execute(statement)
    db.close()


def verify(path: Path, *arguments: str) -> tuple[int, dict]:
    done = run_command("store", "verify", path, "--json", *arguments)
    return done.returncode, json.loads(done.stdout)


def test_a_store_without_damage(store: Path) -> None:
    """All rows are counted, also while its owner runs."""
    with SqliteStore.open(store, mode="own") as owner:
        found = owner.upkeep.verify()
        done = run_command("store", "verify", store)
    assert found.ok
    assert 40 == found.checked["traces"] == found.checked["trace_bodies"]
    assert found.checked["outcomes"] == found.checked["outcome_bodies"] > 40
    assert (0, True) == (done.returncode, "No damage found." in done.stdout)


def test_outcomes_without_their_request_are_listed(store: Path) -> None:
    """Although their own rows and bodies are as they were written."""
    alter(store, "DELETE FROM trace_bodies WHERE seq = 3", "DELETE FROM traces WHERE seq = 3")
    with SqliteStore.open(store, mode="read") as opened:
        found = opened.upkeep.verify()
    assert {"outcomes"} == {each.table for each in found.rows if "its request is missing" in each.problem}


@pytest.mark.parametrize(
    ("change", "table"),
    [
        ("UPDATE outcomes SET value = 0.123 WHERE seq = 3", "outcomes"),
        ("UPDATE outcome_bodies SET body = x'01' WHERE seq = 3", "outcomes"),
        ("DELETE FROM outcome_bodies WHERE seq = 3", "outcomes"),
        ("UPDATE outcomes SET kind = 'failure' WHERE seq = 3", "outcomes"),
        ("UPDATE trace_bodies SET body = zeroblob(50) WHERE seq = 3", "traces"),
        ("UPDATE traces SET app = 'other' WHERE seq = 3", "traces"),
        ("UPDATE traces SET state = 'done' WHERE seq = 3", "traces"),
        ("UPDATE labels SET value = 0.25", "labels"),
        ("INSERT INTO outcome_bodies VALUES (9999, x'01')", "outcome_bodies"),
        ("INSERT INTO outbox (kind, item_id, sink, since, next_try) VALUES ('outcome', 'x', 's', 1, 1)", "outbox"),
        ("UPDATE outcome_counts SET n = n + 1", None),
    ],
)
def test_damage_is_found(store: Path, tmp_path: Path, change: str, table: str | None) -> None:
    """Found with exit code 1 and the commands that replace the store, of which the export saves all other outcomes."""
    with SqliteStore.open(store, mode="read") as opened:
        outcomes = {outcome.id: outcome for outcome in opened.outcomes.read()}
    alter(store, change)
    code, found = verify(store)
    assert (1, False) == (code, found["ok"])
    assert ({} if table is None else {table: 1}) == found["damaged"]
    assert bool(found["counters"]) == any(
        sign in change for sign in ("SET value = 0.123", "SET kind", "state =", "counts")
    )
    way_out = run_command("store", "verify", store).stdout
    assert f"`ragstone store restore BACKUP {store} --replace`" in way_out
    assert f"`ragstone store export {store} saved.jsonl --texts`" in way_out
    assert "`ragstone replay saved.jsonl --store NEW`" in way_out

    saved = tmp_path / "saved.jsonl"
    exported = run_command("store", "export", store, saved, "--texts")
    rows = [json.loads(line) for line in saved.read_text().splitlines()]
    n_lost = len(outcomes) - len(rows)
    assert (1 if n_lost else 0) == exported.returncode
    assert (f"{n_lost} damaged outcome" in exported.stderr) == (n_lost > 0)
    assert (n_lost > 0) == ("seq = 3" in change and "state" not in change and "kind" not in change)
    assert all(outcomes[row["id"]].key[:2] == (row["trace_id"], row["metric"]) for row in rows)


@pytest.fixture
def watched(store: Path) -> Path:
    """A store with a delivery that waits, a stream, a closed session and an alarm."""
    alter(
        store,
        "INSERT INTO outbox (kind, item_id, sink, state, since, next_try, last_error) "
        "SELECT 'outcome', outcome_id, 'jsonl', 'failed', 1, 1, 'refused' FROM outcomes WHERE seq = 1",
        "INSERT INTO streams VALUES (1, '', 'ccrs.qr', '1', 'h', 'score', '{}')",
        "INSERT INTO watch_units (stream, session, closed_at, value, weight, failed_weight, p_min, worst_trace, labels) "
        "VALUES (1, 's', 9, 0.5, 2, 0, 0.5, 't1', '{}')",
        "INSERT INTO alarms VALUES (1, 'open', '{}')",
    )
    assert verify(store)[1]["ok"]
    return store


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE outbox SET state = 'sEnt'",
        "UPDATE outbox SET attempts = -3",
        "UPDATE outbox SET next_try = 9e999",
        "UPDATE watch_units SET weight = -1e300",
        "UPDATE watch_units SET p_min = 1.5",
        "UPDATE watch_units SET value = x'00'",
        "UPDATE watch_units SET labels = '[1'",
        "UPDATE watch_units SET stream = 7",
        "UPDATE streams SET state = '{'",
        "UPDATE streams SET kind = 'scores'",
        "UPDATE alarms SET state = 'opem'",
        "UPDATE alarms SET body = '7'",
    ],
)
def test_impossible_deliveries_units_and_alarms_are_found(watched: Path, change: str) -> None:
    """In rows that have no checksum, because they change with the work."""
    alter(watched, change)
    code, found = verify(watched)
    assert (1, {change.split()[1]: 1}) == (code, found["damaged"])


def test_a_changed_state_of_a_delivery_is_found_in_the_file(watched: Path) -> None:
    """Also if it is another valid state, because the row and an index have it."""
    alter(watched, "UPDATE outbox SET state = 'skipped'")
    with SqliteStore.open(watched, mode="own") as owner:
        owner.checkpoint()
    content = watched.read_bytes()
    places = [match.start() for match in re.finditer(b"jsonlskipped", content)]
    assert 2 == len(places)
    for place in places:
        watched.write_bytes(content[:place] + b"jsonlpending" + content[place + len(b"jsonlpending") :])
        assert verify(watched)[1]["file"]


def test_random_damage_changes_no_answer_unseen(store: Path, tmp_path: Path) -> None:
    """Flipped bytes, zeroed and swapped pages, a shorter file: an error of Ragstone, or true answers."""
    seed = int(os.environ.get("RAGSTONE_DAMAGE_SEED", "18"))
    trials = int(os.environ.get("RAGSTONE_DAMAGE_TRIALS", "40"))
    print(f"seed {seed}, {trials} trials")
    rng = random.Random(seed)
    original = store.read_bytes()
    with SqliteStore.open(store, mode="read") as opened:
        traces = {trace.trace_id: trace for trace in opened.traces.read()}
        outcomes = {outcome.id: outcome for outcome in opened.outcomes.read()}
        counts = [(c.metric, sorted(c.values)) for c in opened.outcomes.count()]
    path = tmp_path / "damaged.db"
    seen = {"error": 0, "verify": 0, "same": 0}
    for trial in range(trials):
        path.write_bytes(_damaged(bytearray(original), rng, trial % 4))
        for end in ("-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)
        try:
            with SqliteStore.open(path, mode="read") as opened:
                n_traces = n_outcomes = 0
                for trace in opened.traces.read():
                    assert traces[trace.trace_id] == trace
                    n_traces += 1
                for outcome in opened.outcomes.read():
                    assert outcomes[outcome.id] == outcome
                    n_outcomes += 1
                changed = counts != [(c.metric, sorted(c.values)) for c in opened.outcomes.count()]
                found = opened.upkeep.verify()
        except StoreError:
            seen["error"] += 1
            continue
        # A reader may not see that rows are missing, or that the plan is that of another page. The verification does.
        if changed or (n_traces, n_outcomes) != (len(traces), len(outcomes)):
            assert not found.ok
        seen["same" if found.ok else "verify"] += 1
    print(seen)
    assert seen["error"] > trials / 4


def _damaged(data: bytearray, rng: random.Random, kind: int) -> bytes:
    n_pages = len(data) // PAGE_SIZE
    if kind == 0:
        for _ in range(rng.randint(1, 64)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        start = rng.randrange(n_pages) * PAGE_SIZE
        data[start : start + PAGE_SIZE] = bytes(PAGE_SIZE)
    elif kind == 2:
        a, b = (PAGE_SIZE * page for page in rng.sample(range(n_pages), 2))
        data[a : a + PAGE_SIZE], data[b : b + PAGE_SIZE] = data[b : b + PAGE_SIZE], data[a : a + PAGE_SIZE]
    else:
        del data[rng.randrange(len(data)) :]
    return bytes(data)


def test_a_negative_zero_is_no_damage(store: Path) -> None:
    """A database may return it as zero."""
    with SqliteStore.open(store, mode="own") as opened:
        opened.labels.save([StoredLabel("t", "bob", -0.0, 7.0)])
        assert 0.0 == opened.labels.read()[-1].value
        assert opened.upkeep.verify().ok


def test_all_damaged_rows_are_counted_and_the_first_ones_listed(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store with a million damaged rows does not need the memory for a million messages."""
    monkeypatch.setattr("ragstone.store._verify._LISTED", 2)
    alter(store, "UPDATE traces SET name = 'x' WHERE seq <= 5")
    with SqliteStore.open(store, mode="read") as opened:
        found = opened.upkeep.verify()
    assert (5, 2) == (found.damaged["traces"], len(found.rows))


def test_a_restored_store_does_not_read_the_log_of_the_one_before(store: Path, tmp_path: Path) -> None:
    """A process that was killed leaves its write-ahead log behind."""
    backup, killed = tmp_path / "backup.db", tmp_path / "killed.db"
    backup_store(store, backup)
    with SqliteStore.open(store, mode="own") as owner:
        add_requests(owner, 40, 2)
        for end in ("", "-wal"):
            shutil.copy(f"{store}{end}", f"{killed}{end}")
    restore_store(backup, killed, replace=True)
    assert [] == list(tmp_path.glob("killed.db-*"))
    with SqliteStore.open(killed, mode="own") as opened:
        assert 40 == len(list(opened.traces.read()))


def test_a_key_that_comes_again_is_damage() -> None:
    """A damaged tree of a table can return one row without end."""
    assert 7 == last_key("traces", [(5,), (7,)], 4)
    assert 4 == last_key("traces", [], 4)
    for page in ([(4,)], [(5,), (5,)], [(7,), (5,)]):
        with pytest.raises(StoreCorruptError, match="the order of the rows is damaged"):
            last_key("traces", page, 4)


def test_a_backup_of_a_running_store_is_restored(store: Path, tmp_path: Path) -> None:
    """Same rows, for this user only; an existing file or store stays."""
    backup, restored = tmp_path / "backup.db", tmp_path / "restored.db"
    mask = os.umask(0)
    try:
        with SqliteStore.open(store, mode="own") as owner:
            add_requests(owner, 40, 2)
            before = list(owner.traces.read()), list(owner.outcomes.read())
            done = run_command("store", "backup", store, backup)
            assert (0, True) == (done.returncode, "42 requests and" in done.stdout), done.stderr
            add_requests(owner, 42, 1)
    finally:
        os.umask(mask)
    assert 0o600 == stat.S_IMODE(backup.stat().st_mode)
    with pytest.raises(ConfigurationError, match="exists"):
        backup_store(store, backup)
    assert "restored" in run_command("store", "restore", backup, restored).stdout
    assert 0o600 == stat.S_IMODE(restored.stat().st_mode)
    with SqliteStore.open(restored, mode="own") as opened:
        assert before == (list(opened.traces.read()), list(opened.outcomes.read()))
    assert 2 == run_command("store", "restore", backup, store).returncode
    with SqliteStore.open(store, mode="own"), pytest.raises(StoreOwnedError):
        restore_store(backup, store, replace=True)
    restore_store(backup, store, replace=True)
    with SqliteStore.open(store, mode="read") as opened:
        assert before == (list(opened.traces.read()), list(opened.outcomes.read()))
    assert {"a.db", "backup.db", "restored.db"} == {p.name for p in tmp_path.iterdir() if p.suffix == ".db"}


def test_a_damaged_or_newer_store_is_not_a_backup(store: Path, tmp_path: Path) -> None:
    """Nothing is written."""
    with SqliteStore.open(store, mode="own") as opened:
        trace = next(opened.traces.read())
        assert isinstance(next(opened.outcomes.read()), Score)
    good = tmp_path / "good.db"
    backup_store(store, good)
    alter(store, "UPDATE outcomes SET value = 0.123 WHERE seq = 3")
    with pytest.raises(StoreCorruptError, match="ragstone store verify"):
        backup_store(store, tmp_path / "b.db")
    with pytest.raises(StoreCorruptError):
        restore_store(store, tmp_path / "b.db")
    alter(good, "PRAGMA user_version = 99")
    with pytest.raises(StoreVersionError):
        restore_store(good, tmp_path / "b.db")
    assert not (tmp_path / "b.db").exists()
    assert trace.trace_id
    with pytest.raises(ConfigurationError, match="pg_dump"):
        backup_store("postgresql://localhost/x", tmp_path / "b.db")
