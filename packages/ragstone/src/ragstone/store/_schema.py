"""The tables of a store file, its version, and the way from older versions to this one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

__all__ = ["APPLICATION_ID", "MIGRATIONS", "TABLES", "VERSION", "create"]

APPLICATION_ID: Final = 0x52475354
"""The letters RGST, in the header of every store file."""

VERSION: Final = 1
"""Version of the tables, kept in the file's `user_version`. The records in them carry their own."""

MIGRATIONS: Final[dict[int, Callable[[sqlite3.Connection], None]]] = {}
"""By version: the step from there to the next one. Each runs in a transaction of its own, with its new version."""

# `seq` is the order of arrival, and what long reads page by. Bodies live apart so that counting never reads text.
# `counters.captured` is written where requests come in and nowhere else: were a row lost, the books would show it.
TABLES: Final[dict[str, str]] = {
    "meta": """
        CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID
    """,
    "counters": """
        CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID
    """,
    "drops": """
        CREATE TABLE drops (reason TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID
    """,
    "segments": """
        CREATE TABLE segments (name TEXT PRIMARY KEY, next_offset INTEGER NOT NULL) WITHOUT ROWID
    """,
    "plan": """
        CREATE TABLE plan (
            name TEXT PRIMARY KEY,
            version TEXT NOT NULL,
            judge_hash TEXT NOT NULL,
            position INTEGER NOT NULL,
            finished_before INTEGER NOT NULL  -- traces that were finished without this metric when it joined
        ) WITHOUT ROWID
    """,
    "sinks": """
        CREATE TABLE sinks (name TEXT PRIMARY KEY) WITHOUT ROWID
    """,
    "traces": """
        CREATE TABLE traces (
            seq INTEGER PRIMARY KEY,
            trace_id TEXT NOT NULL UNIQUE,
            state TEXT NOT NULL CHECK (state IN ('pending', 'scored', 'not_applicable', 'failed', 'sampled_out')),
            partial INTEGER NOT NULL DEFAULT 0,  -- pending, with some outcomes already
            status TEXT,                         -- NULL when sampled out
            started_at REAL NOT NULL,
            received_at REAL NOT NULL,
            inclusion_probability REAL NOT NULL,
            name TEXT,
            run_id TEXT,
            otel_trace_id TEXT,
            otel_span_id TEXT,
            session_id TEXT,
            user_id TEXT,
            attempts INTEGER NOT NULL DEFAULT 0,
            lease_owner TEXT,
            lease_until REAL NOT NULL DEFAULT 0
        )
    """,
    "trace_bodies": """
        CREATE TABLE trace_bodies (seq INTEGER PRIMARY KEY REFERENCES traces (seq), body TEXT NOT NULL)
    """,
    "outcomes": """
        CREATE TABLE outcomes (
            seq INTEGER PRIMARY KEY,
            outcome_id TEXT NOT NULL UNIQUE,
            sample_id TEXT NOT NULL REFERENCES traces (trace_id),
            metric TEXT NOT NULL,
            metric_version TEXT NOT NULL,
            judge_hash TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('score', 'not_applicable', 'failure')),
            value REAL CHECK ((value IS NULL) = (kind <> 'score')),
            stored_at REAL NOT NULL,
            UNIQUE (sample_id, metric, metric_version, judge_hash)
        )
    """,
    "outcome_bodies": """
        CREATE TABLE outcome_bodies (seq INTEGER PRIMARY KEY REFERENCES outcomes (seq), body TEXT NOT NULL)
    """,
    "outbox": """
        CREATE TABLE outbox (
            seq INTEGER PRIMARY KEY,
            outcome_id TEXT NOT NULL REFERENCES outcomes (outcome_id),
            sink TEXT NOT NULL,
            state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sent', 'dead')),
            attempts INTEGER NOT NULL DEFAULT 0,
            next_try REAL NOT NULL,
            last_error TEXT,
            UNIQUE (outcome_id, sink)
        )
    """,
}

_INDEXES: Final = (
    # Claims walk the pending traces in order of arrival; the ledger counts states without touching the table.
    "CREATE INDEX traces_by_state ON traces (state)",
    # Nearly always empty: what the ledger has to look at one by one.
    "CREATE INDEX traces_partial ON traces (trace_id) WHERE partial = 1",
    "CREATE INDEX outcomes_by_metric ON outcomes (metric, metric_version, judge_hash, kind, value)",
    "CREATE INDEX outbox_due ON outbox (sink, next_try) WHERE state = 'pending'",
    "CREATE INDEX outbox_by_state ON outbox (sink, state)",
)


def create(db: sqlite3.Connection) -> None:
    """Make the tables in an empty file. Belongs into a transaction, so that a file has all of this or none."""
    for statement in (*TABLES.values(), *_INDEXES):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {VERSION}")
