"""One SQLite connection: transactions that leave nothing half done, and errors in words people can act on."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragstone.errors import StoreCorruptError, StoreError

__all__ = ["BUSY_TIMEOUT_S", "Database", "store_errors"]

BUSY_TIMEOUT_S = 30.0
"""How long SQLite waits for a lock of another process before an operation fails."""


class Database:
    """A connection whose every use is one transaction.

    Calls from several threads wait for each other. A forked child must open its own: a connection that two processes
    share damages the file, so use in a child is refused.
    """

    def __init__(self, connection: sqlite3.Connection, *, path: Path, writable: bool) -> None:
        self._connection = connection
        self._path = path
        self._writable = writable
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._closed = False

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Run a block in a write transaction: all of it is stored, or, when anything raises, nothing.

        Raises:
            StoreError: The file cannot be written (disk full, read-only, locked); the next call may succeed.
        """
        self._check_writable()
        with self._transaction("BEGIN IMMEDIATE") as db:
            yield db

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Run a block on one consistent snapshot.

        Raises:
            StoreError: The file cannot be read.
        """
        with self._transaction("BEGIN") as db:
            yield db

    def checkpoint(self) -> bool:
        """Copy the write-ahead log into the database file; False when a reader kept some of it from going over."""
        self._check_writable()
        with self._usable():
            # A checkpoint is never worth waiting for: there is always a next one.
            self._connection.execute("PRAGMA busy_timeout = 0")
            try:
                _, logged, copied = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                self._connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000:.0f}")
            # Both are -1 when no checkpoint took place.
            return bool(0 <= logged == copied)

    def close(self) -> bool:
        """Let go of the file; whether this call did. A forked child never does: its parent is still at work."""
        if self._pid != os.getpid():
            return False
        with self._lock:
            if self._closed:
                return False
            self._closed = True
            self._connection.close()
            return True

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._usable():
            try:
                self._connection.execute(begin)
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite has rolled back by itself after some errors (a full disk is one).
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _check_writable(self) -> None:
        if not self._writable:
            raise StoreError(
                f"the store {str(self._path)!r} is open for reading only. Open it with mode='own' to write to it."
            )

    @contextmanager
    def _usable(self) -> Iterator[None]:
        # Before the lock: a thread of the parent may have held it when the fork came.
        if self._pid != os.getpid():
            raise StoreError(
                f"the store {str(self._path)!r} was opened by process {self._pid}, and this is its forked child "
                f"{os.getpid()}. A SQLite connection cannot cross a fork: open the store after forking."
            )
        with self._lock, store_errors(self._path):
            if self._closed:
                raise StoreError(f"the store {str(self._path)!r} is closed. Open it again to go on.")
            yield


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except sqlite3.Error as exc:
        raise _store_error(exc, path=str(path)) from exc


def _store_error(exc: sqlite3.Error, *, path: str) -> StoreError:
    # The low byte is the primary code, the rest refines it.
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return StoreCorruptError(
            f"{path!r} is not a Ragstone store: it is no SQLite file at all. Choose another path, or move the file away."
        )
    if code == sqlite3.SQLITE_CORRUPT or "no such table" in str(exc) or "no such column" in str(exc):
        return StoreCorruptError(
            f"the store {path!r} is damaged ({exc}). Move it away and restore a backup, or save what can be read with: "
            f"sqlite3 {path} .recover"
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreError(
            f"no space left for the store {path!r} ({exc}). Nothing of this step was stored; free some space and try "
            "again."
        )
    if code == sqlite3.SQLITE_READONLY:
        return StoreError(
            f"the store {path!r} cannot be written ({exc}). Give this user write permission on the file and on its "
            "directory."
        )
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreError(
            f"the store {path!r} cannot be opened ({exc}). Check that the file and its directory exist and that this "
            "user may write to the directory, where SQLite keeps two small files even for readers; or copy the file."
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(
            f"the store {path!r} is locked by another process for more than {BUSY_TIMEOUT_S:.0f} s ({exc}). Close "
            "other programs that have it open, then try again."
        )
    if code == sqlite3.SQLITE_IOERR:
        return StoreError(
            f"the disk under the store {path!r} fails ({exc}). Nothing of this step was stored; check the disk, its "
            "quota and its mount."
        )
    return StoreError(f"the store {path!r} failed: {exc}. This is a bug in Ragstone; please report it.")
