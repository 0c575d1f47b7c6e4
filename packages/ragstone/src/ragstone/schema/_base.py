"""The base classes of records, the schema version, and the upgrade of records of older versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from ragstone.errors import DataError, StoreVersionError

__all__ = ["SCHEMA_VERSION", "Model", "Record", "migrate"]

SCHEMA_VERSION: Final = 1
"""Version of the records on disk; `ragstone.schema.migrate` brings older ones up to it."""


class Model(BaseModel):
    """Base of everything that crosses a disk or a network: immutable, unknown fields kept."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)


class Record(Model):
    """A model that is stored on its own, and so carries the version it was written with."""

    schema_version: int = SCHEMA_VERSION


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
