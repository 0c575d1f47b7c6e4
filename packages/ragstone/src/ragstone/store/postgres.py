"""`PostgresStore`: a store in a PostgreSQL database, which workers on several hosts share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Literal, Self

from ragstone.errors import StoreError, StoreNotReadyError
from ragstone.schema import SCHEMA_VERSION
from ragstone.store._database import Lock
from ragstone.store._postgres_connection import SCHEMA, PostgresDatabase, check_tables_version
from ragstone.store._sql import Sql
from ragstone.store._store import Store, check_options
from ragstone.store._tables import create_statements


class PostgresStore(Store):
    """A `Store` in the schema `ragstone` of a PostgreSQL database. Open it with `open`.

    Several workers, also on several hosts, share it. Each claims different traces, and only one of them delivers to a
    sink at a time (if it ends, another one takes over). All must have the same plan. All times are the server's,
    because the clocks of hosts differ. If the connection is lost, the current call fails and the next call connects
    again.

    Locks belong to connections: a pooler between worker and server must be in session mode.
    """

    @classmethod
    def open(
        cls,
        url: str,
        *,
        mode: Literal["own", "read"],
        clock: Callable[[], float] = time.time,
        max_attempts: int = 5,
    ) -> Self:
        """Open the store in the database at `url`.

        Args:
            url: `postgresql://user:password@host/database`, with the parameters of libpq.
            mode: "own" to write (creates missing tables), "read" to read.
            clock: Returns Unix seconds. Used by tests. The default means the server's clock.
            max_attempts: How often a trace may be claimed without being completed or released (at least 1).

        Raises:
            ConfigurationError: If `mode`, `max_attempts` or the URL is invalid.
            StoreVersionError: If another version of Ragstone wrote the tables.
            StoreNotReadyError: If `mode` is "read" and the tables do not exist yet.
            StoreUnavailableError: If the server cannot be reached.
            StoreError: If it refuses the connection, or this user lacks privileges.
        """
        check_options(mode, max_attempts)
        database = PostgresDatabase(url, writable=mode == "own", clock=clock)
        try:
            if mode == "own":
                with database.write() as db:
                    database.lock(db, Lock.SETUP)
                    _prepare(db, database.place)
            else:
                with database.read() as db:
                    _check(db, database.place)
        except BaseException:
            database.close()
            raise
        return cls(database, max_attempts=max_attempts)


def _prepare(db: Sql, place: str) -> None:
    """Create the tables, or check that this version of Ragstone can use them. Only one worker may do this at a time."""
    # Checked first: a user without the right to create schemas can use an existing one.
    if not _exists(db, "pg_namespace WHERE nspname = ?", SCHEMA):
        db.execute(f"CREATE SCHEMA {SCHEMA}")
    if _has_tables(db):
        _check_privileges(db, place, ("SELECT", "INSERT", "UPDATE", "DELETE"))
        check_tables_version(db, place)
        return
    for statement in create_statements("postgres"):
        db.execute(statement)
    db.execute("INSERT INTO meta VALUES ('version', ?)", (str(SCHEMA_VERSION),))


def _check(db: Sql, place: str) -> None:
    """Check that the tables exist and that this version of Ragstone can read them."""
    if not _has_tables(db):
        raise StoreNotReadyError(
            f"the store in {place} does not exist yet. A worker creates it when it first opens it."
        )
    _check_privileges(db, place, ("SELECT",))
    check_tables_version(db, place)


def _check_privileges(db: Sql, place: str, needed: Sequence[str]) -> None:
    """Check what this user may do with the tables, because PostgreSQL hides a schema that a user may not use."""
    (user, may_use) = db.execute(
        "SELECT quote_ident(current_user), has_schema_privilege(?, 'USAGE')", (SCHEMA,)
    ).fetchone()
    lacks = " OR ".join(f"NOT has_table_privilege(c.oid, '{each}')" for each in needed)
    closed = (
        "pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE n.nspname = ? AND c.relkind = 'r' AND ({lacks})"
    )
    if may_use and not _exists(db, closed, SCHEMA):
        return
    raise StoreError(
        f"the user {user} lacks privileges for the store in {place}. An administrator or the owner of the schema grants them: "
        f"GRANT USAGE ON SCHEMA {SCHEMA} TO {user}; GRANT {', '.join(needed)} ON ALL TABLES IN SCHEMA {SCHEMA} TO {user};"
        + (f" GRANT USAGE ON ALL SEQUENCES IN SCHEMA {SCHEMA} TO {user};" if "INSERT" in needed else "")
    )


def _has_tables(db: Sql) -> bool:
    return _exists(db, "pg_tables WHERE schemaname = ? AND tablename = 'meta'", SCHEMA)


def _exists(db: Sql, rows: str, value: str) -> bool:
    return db.execute(f"SELECT 1 FROM {rows}", (value,)).fetchone() is not None  # noqa: S608 - no user input
