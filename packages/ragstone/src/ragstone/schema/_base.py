"""Base classes of records, and the version of everything that Ragstone stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError

from ragstone.errors import StoreVersionError

SCHEMA_VERSION: Final = 1
"""Version of all formats that Ragstone stores: records and the files and databases that contain them."""


def other_version(version: object) -> str | None:
    """Return why a stored version (None if it is missing) cannot be read, to follow a name, or None if it can."""
    if version is not True and version == SCHEMA_VERSION:
        return None
    stored = "an unknown format version" if version is None else f"format version {version!r:.40}"
    return (
        f"has {stored}, and this version of Ragstone reads version {SCHEMA_VERSION}: "
        "use the version of Ragstone that wrote it, or start with a new one"
    )


def check_version(name: str, version: object) -> None:
    """Check that this version of Ragstone can read a file or database. The version is None if it is missing.

    Raise StoreVersionError if it is another version.
    """
    if problem := other_version(version):
        raise StoreVersionError(f"{name} {problem}")


def check_record(name: str, record: object) -> None:
    """Check the version of a record as parsed JSON, and that of the trace in it. A record may omit its version.

    Only objects have a version. Raise StoreVersionError if it is another version.
    """
    for each in (record, record.get("trace") if isinstance(record, Mapping) else None):
        if isinstance(each, Mapping):
            check_version(name, each.get("schema_version", SCHEMA_VERSION))


def _checked(version: object) -> int:
    if problem := other_version(version):
        raise PydanticCustomError("other_version", "{problem}", {"problem": f"it {problem}"})
    return SCHEMA_VERSION


RecordVersion = Annotated[int, BeforeValidator(_checked)]
"""Version of a record. Any other than `SCHEMA_VERSION` is invalid."""


class Model(BaseModel):
    """Base of all models that are stored or sent: immutable, keeps unknown fields."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)


class Record(Model):
    """A model that is stored on its own and therefore has a schema version."""

    schema_version: RecordVersion = SCHEMA_VERSION
