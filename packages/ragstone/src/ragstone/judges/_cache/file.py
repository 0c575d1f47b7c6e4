"""File of the reply cache: replies of judges and readers by request, in SQLite."""

from __future__ import annotations

import json
import logging
import math
import os
import sqlite3
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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
_DAY_S: Final = 86_400.0

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSummary:
    """Content of a reply cache."""

    path: Path
    n_replies: int
    n_bytes: int
    """Size of the file in bytes."""
    n_by_model: Mapping[str, int]
    oldest: float | None
    """Unix seconds, or None if the cache is empty."""
    newest: float | None


class ReplyCache:
    """Replies on disk, in one file of a directory that several processes may share.

    Each operation opens and closes the file, so nothing stays open across a fork or between requests, and a removed
    directory means an empty cache. The file uses a rollback journal: with a write-ahead log, most SQLite versions in
    use can in rare cases damage a file that several processes write.

    Args:
        folder: Directory of the file. The first cached reply creates it.
        clock: Returns Unix seconds.

    Examples:
        ```python
        cache = ReplyCache("ragstone-cache")
        print(cache.summary().n_replies)
        cache.clear(older_than_days=30)
        ```
    """

    def __init__(self, folder: str | Path, *, clock: Callable[[], float] = time.time) -> None:
        # Absolute, because the application may change its working directory.
        self.path = Path(folder).expanduser().absolute() / _FILE
        self._clock = clock
        self._log = LimitedLog(_logger)

    def __repr__(self) -> str:
        return f"ReplyCache({str(self.path.parent)!r})"

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

    def summary(self, *, older_than_days: float | None = None) -> CacheSummary:
        """Count the replies, or with `older_than_days` only the older ones.

        Raises:
            StoreNotFoundError: If the cache does not exist.
            StoreError: If the cache cannot be read.
        """
        with self._open(must_exist=True) as db:
            rows = db.execute(
                "SELECT model, count(*), min(created_at), max(created_at) FROM reply WHERE created_at <= ? "
                "GROUP BY model ORDER BY model",
                (self._before(older_than_days),),
            ).fetchall()
        return CacheSummary(
            path=self.path,
            n_replies=sum(row[1] for row in rows),
            n_bytes=self.path.stat().st_size,
            n_by_model={row[0]: row[1] for row in rows},
            oldest=min((row[2] for row in rows), default=None),
            newest=max((row[3] for row in rows), default=None),
        )

    def clear(self, *, older_than_days: float | None = None, since: float | None = None) -> int:
        """Delete all replies and facts, or only old or new ones, and return the number of deleted replies.

        Args:
            older_than_days: Only those of at least this age.
            since: Only those that were stored at this time (Unix seconds) or later.

        Raises:
            StoreNotFoundError: If the cache does not exist.
            StoreError: If the cache cannot be written.
        """
        times = (self._before(older_than_days), -math.inf if since is None else since)
        with self._open(must_exist=True) as db:
            # Removed texts are overwritten, also if another process prevents the VACUUM.
            db.execute("PRAGMA secure_delete = ON")
            db.execute("BEGIN IMMEDIATE")
            n_removed = db.execute("DELETE FROM reply WHERE created_at <= ? AND created_at >= ?", times).rowcount
            db.execute("DELETE FROM fact WHERE created_at <= ? AND created_at >= ?", times)
            db.execute("COMMIT")
            # The file shrinks only if no other process uses it. The replies are deleted in any case.
            with suppress(sqlite3.OperationalError):
                db.execute("VACUUM")
        return n_removed

    def _before(self, days: float | None) -> float:
        # Without a limit, delete also entries whose time is in the future.
        return math.inf if days is None else self._clock() - days * _DAY_S

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
    """Return a reply without its checksum.

    Raises:
        ValueError: If it differs from its checksum.
    """
    if _with_checksum(key, body[9:]) != body:
        raise ValueError("checksum")
    return body[9:]
