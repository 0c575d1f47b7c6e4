"""Messages between an owner and its scoring processes: one JSON object a line."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

from ragstone.judges import CallContext
from ragstone.schema import Outcome, Sample, Usage

BOOTSTRAP: Final = (
    "import json, sys; first = open(0, 'rb', buffering=0, closefd=False).readline(); "
    "sys.path[:] = json.loads(first)['path']; from ragstone.worker._process import main; main(first)"
)
"""Program of a scoring process. The search path of the owner is in its first line, because metrics may be modules there."""


class Start(BaseModel):
    """First line: what the process needs. Never an argument of the program, because all users of a machine can read these."""

    path: list[str]
    """Search path of modules."""
    spec: str
    """A pickled `ScorerSpec`, in base64."""
    judge_hashes: dict[str, str]
    """Hashes of the identities of judges, by metric, which are part of the plan of the store."""
    has_budget: bool
    """Whether the owner has a budget, which it must be asked for each call."""


class Scoring(BaseModel):
    """A sample to score."""

    id: int
    sample: Sample
    metrics: tuple[str, ...]
    context: CallContext


class Grant(BaseModel):
    """Answer to a process that asked for the permission of the budget to make a call."""

    id: int
    error: str | None = None
    """Why the call must not be made."""


class ToProcess(BaseModel):
    """A line from the owner. One field is set."""

    score: Scoring | None = None
    cancel: int | None = None
    """Id of a sample that is no longer needed."""
    grant: Grant | None = None


class Reply(BaseModel):
    """Outcomes of a sample."""

    id: int
    usage: Usage
    """All calls for the sample, also failed and canceled ones."""
    outcomes: tuple[Outcome, ...] | None
    """None if the sample was canceled, or could not be scored."""
    error: str | None = None


class Log(BaseModel):
    """A line of the log."""

    level: int
    text: str


class FromProcess(BaseModel):
    """A line from a scoring process. One field is set, except for the state of its endpoints."""

    is_ready: bool = False
    usage: Usage | None = None
    """Calls that have made the process ready."""
    start_error: str | None = None
    """Why the process cannot score."""
    reply: Reply | None = None
    ask: int | None = None
    """Number of a call for which the process asks the budget."""
    spent: Usage | None = None
    """Tokens and cost of a call that the budget has permitted."""
    log: Log | None = None
    is_down: bool = False
    """Whether an endpoint did not answer the latest requests of the process."""
    outage: tuple[float, float] | None = None
    """Duration of the longest outage that requests wait for, and its limit, in seconds."""
