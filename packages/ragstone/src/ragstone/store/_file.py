"""Opening a store file: make it, know it, bring it up to date; and never touch a file that is not ours."""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from ragstone.errors import StoreCorruptError, StoreError, StoreNotReadyError, StoreVersionError
from ragstone.schema import SCHEMA_VERSION
from ragstone.store import _schema
from ragstone.store._database import BUSY_TIMEOUT_S, Database, store_errors

__all__ = ["open_for_owner", "open_for_reader"]

_WAL_SIZE_LIMIT: Final = 64 * 2**20
"""Bytes the log is cut back to after a checkpoint, so that one long read does not leave a big file for ever."""


def open_for_owner(path: Path) -> Database:
    """Open `path` for its one owner; make the file, readable by this user only, where there is none.

    Raises:
        StoreError: The file cannot be made or opened.
        StoreCorruptError: It is there and is not a Ragstone store.
        StoreVersionError: A newer Ragstone has written it.
    """
    _create_file(path)
    with ExitStack() as undo, store_errors(path):
        db = _connect(path, access="rw")
        undo.callback(db.close)
        is_new = _is_empty(db)
        if not is_new:
            _check_identity(db, path)
        _configure(db, path)
        database = Database(db, path=path, writable=True)
        if is_new:
            with database.write():
                _schema.create(db)
        _migrate(database, path)
        _check_tables(db, path)
        with database.write():
            db.execute("INSERT OR REPLACE INTO meta VALUES ('schema_version', ?)", (str(SCHEMA_VERSION),))
        undo.pop_all()
        return database


def open_for_reader(path: Path) -> Database:
    """Open `path` for reading, whether its owner lives or not.

    Raises:
        StoreError: There is no such file, or its owner must bring it up to date first.
        StoreNotReadyError: Its owner has made it and not yet set it up.
        StoreCorruptError: It is not a Ragstone store.
        StoreVersionError: A newer Ragstone has written it.
    """
    if not path.is_file():
        raise StoreError(
            f"there is no store at {str(path)!r}. Check the path; a store appears when a Monitor or `ragstone worker` "
            "first opens it."
        )
    with ExitStack() as undo, store_errors(path):
        db = _connect(path, access="ro")
        undo.callback(db.close)
        if _is_empty(db):
            raise StoreNotReadyError(
                f"the store {str(path)!r} is empty: its owner has not set it up yet. Try again later."
            )
        version = _check_identity(db, path)
        if version < _schema.VERSION:
            raise StoreError(
                f"the store {str(path)!r} has the older version {version}, this Ragstone reads {_schema.VERSION}. Open "
                "it once for writing to bring it up to date: start its Monitor or `ragstone worker` with this version."
            )
        _check_tables(db, path)
        undo.pop_all()
        return Database(db, path=path, writable=False)


def _create_file(path: Path) -> None:
    # Only ever a file that is not there: closing a second handle on a live SQLite file would drop its locks.
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not path.is_file():
            raise StoreError(
                f"the store {str(path)!r} cannot be opened: it is not a file. Choose another path."
            ) from None
    except OSError as exc:
        raise StoreError(
            f"the store {str(path)!r} cannot be made ({exc.strerror}). Check that the directory exists and that this "
            "user may write to it."
        ) from exc


def _connect(path: Path, *, access: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={access}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,  # `Database` begins and ends transactions
        check_same_thread=False,  # `Database` makes threads wait for each other
    )


def _configure(db: sqlite3.Connection, path: Path) -> None:
    (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreError(
            f"the file system under the store {str(path)!r} does not support SQLite's write-ahead log (mode {mode!r}). "
            "Put the store on a local disk."
        )
    # A killed process loses nothing; a power cut may lose what came after the last checkpoint.
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("PRAGMA foreign_keys = ON")
    db.execute(f"PRAGMA journal_size_limit = {_WAL_SIZE_LIMIT}")


def _is_empty(db: sqlite3.Connection) -> bool:
    return _pragma(db, "application_id") == 0 and not _tables(db)


def _check_identity(db: sqlite3.Connection, path: Path) -> int:
    """Make sure that this Ragstone understands the file, and say which version of the tables it has."""
    if _pragma(db, "application_id") != _schema.APPLICATION_ID:
        raise StoreCorruptError(
            f"{str(path)!r} is a SQLite file of another program, not a Ragstone store. Choose another path."
        )
    version = _pragma(db, "user_version")
    if version > _schema.VERSION:
        raise StoreVersionError(
            f"the store {str(path)!r} has version {version}, this Ragstone knows versions up to {_schema.VERSION}. "
            "Upgrade: pip install --upgrade ragstone"
        )
    row = db.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    if row is not None and int(row[0]) > SCHEMA_VERSION:
        raise StoreVersionError(
            f"the store {str(path)!r} holds records of version {row[0]}, this Ragstone knows versions up to "
            f"{SCHEMA_VERSION}. Upgrade: pip install --upgrade ragstone"
        )
    return version


def _migrate(database: Database, path: Path) -> None:
    """Walk from the file's version to ours, one step and one transaction at a time."""
    while True:
        with database.write() as db:
            version = _pragma(db, "user_version")
            if version == _schema.VERSION:
                return
            step = _schema.MIGRATIONS.get(version)
            if step is None:
                raise StoreError(
                    f"the store {str(path)!r} has version {version}, and there is no way from there to version "
                    f"{_schema.VERSION}. Read it with the Ragstone that wrote it."
                )
            step(db)
            db.execute(f"PRAGMA user_version = {version + 1}")


def _check_tables(db: sqlite3.Connection, path: Path) -> None:
    missing = sorted(set(_schema.TABLES) - _tables(db))
    if missing:
        raise StoreCorruptError(
            f"the store {str(path)!r} is damaged: it lacks the tables {', '.join(missing)}. Move it away and restore a "
            "backup."
        )


def _tables(db: sqlite3.Connection) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])
