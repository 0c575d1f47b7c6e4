"""`PostgresStore`: a store in a PostgreSQL database, which workers on several hosts share."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, Final, Literal, Self

import psycopg
from typing_extensions import override

from ragstone._util.clock import steady_time
from ragstone._util.postgres import (
    LimitedConnection,
    connection_parameters,
    describe_database,
    is_denied,
    register_text_dumper,
    strip_credentials,
)
from ragstone.errors import StoreCorruptError, StoreError, StoreNotReadyError, StoreUnavailableError
from ragstone.schema import SCHEMA_VERSION, check_version
from ragstone.store._checksums import damaged_store
from ragstone.store._database import Database, Lock
from ragstone.store._plan import read_plan
from ragstone.store._sql import Rows, Sql, read_meta
from ragstone.store._store import Store, check_options
from ragstone.store._tables import APPLICATION_ID, create_statements
from ragstone.store._types import PlannedMetric

SCHEMA: Final = "ragstone"
"""Schema for all tables, because the database may belong to an application."""
_RETRY_S: Final = 1.0
"""Minimum pause after a failed connection attempt. If the attempt took longer, the pause is four times its duration."""
# Either side detects a lost host within about a minute, and then releases its locks.
_CONNECT: Final[dict[str, str | int]] = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "application_name": "ragstone",
}
_STATEMENT_S: Final = 300
"""Time after which the server cancels a statement, in seconds."""
_ANSWER_S: Final = 330.0
"""Time after which a server that does not answer counts as lost, in seconds."""
_IDLE_S: Final = 120
"""Time without a call after which a worker loses its sinks, in seconds. A running worker looks for work twice a
second."""
_CLOSE_S: Final = 2.0
"""Longest wait of `close` for the server, in seconds."""
_SETTINGS: Final = (
    f"SET search_path TO {SCHEMA}",
    "SET client_encoding TO 'UTF8'",
    "SET lock_timeout TO '30s'",
    f"SET statement_timeout TO '{_STATEMENT_S}s'",
    "SET idle_in_transaction_session_timeout TO '60s'",
    "SET tcp_keepalives_idle TO 30",
    "SET tcp_keepalives_interval TO 10",
    "SET tcp_keepalives_count TO 3",
)


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
        cls, url: str, *, mode: Literal["own", "read"], clock: Callable[[], float] = time.time, max_attempts: int = 5
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


class PostgresConnection(Sql):
    """`Sql` over psycopg."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection

    @override
    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Rows:
        text, named = _translated(sql)
        return self._connection.execute(text, _named(parameters) if named else tuple(parameters))

    @override
    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Rows:
        text, named = _translated(sql)
        cursor = self._connection.cursor()
        rows = [_named(row) if named else tuple(row) for row in parameters]
        if rows:
            cursor.executemany(text, rows)
        return cursor


