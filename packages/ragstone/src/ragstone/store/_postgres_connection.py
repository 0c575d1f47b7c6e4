"""One connection to a PostgreSQL database: its limits, its loss, and what its errors mean."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any, Final

import psycopg
from typing_extensions import override

from ragstone._util.postgres import (
    LimitedConnection,
    connection_parameters,
    describe_database,
    is_denied,
    register_text_dumper,
    strip_credentials,
)
from ragstone.errors import RagstoneError, StoreCorruptError, StoreError, StoreUnavailableError
from ragstone.store._body import UNREADABLE, DamagedRowError, damaged_store, unreadable
from ragstone.store._sql import Rows, Sql, Transactions

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
"""Time without a call after which a worker loses its sinks, in seconds. A running worker looks for work twice a second."""
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


class PostgresDatabase(Transactions):
    """One connection to a database, opened when first used and reopened after it was lost.

    If the connection breaks, the current call fails, and nothing is stored unless the server had received the commit.
    Calls from several threads run one after another. A forked child must open its own connection.

    Args:
        url: `postgresql://…`, with the parameters of libpq.
        writable: Whether `write` may be used.
        on_connect: Called with each new connection, outside a transaction.

    Raises:
        ConfigurationError: If the URL is invalid.
    """

    def __init__(self, url: str, *, writable: bool, on_connect: Callable[[PostgresConnection], None]) -> None:
        self._parameters = _CONNECT | connection_parameters(url)
        self.place = describe_database(self._parameters)
        """URL of the database without credentials."""
        self._writable = writable
        self._on_connect = on_connect
        self._connection: LimitedConnection | None = None
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._closed = False
        self._retry_at = 0.0
        self._failure = StoreError()

    @override
    def write(self) -> AbstractContextManager[PostgresConnection]:
        if not self._writable:
            raise StoreError(
                f"the store in {self.place} is open for reading only. Open it with mode='own' to write to it."
            )
        return self._transaction("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")

    @override
    def read(self) -> AbstractContextManager[PostgresConnection]:
        return self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    @contextmanager
    def session(self) -> Iterator[PostgresConnection]:
        """Run a block outside a transaction, for locks that belong to the connection."""
        with self._usable() as connection:
            yield PostgresConnection(connection)

    def end_when_idle(self) -> None:
        """Let the server end the current connection when it is not used, because this process may be frozen.

        Servers before PostgreSQL 14 cannot do this.
        """
        if self._connection is not None and self._connection.info.server_version >= 140_000:
            self._connection.execute(f"SET idle_session_timeout TO '{_IDLE_S}s'".encode())

    def close(self) -> None:
        """Close the connection and release its locks. Do nothing in a forked child: its parent uses them."""
        if self._pid != os.getpid():
            return
        with self._lock:
            self._closed = True
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

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[PostgresConnection]:
        with self._usable() as connection:
            connection.execute(begin.encode())
            try:
                yield PostgresConnection(connection)
                connection.execute("COMMIT")
            except BaseException:
                try:
                    connection.execute("ROLLBACK")
                except psycopg.Error:
                    connection.close()  # this also ends the transaction
                raise

    @contextmanager
    def _usable(self) -> Iterator[LimitedConnection]:
        # Before the lock is taken: a thread of the parent may have held it during the fork.
        if self._pid != os.getpid():
            raise StoreError(
                f"the store in {self.place} was opened by process {self._pid}, and this is its forked child "
                f"{os.getpid()}. A connection cannot be used after a fork: open the store in the child."
            )
        with self._lock:
            if self._closed:
                raise StoreError(f"the store in {self.place} is closed. Open it again to use it.")
            try:
                yield self._connected()
            except DamagedRowError as error:
                raise damaged_store(f"in {self.place}", self.place, error) from error
            except psycopg.Error as error:
                raise self._store_error(error) from None
            except UNREADABLE as error:
                if isinstance(error, RagstoneError):
                    raise
                raise damaged_store(f"in {self.place}", self.place, unreadable(error)) from error
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

    def _store_error(self, error: psycopg.Error) -> StoreError:
        message = strip_credentials(str(error), self._parameters)
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            return StoreError(
                f"this user lacks the privileges for this operation in {self.place} ({message}). A store needs the right "
                f"to create the schema {SCHEMA!r} in the database, or to own it."
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
