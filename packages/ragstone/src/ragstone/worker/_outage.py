"""A judge that is down, told apart from a request that it cannot take."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ragstone.schema import Failure, NotApplicable, Score

__all__ = ["PAUSE_MAX_S", "Outage"]

logger = logging.getLogger("ragstone")

AnyOutcome = Score | NotApplicable | Failure

_UNANSWERED: Final = frozenset({"unavailable", "timeout"})
_PAUSE_MIN_S: Final = 1.0
_PAUSE_USUAL_S: Final = 300.0
PAUSE_MAX_S: Final = 600.0
"""Longest wait between two tries of one request, in seconds."""
_PAUSE_PAID_S: Final = 10.0
"""First wait after a try in which a model answered in part: that part is paid for again."""


class Outage:
    """Keeps requests waiting while a judge answers nobody, so that an outage delays scores instead of losing them.

    A request whose judged metrics all went unanswered waits and is tried again: when any other request is answered, and now and
    then, ever more slowly. If a try that began after another request was answered fails too, it is at fault itself, and
    its failure stands. So it is if it runs out of time twice although a model answers it in part: that is slow, not down.

    Args:
        patience_s: Seconds after which a request's failure stands in any case; 0 never waits.
        who: Who is asked, for the log.
        clock: Seconds that only grow.
    """

    def __init__(
        self, *, patience_s: float, who: str = "the judge", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._patience_s = patience_s
        self._clock = clock
        self._answered_at = -math.inf
        self._answered = asyncio.Event()
        self._told = False
        self._who = who
        self.on_end: Callable[[], object] = lambda: None
        """Called when an outage is over."""
        self.waiting = 0
        """Requests that wait and do not ask at present."""

    async def sit_out(
        self, score: Callable[[], Awaitable[Sequence[AnyOutcome]]], *, hold: Callable[[], object]
    ) -> Sequence[AnyOutcome]:
        """Score a request, again and again while the judge is down.

        Args:
            score: Tries once.
            hold: Called before each wait, to keep the request ours.
        """
        failed_at: float | None = None
        pause_s = _PAUSE_MIN_S
        was_slow = False
        while True:
            # Of a try that is under way when the judge comes back nobody can tell what it failed of.
            decides = failed_at is not None and self._answered_at > failed_at
            outcomes = await score()
            if any(_answered(o) for o in outcomes):
                self._note_answer()
                return outcomes
            if not _unanswered(outcomes):
                return outcomes
            if failed_at is None:
                failed_at = self._clock()
            left_s = failed_at + self._patience_s - self._clock()
            slow = any(_in_part(o) and o.kind == "timeout" for o in outcomes if isinstance(o, Failure))
            if left_s <= 0 or decides or (slow and was_slow):
                return outcomes
            was_slow = was_slow or slow
            if any(map(_in_part, outcomes)):
                pause_s = max(pause_s, _PAUSE_PAID_S)
            hold()
            if self._answered_at > failed_at:
                continue
            self._tell(outcomes)
            self._answered.clear()
            self.waiting += 1
            try:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._answered.wait(), min(pause_s, left_s))
            finally:
                self.waiting -= 1
            most_s = PAUSE_MAX_S if any(map(_in_part, outcomes)) else _PAUSE_USUAL_S
            pause_s = min(2 * pause_s, most_s)

    def _note_answer(self) -> None:
        self._answered_at = self._clock()
        self._answered.set()
        if self._told:
            logger.warning("%s answers again; scoring goes on", self._who)
            self._told = False
            self.on_end()

    def poke(self) -> None:
        """Let those that wait try now: there is reason to hope, and no proof."""
        self._answered.set()

    def _tell(self, outcomes: Sequence[AnyOutcome]) -> None:
        if not self._told:
            self._told = True
            why = next(o.reason for o in outcomes if isinstance(o, Failure) and o.judge_hash)
            logger.error("%s answers nobody (%s); requests stay pending until it does", self._who, why)


def _answered(outcome: AnyOutcome) -> bool:
    """Whether a model said something for it, now."""
    if isinstance(outcome, NotApplicable) or _from_cache(outcome):
        return False
    paid = outcome.usage is not None and outcome.usage.output_tokens > 0
    return outcome.raw is not None or (isinstance(outcome, Score) and paid)


def _in_part(outcome: AnyOutcome) -> bool:
    """Whether it failed although a model said something for it."""
    return isinstance(outcome, Failure) and outcome.usage is not None and outcome.usage.output_tokens > 0


def _called(outcome: AnyOutcome) -> bool:
    return outcome.usage is not None and outcome.usage.calls > 0


def _from_cache(outcome: AnyOutcome) -> bool:
    """Whether nothing was sent for it: that says nothing about the judge."""
    return outcome.usage is not None and outcome.usage.cached > 0 and outcome.usage.calls == 0


def _unanswered(outcomes: Sequence[AnyOutcome]) -> bool:
    # A plain metric has a score whatever the judge does, and so has a judged one that finds nothing to ask about.
    asked = [o for o in outcomes if o.judge_hash and not isinstance(o, NotApplicable) and not _from_cache(o)]
    if any(_called(o) for o in asked):
        # This judge counts its calls: a score without one says nothing about it. (Work that metrics share is on one bill.)
        asked = [o for o in asked if _called(o) or isinstance(o, Failure)]
    return bool(asked) and all(isinstance(o, Failure) and o.kind in _UNANSWERED for o in asked)