class PostgresDatabase(Database):
    """One connection to a database, opened when first used and reopened after it was lost.

    If the connection breaks, the current call fails, and nothing is stored unless the server had received the commit.
    The plan of this worker and the sinks that it delivers to are locked for the lifetime of a connection. `url` may
    have the parameters of libpq. The clock of the system means that of the server. Raise ConfigurationError if the URL
    is invalid.
    """

    is_shared = True
    lock_claimed = "FOR UPDATE OF t SKIP LOCKED"
    lock_completed = "FOR UPDATE"

    def __init__(self, url: str, *, writable: bool, clock: Callable[[], float]) -> None:
        self._parameters = _CONNECT | connection_parameters(url)
        place = describe_database(self._parameters)
        super().__init__(name=f"in {place}", place=place, writable=writable)
        self._plan: tuple[frozenset[PlannedMetric], frozenset[str]] | None = None
        """Plan of this worker, or None before `planning`."""
        self._displaced = ""
        self._delivering: set[str] = set()
        """Sinks that this worker delivers to."""
        # A clock of a test is the same for all workers.
        self._clock = clock
        self._has_system_clock = clock in (time.time, steady_time)
        self._skew_s = 0.0
        """Seconds by which the clock of the server is ahead."""
        self._connection: LimitedConnection | None = None
        self._retry_at = 0.0
        self._failure = StoreError()

    @override
    def now(self) -> float:
        return self._clock() + self._skew_s

    @override
    @contextmanager
    def planning(self, metrics: Sequence[PlannedMetric], sinks: Sequence[str]) -> Iterator[Sql]:
        plan = frozenset(metrics), frozenset(sinks)
        with self.write() as db:
            self.lock(db, Lock.PLANNING)
            if not _is_planned(db, plan) and not self.lock(db, Lock.PLAN, wait=False):
                raise StoreError(self._other_plan())
            # Before rows are locked, as in the transactions that store outcomes: the ranges of sinks begin after all of those.
            self.lock(db, Lock.ORDER)
            yield db
            self._join(db)
        self._plan, self._displaced = plan, ""

    @override
    def lock(self, db: Sql, lock: Lock, *, shared: bool = False, wait: bool = True) -> bool:
        return _advisory(db, f"pg_{'' if wait else 'try_'}advisory_xact_lock{'_shared' if shared else ''}", lock)

    @override
    def delivers(self, sink: str) -> bool:
        if not self.writable:
            return True
        with self._session() as db:
            if sink not in self._delivering and _advisory(db, "pg_try_advisory_lock", _key(sink)):
                self._end_when_idle()
                self._delivering.add(sink)
            return sink in self._delivering

    @override
    def stop_delivering(self, sink: str) -> None:
        if sink in self._delivering:
            with self._session() as db:
                _advisory(db, "pg_advisory_unlock", _key(sink))
            self._delivering.discard(sink)

    @override
    def check_not_replaced(self) -> None:
        # The plan or the store may have been replaced while the connection was lost.
        if self._displaced:
            raise StoreError(self._displaced)

    @override
    def checkpoint(self) -> bool:
        with self._session():
            return True  # the server syncs each commit to its disk

    @override
    def shrink(self) -> None:
        """Do nothing: the server's autovacuum frees the space."""

    @contextmanager
    def _session(self) -> Iterator[PostgresConnection]:
        """Run a block outside a transaction, for locks that belong to the connection."""
        with self._usable():
            yield PostgresConnection(self._connected())

    def _end_when_idle(self) -> None:
        """Let the server end the current connection when it is not used, because this process may be frozen.

        Servers before PostgreSQL 14 cannot do this.
        """
        if self._connection is not None and self._connection.info.server_version >= 140_000:
            self._connection.execute(f"SET idle_session_timeout TO '{_IDLE_S}s'".encode())

    @override
    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.limit_s = _CLOSE_S
            try:
                # Unlock explicitly, because the server may take a moment to detect the end of the connection.
                connection.execute("SELECT pg_advisory_unlock_all()")
            except psycopg.Error:
                pass
            finally:
                connection.close()

    @override
    def _begin(self, *, writes: bool) -> PostgresConnection:
        level = "READ COMMITTED READ WRITE" if writes else "REPEATABLE READ READ ONLY"
        connection = self._connected()
        connection.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
        return PostgresConnection(connection)

    @override
    def _roll_back(self) -> None:
        if self._connection is not None:
            try:
                self._connection.execute("ROLLBACK")
            except psycopg.Error:
                self._connection.close()  # this also ends the transaction

    @override
    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._store_error(error) from None
        finally:
            if self._connection is not None and self._connection.closed:
                self._connection = None

    def _connected(self) -> LimitedConnection:
        if self._connection is not None:
            return self._connection
        started = time.monotonic()
        if started < self._retry_at:
            # Fail immediately: waiting for a timeout in each of many calls would block the caller.
            raise type(self._failure)(str(self._failure))
        connection = None
        try:
            connection = LimitedConnection.connect(**self._parameters, autocommit=True)
            connection.limit_s = _ANSWER_S
            register_text_dumper(connection)
            for setting in _SETTINGS:
                connection.execute(setting.encode())
            if connection.info.parameter_status("server_encoding") != "UTF8":
                raise StoreError(  # noqa: TRY301 - the handler below closes the connection
                    f"the database {self.place} does not store text as UTF-8. Create one with ENCODING 'UTF8'"
                )
            self._on_connect(PostgresConnection(connection))
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, psycopg.Error):
                now = time.monotonic()
                self._retry_at = now + max(_RETRY_S, 4 * (now - started))
                self._failure = self._store_error(error)
            raise
        self._connection = connection
        return connection

    def _on_connect(self, db: PostgresConnection) -> None:
        """Read the server's time, and check and lock the plan again if the previous connection had locked it."""
        self._delivering.clear()
        if self._has_system_clock:
            before = self._clock()
            (there,) = db.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
            self._skew_s = there - (before + self._clock()) / 2
        if self._plan is not None:
            _advisory(db, "pg_advisory_lock", Lock.PLANNING)
            try:
                check_tables_version(db, self.place)
                if not _is_planned(db, self._plan):
                    raise StoreError(self._other_plan())  # noqa: TRY301 - the handler below records the reason
                self._join(db)
            except StoreError as error:
                self._displaced = str(error)
                raise
            finally:
                _advisory(db, "pg_advisory_unlock", Lock.PLANNING)

    def _join(self, db: Sql) -> None:
        """Lock the plan, together with all workers that use it, until the connection ends."""
        _advisory(db, "pg_advisory_lock_shared", Lock.PLAN)

    def _other_plan(self) -> str:
        return (
            f"other workers use the store in {self.place} with another plan. Give all workers of a "
            "store the same metrics, judge, reader and sinks, or stop the others first."
        )

    def _store_error(self, error: psycopg.Error) -> StoreError:
        message = strip_credentials(str(error), self._parameters)
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            return StoreError(
                f"this user lacks the privileges for this operation in {self.place} ({message}). A store needs the "
                f"right to create the schema {SCHEMA!r} in the database, or to own it."
            )
        if isinstance(
            error, (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.DuplicateTable)
        ):
            return StoreCorruptError(
                f"the schema {SCHEMA!r} in {self.place} is not a Ragstone store, or is damaged ({message}). Use "
                "another database, or restore a backup."
            )
        if isinstance(error, (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted)):
            return damaged_store(f"in {self.place}", self.place, message)
        if isinstance(error, psycopg.errors.LockNotAvailable):
            return StoreError(f"the store in {self.place} has been locked for more than 30 s. Try again ({message}).")
        is_away = isinstance(error, psycopg.OperationalError) and not is_denied(error)
        # A printed command has the URL without its password.
        login = " Name user and password in the URL, or in PGUSER and PGPASSWORD." if "password" in message else ""
        return (StoreUnavailableError if is_away else StoreError)(
            f"the store in {self.place} cannot be used now ({message}). Nothing of this step was stored.{login}"
        )


