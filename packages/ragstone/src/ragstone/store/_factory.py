"""From what a user writes (a path, `"postgresql://…"`) to a `Store`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from ragstone.errors import MissingExtraError
from ragstone.store._protocol import Store
from ragstone.store.sqlite import SqliteStore

__all__ = ["describe_store", "is_database_url", "open_store", "resolve_store"]

_SCHEMES = ("postgresql://", "postgres://")


def is_database_url(store: str | os.PathLike[str]) -> bool:
    """Whether a store is a database on a server, which several hosts may share, and not a file."""
    return os.fspath(store).startswith(_SCHEMES)


def resolve_store(store: str | os.PathLike[str]) -> str:
    """The same store from any working directory: the absolute path of a file; a URL is it already."""
    return os.fspath(store) if is_database_url(store) else str(Path(store).absolute())


def describe_store(store: str | os.PathLike[str]) -> str:
    """The store in words that may be logged: of a URL the host and the database, never the credentials."""
    if not is_database_url(store):
        return os.fspath(store)
    # All before the last `@` may be a password, however it is written.
    rest = os.fspath(store).partition("://")[2].rpartition("@")[2]
    return "postgresql://" + "".join(c if c.isprintable() else "?" for c in rest.partition("?")[0])


def open_store(
    store: str | os.PathLike[str], *, mode: Literal["own", "read"], clock: Callable[[], float] = time.time
) -> Store:
    """Open the store that `store` names.

    Args:
        store: The path of a file, or the URL of a PostgreSQL database.
        mode: "own" to write, "read" to look.
        clock: Unix seconds; for tests.

    Raises:
        MissingExtraError: A database needs the extra `postgres`.
        StoreError: It cannot be opened; see `SqliteStore.open`.
    """
    if not is_database_url(store):
        return SqliteStore.open(Path(store), mode=mode, clock=clock)
    try:
        from ragstone.store.postgres import PostgresStore
    except ImportError as error:
        raise MissingExtraError(
            feature="a store in PostgreSQL", package="psycopg", extra="ragstone[postgres]"
        ) from error
    return PostgresStore.open(os.fspath(store), mode=mode, clock=clock)
