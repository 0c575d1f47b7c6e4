"""The key of hashed ids of a store."""

from __future__ import annotations

import os
from pathlib import Path

from ragstone.capture import IdHasher, Ids
from ragstone.errors import ConfigurationError
from ragstone.store import is_database_url, resolve_store

__all__ = ["id_hasher"]

_VARIABLE = "RAGSTONE_ID_KEY"


def id_hasher(store: str | os.PathLike[str], ids: Ids) -> IdHasher | None:
    """Return what replaces the ids of users and sessions, or None to keep them.

    The key is `RAGSTONE_ID_KEY`, or for a store file the file `<store>.key`, which is created if it is missing.

    Args:
        store: Path of a store file, or URL of a database.
        ids: "keep" or "hash".

    Raises:
        ConfigurationError: If `ids` has another value, or the key of a database is missing or too short.
    """
    if ids == "keep":
        return None
    if ids != "hash":
        raise ConfigurationError(f"ids must be 'keep' or 'hash', got {ids!r}")
    if key := os.environ.get(_VARIABLE):
        return IdHasher(key)
    if is_database_url(store):
        raise ConfigurationError(
            f"hashed ids need the same key on all hosts of a database: set {_VARIABLE} to a secret text of at least 16 characters"
        )
    return IdHasher(Path(f"{resolve_store(store)}.key"))
