"""Retention: a worker removes the texts of old requests, and old requests, from its store, a few in each turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ragstone._util.age import parse_age
from ragstone.errors import ConfigurationError
from ragstone.store import Store
from ragstone.worker._intake import StepErrors

__all__ = ["Retention", "RetentionAges", "parse_age", "retention_from_table"]

_KEYS: Final = {"bodies_older_than": "bodies_s", "requests_older_than": "requests_s"}
"""Keys of the table, and their fields."""
_PER_TURN: Final = 100
"""Requests that are removed, or whose text is removed, in one transaction."""
_PAUSE_S: Final = 600.0
"""Time between two searches for old texts in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionAges:
    """Ages in seconds from which something is removed. None keeps it."""

    bodies_s: float | None = None
    """Texts of requests."""
    requests_s: float | None = None
    """Requests with all that is stored about them."""


def retention_from_table(table: object, *, source: str) -> RetentionAges:
    """Read the table `[retention]`.

    Args:
        table: Its keys and values: `bodies_older_than` and `requests_older_than`. None: the table is missing.
        source: Name of the file, for messages.

    Raises:
        ConfigurationError: If it is not a table, has an unknown key or an invalid age.
    """
    if table is None:
        return RetentionAges()
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"{source!r}: retention must be a table [retention], got {table!r}")
    values: dict[Any, Any] = dict(table)
    if unknown := sorted(str(key) for key in values if key not in _KEYS):
        raise ConfigurationError(
            f"{source!r}: [retention] does not have {', '.join(unknown)}. Keys: {', '.join(_KEYS)}."
        )
    ages = {
        name: parse_age(values[key], name=f"{source!r}: [retention] {key}")
        for key, name in _KEYS.items()
        if values.get(key) is not None
    }
    return RetentionAges(**ages)


class Retention:
    """Removes old requests, the texts of others, and the texts of those that feedback cannot select anymore.

    Args:
        ages: The ages. Without them, only the last are removed.
        errors: Collects errors of the store.
        clock: Returns the current time in Unix seconds.
    """

    def __init__(self, ages: RetentionAges, *, errors: StepErrors, clock: Callable[[], float]) -> None:
        self._ages, self._errors, self._clock = ages, errors, clock
        self._next = 0.0

    def update(self, store: Store) -> bool:
        """Remove some old texts and requests, and return whether there may be more."""
        if time.monotonic() < self._next:
            return False
        now, ages = self._clock(), self._ages
        before = None if ages.bodies_s is None else now - ages.bodies_s
        n = self._errors.run_step(
            "remove texts that wait for feedback", lambda: store.forget_unselected(before=before, limit=_PER_TURN), 0
        )
        if before is not None:
            removed = self._errors.run_step(
                "remove old texts", lambda: store.remove_texts(before=before, limit=_PER_TURN), 0
            )
            n = max(n, removed)
        if ages.requests_s is not None:
            oldest = now - ages.requests_s
            removed = self._errors.run_step(
                "remove old requests", lambda: store.remove_requests(before=oldest, limit=_PER_TURN), 0
            )
            n = max(n, removed)
        if n == _PER_TURN:
            return True
        self._next = time.monotonic() + _PAUSE_S
        return False
