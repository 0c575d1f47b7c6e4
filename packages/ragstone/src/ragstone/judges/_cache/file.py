"""File of the reply cache: replies of judges and readers by request, in SQLite."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from ragstone._util.limited_log import LimitedLog
from ragstone.errors import StoreCorruptError, StoreError, StoreNotFoundError
from ragstone.schema import SCHEMA_VERSION, check_version

_logger = logging.getLogger("ragstone")

_FILE: Final = "replies.sqlite"
_APPLICATION_ID: Final = 0x52475243
"""Identifies the file as a reply cache."""
_BUSY_TIMEOUT_S: Final = 5.0

_TABLES: Final = (
    """
    CREATE TABLE reply (
        key TEXT PRIMARY KEY,
        model TEXT NOT NULL,
        body TEXT NOT NULL,
        created_at REAL NOT NULL
    )
    """,
    "CREATE TABLE fact (key TEXT PRIMARY KEY, value TEXT NOT NULL, created_at REAL NOT NULL)",
)


class ReplyCache:
    """Replies on disk, in one file of a directory that several processes may share.

    Each operation opens and closes the file, so nothing stays open across a fork or between requests, and a removed
    directory means an empty cache. The file uses a rollback journal: with a write-ahead log, most SQLite versions in
    use can in rare cases damage a file that several processes write.

    Args:
        folder: Directory of the file. The first cached reply creates it.
        clock: Returns Unix seconds.
    """

    def __init__(self, folder: str | Path, *, clock: Callable[[], float] = time.time) -> None:
        # Absolute, because the application may change its working directory.
        self.path = Path(folder).expanduser().absolute() / _FILE
        self._clock = clock
        self._log = LimitedLog(_logger)

    def read(self, key: str) -> dict[str, Any] | None:
        """Return the reply with a key, or None if there is none or it is damaged.

        Raises:
            StoreError: If the file cannot be used.
        """
        row = self._row("SELECT body FROM reply WHERE key = ?", key)
        try:
            reply = None if row is None else json.loads(_checked(key, row[0]))
        except (ValueError, RecursionError, TypeError, AttributeError):
            self._log.log(
                logging.WARNING, "damaged", f"reply cache: a reply in {self.path} is damaged and is requested again"
            )
            return None
        return reply if isinstance(reply, dict) else None

    def write(self, replies: Sequence[tuple[str, str, Mapping[str, Any]]]) -> None:
        """Store replies, each with its key and its model. An existing reply with the same key is replaced.

        Raises:
            StoreError: If the file cannot be written.
        """
        now = self._clock()
        rows = [
            (key, model, _with_checksum(key, json.dumps(reply, separators=(",", ":"))), now)
            for key, model, reply in replies
        ]
        with self._writing() as db:
            db.executemany("INSERT OR REPLACE INTO reply VALUES (?, ?, ?, ?)", rows)

    def get_fact(self, key: str, *, max_age_s: float) -> str | None:
        """Return a stored fact, or None if it is older than `max_age_s` seconds.

        Raises:
            StoreError: If the file cannot be used.
        """
        row = self._row("SELECT value, created_at FROM fact WHERE key = ?", key)
        # If the clock was set back, the fact must not stay valid forever.
        return str(row[0]) if row is not None and 0 <= self._clock() - row[1] <= max_age_s else None

    def put_fact(self, key: str, value: str) -> None:
        """Store a fact.

        Raises:
            StoreError: If the file cannot be written.
        """
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO fact VALUES (?, ?, ?)", (key, value, self._clock()))

    def clear(self, *, since: float) -> int:
        """Delete the replies and facts that were stored at a time (Unix seconds) or later, and return the number of replies.

        Raises:
            StoreNotFoundError: If the cache does not exist.
            StoreError: If the cache cannot be written.
        """
        with self._open(must_exist=True) as db:
            # Removed texts are overwritten, also if another process prevents the VACUUM.
            db.execute("PRAGMA secure_delete = ON")
            db.execute("BEGIN IMMEDIATE")
            n_removed = db.execute("DELETE FROM reply WHERE created_at >= ?", (since,)).rowcount
            db.execute("DELETE FROM fact WHERE created_at >= ?", (since,))
            db.execute("COMMIT")
            # The file shrinks only if no other process uses it. The replies are deleted in any case.
            with suppress(sqlite3.OperationalError):
                db.execute("VACUUM")
        return n_removed

    def _row(self, query: str, key: str) -> tuple[Any, ...] | None:
        if not self.path.exists():
            return None
        with self._open(must_exist=True) as db:
            row: tuple[Any, ...] | None = db.execute(query, (key,)).fetchone()
            return row

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._open(must_exist=False) as db:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")

    @contextmanager
    def _open(self, *, must_exist: bool) -> Iterator[sqlite3.Connection]:
        try:
            if not must_exist:
                self._create()
            elif not self.path.exists():
                raise StoreNotFoundError(f"reply cache not found in {str(self.path.parent)!r}. Check the directory")
            db = sqlite3.connect(
                f"{self.path.as_uri()}?mode=rw", uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None
            )
            # A reply that is not valid text is a damaged one, and not an error of the file.
            db.text_factory = partial(str, encoding="utf-8", errors="replace")
            try:
                db.execute("PRAGMA synchronous = NORMAL")
                self._check(db)
                yield db
            finally:
                # This rolls back an unfinished transaction.
                db.close()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # Python decodes SQLite's message, which quotes the damaged file.
            raise self._storage_error(error) from error
        except OSError as error:
            raise StoreError(f"the reply cache {str(self.path)!r} cannot be used: {error.strerror or error}") from error

    def _create(self) -> None:
        if self.path.exists():
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Readable by this user only, because replies may quote prompts. The file is made under another name, because
        # closing a descriptor of a file that another thread has opened through SQLite would drop its locks.
        descriptor, temporary = tempfile.mkstemp(prefix="replies-", dir=self.path.parent)
        os.close(descriptor)
        try:
            # Another process may have created it in the meantime.
            with suppress(FileExistsError):
                os.link(temporary, self.path)
        finally:
            Path(temporary).unlink()

    def _check(self, db: sqlite3.Connection) -> None:
        """Check that the file is a reply cache of this version, and initialize an empty one."""
        # One statement, because another process may initialize the file now.
        application_id, version = db.execute("SELECT * FROM pragma_application_id, pragma_user_version").fetchone()
        if application_id == _APPLICATION_ID:
            check_version(f"the reply cache {str(self.path)!r}", version)
        elif application_id or version:
            raise self._foreign()
        else:
            self._set_up(db)

    def _set_up(self, db: sqlite3.Connection) -> None:
        db.execute("BEGIN IMMEDIATE")
        # Another process may have initialized it in the meantime.
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version == 0:
            if db.execute("SELECT 1 FROM sqlite_master").fetchone() is not None:
                raise self._foreign()
            for table in _TABLES:
                db.execute(table)
            db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.execute("COMMIT")

    def _foreign(self) -> StoreCorruptError:
        return StoreCorruptError(
            f"{str(self.path)!r} is a SQLite file of another program, not a reply cache. Use another directory"
        )

    def _storage_error(self, error: sqlite3.Error | UnicodeDecodeError) -> StoreError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        damage = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
        if code in damage or isinstance(error, UnicodeDecodeError) or "no such " in str(error):
            return StoreCorruptError(
                f"the reply cache {str(self.path)!r} is damaged ({error}). Delete the file, and it is created again"
            )
        return StoreError(f"the reply cache {str(self.path)!r} cannot be used: {error}")


def _with_checksum(key: str, body: str) -> str:
    """Return a reply after the CRC-32 of its key and itself."""
    return f"{zlib.crc32(f'{key} {body}'.encode()):08x} {body}"


def _checked(key: str, body: str) -> str:
    """Return a reply without its checksum. Raise ValueError if it differs from its checksum."""
    if _with_checksum(key, body[9:]) != body:
        raise ValueError("checksum")
    return body[9:]
