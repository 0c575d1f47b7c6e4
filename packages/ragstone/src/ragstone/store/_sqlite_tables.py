"""The tables of a store in a SQLite file. Those in PostgreSQL have the same columns (see `_postgres_tables`)."""

from __future__ import annotations

import sqlite3
from typing import Final

from ragstone.schema import SCHEMA_VERSION
from ragstone.store._tables import APPLICATION_ID, INDEXES

# `seq` is the order of arrival, and pages of long reads use it. Bodies are separate, so that counting never reads text.
# `counters.captured` is written only when requests arrive, so that the ledger shows a lost row.
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
    # Settings with which requests are scored (see `_plans`). `plan` has the metrics that the last worker scores with.
    "scoring_plans": """
        CREATE TABLE scoring_plans (
            id TEXT PRIMARY KEY,  -- hash of the settings
            settings TEXT NOT NULL,
            since REAL NOT NULL,
            replaced_by TEXT  -- id of the plan that applies to its requests instead
        ) WITHOUT ROWID
    """,
    "sinks": """
        CREATE TABLE sinks (
            name TEXT PRIMARY KEY,
            stopped TEXT  -- why nothing is sent until the worker starts again
        ) WITHOUT ROWID
    """,
    # `text_removed_at` is NULL while the text is there, or if it was never captured. `slices` has the values of
    # tags, retriever and language as JSON.
    "traces": """
        CREATE TABLE traces (
            seq INTEGER PRIMARY KEY,
            trace_id TEXT NOT NULL UNIQUE,
            state TEXT NOT NULL CHECK (state IN ('pending', 'scored', 'not_applicable', 'failed', 'sampled_out')),
            partial INTEGER NOT NULL DEFAULT 0,  -- pending, with some outcomes already
            status TEXT,                         -- NULL when sampled out
            started_at REAL NOT NULL,
            received_at REAL NOT NULL,
            text_removed_at REAL,
            inclusion_probability REAL NOT NULL,
            name TEXT,
            run_id TEXT,
            otel_trace_id TEXT,
            otel_span_id TEXT,
            otel_sampled INTEGER,
            session_id TEXT,
            user_id TEXT,
            app TEXT,
            release TEXT,
            environment TEXT,
            slices TEXT,
            plan TEXT,  -- id of its scoring plan, NULL if it does not have its own
            attempts INTEGER NOT NULL DEFAULT 0,
            lease_owner TEXT,
            lease_until REAL NOT NULL DEFAULT 0,
            checksum INTEGER NOT NULL  -- of the columns in `CHECKED_COLUMNS`
        )
    """,
    "trace_bodies": """
        CREATE TABLE trace_bodies (seq INTEGER PRIMARY KEY REFERENCES traces (seq), body BLOB NOT NULL)
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
            backfilled REAL,  -- share of the requests that its backfill scored, NULL if it was scored when it arrived
            UNIQUE (sample_id, metric, metric_version, judge_hash)
        )
    """,
    "outcome_bodies": """
        CREATE TABLE outcome_bodies (seq INTEGER PRIMARY KEY REFERENCES outcomes (seq), body BLOB NOT NULL)
    """,
    "outbox": """
        CREATE TABLE outbox (
            seq INTEGER PRIMARY KEY,
            kind TEXT NOT NULL CHECK (kind IN ('outcome', 'alarm')),
            item_id TEXT NOT NULL,  -- of the outcome or the alarm
            sink TEXT NOT NULL,
            state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sent', 'skipped', 'failed')),
            attempts INTEGER NOT NULL DEFAULT 0,
            since REAL NOT NULL,  -- when it was put in line, last
            next_try REAL NOT NULL,
            last_error TEXT,
            UNIQUE (kind, item_id, sink)
        )
    """,
    # Which outcomes a sink receives, and which of them it has (see `_ranges`).
    "sink_ranges": """
        CREATE TABLE sink_ranges (
            sink TEXT NOT NULL,
            start INTEGER NOT NULL,  -- `seq` of the last outcome before the range
            stop INTEGER NOT NULL,   -- `seq` of its last outcome, 2^62 while the sink is in the plan
            cursor INTEGER NOT NULL,
            sent INTEGER NOT NULL,   -- sent deliveries without a row in the outbox
            since REAL NOT NULL,     -- when the range was put in line, last
            PRIMARY KEY (sink, start)
        ) WITHOUT ROWID
    """,
    "outcome_counts": """
        CREATE TABLE outcome_counts (
            metric TEXT NOT NULL,
            metric_version TEXT NOT NULL,
            judge_hash TEXT NOT NULL,
            kind TEXT NOT NULL,
            n INTEGER NOT NULL,
            checksum INTEGER NOT NULL,  -- sum of those of the values
            PRIMARY KEY (metric, metric_version, judge_hash, kind)
        ) WITHOUT ROWID
    """,
    # What people say about answers. Requests are not referred to, so that a label outlives a request that is removed.
    "labels": """
        CREATE TABLE labels (
            seq INTEGER PRIMARY KEY,
            trace_id TEXT NOT NULL,
            author TEXT NOT NULL,
            value REAL NOT NULL CHECK (value BETWEEN 0 AND 1),
            labeled_at REAL NOT NULL,
            checksum INTEGER NOT NULL,
            UNIQUE (trace_id, author)
        )
    """,
    "label_frame": """
        CREATE TABLE label_frame (
            trace_id TEXT PRIMARY KEY,
            probability REAL NOT NULL CHECK (probability > 0 AND probability <= 1),  -- of being drawn
            position INTEGER UNIQUE,  -- NULL if not drawn
            checksum INTEGER NOT NULL
        ) WITHOUT ROWID
    """,
    # What users say about answers, by the id that the application knows. It may arrive before its request.
    "feedback": """
        CREATE TABLE feedback (
            seq INTEGER PRIMARY KEY,
            request_id TEXT NOT NULL,  -- ours, or the OpenTelemetry trace id
            trace_id TEXT,             -- NULL before the request arrives
            value REAL NOT NULL CHECK (value BETWEEN 0 AND 1),
            comment TEXT,
            given_at REAL NOT NULL,
            received_at REAL NOT NULL,
            checksum INTEGER NOT NULL
        )
    """,
    # Requests that are scored again every day, to see changes of a judge. Their texts are kept.
    "canaries": """
        CREATE TABLE canaries (trace_id TEXT PRIMARY KEY REFERENCES traces (trace_id), chosen_at REAL NOT NULL) WITHOUT ROWID
    """,
    # What a repair moved aside: the values of a row, in the order of its columns, as JSON.
    "damaged_rows": """
        CREATE TABLE damaged_rows (
            seq INTEGER PRIMARY KEY,
            found_at REAL NOT NULL,
            place TEXT NOT NULL,
            problem TEXT NOT NULL,
            content TEXT NOT NULL
        )
    """,
    "canary_scores": """
        CREATE TABLE canary_scores (
            metric TEXT NOT NULL,
            metric_version TEXT NOT NULL,
            judge_hash TEXT NOT NULL,
            scored_at REAL NOT NULL,  -- time of the round
            trace_id TEXT NOT NULL,
            value REAL NOT NULL,
            PRIMARY KEY (metric, metric_version, judge_hash, scored_at, trace_id)
        ) WITHOUT ROWID
    """,
    "spend": """
        CREATE TABLE spend (
            day TEXT PRIMARY KEY,  -- of UTC, such as 2026-11-24
            calls INTEGER NOT NULL,
            input_tokens INTEGER NOT NULL,
            output_tokens INTEGER NOT NULL,
            usd REAL NOT NULL
        ) WITHOUT ROWID
    """,
    "watch_queue": """
        CREATE TABLE watch_queue (  -- outcomes of sessions that are not closed
            seq INTEGER PRIMARY KEY,
            trace_id TEXT NOT NULL REFERENCES traces (trace_id),
            app TEXT NOT NULL,
            session TEXT NOT NULL,  -- the trace, if it does not have one
            requested_at REAL NOT NULL,
            probability REAL NOT NULL,
            metric TEXT NOT NULL,
            metric_version TEXT NOT NULL,
            judge_hash TEXT NOT NULL,
            value REAL,             -- NULL for a failure
            backfilled INTEGER NOT NULL  -- is not evidence for an alarm
        )
    """,
    "streams": """
        CREATE TABLE streams (
            id INTEGER PRIMARY KEY,
            app TEXT NOT NULL,
            metric TEXT NOT NULL,
            metric_version TEXT NOT NULL,
            judge_hash TEXT NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('score', 'failures')),
            state TEXT,
            UNIQUE (app, metric, metric_version, judge_hash, kind)
        )
    """,
    "watch_units": """
        CREATE TABLE watch_units (  -- closed sessions of the last 100 days
            seq INTEGER PRIMARY KEY,
            stream INTEGER NOT NULL REFERENCES streams (id),
            session TEXT NOT NULL,
            closed_at REAL NOT NULL,
            value REAL,
            weight REAL NOT NULL,
            failed_weight REAL NOT NULL,
            p_min REAL NOT NULL,
            gap_s REAL,  -- since the last unit of the session
            worst_trace TEXT NOT NULL,
            worst_value REAL,
            labels TEXT
        )
    """,
    "alarms": """
        CREATE TABLE alarms (
            number INTEGER PRIMARY KEY,
            state TEXT NOT NULL CHECK (state IN ('open', 'recovered', 'accepted')),
            body TEXT NOT NULL
        )
    """,
}

# Claims read the pending traces in order of arrival with the indexes by state and by plan, which end with `seq`.
_INDEXES: Final = (
    "CREATE INDEX due_deliveries ON outbox (sink, next_try) WHERE state = 'pending'",
    "CREATE INDEX traces_by_plan ON traces (plan) WHERE state = 'pending'",
    *INDEXES,
)


def create_tables(db: sqlite3.Connection) -> None:
    """Create the tables in an empty file. Call it in a transaction, so that either all of them exist or none."""
    for statement in (*TABLES.values(), *_INDEXES):
        db.execute(statement)
    db.execute("INSERT INTO meta VALUES ('version', ?)", (str(SCHEMA_VERSION),))
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
