"""`SqliteStore`: a store in one SQLite file, with one owning process and any number of readers."""

from __future__ import annotations

import errno
import logging
import os
import shlex
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Literal, Self

from typing_extensions import override

from ragstone._util.filelock import FileLock, try_flock
from ragstone.errors import StoreCorruptError, StoreError, StoreNotFoundError, StoreNotReadyError, StoreOwnedError
from ragstone.schema import SCHEMA_VERSION, check_version
from ragstone.store._checksums import damaged_store
from ragstone.store._database import Database, row_errors
from ragstone.store._label_inbox import LabelInbox
from ragstone.store._labels import take_labels
from ragstone.store._location import has_spool, real_path
from ragstone.store._store import Store, check_options
from ragstone.store._tables import APPLICATION_ID, TABLES, create_statements

BUSY_TIMEOUT_S: Final = 30.0
"""Time that SQLite waits for a lock of another process before an operation fails."""
_DAMAGE: Final = ("no such table", "no such column", "Could not decode to UTF-8")
"""Parts of SQLite's messages about damage that has the code of another error."""

_logger = logging.getLogger("ragstone")

_WAL_SIZE_LIMIT: Final = 64 * 2**20
"""Maximum size in bytes of the log after a checkpoint, so that one long read does not leave a large file."""


class SqliteStore(Store):
    """A `Store` in one SQLite file in WAL mode. Open it with `open`.

    One process owns the file and is the only one that writes. SQLite before 3.51.3 can, rarely, damage a WAL file that
    several processes write and checkpoint at once, and most Python installations have an older one. Any number of
    processes may read. The result of a method survives `kill -9`. See `checkpoint` for power losses.

    Methods may be called from several threads, and run one after another. A forked child must open its own store.
    """

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        mode: Literal["own", "read"],
        clock: Callable[[], float] = time.time,
        max_attempts: int = 5,
    ) -> Self:
        """Open the store at `path`.

        Args:
            path: The file, or a symbolic link to it. `<file>.lock` and SQLite's `-wal` and `-shm` are next to the file.
            mode: "own" to write (creates a missing file, with access for this user only), "read" to read, also while
                the owner is running or after it was killed.
            clock: Returns Unix seconds. Used by tests.
            max_attempts: How often a trace may be claimed without being completed or released (at least 1).

        Raises:
            ConfigurationError: If `mode` or `max_attempts` is invalid.
            StoreOwnedError: If `mode` is "own" and another running process owns the file.
            StoreVersionError: If another version of Ragstone wrote the file.
            StoreCorruptError: If the file is not a Ragstone store or is damaged.
            StoreNotReadyError: If `mode` is "read" and the owner has created the file but not yet its tables.
            StoreError: If the file cannot be created, has hard links, or, for reading, is missing.
        """
        check_options(mode, max_attempts)
        path = real_path(path)
        if mode == "read":
            return cls(_open_for_reader(path, clock), max_attempts=max_attempts)
        _check_single_name(path)
        lock = take_lock(path)
        try:
            database = _open_for_owner(path, lock, clock)
            take_labels(database)
        except BaseException:
            lock.release()
            raise
        return cls(database, max_attempts=max_attempts)


def is_file_owned(path: Path) -> bool:
    """Return whether a process owns the store file at a path now."""
    try:
        descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDONLY)
    except OSError:
        return False
    try:
        # Shared, and released at once: two processes may look at the same time.
        return not try_flock(descriptor, shared=True)
    finally:
        os.close(descriptor)


