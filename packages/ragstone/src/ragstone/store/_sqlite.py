"""`SqliteStore`: a store in one SQLite file, with one owning process and any number of readers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, Self

from ragstone._util.filelock import FileLock
from ragstone.errors import ConfigurationError, StoreError, StoreOwnedError
from ragstone.store._database import Database
from ragstone.store._file import open_for_owner, open_for_reader
from ragstone.store._sql_store import SqlStore

__all__ = ["SqliteStore"]


class SqliteStore(SqlStore):
    """A `Store` in one SQLite file in WAL mode. `Store` says what the methods promise; open it with `open`.

    One process owns the file and is the only one that writes; SQLite before 3.51.3 can, rarely, damage a WAL file that
    several processes write and checkpoint at once, and most Pythons in use have an older one. Readers come and go. What
    a method has returned from survives `kill -9`; see `checkpoint` for power cuts.

    Calls from several threads are safe and wait for each other. After a fork the child opens its own.
    """

    def __init__(
        self, path: Path, database: Database, *, lock: FileLock | None, clock: Callable[[], float], max_attempts: int
    ) -> None:
        self._path = path.absolute()
        self._inode = _inode(self._path)
        self._database = database
        self._lock = lock
        super().__init__(database, clock=clock, max_attempts=max_attempts)

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
            path: The file. Beside it live `<path>.lock` and SQLite's `-wal` and `-shm`.
            mode: "own" to write (makes the file where there is none, with access for this user only); "read" to look,
                also while the owner is at work or after it was killed.
            clock: Unix seconds; for tests.
            max_attempts: How often a trace may be claimed in vain before it is given up; at least 1.

        Raises:
            ConfigurationError: `mode` or `max_attempts` has another value.
            StoreOwnedError: "own", and another living process owns the file.
            StoreVersionError: A newer Ragstone has written the file.
            StoreCorruptError: The file is not a Ragstone store, or it is damaged.
            StoreNotReadyError: "read", and the owner has made the file and not yet its tables.
            StoreError: The file cannot be made, or, to read, is not there or first needs its owner.
        """
        if max_attempts < 1:
            raise ConfigurationError(f"max_attempts must be at least 1, got {max_attempts!r}.")
        path = Path(path)
        if mode == "read":
            return cls(path, open_for_reader(path), lock=None, clock=clock, max_attempts=max_attempts)
        if mode != "own":
            raise ConfigurationError(f"mode must be 'own' or 'read', got {mode!r}.")
        lock = _take_lock(path)
        try:
            return cls(path, open_for_owner(path), lock=lock, clock=clock, max_attempts=max_attempts)
        except BaseException:
            lock.release()
            raise

    @property
    def is_shared(self) -> bool:
        """False: one process owns the file."""
        return False

    def check_place(self) -> None:
        """Stop writing into a file that is no longer the store: what goes there would be lost with the last handle."""
        if _inode(self._path) != self._inode:
            raise StoreError(
                f"the store {str(self._path)!r} was removed or replaced while in use; what is no longer in the spool went "
                "with it, and captures wait there until a worker opens the path again"
            )

    def checkpoint(self) -> bool:
        """Make everything stored so far safe from a power cut."""
        return self._database.checkpoint()

    def close(self) -> None:
        """Let go of the file and of its lock."""
        if self._database.close() and self._lock is not None:
            self._lock.release()


def _inode(path: Path) -> tuple[int, int] | None:
    """Which file a path names at present; None when it names none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _take_lock(path: Path) -> FileLock:
    lock = FileLock(path.with_name(f"{path.name}.lock"))
    try:
        if lock.acquire():
            return lock
    except OSError as exc:
        raise StoreError(
            f"the store {str(path)!r} cannot be locked: {exc.strerror} for {str(lock.path)!r}. Check that the directory "
            "exists and that this user may write to it."
        ) from exc
    pid = lock.owner()
    owner = "this process already" if pid == os.getpid() else "another process" if pid is None else f"process {pid}"
    raise StoreOwnedError(
        f"the store {str(path)!r} is owned by {owner}, and only one can write to it. Close it there, or use another "
        "path here, or only look at it: `ragstone status` and mode='read' need no ownership."
    )
