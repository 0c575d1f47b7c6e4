"""Base classes of records, the schema version, and the upgrade of records of older versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, model_validator

from ragstone.errors import DataError, StoreVersionError

__all__ = ["SCHEMA_VERSION", "Model", "Record", "migrate"]

SCHEMA_VERSION: Final = 3
"""Version of the records on disk. `ragstone.schema.migrate` upgrades older records."""


class Model(BaseModel):
    """Base of all models that are stored or sent: immutable, keeps unknown fields."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)


class Record(Model):
    """A model that is stored on its own and therefore has a schema version."""

    schema_version: int = SCHEMA_VERSION

    @model_validator(mode="after")
    def _upgrade(self) -> Self:
        """Upgrade a record of an older version, on every way of reading it.

        A validator that runs before would have each JSON text converted to Python objects first, which takes as long as the
        validation.
        """
        if 1 <= self.schema_version < SCHEMA_VERSION:
            upgraded = self.model_validate(migrate(self.model_dump(exclude_unset=True)))
            for part in ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__"):
                object.__setattr__(self, part, getattr(upgraded, part))
        return self


def _to_version_2(record: dict[str, Any]) -> dict[str, Any]:
    """Rename the retrievals of a trace, the confidence level of an interval and the detail `supported`.

    The name of a metric is part of the id of its outcomes, so stored outcomes keep their metric name.
    """
    upgraded = _renamed(record, "searches", "retrievals")
    names = upgraded.get("truncated_fields")
    # Fields of another type stay as they are. The validation that follows rejects them.
    if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
        upgraded["truncated_fields"] = [
            "retrievals" + name.removeprefix("searches") if name.split(".")[0] == "searches" else name for name in names
        ]
    for field, old, new in (("interval", "level", "confidence_level"), ("details", "borne_out", "supported")):
        if isinstance(upgraded.get(field), dict):
            upgraded[field] = _renamed(upgraded[field], old, new)
    return upgraded


def _to_version_3(record: dict[str, Any]) -> dict[str, Any]:
    """Change nothing: a trace without evidence is read as before.

    Older versions must not read records of version 3, because they take unknown contexts for all that was found.
    """
    return record


def _renamed(record: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    return {new if key == old else key: value for key, value in record.items()}


_STEPS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _to_version_2, 2: _to_version_3}
"""`_STEPS[v]` upgrades a record from version v to version v + 1."""


def migrate(record: Mapping[str, Any]) -> dict[str, Any]:
    """Upgrade a stored record (a parsed JSON object) to the current schema version.

    A record without a version is read as version 1.

    Raises:
        DataError: If the version is not a positive integer.
        StoreVersionError: If a newer version of Ragstone wrote the record.
    """
    version = record.get("schema_version", 1)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise DataError(f"schema_version must be a positive integer, got {version!r}")
    if version > SCHEMA_VERSION:
        raise StoreVersionError(
            f"this record has schema version {version}, and this version of Ragstone reads up to {SCHEMA_VERSION}. "
            "Upgrade with: pip install -U ragstone"
        )
    current = dict(record)
    for step in range(version, SCHEMA_VERSION):
        current = _STEPS[step](current)
        current["schema_version"] = step + 1
    return current
