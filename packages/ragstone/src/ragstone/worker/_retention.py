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

_KEYS: Final = {
    "bodies_older_than": "bodies_s",
    "requests_older_than": "requests_s",
    "sampled_out_older_than": "sampled_out_s",
}
"""Keys of the table, and their fields."""
_PER_TURN: Final = 100
"""Requests that are removed, or whose text is removed, in one transaction."""
_IDS_PER_TURN: Final = 2_000
"""Requests that were sampled out and are removed in one transaction. Several hundred may arrive in a second."""
_PAUSE_S: Final = 600.0
"""Time between two searches for old texts in seconds."""
_AWAITS_S: Final = 600.0
"""Time in seconds in which a worker that has started may receive requests again that another one has stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionAges:
    """Ages in seconds from which something is removed. None keeps it."""

    bodies_s: float | None = None
    """Texts of requests."""
    requests_s: float | None = None
    """Requests with all that is stored about them."""
    sampled_out_s: float | None = 86_400.0
    """Ids of requests that were sampled out, counted from their arrival."""


def retention_from_table(table: object, *, source: str) -> RetentionAges:
    """Read the table `[retention]`.

    Args:
        table: Its keys and values: `bodies_older_than`, `requests_older_than` and `sampled_out_older_than`. None: the table
            is missing.
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
    """Removes old requests, texts of others, texts that feedback cannot select anymore, and ids of what was sampled out.

    Args:
        ages: The ages. Without those of requests and texts, only the last two are removed.
        errors: Collects errors of the store.
        clock: Returns the current time in Unix seconds.
    """

    def __init__(self, ages: RetentionAges, *, errors: StepErrors, clock: Callable[[], float]) -> None:
        self._ages, self._errors, self._clock = ages, errors, clock
        self._next = self._next_ids = 0.0
        self._started = time.monotonic()

    def update(self, store: Store, *, is_idle: bool) -> bool:
        """Remove some old texts and requests, and return whether there may be more.

        Args:
            store: The store.
            is_idle: Whether no requests arrive.
        """
        has_more = self._forget_sampled_out(store, is_idle=is_idle)
        return self._remove_old(store) or has_more

    def _forget_sampled_out(self, store: Store, *, is_idle: bool) -> bool:
        """Forget ids, unless requests may arrive again that an earlier worker has stored, and would then be counted twice."""
        if self._ages.sampled_out_s is None or time.monotonic() < self._next_ids:
            return False
        if not is_idle and time.monotonic() < self._started + _AWAITS_S:
            return False
        before = self._clock() - self._ages.sampled_out_s
        n = self._errors.run_step(
            "forget requests that were sampled out",
            lambda: store.forget_sampled_out(before=before, limit=_IDS_PER_TURN),
            0,
        )
        if n < _IDS_PER_TURN:
            self._next_ids = time.monotonic() + _PAUSE_S
        return n == _IDS_PER_TURN

    def _remove_old(self, store: Store) -> bool:
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
