"""Records written by an older version, brought up to this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ragstone.errors import DataError, StoreVersionError
from ragstone.schema._base import SCHEMA_VERSION

__all__ = ["migrate"]

_STEPS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""`_STEPS[v]` turns a record of version v into one of version v + 1."""


def migrate(record: Mapping[str, Any]) -> dict[str, Any]:
    """Bring a stored record (a parsed JSON object) to the current schema version.

    A record without a version is taken to be of version 1.

    Raises:
        DataError: The version is not a positive integer.
        StoreVersionError: The record was written by a newer Ragstone.
    """
    version = record.get("schema_version", 1)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise DataError(f"schema_version must be a positive integer, got {version!r}")
    if version > SCHEMA_VERSION:
        raise StoreVersionError(
            f"this record has schema version {version}, and this Ragstone reads up to {SCHEMA_VERSION}; "
            "upgrade with: pip install -U ragstone"
        )
    current = dict(record)
    for step in range(version, SCHEMA_VERSION):
        current = _STEPS[step](current)
        current["schema_version"] = step + 1
    return current
