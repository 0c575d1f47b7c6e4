"""The tables of a store in a SQLite file, their version, and the migrations from older versions.

A change of the tables needs a step in `MIGRATIONS`, and one in `_postgres_tables`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

from ragstone.store._body import add_checksums
from ragstone.store._counts import fill_counts
from ragstone.store._ranges import create_ranges
from ragstone.store._tables import APPLICATION_ID, CHECKED_COLUMNS, TEXTS_INDEX, VERSION_8_INDEXES, VERSION_9_INDEXES

__all__ = ["MIGRATIONS", "TABLES", "VERSION", "create_tables"]

VERSION: Final = 9
"""Version of the tables of a file, stored in its `user_version`. Records have their own version."""

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
    "sinks": """
        CREATE TABLE sinks (
            name TEXT PRIMARY KEY,
            stopped TEXT  -- why nothing is sent until the worker starts again
        ) WITHOUT ROWID
    """,
    # `text_removed_at` is NULL while the text is there, or if it was never captured. (SQLite cannot drop columns next to a
    # comment.) `slices` has the values of tags, retriever and language as JSON. `stream_probability` is NULL unless feedback has
    # changed the other one. Streams use it, and 0 excludes the request from them.
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
            otel_sampled INTEGER,
            session_id TEXT,
            user_id TEXT,
            app TEXT,
            release TEXT,
            environment TEXT,
            attempts INTEGER NOT NULL DEFAULT 0,
            lease_owner TEXT,
            lease_until REAL NOT NULL DEFAULT 0,
            text_removed_at REAL,
            slices TEXT,
            stream_probability REAL,
            checksum INTEGER NOT NULL DEFAULT 0  -- of the columns in `CHECKED_COLUMNS`
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
            checksum INTEGER NOT NULL DEFAULT 0,  -- sum of those of the values
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
            checksum INTEGER NOT NULL DEFAULT 0,
            UNIQUE (trace_id, author)
        )
    """,
    "label_frame": """
        CREATE TABLE label_frame (
            trace_id TEXT PRIMARY KEY,
            probability REAL NOT NULL CHECK (probability > 0 AND probability <= 1),  -- of being drawn
            position INTEGER UNIQUE,  -- NULL if not drawn
            checksum INTEGER NOT NULL DEFAULT 0
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
            checksum INTEGER NOT NULL DEFAULT 0
        )
    """,
    # Probabilities that feedback may give to a request, and its text if it was sampled out.
    "feedback_rates": """
        CREATE TABLE feedback_rates (
            seq INTEGER PRIMARY KEY REFERENCES traces (seq),
            negative REAL,
            positive REAL,
            until REAL NOT NULL,  -- feedback that arrives later changes nothing
            body TEXT
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
            backfilled INTEGER NOT NULL DEFAULT 0  -- is not evidence for an alarm
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

_INDEXES: Final = (
    # Claims read the pending traces in order of arrival.
    "CREATE INDEX traces_by_state ON traces (state)",
    # Nearly always empty: the rows that the ledger must count individually.
    "CREATE INDEX traces_partial ON traces (trace_id) WHERE partial = 1",
    "CREATE INDEX outcomes_by_metric ON outcomes (metric, metric_version, judge_hash, kind, value)",
    "CREATE INDEX due_deliveries ON outbox (sink, next_try) WHERE state = 'pending'",
    "CREATE INDEX outbox_by_state ON outbox (sink, state)",
    # Reports and comparisons select by the time of the request.
    "CREATE INDEX traces_by_time ON traces (started_at)",
    "CREATE INDEX traces_by_app ON traces (app, started_at)",
    # Nearly always empty: a session is closed only if none of its traces is pending.
    "CREATE INDEX sessions_pending ON traces (session_id) WHERE state = 'pending'",
    "CREATE INDEX watch_queue_by_session ON watch_queue (app, session, requested_at)",
    "CREATE INDEX watch_units_by_time ON watch_units (stream, closed_at)",
    "CREATE INDEX watch_units_by_session ON watch_units (session, closed_at)",
)

_WATCH_TABLES: Final = ("watch_queue", "streams", "watch_units", "alarms")
"""Tables of the monitoring, in the order of their references."""

_OUTBOX_OF_VERSION_3: Final = """
    CREATE TABLE outbox (
        seq INTEGER PRIMARY KEY,
        outcome_id TEXT NOT NULL REFERENCES outcomes (outcome_id),
        sink TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'pending',
        attempts INTEGER NOT NULL DEFAULT 0,
        since REAL NOT NULL,
        next_try REAL NOT NULL,
        last_error TEXT
    )
