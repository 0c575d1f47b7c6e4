"""Creation of a `Store` from a path or a URL (`"postgresql://…"`)."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from ragstone.errors import ConfigurationError, MissingExtraError, StoreOwnedError
from ragstone.store._path import real_path
from ragstone.store._protocol import Store
from ragstone.store.sqlite import SqliteStore, is_file_owned

_SCHEMES = ("postgresql://", "postgres://")


def is_database_url(store: str | os.PathLike[str]) -> bool:
    """Return whether a store is a database on a server, which several hosts may share, and not a file."""
    return os.fspath(store).startswith(_SCHEMES)


def is_owned(store: str | os.PathLike[str]) -> bool:
    """Return whether a worker owns a store file now, so that another one cannot score. A database is not owned."""
    return not is_database_url(store) and is_file_owned(Path(resolve_store(store)))


def resolve_store(store: str | os.PathLike[str]) -> str:
    """Return the store so that it is independent of the working directory: a URL, or the absolute path of a file.

    All names of a file have the same path, also if they are symbolic links.

    Raises:
        ConfigurationError: If it is a URL of something else.
    """
    if is_database_url(store):
        return os.fspath(store)
    _check_path(store)
    return str(real_path(store).absolute())


def _check_path(store: str | os.PathLike[str]) -> None:
    """Check that a store which is not a database is not another URL, of which a file would be made."""
    scheme, separator, rest = os.fspath(store).partition("://")
    if separator and re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme):
        shown = "".join(c if c.isprintable() else "?" for c in rest.rpartition("@")[2].partition("?")[0])
        raise ConfigurationError(
            f"'{scheme}://{shown}' is not a store. A store is a file or a URL postgresql://HOST/DATABASE. A worker reads a message "
            "broker into a store with: ragstone worker STORE --from redis://HOST/NAME"
        )


def describe_store(store: str | os.PathLike[str]) -> str:
    """Return the store for messages and logs. For a URL these are the host and the database, without credentials."""
    if not is_database_url(store):
        return os.fspath(store)
    # Everything before the last `@` may be a password, in any notation.
    rest = os.fspath(store).partition("://")[2].rpartition("@")[2]
    return "postgresql://" + "".join(c if c.isprintable() else "?" for c in rest.partition("?")[0])


def quote_store(store: str | os.PathLike[str]) -> str:
    """Return the store as an argument of a printed command, quoted for a shell. Credentials of a URL are left out."""
    return shlex.quote(describe_store(store))


def open_store(
    store: str | os.PathLike[str], *, mode: Literal["own", "read"], clock: Callable[[], float] = time.time
) -> Store:
    """Open the store at a path or URL.

    Args:
        store: The path of a file, or the URL of a PostgreSQL database.
        mode: "own" to write, "read" to read.
        clock: Returns Unix seconds. Used by tests.

    Raises:
        MissingExtraError: If the store is a database and the extra `postgres` is not installed.
        StoreError: If the store cannot be opened. See `SqliteStore.open`.
    """
    if not is_database_url(store):
        _check_path(store)
        return SqliteStore.open(Path(store), mode=mode, clock=clock)
    try:
        from ragstone.store.postgres import PostgresStore
    except ImportError as error:
        raise MissingExtraError(
            feature="a store in PostgreSQL", package="psycopg", extra="ragstone[postgres]"
        ) from error
    return PostgresStore.open(os.fspath(store), mode=mode, clock=clock)


def open_for_labels(store: str | os.PathLike[str]) -> Store:
    """Open a store that exists to read it and to save labels, also while its owner is running.

    Raises:
        StoreError: If the store cannot be opened. See `open_store`.
    """
    opened = open_store(store, mode="read")
    if not is_database_url(store):
        return opened  # its labels wait in an inbox for the owner
    opened.close()
    return open_store(store, mode="own")


def settle_labels(store: str | os.PathLike[str]) -> None:
    """Store labels that wait in the inbox of a file, unless another process owns it, which then stores them itself.

    Raises:
        StoreError: If the store cannot be opened.
    """
    if not is_database_url(store) and Path(store).exists():
        with suppress(StoreOwnedError):
            open_store(store, mode="own").close()
