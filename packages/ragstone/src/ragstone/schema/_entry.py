"""What a spool holds, line by line: a captured trace, one left out by sampling, or a count of drops."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from ragstone.schema._base import Record
from ragstone.schema._trace import Trace

__all__ = ["Captured", "Dropped", "SampledOut", "SpoolEntry", "spool_entry_adapter"]


class Captured(Record):
    """A trace that sampling kept."""

    entry: Literal["captured"] = "captured"
    trace: Trace


class SampledOut(Record):
    """A trace that sampling left out: its id and weight stay known, its text does not."""

    entry: Literal["sampled_out"] = "sampled_out"
    trace_id: str
    started_at: float
    inclusion_probability: float = Field(ge=0, le=1)


class Dropped(Record):
    """How many requests were lost since the last such entry, and why."""

    entry: Literal["dropped"] = "dropped"
    reason: str
    n: int = Field(gt=0)
    at: float
    """Unix seconds."""


SpoolEntry = Annotated[Captured | SampledOut | Dropped, Field(discriminator="entry")]

spool_entry_adapter: TypeAdapter[Captured | SampledOut | Dropped] = TypeAdapter(SpoolEntry)
"""Validates and serialises a spool entry of any of the three kinds."""
