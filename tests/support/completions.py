"""Stores the outcomes of one trace."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.errors import DataError
from ragstone.schema import Outcome
from ragstone.store import Completion, Store


def complete(store: Store, trace_id: str, outcomes: Sequence[Outcome], *, owner: str | None = None) -> bool:
    """Store the outcomes of a trace, and return whether the trace was pending.

    Raises:
        DataError: If the store refuses the completion.
    """
    (result,) = store.outcomes.complete_many([Completion(trace_id=trace_id, outcomes=outcomes, owner=owner)])
    if isinstance(result, DataError):
        raise result
    return result
