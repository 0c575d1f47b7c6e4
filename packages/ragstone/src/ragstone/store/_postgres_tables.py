"""The tables of a store in a PostgreSQL database, their version, and the migrations from older versions.

A change of the tables needs a step in `MIGRATIONS`, and one in `_sqlite_tables`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ragstone.store._body import add_checksums
from ragstone.store._counts import fill_counts
from ragstone.store._ranges import create_ranges
from ragstone.store._sql import Sql
from ragstone.store._tables import CHECKED_COLUMNS, TEXTS_INDEX, VERSION_8_INDEXES, VERSION_9_INDEXES

__all__ = [
    "MIGRATIONS",
    "OTHER_VERSION",
    "REFUSE_OTHER_VERSION",
    "SCHEMA",
    "TABLES",
    "VERSION",
    "VERSION_SETTING",
]

SCHEMA: Final = "ragstone"
"""Schema for all tables, because the database may belong to an application."""

VERSION: Final = 8
"""Version of the tables. Records have their own version."""

VERSION_SETTING: Final = "ragstone.version"
"""Setting of a connection with the version of the tables that its process knows."""

OTHER_VERSION: Final = "RS001"
"""SQLSTATE of the error if a process of another version writes."""

# Each transaction of a worker writes to one of the tables with this trigger. So a worker that stayed connected while another
# one upgraded the tables can store nothing, also one of an older version of Ragstone.
REFUSE_OTHER_VERSION: Final = f"""
    CREATE OR REPLACE FUNCTION refuse_other_version() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF current_setting('{VERSION_SETTING}', true) IS DISTINCT FROM '{VERSION}' THEN
            RAISE EXCEPTION USING ERRCODE = '{OTHER_VERSION}', MESSAGE =
                'the tables were upgraded to version {VERSION} by another version of Ragstone. '
                'Stop this process, upgrade it with "pip install --upgrade ragstone", and start it again';
        END IF;
        RETURN NULL;
    END $$
