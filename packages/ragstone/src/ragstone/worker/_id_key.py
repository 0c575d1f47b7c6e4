"""The key of hashed ids of a store."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from ragstone.capture import IdHasher, Ids
from ragstone.errors import ConfigurationError
from ragstone.store import is_database_url, resolve_store

_VARIABLE = "RAGSTONE_ID_KEY"


def id_hasher(store: str | os.PathLike[str], ids: Ids) -> IdHasher | None:
    """Return what replaces the ids of users and sessions, or None to keep them.

    The key is `RAGSTONE_ID_KEY`, or for a store file the file `<store>.key`, which is created if it is missing.
    """
    if ids == "keep":
        return None
    if ids != "hash":
        raise ConfigurationError(f"ids must be 'keep' or 'hash', got {ids!r}")
    if key := os.environ.get(_VARIABLE):
        return IdHasher(key)
    if "://" in os.fspath(store):
        raise ConfigurationError(
            f"hashed ids need the same key on all hosts: set {_VARIABLE} to a secret text of at least 16 characters"
        )
    return IdHasher(_key_file(store))


def stored_ids(store: str | os.PathLike[str], kind: Literal["user", "session"], values: Collection[str]) -> list[str]:
    """Return ids or hashes, with the hashes that a store may have of them. A missing key is not created."""
    has_key = bool(os.environ.get(_VARIABLE)) or (not is_database_url(store) and _key_file(store).exists())
    hasher = id_hasher(store, "hash") if values and has_key else None
    return [*values, *(() if hasher is None else (hasher(kind, value) for value in values))]


def _key_file(store: str | os.PathLike[str]) -> Path:
    return Path(f"{resolve_store(store)}.key")
