"""One PostgreSQL connection: transactions, a new connection after a loss, and errors that show no credentials."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import psycopg

from ragstone._util.postgres import connection_parameters, place_of, take_any_text, without_secrets
from ragstone.errors import StoreCorruptError, StoreError
from ragstone.store._postgres_schema import SCHEMA
from ragstone.store._sql import Rows

__all__ = ["LOCKS", "PostgresConnection", "PostgresDatabase"]

LOCKS: Final = 0x52475354
"""The letters RGST: the first half of the numbers of all our advisory locks, so that an application's do not meet them."""

_RETRY_S: Final = 1.0
"""After a connection that failed, no other one is tried for so long, or four times as long as the failure took."""

# A host that vanished is noticed by either side within a minute or so, and what it held is free again.
_CONNECT: Final[dict[str, str | int]] = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "application_name": "ragstone",
}
_SETTINGS: Final = (
    f"SET search_path TO {SCHEMA}",
    "SET client_encoding TO 'UTF8'",
    "SET lock_timeout TO '30s'",
    "SET idle_in_transaction_session_timeout TO '60s'",
    "SET tcp_keepalives_idle TO 30",
    "SET tcp_keepalives_interval TO 10",
    "SET tcp_keepalives_count TO 3",
)


class PostgresConnection:
    """`ragstone.store._sql.Sql` over psycopg."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Rows:
        """Run a statement."""
        text, named = _translated(sql)
        return self._connection.execute(text, _named(parameters) if named else tuple(parameters))

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Rows:
        """Run a statement once for each row of parameters, all sent together."""
        text, named = _translated(sql)
        cursor = self._connection.cursor()
        rows = [_named(row) if named else tuple(row) for row in parameters]
        if rows:
            cursor.executemany(text, rows)
        return cursor


class PostgresDatabase:
    """A connection whose every use is one transaction; made when first used, and again after it was lost.

    What was under way when a connection broke is an error, and not stored unless the server had its commit; the next call
    connects again. Calls from several threads wait for each other. A forked child must open its own.

    Args:
        url: `postgresql://…`, with the parameters of libpq.
        writable: Whether `write` may be used.
        on_connect: Called with each new connection, outside a transaction.

    Raises:
        ConfigurationError: The URL cannot be read.
    """

    def __init__(self, url: str, *, writable: bool, on_connect: Callable[[PostgresConnection], None]) -> None:
        self._parameters = _CONNECT | connection_parameters(url)
        self.place = place_of(self._parameters)
        """Which database this is, without credentials."""
        self._writable = writable
        self._on_connect = on_connect
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._closed = False
        self._retry_at = 0.0
        self._failure = ""

    @contextmanager
    def write(self) -> Iterator[PostgresConnection]:
        """Run a block in a transaction: all of it is stored, or, when anything raises, nothing.

        Raises:
            StoreError: The server cannot be reached, or does not take it; the next call may succeed.
        """
        if not self._writable:
            raise StoreError(
                f"the store in {self.place} is open for reading only. Open it with mode='own' to write to it."
            )
        with self._transaction("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE") as db:
            yield db

    @contextmanager
    def read(self) -> Iterator[PostgresConnection]:
        """Run a block on one consistent snapshot.

        Raises:
            StoreError: The server cannot be reached.
        """
        with self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as db:
            yield db

    @contextmanager
    def session(self) -> Iterator[PostgresConnection]:
        """Run a block outside a transaction: for what belongs to the connection.

        Raises:
            StoreError: The server cannot be reached.
        """
        with self._usable() as connection:
            yield PostgresConnection(connection)

    def close(self) -> None:
        """Let go of the server, and of all locks there. A forked child never does: its parent is still at work."""
        if self._pid != os.getpid():
            return
        with self._lock:
            self._closed = True
            connection, self._connection = self._connection, None
            if connection is not None:
                try:
                    # At once: a server may take a moment to see that we are gone.
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
                    connection.close()  # with it goes its transaction
                raise

    @contextmanager
    def _usable(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        # Before the lock: a thread of the parent may have held it when the fork came.
        if self._pid != os.getpid():
            raise StoreError(
                f"the store in {self.place} was opened by process {self._pid}, and this is its forked child "
                f"{os.getpid()}. A connection cannot cross a fork: open the store after forking."
            )
        with self._lock:
            if self._closed:
                raise StoreError(f"the store in {self.place} is closed. Open it again to go on.")
            try:
                yield self._connected()
            except psycopg.Error as error:
                raise self._store_error(error) from None
            finally:
                if self._connection is not None and self._connection.closed:
                    self._connection = None

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._connection is not None:
            return self._connection
        started = time.monotonic()
        if started < self._retry_at:
            # Who waits for each of many calls does nothing else any more.
            raise StoreError(self._failure)
        connection = None
        try:
            connection = psycopg.connect(**self._parameters, autocommit=True)
            take_any_text(connection)
            for setting in _SETTINGS:
                connection.execute(setting.encode())
            if connection.info.parameter_status("server_encoding") != "UTF8":
                raise StoreError(  # noqa: TRY301 - the handler below closes the connection
                    f"the database {self.place} does not keep text as UTF-8; make one with ENCODING 'UTF8'"
                )
            self._on_connect(PostgresConnection(connection))
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, psycopg.Error):
                now = time.monotonic()
                self._retry_at = now + max(_RETRY_S, 4 * (now - started))
                self._failure = str(self._store_error(error))
            raise
        self._connection = connection
        return connection

    def _store_error(self, error: psycopg.Error) -> StoreError:
        words = without_secrets(str(error), self._parameters)
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            return StoreError(
                f"this user may not do that in {self.place} ({words}). A store needs the right to create the schema "
                f"{SCHEMA!r} in the database, or to own one."
            )
        if isinstance(
            error, (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.DuplicateTable)
        ):
            return StoreCorruptError(
                f"the schema {SCHEMA!r} in {self.place} is no Ragstone store, or is damaged ({words}). Use another "
                "database, or restore a backup."
            )
        if isinstance(error, psycopg.errors.LockNotAvailable):
            return StoreError(
                f"the store in {self.place} is locked by somebody for more than 30 s; try again ({words})."
            )
        return StoreError(f"the store in {self.place} cannot be used now ({words}). Nothing of this step was stored.")


@lru_cache(maxsize=256)
def _translated(sql: str) -> tuple[bytes, bool]:
    """The statement with psycopg's placeholders, and whether they have names."""
    named = re.search(r"\?\d", sql) is not None
    text = re.sub(r"\?(\d+)", r"%(p\1)s", sql) if named else sql.replace("?", "%s")
    return text.encode(), named


def _named(parameters: Sequence[Any]) -> Mapping[str, Any]:
    return {f"p{place}": value for place, value in enumerate(parameters, start=1)}