def take_lock(path: Path) -> FileLock:
    """Lock a store file for its owner. Raise StoreOwnedError if another process owns it."""
    lock = FileLock(path.with_name(f"{path.name}.lock"))
    try:
        if lock.acquire():
            return lock
    except OSError as exc:
        remedy = (
            "Free disk space."
            if exc.errno in (errno.ENOSPC, errno.EDQUOT)
            else "Put the store on a local disk."
            if exc.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
            else "Check that the directory exists and that this user may write to it."
        )
        raise StoreError(
            f"the store {str(path)!r} cannot be locked: {exc.strerror} for {str(lock.path)!r}. {remedy}"
        ) from exc
    pid = lock.owner()
    owner = "this process already" if pid == os.getpid() else "another process" if pid is None else f"process {pid}"
    raise StoreOwnedError(
        f"the store {str(path)!r} is owned by {owner}, and only one process can write to it. Close it there, use "
        "another path here, or open it for reading (`ragstone status`, mode='read'), which needs no ownership."
    )


def _check_single_name(path: Path) -> None:
    """Check that a store file does not have hard links.

    Raise StoreError if it has. SQLite would keep a write-ahead log for each name, and damage the file.
    """
    if path.is_file() and (n_names := path.stat().st_nlink) > 1:
        raise StoreError(
            f"the store {str(path)!r} has {n_names} names (hard links), and writing under two of them damages it. "
            "Remove the other names, or use copies or symbolic links."
        )


def _open_for_owner(path: Path, lock: FileLock, clock: Callable[[], float]) -> SqliteDatabase:
    """Open `path` as its owner. Create a missing file, readable by this user only."""
    existed = path.exists()
    _create_file(path)
    with ExitStack() as undo, store_errors(path):
        db = connect(path, access="rw")
        undo.callback(db.close)
        is_new = _is_empty(db)
        if not is_new:
            _check_identity(db, path)
        _configure(db, path)
        database = SqliteDatabase(db, path=path, lock=lock, clock=clock)
        if is_new:
            if existed:
                # As a process leaves it that is killed while it creates the store, or a disk that has lost the content.
                _logger.warning(
                    "the store %r was an empty file. If it had content before, stop this process, and restore a backup "
                    "with `ragstone store restore`.",
                    str(path),
                )
            with database.write():
                _create_tables(db)
        _check_tables(db, path)
        undo.pop_all()
        return database


def _open_for_reader(path: Path, clock: Callable[[], float]) -> SqliteDatabase:
    """Open `path` for reading, whether its owner is running or not."""
    if not path.is_file():
        if has_spool(path):
            raise StoreNotFoundError(
                f"the store {str(path)!r} does not exist yet: its captured requests wait in a spool. `ragstone status "
                f"{shlex.quote(str(path))}` says how to score them."
            )
        raise StoreNotFoundError(
            f"store not found: {str(path)!r}. Check the path. A Monitor or `ragstone worker` creates the store when it "
            "first opens it."
        )
    with ExitStack() as undo, store_errors(path):
        db = connect(path, access="ro")
        undo.callback(db.close)
        try:
            is_empty = _is_empty(db)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:
                _undo_killed_change(path)
            elif error.sqlite_errorcode == sqlite3.SQLITE_CANTOPEN and _is_complete_and_fixed(path):
                # Without a log, which SQLite would have to open for writing.
                db = connect(path, access="ro&immutable=1")
                undo.callback(db.close)
            else:
                raise
            is_empty = _is_empty(db)
        if is_empty:
            raise StoreNotReadyError(
                f"the store {str(path)!r} is empty: its owner has not initialized it yet, or its content was lost. Try "
                "again later. If no program writes to it, restore a backup with `ragstone store restore`."
            )
        _check_identity(db, path)
        _check_tables(db, path)
        undo.pop_all()
        return SqliteDatabase(db, path=path, lock=None, clock=clock)


def _undo_killed_change(path: Path) -> None:
    """Undo a change of the whole file whose process was killed, as an owner does: a new or restored file gets a log so."""
    lock = take_lock(path)
    try:
        with closing(connect(path, access="rw")) as db:
            _is_empty(db)  # SQLite undoes it before the first read
    finally:
        lock.release()


def _is_complete_and_fixed(path: Path) -> bool:
    """Return whether a store is on a medium that nothing can write to, with all of its content in one file."""
    log = path.with_name(f"{path.name}-wal")
    return not os.access(path.parent, os.W_OK) and not (log.exists() and log.stat().st_size)


