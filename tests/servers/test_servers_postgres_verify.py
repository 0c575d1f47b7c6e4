"""`ragstone store verify` on PostgreSQL, whose rows are damaged by SQL."""

from __future__ import annotations

import json

import pytest

from command_line import run_command
from live_store import METRICS, add_requests
from ragstone.store import DrawnRequest, PlannedMetric, StoredLabel, open_store

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
        opened.plan.set([PlannedMetric(name=name, version="1", judge_hash="h") for name in METRICS], [])
        add_requests(opened, 0, N)
        opened.labels.save([StoredLabel("t1", "ann", 1.0, 7.0)])
    run(database, *WATCHED)
    code, found = verify(database)
    assert (0, {}) == (code, found["damaged"])
    return database


@pytest.mark.parametrize(
    ("change", "table"),
    [
        ("UPDATE outcomes SET value = 0.123 WHERE seq = 3", "outcomes"),
        ("UPDATE outcome_bodies SET body = replace(body, '\"exact\"', '\"exakt\"') WHERE seq = 3", "outcomes"),
        ("UPDATE outcome_bodies SET body = left(body, 40) WHERE seq = 3", "outcomes"),
        ("DELETE FROM outcome_bodies WHERE seq = 3", "outcomes"),
        ("UPDATE trace_bodies SET body = replace(body, 'nine', 'noon') WHERE seq = 3", "traces"),
        ("UPDATE traces SET app = 'other' WHERE seq = 3", "traces"),
        ("UPDATE labels SET value = 0.25", "labels"),
        ("INSERT INTO outcome_bodies VALUES (9999, 'x')", "outcome_bodies"),
        ("INSERT INTO outbox (kind, item_id, sink, since, next_try) VALUES ('outcome', 'x', 's', 1, 1)", "outbox"),
        ("UPDATE outbox SET state = 'sEnt'", "outbox"),
        ("UPDATE outbox SET attempts = -3", "outbox"),
        ("UPDATE outbox SET next_try = 'Infinity'", "outbox"),
        ("UPDATE watch_units SET weight = 'NaN'", "watch_units"),
        ("UPDATE watch_units SET labels = '[1'", "watch_units"),
        ("UPDATE streams SET state = '{'", "streams"),
        ("UPDATE alarms SET state = 'opem'", "alarms"),
    ],
)  # fmt: skip
def test_damaged_rows_are_found(store, change, table, tmp_path):
    """As in a file: found with exit code 1, and the export saves all other outcomes."""
    run(store, change)
    code, found = verify(store)
    assert (1, {table: 1}) == (code, found["damaged"])
    with open_store(store, mode="read") as opened:
        lost: list[str] = []
        saved = list(opened.outcomes.export(include_text=True, damaged=lost))
    assert N * len(METRICS) == len(saved) + len(lost)
    assert (table in ("outcomes", "traces")) == bool(lost)


def test_a_database_that_sorts_like_a_dictionary_has_the_order_of_bytes(postgres):
    """Pages of rows with ids of letters are read in one order, and not taken for a damaged tree."""
    import psycopg

    try:
        url = postgres.new_database("TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8'")
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server was built without ICU")
    with psycopg.connect(url) as db:
        assert (True,) == db.execute("SELECT 'a' < 'B'").fetchone()
    with open_store(url, mode="own") as opened:
        opened.labels.save([DrawnRequest(trace_id, 0.5, None) for trace_id in ("B", "a", "\u00e9", "Z", "b")])
    code, report = verify(url)
    assert (0, {}) == (code, report["damaged"])
    assert 5 == report["checked"]["label_frame"]
