"""Retention: a worker removes the texts of old requests, and old requests, from its store, a few in each turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ragstone.settings import Retention
from ragstone.store import Store
from ragstone.worker import _times
from ragstone.worker._intake import StepErrors

_PER_TURN: Final = 100
"""Requests that are removed, or whose text is removed, in one transaction."""
_IDS_PER_TURN: Final = 2_000
"""Requests that were sampled out and are removed in one transaction. Several hundred may arrive in a second."""


class RetentionStep:
    """Removes old requests, texts of others, feedback about unknown requests, and ids of what was sampled out.

    Without ages of requests and texts, only the last two are removed.
    """

    def __init__(self, ages: Retention, *, errors: StepErrors, clock: Callable[[], float]) -> None:
        self._ages, self._errors, self._clock = ages, errors, clock
        self._next = self._next_ids = 0.0
        self._started = time.monotonic()

    def update(self, store: Store, *, is_idle: bool) -> bool:
        """Remove some old texts and requests, and return whether there may be more. `is_idle`: no requests arrive."""
        has_more = self._forget_sampled_out(store, is_idle=is_idle)
        return self._remove_old(store) or has_more

    def _forget_sampled_out(self, store: Store, *, is_idle: bool) -> bool:
        """Forget ids, unless requests may arrive again that an earlier worker has stored, and would then be counted twice."""
        if time.monotonic() < self._next_ids:
            return False
        if not is_idle and time.monotonic() < self._started + _times.RETENTION_AWAITS_S:
            return False
        before = self._clock() - self._ages.seconds("sampled_out_older_than")
        n = self._errors.run_step(
            "forget requests that were sampled out",
            lambda: store.upkeep.forget_sampled_out(before=before, limit=_IDS_PER_TURN),
            0,
        )
        if n < _IDS_PER_TURN:
            self._next_ids = time.monotonic() + _times.RETENTION_S
        return n == _IDS_PER_TURN

    def _remove_old(self, store: Store) -> bool:
        if time.monotonic() < self._next:
            return False
        now, ages, upkeep = self._clock(), self._ages, store.upkeep
        steps: list[tuple[str, Callable[[], int]]] = [
            ("unknown feedback", lambda: upkeep.forget_unknown_feedback(limit=_PER_TURN))
        ]
        if ages.bodies_older_than:
            before = now - ages.seconds("bodies_older_than")
            steps.append(("old texts", lambda: upkeep.remove_texts(before=before, limit=_PER_TURN)))
        if ages.requests_older_than:
            oldest = now - ages.seconds("requests_older_than")
            steps.append(("old requests", lambda: upkeep.remove_requests(before=oldest, limit=_PER_TURN)))
        if max([self._errors.run_step(f"remove {name}", step, 0) for name, step in steps]) == _PER_TURN:
            return True
        self._next = time.monotonic() + _times.RETENTION_S
        return False
