"""A daily budget for model calls, counted in the store, so that it survives restarts and is shared by workers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping

from ragstone.judges import amounts_of, find_uncounted
from ragstone.schema import Outcome, Score, Usage
from ragstone.store import Store
from ragstone.worker import _times
from ragstone.worker._intake import StepErrors

logger = logging.getLogger("ragstone")


def describe_reached(limits: Mapping[str, float], spent: Usage) -> str | None:
    """Return which limits a usage reaches, or None."""
    amounts = amounts_of(spent) if limits else {}
    reached = [
        f"{amounts[name]:,.6g} of {limit:,.6g} {name}"
        for name, limit in limits.items()
        if name in amounts and amounts[name] >= limit
    ]
    return None if not reached else f"the daily budget is reached: {', '.join(reached)}"


def _find_uncounted(limits: Iterable[str], outcome: Outcome) -> str | None:
    """Return why an outcome shows that a limit cannot be counted, or None."""
    usage = outcome.usage
    # A request without a reply has neither tokens nor a cost, whatever the model is.
    if usage is None or not usage.calls or not (isinstance(outcome, Score) or usage.input_tokens):
        return None
    reason = find_uncounted(limits, usage)
    return reason and f"the daily budget {reason}"


class DailyBudget:
    """Counts what calls have cost on the current day of UTC, and says when a limit is reached.

    Requests then stay pending until the next day. Those in flight at that moment may exceed a limit. `limits` are
    `calls`, `tokens` and `usd`. If they are empty, it only counts.
    """

    def __init__(self, limits: Mapping[str, float], *, errors: StepErrors) -> None:
        self.limits, self._errors = dict(limits), errors
        self._lock = threading.Lock()
        self._unsaved = Usage()
        self._saved = Usage()
        """Usage of all workers today, at the last look."""
        self._uncounted: str | None = None
        self._next = 0.0
        self._was_reached = False

    @property
    def reached(self) -> str | None:
        """Why no request is scored until the next day, or None."""
        return self._uncounted or describe_reached(self.limits, self._saved + self._unsaved)

    def spend(self, usage: Usage) -> None:
        """Count what calls have cost, also those whose outcomes are not stored."""
        with self._lock:
            self._unsaved += usage

    def check(self, outcomes: Iterable[Outcome]) -> None:
        """Find out from outcomes if a limit cannot be counted."""
        for outcome in outcomes:
            self._uncounted = self._uncounted or _find_uncounted(self.limits, outcome)

    def start(self, store: Store) -> None:
        """Store the limits, for readers of the store, and read what was spent today."""
        self._errors.run_step(
            "store the daily budget", lambda: store.plan.set_record("daily_budget", self.limits), None
        )
        self.update(store, now_too=True)

    def update(self, store: Store, *, now_too: bool = False) -> None:
        """Store what was spent, at most once a second, and read what all workers have spent today."""
        if not now_too and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _times.SPEND_S

        def flush() -> Usage:
            # Another thread records meanwhile, so only what was stored is subtracted.
            with self._lock:
                unsaved, self._unsaved = self._unsaved, Usage()
            if unsaved != Usage():
                try:
                    store.plan.add_spend(unsaved)
                except BaseException:
                    with self._lock:
                        self._unsaved += unsaved
                    raise
            return store.plan.spent_today()

        self._saved = self._errors.run_step("store what was spent", flush, self._saved)
        reason = self.reached
        if (reason is not None) != self._was_reached:
            self._was_reached = reason is not None
            logger.warning(
                "ragstone worker: %s",
                f"{reason}. Requests stay pending" if reason else "a new daily budget, scoring continues",
            )
