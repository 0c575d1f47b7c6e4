"""`ragstone store verify` and `--repair` on PostgreSQL, whose rows are damaged by SQL."""

from __future__ import annotations

import json

import pytest

from command_line import run_command
from live_store import METRICS, add_requests
from ragstone.store import PlannedMetric, StoredLabel, open_store

pytestmark = pytest.mark.servers

N = 12
WATCHED = (
    (
        "INSERT INTO outbox (kind, item_id, sink, state, since, next_try, last_error) "
        "SELECT 'outcome', outcome_id, 'jsonl', 'failed', 1, 1, 'refused' FROM outcomes WHERE seq = 1"
    ),
    (
        "INSERT INTO streams (app, metric, metric_version, judge_hash, kind, state) "
        "VALUES ('', 'ccrs.qr', '1', 'h', 'score', '{}')"
    ),
    (
        "INSERT INTO watch_units (stream, session, closed_at, value, weight, failed_weight, p_min, worst_trace, labels) "
        "VALUES (1, 's', 9, 0.5, 2, 0, 0.5, 't1', '{}')"
    ),
    "INSERT INTO alarms VALUES (1, 'open', '{}')",
)


def run(url, *statements):
    """Damage rows past the constraints of the tables."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        db.execute("SET search_path = ragstone")
        # Without triggers and foreign keys.
        db.execute("SET session_replication_role = replica")
        for table, name in db.execute(
            "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype = 'c' "
            "AND connamespace = 'ragstone'::regnamespace"
        ).fetchall():
            db.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
        return [cursor.fetchall() if cursor.description else [] for cursor in map(db.execute, statements)]


def verify(url, *options):
    """Return the exit code and the report."""
    done = run_command("store", "verify", url, "--json", *options)
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def store(database):
    """Scored requests, a label, a failed delivery, a stream, a closed session and an alarm."""
    with open_store(database, mode="own") as opened:
        opened.set_plan([PlannedMetric(name=name, version="1", judge_hash="h") for name in METRICS], [])
        add_requests(opened, 0, N)
        opened.save_labels([StoredLabel("t1", "ann", 1.0, 7.0)])
    run(database, *WATCHED)
    code, found = verify(database)
    assert (0, {}) == (code, found["damaged"])
    return database


@pytest.mark.parametrize(
    ("change", "table", "repaired"),
    [
        ("UPDATE outcomes SET value = 0.123 WHERE seq = 3", "outcomes", True),
        ("UPDATE outcome_bodies SET body = replace(body, '\"exact\"', '\"exakt\"') WHERE seq = 3", "outcomes", True),
        ("UPDATE outcome_bodies SET body = left(body, 40) WHERE seq = 3", "outcomes", True),
        ("DELETE FROM outcome_bodies WHERE seq = 3", "outcomes", True),
        ("UPDATE trace_bodies SET body = replace(body, 'nine', 'noon') WHERE seq = 3", "traces", True),
        ("UPDATE traces SET app = 'other' WHERE seq = 3", "traces", True),
        ("UPDATE labels SET value = 0.25", "labels", True),
        ("INSERT INTO outcome_bodies VALUES (9999, 'x')", "outcome_bodies", True),
        ("INSERT INTO outbox (kind, item_id, sink, since, next_try) VALUES ('outcome', 'x', 's', 1, 1)", "outbox", True),
        ("UPDATE outbox SET state = 'sEnt'", "outbox", True),
        ("UPDATE outbox SET attempts = -3", "outbox", True),
        ("UPDATE outbox SET next_try = 'Infinity'", "outbox", True),
        ("UPDATE watch_units SET weight = 'NaN'", "watch_units", True),
        ("UPDATE watch_units SET labels = '[1'", "watch_units", True),
        ("UPDATE streams SET state = '{'", "streams", False),
        ("UPDATE alarms SET state = 'opem'", "alarms", False),
    ],
)  # fmt: skip
def test_damaged_rows_are_found_and_moved_aside(store, change, table, repaired):
    """As in a file: found with exit code 1, repaired, kept in `damaged_rows`, and not found again."""
    run(store, change)
    code, found = verify(store)
    assert (1, {table: 1}) == (code, found["damaged"])
    code, found = verify(store, "--repair")
    assert (1, int(repaired)) == (code, found["repaired"])
    code, found = verify(store)
    assert (0 if repaired else 1, {} if repaired else {table: 1}) == (code, found["damaged"]), found
    with open_store(store, mode="read") as opened:
        assert N * len(METRICS) - (table == "outcomes") == len(list(opened.outcomes()))
    ((state,), *_) = run(store, "SELECT state FROM outbox")[0] or [("gone",)]
    assert state == ("pending" if change.startswith("UPDATE outbox") else "failed")


def test_a_worker_can_write_during_a_repair(store):
    """PostgreSQL has several owners: `--repair` does not need the others to stop, and takes none of their rows."""
    run(store, "UPDATE outcomes SET value = 0.123 WHERE seq = 3")
    with open_store(store, mode="own") as worker:
        assert 1 == verify(store, "--repair")[0]
        add_requests(worker, N, 3)
        code, found = verify(store)
        assert (0, N + 3) == (code, found["checked"]["traces"]), found
