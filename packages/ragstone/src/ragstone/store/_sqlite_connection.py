"""`SqliteDatabase`: the connection to a store file, and what SQLite's errors mean."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from typing_extensions import override

from ragstone._util.filelock import FileLock
from ragstone.errors import StoreCorruptError, StoreError
from ragstone.store._checksums import damaged_store
from ragstone.store._database import Database, row_errors
from ragstone.store._label_inbox import LabelInbox

BUSY_TIMEOUT_S: Final = 30.0
"""Time that SQLite waits for a lock of another process before an operation fails."""

_DAMAGE: Final = ("no such table", "no such column", "Could not decode to UTF-8")
"""Parts of SQLite's messages about damage that has the code of another error."""


class SqliteDatabase(Database):
    """The connection to a store file.

    A connection that two processes share damages the file, so use in a forked child raises an error.

    Args:
        connection: From `connect`.
        path: The file.
        lock: Lock of the owner, which `close` releases. None for a reader.
        clock: Returns Unix seconds.
    """

    inbox: LabelInbox

    def __init__(
        self, connection: sqlite3.Connection, *, path: Path, lock: FileLock | None, clock: Callable[[], float]
    ) -> None:
        super().__init__(name=repr(str(path)), place=str(path), writable=lock is not None)
        self._connection = connection
        self._path = path.absolute()
        self._inode = _inode(self._path)
        self._owner_lock = lock
        self._clock = clock
        self.inbox = LabelInbox(self._path.with_name(f"{self._path.name}.labels"))

    @override
    def now(self) -> float:
        return self._clock()

    @override
    def stop_delivering(self, sink: str) -> None:
        """Do nothing: a file has one owner."""

    @override
    def check_not_replaced(self) -> None:
        # Data written to a file that is no longer at the path would be lost when the last descriptor is closed.
        if _inode(self._path) != self._inode:
            raise StoreError(
                f"the store {str(self._path)!r} was removed or replaced while in use. Traces that are no longer in the "
                "spool are lost. New captures wait in the spool until a worker opens the path again."
            )

    @override
    def checkpoint(self) -> bool:
        self._check_writable()
        with self._usable():
            # Never wait for a checkpoint, because the next one can do its work.
            self._connection.execute("PRAGMA busy_timeout = 0")
            try:
                _, logged, copied = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                self._connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000:.0f}")
            # Both are -1 if no checkpoint took place.
            return bool(0 <= logged == copied)

    @override
    def shrink(self) -> None:
        self._check_writable()
        with self._usable():
            self._connection.execute("VACUUM")
        self.checkpoint()

    @override
    def file_problems(self) -> list[str]:
        try:
            with self.read() as db:
                found = [text for (text,) in db.execute("PRAGMA integrity_check(100)")]
        except StoreCorruptError as error:
            found = [str(error.__cause__ or error)]
        n_lines = len(self.inbox.read().damaged)
        lines = [f"{n_lines} lines of the labels that wait for the owner are damaged"] if n_lines else []
        return [*([] if found == ["ok"] else found), *lines]

    @override
    def _disconnect(self) -> None:
        self._connection.close()
        if self._owner_lock is not None:
            self._owner_lock.release()

    @override
    def _begin(self, *, writes: bool) -> sqlite3.Connection:
        self._connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
        return self._connection

    @override
    def _roll_back(self) -> None:
        # SQLite rolls back on its own after some errors, for example if the disk is full.
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    @override
    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as exc:
            raise _store_error(exc, path=str(self._path)) from exc


def connect(path: Path, *, access: str) -> sqlite3.Connection:
    """Connect to a file. `access` is the value of SQLite's parameter `mode`, and may have others."""
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={access}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,  # `SqliteDatabase` starts and ends transactions
        check_same_thread=False,  # `SqliteDatabase` serializes threads
    )
    # Text that is damaged must not prevent reading the other rows. Its checksum shows it.
    db.text_factory = partial(str, encoding="utf-8", errors="replace")
    return db


def _inode(path: Path) -> tuple[int, int] | None:
    """Return the identity of the file at a path, or None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Convert SQLite's errors, and those that damaged rows cause, to errors of Ragstone."""
    with row_errors(repr(str(path)), str(path)):
        try:
            yield
        except sqlite3.Error as exc:
            raise _store_error(exc, path=str(path)) from exc


def _store_error(exc: sqlite3.Error, *, path: str) -> StoreError:
    # The low byte is the primary code, the other bytes refine it.
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return StoreCorruptError(
            f"{path!r} is not a Ragstone store: it is not a SQLite file. Choose another path, or move the file away."
        )
    if code == sqlite3.SQLITE_CORRUPT or any(sign in str(exc) for sign in _DAMAGE):
        return damaged_store(repr(path), path, exc)
    if code == sqlite3.SQLITE_FULL:
        return StoreError(
            f"no space left for the store {path!r} ({exc}). Nothing of this step was stored. Free disk space and try "
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
            "user may write to the directory, where SQLite keeps two small files even for readers. Or copy the file, with the "
            "one that ends in -wal."
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(
            f"the store {path!r} has been locked by another process for more than {BUSY_TIMEOUT_S:.0f} s ({exc}). Close "
            "other programs that have it open, then try again."
        )
    if code == sqlite3.SQLITE_IOERR:
        return StoreError(
            f"disk error for the store {path!r} ({exc}). Nothing of this step was stored. Check the disk, its "
            "quota and its mount."
        )
    return StoreError(f"the store {path!r} failed: {exc}. This is a bug in Ragstone. Please report it.")