def _create_file(path: Path) -> None:
    # Creates only a file that does not exist: closing a second descriptor of an open SQLite file would drop its locks.
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not path.is_file():
            raise StoreError(
                f"the store {str(path)!r} cannot be opened: it is not a file. Choose another path."
            ) from None
    except OSError as exc:
        raise StoreError(
            f"the store {str(path)!r} cannot be created ({exc.strerror}). Check that the directory exists and that "
            "this user may write to it."
        ) from exc


def _configure(db: sqlite3.Connection, path: Path) -> None:
    (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreError(
            f"the file system under the store {str(path)!r} does not support SQLite's write-ahead log (mode {mode!r}). "
            "Put the store on a local disk."
        )
    # A killed process loses nothing. A power loss may undo everything after the last checkpoint.
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA secure_delete = ON")  # a removed text is overwritten, and not only marked as free
    db.execute(f"PRAGMA journal_size_limit = {_WAL_SIZE_LIMIT}")


def _create_tables(db: sqlite3.Connection) -> None:
    """Create the tables in an empty file. Call it in a transaction, so that either all of them exist or none."""
    for statement in create_statements("sqlite"):
        db.execute(statement)
    db.execute("INSERT INTO meta VALUES ('version', ?)", (str(SCHEMA_VERSION),))
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _is_empty(db: sqlite3.Connection) -> bool:
    return _pragma(db, "application_id") == 0 and not _table_names(db)


def _check_identity(db: sqlite3.Connection, path: Path) -> None:
    """Check that this version of Ragstone can read the file."""
    if _pragma(db, "application_id") != APPLICATION_ID:
        raise StoreCorruptError(
            f"{str(path)!r} is a SQLite file of another program, not a Ragstone store. Choose another path."
        )
    check_version(f"the store {str(path)!r}", _pragma(db, "user_version"))


def _check_tables(db: sqlite3.Connection, path: Path) -> None:
    missing = sorted(set(TABLES) - _table_names(db))
    problem = f"tables are missing ({', '.join(missing)})" if missing else "the table meta is empty"
    if missing or db.execute("SELECT 1 FROM meta").fetchone() is None:
        raise StoreCorruptError(
            f"the store {str(path)!r} is damaged: {problem}. See `ragstone store verify {path}`, or restore a backup."
        )


def _table_names(db: sqlite3.Connection) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


class SqliteDatabase(Database):
    """The connection to a store file.

    A connection that two processes share damages the file, so use in a forked child raises an error. `connection` is
    from `connect`. `close` releases the owner's `lock`, which is None for a reader.
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
    def _errors(self) -> AbstractContextManager[None]:
        return store_errors(self._path)


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
    code = {sqlite3.SQLITE_PERM: sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_LOCKED: sqlite3.SQLITE_BUSY}.get(code, code)
    texts = {
        sqlite3.SQLITE_FULL: f"no space left for the store {path!r} ({exc}). Nothing of this step was stored. Free disk space "
        "and try again.",
        sqlite3.SQLITE_READONLY: f"the store {path!r} cannot be written ({exc}). Give this user write permission on the file "
        "and on its directory.",
        sqlite3.SQLITE_CANTOPEN: f"the store {path!r} cannot be opened ({exc}). Check that the file and its directory exist "
        "and that this user may write to the directory, where SQLite keeps two small files even for readers. Or copy "
        "the file, with the one that ends in -wal.",
        sqlite3.SQLITE_BUSY: f"the store {path!r} has been locked by another process for more than {BUSY_TIMEOUT_S:.0f} s "
        f"({exc}). Close other programs that have it open, then try again.",
        sqlite3.SQLITE_IOERR: f"disk error for the store {path!r} ({exc}). Nothing of this step was stored. Check the disk, "
        "its quota and its mount.",
    }
    bug = f"the store {path!r} failed: {exc}. This is a bug in Ragstone. Please report it."
    return StoreError(texts.get(code, bug))
