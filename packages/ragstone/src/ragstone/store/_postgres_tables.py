"""The tables of a store in PostgreSQL. Those in a SQLite file have the same columns (see `_sqlite_tables`)."""

from __future__ import annotations

from typing import Final

from ragstone.store._tables import INDEXES

SCHEMA: Final = "ragstone"
"""Schema for all tables, because the database may belong to an application."""

# Names are compared as bytes, so that their order is the same on all servers.
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
    """
    CREATE TABLE scoring_plans (
        id TEXT COLLATE "C" PRIMARY KEY,
        settings TEXT NOT NULL,
        since DOUBLE PRECISION NOT NULL,
        replaced_by TEXT COLLATE "C"
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
        text_removed_at DOUBLE PRECISION,
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
        slices TEXT,
        plan TEXT COLLATE "C",
        attempts BIGINT NOT NULL DEFAULT 0,
        lease_owner TEXT,
        lease_until DOUBLE PRECISION NOT NULL DEFAULT 0,
        checksum BIGINT NOT NULL
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
    """
    CREATE TABLE outcome_counts (
        metric TEXT COLLATE "C" NOT NULL,
        metric_version TEXT COLLATE "C" NOT NULL,
        judge_hash TEXT COLLATE "C" NOT NULL,
        kind TEXT COLLATE "C" NOT NULL,
        n BIGINT NOT NULL,
        checksum BIGINT NOT NULL,
        PRIMARY KEY (metric, metric_version, judge_hash, kind)
    )
    """,
    """
    CREATE TABLE labels (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        trace_id TEXT COLLATE "C" NOT NULL,
        author TEXT COLLATE "C" NOT NULL,
        value DOUBLE PRECISION NOT NULL CHECK (value BETWEEN 0 AND 1),
        labeled_at DOUBLE PRECISION NOT NULL,
        checksum BIGINT NOT NULL,
        UNIQUE (trace_id, author)
    )
    """,
    """
    CREATE TABLE label_frame (
        trace_id TEXT COLLATE "C" PRIMARY KEY,
        probability DOUBLE PRECISION NOT NULL CHECK (probability > 0 AND probability <= 1),
        position BIGINT UNIQUE,
        checksum BIGINT NOT NULL
    )
    """,
    """
    CREATE TABLE feedback (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        request_id TEXT COLLATE "C" NOT NULL,
        trace_id TEXT COLLATE "C",
        value DOUBLE PRECISION NOT NULL CHECK (value BETWEEN 0 AND 1),
        comment TEXT,
        given_at DOUBLE PRECISION NOT NULL,
        received_at DOUBLE PRECISION NOT NULL,
        checksum BIGINT NOT NULL
    )
    """,
    """
    CREATE TABLE canaries (
        trace_id TEXT COLLATE "C" PRIMARY KEY REFERENCES traces (trace_id), chosen_at DOUBLE PRECISION NOT NULL
    )
    """,
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
        backfilled INTEGER NOT NULL
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
    # Claims read the pending traces in order of arrival, and skip the many finished ones and those of other plans.
    "CREATE INDEX traces_pending ON traces (seq) WHERE state = 'pending'",
    "CREATE INDEX traces_by_plan ON traces (plan, seq) WHERE state = 'pending'",
    "CREATE INDEX traces_leased ON traces (lease_owner) WHERE state = 'pending' AND lease_owner IS NOT NULL",
    "CREATE INDEX due_deliveries ON outbox (sink, next_try, seq) WHERE state = 'pending'",
    *INDEXES,
)
"""Statements that create the tables and their indexes."""
