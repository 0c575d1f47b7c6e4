"""The tables of a store in PostgreSQL, their version, and the way from older versions to this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ragstone.errors import StoreCorruptError, StoreError, StoreNotReadyError, StoreVersionError
from ragstone.schema import SCHEMA_VERSION
from ragstone.store._sql import Sql

__all__ = ["MIGRATIONS", "SCHEMA", "VERSION", "check", "prepare"]

SCHEMA: Final = "ragstone"
"""All tables are in a schema of their own: the database may be an application's."""

VERSION: Final = 1
"""Version of the tables. The records in them carry their own."""

# What the columns mean is told in `_schema.py`. Names compare as bytes, so that their order is the same everywhere.
_CREATE: Final = (
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
        attempts BIGINT NOT NULL DEFAULT 0,
        lease_owner TEXT,
        lease_until DOUBLE PRECISION NOT NULL DEFAULT 0
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
        UNIQUE (sample_id, metric, metric_version, judge_hash)
    )
    """,
    "CREATE TABLE outcome_bodies (seq BIGINT PRIMARY KEY REFERENCES outcomes (seq), body TEXT NOT NULL)",
    """
    CREATE TABLE outbox (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        outcome_id TEXT COLLATE "C" NOT NULL REFERENCES outcomes (outcome_id),
        sink TEXT COLLATE "C" NOT NULL,
        state TEXT COLLATE "C" NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sent', 'skipped', 'dead')),
        attempts BIGINT NOT NULL DEFAULT 0,
        since DOUBLE PRECISION NOT NULL,
        next_try DOUBLE PRECISION NOT NULL,
        last_error TEXT,
        UNIQUE (outcome_id, sink)
    )
    """,
    # Claims walk the pending traces in order of arrival, and skip the many that are finished.
    "CREATE INDEX traces_pending ON traces (seq) WHERE state = 'pending'",
    "CREATE INDEX traces_by_state ON traces (state)",
    "CREATE INDEX traces_leased ON traces (lease_owner) WHERE state = 'pending' AND lease_owner IS NOT NULL",
    "CREATE INDEX traces_partial ON traces (trace_id) WHERE partial = 1",
    "CREATE INDEX traces_by_time ON traces (started_at)",
    "CREATE INDEX outcomes_by_metric ON outcomes (metric, metric_version, judge_hash, kind, value)",
    "CREATE INDEX outbox_due ON outbox (sink, next_try, seq) WHERE state = 'pending'",
    "CREATE INDEX outbox_by_state ON outbox (sink, state)",
)

MIGRATIONS: Final[dict[int, Callable[[Sql], None]]] = {}
"""By version: the step from there to the next one."""


def prepare(db: Sql, place: str) -> None:
    """Make the tables, or bring them up to date; belongs into one transaction that no other worker runs beside.

    Raises:
        StoreVersionError: A newer Ragstone has written them.
        StoreError: They are too old.
    """
    # Asked for first: who may not create schemas can use one that is there.
    if not _exists(db, "pg_namespace WHERE nspname = ?", SCHEMA):
        db.execute(f"CREATE SCHEMA {SCHEMA}")
    if not _has_tables(db):
        for statement in _CREATE:
            db.execute(statement)
        _set(db, "version", VERSION)
    version = _version(db, place)
    while version < VERSION:
        step = MIGRATIONS.get(version)
        if step is None:
            raise StoreError(
                f"the store in {place} has version {version}, and there is no way from there to version {VERSION}. "
                "Read it with the Ragstone that wrote it."
            )
        step(db)
        version += 1
        _set(db, "version", version)
    _set(db, "schema_version", SCHEMA_VERSION)


def check(db: Sql, place: str) -> None:
    """Make sure that this Ragstone can read what is there.

    Raises:
        StoreNotReadyError: There are no tables: no worker has opened this store so far.
        StoreVersionError: A newer Ragstone has written them.
        StoreError: An older one has.
    """
    if not _has_tables(db):
        raise StoreNotReadyError(f"there is no store in {place} yet: it appears when a worker first opens it.")
    version = _version(db, place)
    if version < VERSION:
        raise StoreError(
            f"the store in {place} has the older version {version}, this Ragstone reads {VERSION}. Start a Monitor or "
            "`ragstone worker` of this version, which brings it up to date."
        )


def _version(db: Sql, place: str) -> int:
    found: dict[str, str] = dict(db.execute("SELECT key, value FROM meta"))
    try:
        version, records = int(found["version"]), int(found.get("schema_version", SCHEMA_VERSION))
    except (KeyError, ValueError):
        raise StoreCorruptError(
            f"the schema {SCHEMA!r} in {place} is no Ragstone store, or is damaged. Use another database, or restore a "
            "backup."
        ) from None
    if version > VERSION or records > SCHEMA_VERSION:
        raise StoreVersionError(
            f"the store in {place} has version {version} with records of version {records}; this Ragstone knows "
            f"{VERSION} and {SCHEMA_VERSION}. Upgrade: pip install --upgrade ragstone"
        )
    return version


def _set(db: Sql, key: str, value: int) -> None:
    db.execute(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, str(value))
    )


def _has_tables(db: Sql) -> bool:
    return _exists(db, "pg_tables WHERE schemaname = ? AND tablename = 'meta'", SCHEMA)


def _exists(db: Sql, rows: str, value: str) -> bool:
    return db.execute(f"SELECT 1 FROM {rows}", (value,)).fetchone() is not None  # noqa: S608 - our own words
