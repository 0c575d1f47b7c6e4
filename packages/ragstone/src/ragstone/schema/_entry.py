"""Entries of a spool: a captured trace, a trace that was not sampled, or a number of dropped requests."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from ragstone.schema._base import Record
from ragstone.schema._trace import Trace

__all__ = ["Captured", "Dropped", "Ignored", "SampledOut", "SpoolEntry", "spool_entry_adapter"]


class Captured(Record):
    """A trace that sampling selected."""

    entry: Literal["captured"] = "captured"
    trace: Trace


class SampledOut(Record):
    """A trace that sampling did not select. Its id and sampling probability are stored, its text is not."""

    entry: Literal["sampled_out"] = "sampled_out"
    trace_id: str
    started_at: float
    inclusion_probability: float = Field(ge=0, le=1)


class Dropped(Record):
    """The number of requests that were lost since the previous entry of this kind, and the reason."""

    entry: Literal["dropped"] = "dropped"
    reason: str
    n: int = Field(gt=0)
    at: float
    """Unix seconds."""


class Ignored(Record):
    """A number of recorded traces that are not requests, and the reason. They are counted, but not captured."""

    entry: Literal["ignored"] = "ignored"
    reason: str
    n: int = Field(gt=0)
    example: str
    """Id or place of one of them."""


SpoolEntry = Annotated[Captured | SampledOut | Dropped, Field(discriminator="entry")]

spool_entry_adapter: TypeAdapter[Captured | SampledOut | Dropped] = TypeAdapter(SpoolEntry)
"""Validates and serializes a spool entry of any of the three kinds."""