"""
"""Creates the function of these triggers, or replaces it with that of this version."""

_LABELS: Final = (
    """
    CREATE TABLE labels (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        trace_id TEXT COLLATE "C" NOT NULL,
        author TEXT COLLATE "C" NOT NULL,
        value DOUBLE PRECISION NOT NULL CHECK (value BETWEEN 0 AND 1),
        labeled_at DOUBLE PRECISION NOT NULL,
        checksum BIGINT NOT NULL DEFAULT 0,
        UNIQUE (trace_id, author)
    )
    """,
    """
    CREATE TABLE label_frame (
        trace_id TEXT COLLATE "C" PRIMARY KEY,
        probability DOUBLE PRECISION NOT NULL CHECK (probability > 0 AND probability <= 1),
        position BIGINT UNIQUE,
        checksum BIGINT NOT NULL DEFAULT 0
    )
    """,
)

_VERSION_7: Final = (
    """
    CREATE TABLE feedback (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        request_id TEXT COLLATE "C" NOT NULL,
        trace_id TEXT COLLATE "C",
        value DOUBLE PRECISION NOT NULL CHECK (value BETWEEN 0 AND 1),
        comment TEXT,
        given_at DOUBLE PRECISION NOT NULL,
        received_at DOUBLE PRECISION NOT NULL,
        checksum BIGINT NOT NULL DEFAULT 0
    )
    """,
    """
    CREATE TABLE canaries (
        trace_id TEXT COLLATE "C" PRIMARY KEY REFERENCES traces (trace_id), chosen_at DOUBLE PRECISION NOT NULL
    )
    """,
    """
    CREATE TABLE canary_scores (
        metric TEXT COLLATE "C" NOT NULL,
        metric_version TEXT COLLATE "C" NOT NULL,
        judge_hash TEXT COLLATE "C" NOT NULL,
        scored_at DOUBLE PRECISION NOT NULL,
        trace_id TEXT COLLATE "C" NOT NULL,
        value DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (metric, metric_version, judge_hash, scored_at, trace_id)
    )
    """,
    """
    CREATE TABLE spend (
        day TEXT COLLATE "C" PRIMARY KEY,
        calls BIGINT NOT NULL,
        input_tokens BIGINT NOT NULL,
        output_tokens BIGINT NOT NULL,
        usd DOUBLE PRECISION NOT NULL
    )
    """,
    """
    CREATE TABLE outcome_counts (
        metric TEXT COLLATE "C" NOT NULL,
        metric_version TEXT COLLATE "C" NOT NULL,
        judge_hash TEXT COLLATE "C" NOT NULL,
        kind TEXT COLLATE "C" NOT NULL,
        n BIGINT NOT NULL,
        checksum BIGINT NOT NULL DEFAULT 0,
        PRIMARY KEY (metric, metric_version, judge_hash, kind)
    )
    """,
    *VERSION_8_INDEXES,
)

_VERSION_8: Final = (
    """
    CREATE TABLE damaged_rows (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        found_at DOUBLE PRECISION NOT NULL,
        place TEXT NOT NULL,
        problem TEXT NOT NULL,
        content TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE sink_ranges (
        sink TEXT COLLATE "C" NOT NULL,
        start BIGINT NOT NULL,
        stop BIGINT NOT NULL,
        cursor BIGINT NOT NULL,
        sent BIGINT NOT NULL,
        since DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (sink, start)
    )
    """,
    *(
        f"""
        CREATE TRIGGER refuse_other_version BEFORE INSERT OR UPDATE OR DELETE ON {table}
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_other_version()
        """
        for table in ("traces", "segments", "plan", "sinks", "outbox", "sink_ranges")
    ),
    """
    CREATE TABLE feedback_rates (
        seq BIGINT PRIMARY KEY REFERENCES traces (seq),
        negative DOUBLE PRECISION,
        positive DOUBLE PRECISION,
        until DOUBLE PRECISION NOT NULL,
        body TEXT
    )
    """,
    *VERSION_9_INDEXES,
)

# The columns are those of `_sqlite_tables.TABLES`. Names are compared as bytes, so that their order is the same on all servers.
_WATCH: Final = (
    """
    CREATE TABLE watch_queue (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        trace_id TEXT COLLATE "C" NOT NULL REFERENCES traces (trace_id),
        app TEXT NOT NULL,
        session TEXT NOT NULL,
        requested_at DOUBLE PRECISION NOT NULL,
        probability DOUBLE PRECISION NOT NULL,
        metric TEXT COLLATE "C" NOT NULL,
        metric_version TEXT COLLATE "C" NOT NULL,
        judge_hash TEXT COLLATE "C" NOT NULL,
        value DOUBLE PRECISION,
        backfilled INTEGER NOT NULL DEFAULT 0
    )
    """,
    """
    CREATE TABLE streams (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        app TEXT COLLATE "C" NOT NULL,
        metric TEXT COLLATE "C" NOT NULL,
        metric_version TEXT COLLATE "C" NOT NULL,
        judge_hash TEXT COLLATE "C" NOT NULL,
        kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('score', 'failures')),
        state TEXT,
        UNIQUE (app, metric, metric_version, judge_hash, kind)
    )
    """,
    """
    CREATE TABLE watch_units (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        stream BIGINT NOT NULL REFERENCES streams (id),
        session TEXT NOT NULL,
        closed_at DOUBLE PRECISION NOT NULL,
        value DOUBLE PRECISION,
        weight DOUBLE PRECISION NOT NULL,
        failed_weight DOUBLE PRECISION NOT NULL,
        p_min DOUBLE PRECISION NOT NULL,
        gap_s DOUBLE PRECISION,
        worst_trace TEXT COLLATE "C" NOT NULL,
        worst_value DOUBLE PRECISION,
        labels TEXT
    )
    """,
    """
    CREATE TABLE alarms (
        number BIGINT PRIMARY KEY,
        state TEXT COLLATE "C" NOT NULL CHECK (state IN ('open', 'recovered', 'accepted')),
        body TEXT NOT NULL
    )
    """,
    "CREATE INDEX sessions_pending ON traces (session_id) WHERE state = 'pending'",
    "CREATE INDEX watch_queue_by_session ON watch_queue (app, session, requested_at)",
    "CREATE INDEX watch_units_by_time ON watch_units (stream, closed_at)",
    "CREATE INDEX watch_units_by_session ON watch_units (session, closed_at)",
)

TABLES: Final = (
    'CREATE TABLE meta (key TEXT COLLATE "C" PRIMARY KEY, value TEXT NOT NULL)',
    'CREATE TABLE counters (name TEXT COLLATE "C" PRIMARY KEY, n BIGINT NOT NULL)',
    'CREATE TABLE drops (reason TEXT COLLATE "C" PRIMARY KEY, n BIGINT NOT NULL)',
    'CREATE TABLE segments (name TEXT COLLATE "C" PRIMARY KEY, next_offset BIGINT NOT NULL)',
    """
    CREATE TABLE plan (
        name TEXT COLLATE "C" PRIMARY KEY,
        version TEXT COLLATE "C" NOT NULL,
        judge_hash TEXT COLLATE "C" NOT NULL,
        position BIGINT NOT NULL,
        finished_before BIGINT NOT NULL
    )
    """,
    'CREATE TABLE sinks (name TEXT COLLATE "C" PRIMARY KEY, stopped TEXT)',
    """
    CREATE TABLE traces (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        trace_id TEXT COLLATE "C" NOT NULL UNIQUE,
        state TEXT COLLATE "C" NOT NULL
            CHECK (state IN ('pending', 'scored', 'not_applicable', 'failed', 'sampled_out')),
        partial INTEGER NOT NULL DEFAULT 0,
        status TEXT,
        started_at DOUBLE PRECISION NOT NULL,
        received_at DOUBLE PRECISION NOT NULL,
        inclusion_probability DOUBLE PRECISION NOT NULL,
        name TEXT,
        run_id TEXT,
        otel_trace_id TEXT,
        otel_span_id TEXT,
        otel_sampled BOOLEAN,
        session_id TEXT,
        user_id TEXT,
        app TEXT,
        release TEXT,
        environment TEXT,
        attempts BIGINT NOT NULL DEFAULT 0,
        lease_owner TEXT,
        lease_until DOUBLE PRECISION NOT NULL DEFAULT 0,
        text_removed_at DOUBLE PRECISION,
        slices TEXT,
        stream_probability DOUBLE PRECISION,
        checksum BIGINT NOT NULL DEFAULT 0
    )
    """,
    "CREATE TABLE trace_bodies (seq BIGINT PRIMARY KEY REFERENCES traces (seq), body TEXT NOT NULL)",
    """
    CREATE TABLE outcomes (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        outcome_id TEXT COLLATE "C" NOT NULL UNIQUE,
        sample_id TEXT COLLATE "C" NOT NULL REFERENCES traces (trace_id),
        metric TEXT COLLATE "C" NOT NULL,
        metric_version TEXT COLLATE "C" NOT NULL,
        judge_hash TEXT COLLATE "C" NOT NULL,
        kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('score', 'not_applicable', 'failure')),
        value DOUBLE PRECISION CHECK ((value IS NULL) = (kind <> 'score')),
        stored_at DOUBLE PRECISION NOT NULL,
        backfilled DOUBLE PRECISION,
        UNIQUE (sample_id, metric, metric_version, judge_hash)
    )
    """,
    "CREATE TABLE outcome_bodies (seq BIGINT PRIMARY KEY REFERENCES outcomes (seq), body TEXT NOT NULL)",
    """
    CREATE TABLE outbox (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('outcome', 'alarm')),
        item_id TEXT COLLATE "C" NOT NULL,
        sink TEXT COLLATE "C" NOT NULL,
        state TEXT COLLATE "C" NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sent', 'skipped', 'failed')),
        attempts BIGINT NOT NULL DEFAULT 0,
        since DOUBLE PRECISION NOT NULL,
        next_try DOUBLE PRECISION NOT NULL,
        last_error TEXT,
        UNIQUE (kind, item_id, sink)
    )
    """,
    # Claims read the pending traces in order of arrival, and skip the many finished ones.
    "CREATE INDEX traces_pending ON traces (seq) WHERE state = 'pending'",
    "CREATE INDEX traces_by_state ON traces (state)",
    "CREATE INDEX traces_leased ON traces (lease_owner) WHERE state = 'pending' AND lease_owner IS NOT NULL",
    "CREATE INDEX traces_partial ON traces (trace_id) WHERE partial = 1",
    "CREATE INDEX traces_by_time ON traces (started_at)",
    "CREATE INDEX traces_by_app ON traces (app, started_at)",
    "CREATE INDEX outcomes_by_metric ON outcomes (metric, metric_version, judge_hash, kind, value)",
    "CREATE INDEX due_deliveries ON outbox (sink, next_try, seq) WHERE state = 'pending'",
    "CREATE INDEX outbox_by_state ON outbox (sink, state)",
    TEXTS_INDEX,
    *_LABELS,
    *_WATCH,
    *_VERSION_7,
    *_VERSION_8,
)


def _to_version_2(db: Sql) -> None:
    """Rename the state of deliveries that are not retried to `failed`."""
    db.execute("ALTER TABLE outbox DROP CONSTRAINT outbox_state_check")
    db.execute("UPDATE outbox SET state = 'failed' WHERE state = 'dead'")
    db.execute(
        "ALTER TABLE outbox ADD CONSTRAINT outbox_state_check CHECK (state IN ('pending', 'sent', 'skipped', 'failed'))"
    )


def _to_version_3(db: Sql) -> None:
    """Add the application of a trace, and deliveries of alarms."""
    for column in ("app", "release", "environment"):
        db.execute(f"ALTER TABLE traces ADD COLUMN {column} TEXT")
    db.execute("CREATE INDEX traces_by_app ON traces (app, started_at)")
    db.execute("ALTER TABLE outbox DROP CONSTRAINT outbox_outcome_id_fkey")
    db.execute("ALTER TABLE outbox DROP CONSTRAINT outbox_outcome_id_sink_key")
    db.execute("ALTER TABLE outbox RENAME COLUMN outcome_id TO item_id")
    db.execute(
        """
        ALTER TABLE outbox ADD COLUMN kind TEXT COLLATE "C" NOT NULL DEFAULT 'outcome'
        CHECK (kind IN ('outcome', 'alarm'))
        """
    )
    db.execute("ALTER TABLE outbox ALTER COLUMN kind DROP DEFAULT")
    db.execute("ALTER TABLE outbox ADD UNIQUE (kind, item_id, sink)")


def _to_version_4(db: Sql) -> None:
    """Add labels of people."""
    for statement in _LABELS:
        db.execute(statement)


def _to_version_5(db: Sql) -> None:
    """Add the tables of the monitoring."""
    for statement in _WATCH:
        db.execute(statement)


def _to_version_6(db: Sql) -> None:
    """Add when the text of a request was removed."""
    db.execute("ALTER TABLE traces ADD COLUMN text_removed_at DOUBLE PRECISION")
    db.execute(TEXTS_INDEX)


def _to_version_7(db: Sql) -> None:
    """Add backfilled outcomes, feedback, values of tags, canaries, the spend of each day, and counters of rows."""
    db.execute("ALTER TABLE outcomes ADD COLUMN backfilled DOUBLE PRECISION")
    # A migration from version 4 or older has just created this table with the column.
    db.execute("ALTER TABLE watch_queue ADD COLUMN IF NOT EXISTS backfilled INTEGER NOT NULL DEFAULT 0")
    db.execute("ALTER TABLE traces ADD COLUMN slices TEXT")
    for statement in _VERSION_7:
        db.execute(statement)


def _to_version_8(db: Sql) -> None:
    """Add ranges of outcomes for sinks, the refusal of workers of other versions, sampling by feedback, and checksums."""
    db.execute("ALTER TABLE traces ADD COLUMN stream_probability DOUBLE PRECISION")
    for table in (*CHECKED_COLUMNS, "outcome_counts"):
        # A migration from an older version has just created some of these tables with the column.
        db.execute(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS checksum BIGINT NOT NULL DEFAULT 0")
    add_checksums(db, text="body")
    fill_counts(db)
    for statement in _VERSION_8:
        db.execute(statement)
    create_ranges(db)


MIGRATIONS: Final[dict[int, Callable[[Sql], None]]] = {
    1: _to_version_2,
    2: _to_version_3,
    3: _to_version_4,
    4: _to_version_5,
    5: _to_version_6,
    6: _to_version_7,
    7: _to_version_8,
}
"""Steps by version. Each upgrades to the next version."""
