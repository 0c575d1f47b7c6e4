"""Backups of a store file: copied while its owner runs, verified, and restored."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from ragstone._util.files import create_partial
from ragstone.errors import ConfigurationError, StoreCorruptError, StoreError
from ragstone.store._location import is_database_url, real_path
from ragstone.store._types import StoreVerification
from ragstone.store.sqlite import SqliteStore, store_errors, take_lock

_PAGES: Final = 2_000
"""Pages (8 MB) that are copied while the owner of the store waits."""


def backup_store(store: str | os.PathLike[str], file: str | os.PathLike[str]) -> StoreVerification:
    """Copy a store to a file, also while its owner runs, and verify the copy.

    The copy is a consistent moment of the store. It is written next to `file` with access for this user only, and gets
    its name after it was verified.

    Args:
        store: The store file.
        file: The backup. It must not exist.
    """
    if is_database_url(store):
        raise ConfigurationError(
            "a store in PostgreSQL is backed up with PostgreSQL's program: pg_dump --format=custom --schema=ragstone "
            "--file=FILE URL, and restored with pg_restore --dbname=URL FILE."
        )
    source, target = real_path(store), Path(file)
    SqliteStore.open(source, mode="read").close()  # says what is wrong with it
    return _copy(source, target, replace=False)


def restore_store(
    file: str | os.PathLike[str], store: str | os.PathLike[str], *, replace: bool = False
) -> StoreVerification:
    """Verify a backup, and make it a store.

    Args:
        file: The backup.
        store: The store file.
        replace: Replace a store that exists. Its process must not run.
    """
    if is_database_url(store):
        raise ConfigurationError("a store in PostgreSQL is restored with pg_restore --dbname=URL FILE.")
    source, target = Path(file), real_path(store)
    SqliteStore.open(source, mode="read").close()
    return _copy(source, target, replace=replace)


def _copy(source: Path, target: Path, *, replace: bool) -> StoreVerification:
    if target.exists() and not replace:
        raise ConfigurationError(f"{str(target)!r} exists. Choose another file, or remove it first.")
    lock = take_lock(target) if replace else None
    try:
        temporary, descriptor = create_partial(target)
    except OSError as error:
        if lock is not None:
            lock.release()
        raise StoreError(f"{str(target)!r} cannot be written: {error.strerror}. Check its directory.") from error
    try:
        with (
            store_errors(source),
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as old,
            closing(sqlite3.connect(temporary)) as new,
        ):
            try:
                old.backup(new, pages=_PAGES)
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
                    raise StoreError(
                        f"{str(target)!r} cannot be written: {error}. Nothing was left behind. Free disk space, or "
                        "choose another place."
                    ) from error
                raise
            # One file without a write-ahead log. Opening it as a store turns the log on again.
            new.execute("PRAGMA journal_mode = DELETE")
        with SqliteStore.open(temporary, mode="read") as copy:
            verified = copy.upkeep.verify()
        if not verified.ok:
            raise StoreCorruptError(
                f"the store {str(source)!r} is damaged: {verified.n_problems:,} problems. See them with `ragstone "
                f"store verify {source}`. Nothing was written."
            )
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        if replace:
            for end in ("-wal", "-shm"):
                target.with_name(target.name + end).unlink(missing_ok=True)
            temporary.replace(target)
        else:
            try:
                os.link(temporary, target)  # unlike a rename, this does not replace a file that was created meanwhile
            except FileExistsError:
                raise ConfigurationError(f"{str(target)!r} exists. Choose another file.") from None
    except OSError as error:
        raise StoreError(f"{str(target)!r} cannot be written: {error.strerror or error}.") from error
    else:
        return verified
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                temporary.with_name(temporary.name + end).unlink(missing_ok=True)
        os.close(descriptor)
        if lock is not None:
            lock.release()
