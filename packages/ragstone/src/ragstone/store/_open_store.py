"""How a store is opened, from a path or a URL. The database classes check its version, one for all tables."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from ragstone._util.lazy import needs_extra
from ragstone.errors import StoreOwnedError
from ragstone.store._location import check_path, is_database_url, resolve_store
from ragstone.store._store import Store
from ragstone.store.sqlite import SqliteStore, is_file_owned


def open_store(
    store: str | os.PathLike[str], *, mode: Literal["own", "read"], clock: Callable[[], float] = time.time
) -> Store:
    """Open the store at a path or URL.

    Args:
        store: The path of a file, or the URL of a PostgreSQL database.
        mode: "own" to write, "read" to read.
        clock: Returns Unix seconds. Used by tests.
    """
    if not is_database_url(store):
        check_path(store)
        return SqliteStore.open(Path(store), mode=mode, clock=clock)
    with needs_extra("postgres", "psycopg", "a store in PostgreSQL"):
        from ragstone.store.postgres import PostgresStore
    return PostgresStore.open(os.fspath(store), mode=mode, clock=clock)


def open_for_labels(store: str | os.PathLike[str]) -> Store:
    """Open a store that exists to read it and to save labels, also while its owner is running.

    Raise StoreError if the store cannot be opened. See `open_store`.
    """
    opened = open_store(store, mode="read")
    if not is_database_url(store):
        return opened  # its labels wait in an inbox for the owner
    opened.close()
    return open_store(store, mode="own")


def settle_labels(store: str | os.PathLike[str]) -> None:
    """Store labels that wait in the inbox of a file, unless another process owns it, which then stores them itself.

    Raise StoreError if the store cannot be opened.
    """
    if not is_database_url(store) and Path(store).exists():
        with suppress(StoreOwnedError):
            open_store(store, mode="own").close()


def is_owned(store: str | os.PathLike[str]) -> bool:
    """Return whether a worker owns a store file now, so that another one cannot score. A database is not owned."""
    return not is_database_url(store) and is_file_owned(Path(resolve_store(store)))
