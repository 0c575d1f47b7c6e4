"""What an application needs for its answers: latency, tokens and cost, as far as they were captured."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from ragstone.errors import DataError
from ragstone.metrics import is_number
from ragstone.schema import Trace, TraceOutline

SpentName = Literal["latency_s", "tokens", "cost_usd"]


class Spent(NamedTuple):
    """What an application needed for one answer. None if that is unknown."""

    latency_s: float | None = None
    """Seconds from the start to the end of a request that was answered."""
    tokens: float | None = None
    """Tokens of its models, input and output."""
    cost_usd: float | None = None
    n_calls: float | None = 1
    """Number of calls for the answer, whose mean these numbers are. None if only the first of several is known."""


SPENT: Final[tuple[SpentName, ...]] = ("latency_s", "tokens", "cost_usd")
"""The fields of `Spent` with what is needed."""
FIRST_CALL: Final = "ragstone.first_call"
"""Key of the metadata of a stored call that is the first of several for a sample."""


def spent_of(calls: Sequence[Trace | TraceOutline]) -> Spent:
    """Return what the calls for one sample needed, as means: latency of those that answered, the rest of all."""
    if len(calls) == 1:
        return _spent_by(calls[0])
    seconds, *others, _ = zip(*map(_spent_by, calls), strict=True)
    columns = [[value for value in seconds if value is not None] or [None], *others]
    latency_s, tokens, cost_usd = (None if None in values else statistics.fmean(values) for values in columns)
    return Spent(latency_s, tokens, cost_usd, len(calls))


def _spent_by(call: Trace | TraceOutline) -> Spent:
    seconds = None if call.ended_at is None or call.status != "ok" else call.ended_at - call.started_at
    usage = call.usage
    # A model that reads or writes nothing reported one of both numbers only.
    is_whole = usage is not None and usage.input_tokens and usage.output_tokens
    return Spent(
        latency_s=seconds if seconds is not None and seconds >= 0 else None,  # the clock may have been put back
        tokens=usage.input_tokens + usage.output_tokens if usage is not None and is_whole else None,
        cost_usd=None if usage is None else usage.cost_usd,
        n_calls=None if FIRST_CALL in call.metadata else 1,
    )


def read_spent(stated: Any, place: str) -> Spent:
    """Read what a line of a file of outcomes states about the application.

    Raise DataError if this is not a mapping, or a value is not a finite number of at least 0.
    """
    found: dict[str, Any] = {"": stated}
    if isinstance(stated, Mapping):
        found = {name: stated.get(name) for name in SPENT} | {"n_calls": stated.get("n_calls", 1)}
    for name, value in found.items():
        if not (value is None and name) and not (is_number(value) and value >= 0):
            raise DataError(
                f"{place}: {f'application.{name}'.rstrip('.')} is {value!r}. It must be a finite number of at least "
                f"0, in an object with {', '.join(SPENT)}"
            )
    return Spent(**found)