"""


def _to_version_2(db: sqlite3.Connection) -> None:
    """Add skipped deliveries, stopped sinks, and whether the span of a request was exported."""
    db.execute("ALTER TABLE sinks ADD COLUMN stopped TEXT")
    db.execute("ALTER TABLE traces ADD COLUMN otel_sampled INTEGER")
    _replace_outbox(
        db,
        _OUTBOX_OF_VERSION_3,
        """
        INSERT INTO outbox (seq, outcome_id, sink, state, attempts, since, next_try, last_error)
        SELECT x.seq, x.outcome_id, x.sink, x.state, x.attempts, o.stored_at, x.next_try, x.last_error
        FROM old_outbox AS x JOIN outcomes AS o USING (outcome_id)
        """,
    )


def _to_version_3(db: sqlite3.Connection) -> None:
    """Rename the state of deliveries that are not retried to `failed`."""
    _replace_outbox(
        db,
        _OUTBOX_OF_VERSION_3,
        """
        INSERT INTO outbox (seq, outcome_id, sink, state, attempts, since, next_try, last_error)
        SELECT seq, outcome_id, sink, CASE state WHEN 'dead' THEN 'failed' ELSE state END, attempts, since, next_try,
               last_error
        FROM old_outbox
        """,
    )


def _to_version_4(db: sqlite3.Connection) -> None:
    """Add the application of a trace, and deliveries of alarms."""
    for column in ("app", "release", "environment"):
        db.execute(f"ALTER TABLE traces ADD COLUMN {column} TEXT")
    _replace_outbox(
        db,
        TABLES["outbox"],
        """
        INSERT INTO outbox (seq, kind, item_id, sink, state, attempts, since, next_try, last_error)
        SELECT seq, 'outcome', outcome_id, sink, state, attempts, since, next_try, last_error FROM old_outbox
        """,
    )
    _create_missing_indexes(db)


def _to_version_5(db: sqlite3.Connection) -> None:
    """Add labels of people."""
    for table in ("labels", "label_frame"):
        db.execute(TABLES[table])


def _to_version_6(db: sqlite3.Connection) -> None:
    """Add the tables of the monitoring."""
    for name in _WATCH_TABLES:
        db.execute(TABLES[name])
    _create_missing_indexes(db)


def _to_version_7(db: sqlite3.Connection) -> None:
    """Add when the text of a request was removed."""
    db.execute("ALTER TABLE traces ADD COLUMN text_removed_at REAL")
    db.execute(TEXTS_INDEX)


def _to_version_8(db: sqlite3.Connection) -> None:
    """Add backfilled outcomes, feedback, values of tags, canaries, the spend of each day, and counters of rows."""
    db.execute("ALTER TABLE outcomes ADD COLUMN backfilled REAL")
    # A migration from version 5 or older has just created this table with the column.
    if "backfilled" not in {row[1] for row in db.execute("PRAGMA table_info(watch_queue)")}:
        db.execute("ALTER TABLE watch_queue ADD COLUMN backfilled INTEGER NOT NULL DEFAULT 0")
    db.execute("ALTER TABLE traces ADD COLUMN slices TEXT")
    for table in ("feedback", "canaries", "canary_scores", "spend", "outcome_counts"):
        db.execute(TABLES[table])
    for index in VERSION_8_INDEXES:
        db.execute(index)


def _to_version_9(db: sqlite3.Connection) -> None:
    """Add the ranges of outcomes that sinks receive, sampling by feedback, and checksums. Compress bodies."""
    db.execute("ALTER TABLE traces ADD COLUMN stream_probability REAL")
    db.execute(TABLES["feedback_rates"])
    for index in VERSION_9_INDEXES:
        db.execute(index)
    db.execute(TABLES["sink_ranges"])
    db.execute(TABLES["damaged_rows"])
    for table in (*CHECKED_COLUMNS, "outcome_counts"):
        # A migration from an older version has just created some of these tables with the column.
        if "checksum" not in {row[1] for row in db.execute(f"PRAGMA table_info({table})")}:
            db.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0")
    add_checksums(db, text="CAST(body AS BLOB)")
    fill_counts(db)
    create_ranges(db)


def _replace_outbox(db: sqlite3.Connection, table: str, copy: str) -> None:
    """Create the outbox again, because SQLite cannot change a constraint, and copy its rows from `old_outbox`."""
    db.execute("ALTER TABLE outbox RENAME TO old_outbox")
    db.execute(table)
    db.execute(copy)
    db.execute("DROP TABLE old_outbox")


def _create_missing_indexes(db: sqlite3.Connection) -> None:
    names = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    for statement in _INDEXES:
        _, _, index, _, table, *_ = statement.split()
        # A later step may create the table.
        if index not in names and table in names:
            db.execute(statement)


MIGRATIONS: Final[dict[int, Callable[[sqlite3.Connection], None]]] = {
    1: _to_version_2,
    2: _to_version_3,
    3: _to_version_4,
    4: _to_version_5,
    5: _to_version_6,
    6: _to_version_7,
    7: _to_version_8,
    8: _to_version_9,
}
"""Steps by version. Each upgrades to the next version, in its own transaction, which also sets the version."""


def create_tables(db: sqlite3.Connection) -> None:
    """Create the tables in an empty file. Call it in a transaction, so that either all of them exist or none."""
    for statement in (*TABLES.values(), *_INDEXES, TEXTS_INDEX, *VERSION_8_INDEXES, *VERSION_9_INDEXES):
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {VERSION}")
