"""Entries of a spool: a captured trace, a trace that was not sampled, feedback, or a number of dropped requests."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter

from ragstone.schema._base import Record
from ragstone.schema._trace import Trace

MAX_REQUEST_ID: Final = 200
"""Maximum length of the id of a request in feedback."""


class Captured(Record):
    """A trace that sampling selected."""

    entry: Literal["captured"] = "captured"
    trace: Trace
    plan: dict[str, Any] | None = None
    """Settings with which the application scores (see `ScoringPlan`). None if it does not name any."""


class SampledOut(Record):
    """A trace that sampling did not select. Its id and sampling probability are stored."""

    entry: Literal["sampled_out"] = "sampled_out"
    trace_id: str
    started_at: float
    inclusion_probability: float = Field(ge=0, le=1)


class Feedback(Record):
    """What a user said about an answer."""

    entry: Literal["feedback"] = "feedback"
    request_id: str = Field(min_length=1, max_length=MAX_REQUEST_ID)
    """Id of the trace, or the OpenTelemetry trace id of the request."""
    value: float = Field(ge=0, le=1)
    """From 0 (bad) to 1 (good)."""
    comment: str | None = None
    given_at: float
    """Unix seconds."""


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


SpoolEntry = Annotated[Captured | SampledOut | Feedback | Dropped, Field(discriminator="entry")]

spool_entry_adapter: TypeAdapter[Captured | SampledOut | Feedback | Dropped] = TypeAdapter(SpoolEntry)
"""Validates and serializes a spool entry of any of the three kinds."""

# At its first use, pydantic's serializer imports a module under a lock that a fork leaves locked in the child. So the
# first use is here, before there is a thread that writes.
spool_entry_adapter.dump_json(Dropped(reason="bug", n=1, at=0.0))
