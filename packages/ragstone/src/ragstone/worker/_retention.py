"""Retention: a worker removes the texts of old requests from its store, a few in each turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ragstone._util.age import parse_age
from ragstone.errors import ConfigurationError
from ragstone.store import Store
from ragstone.worker._intake import StepErrors

__all__ = ["Retention", "parse_age", "retention_from_table"]

_PER_TURN: Final = 100
"""Requests whose text is removed in one transaction."""
_PAUSE_S: Final = 600.0
"""Time between two searches for old texts in seconds."""


def retention_from_table(table: object, *, source: str) -> float | None:
    """Read the table `[retention]`, and return the age in seconds from which texts are removed, or None.

    Args:
        table: Its keys and values. None: the table is missing.
        source: Name of the file, for messages.

    Raises:
        ConfigurationError: If it is not a table, has an unknown key or an invalid age.
    """
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"{source!r}: retention must be a table [retention], got {table!r}")
    values: dict[Any, Any] = dict(table)
    age = values.pop("bodies_older_than", None)
    if values:
        raise ConfigurationError(
            f"{source!r}: [retention] does not have {', '.join(sorted(map(str, values)))}. Keys: bodies_older_than."
        )
    return None if age is None else parse_age(age, name=f"{source!r}: [retention] bodies_older_than")


class Retention:
    """Removes the texts of requests that are older than an age, and of those that feedback cannot select anymore.

    Args:
        age_s: Age in seconds. None removes only the latter.
        errors: Collects errors of the store.
        clock: Returns the current time in Unix seconds.
    """

    def __init__(self, age_s: float | None, *, errors: StepErrors, clock: Callable[[], float]) -> None:
        self._age_s, self._errors, self._clock = age_s, errors, clock
        self._next = 0.0

    def update(self, store: Store) -> bool:
        """Remove the texts of some old requests, and return whether there may be more."""
        if time.monotonic() < self._next:
            return False
        before = None if self._age_s is None else self._clock() - self._age_s
        n = self._errors.run_step(
            "remove texts that wait for feedback", lambda: store.forget_unselected(before=before, limit=_PER_TURN), 0
        )
        if before is not None:
            removed = self._errors.run_step(
                "remove old texts", lambda: store.remove_texts(before=before, limit=_PER_TURN), 0
            )
            n = max(n, removed)
        if n == _PER_TURN:
            return True
        self._next = time.monotonic() + _PAUSE_S
        return False