@lru_cache(maxsize=256)
def _translated(sql: str) -> tuple[bytes, bool]:
    """Return the statement with psycopg's placeholders, and whether they have names."""
    named = re.search(r"\?\d", sql) is not None
    text = re.sub(r"\?(\d+)", r"%(p\1)s", sql) if named else sql.replace("?", "%s")
    return text.encode(), named


def _named(parameters: Sequence[Any]) -> Mapping[str, Any]:
    return {f"p{place}": value for place, value in enumerate(parameters, start=1)}


def _is_planned(db: Sql, plan: tuple[frozenset[PlannedMetric], frozenset[str]]) -> bool:
    sinks = frozenset(name for (name,) in db.execute("SELECT name FROM sinks").fetchall())
    return (frozenset(read_plan(db)), sinks) == plan


def _advisory(db: Sql, function: str, key: int) -> bool:
    """Call a PostgreSQL function for advisory locks, and return False if it could not lock or unlock."""
    (result,) = db.execute(f"SELECT {function}(?, ?)", (APPLICATION_ID, int(key))).fetchone()
    return result is not False


def _key(sink: str) -> int:
    # Larger than the numbers above. Two sinks with the same number would only always have the same worker.
    return 16 + zlib.crc32(sink.encode("utf-8", "replace")) % 2**30


def check_tables_version(db: Sql, place: str) -> None:
    """Check that this version of Ragstone can use the tables."""
    version: Any = read_meta(db, "version")
    with suppress(TypeError, ValueError):
        version = int(version)
    check_version(f"the store in {place}", version)
