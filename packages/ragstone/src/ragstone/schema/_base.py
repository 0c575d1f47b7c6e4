"""The model base and the schema version."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict

__all__ = ["SCHEMA_VERSION", "Model", "Record"]

SCHEMA_VERSION: Final = 1
"""Version of the records on disk; `ragstone.schema.migrate` brings older ones up to it."""


class Model(BaseModel):
    """Base of everything that crosses a disk or a network: immutable, unknown fields kept."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)


class Record(Model):
    """A model that is stored on its own, and so carries the version it was written with."""

    schema_version: int = SCHEMA_VERSION
