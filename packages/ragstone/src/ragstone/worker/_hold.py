"""Holding back of failures that the configuration of a model may cause, so that a wrong key does not fail every trace."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from ragstone._util.waiting import wait_up_to
from ragstone.schema import Outcome
from ragstone.scoring import JudgedCounts
from ragstone.worker import _times

logger = logging.getLogger("ragstone")

Attempt = Callable[[], Awaitable[Sequence[Outcome]]]
"""Scores a trace once."""


class FailureHold:
    """Pauses a group of metrics if its models fail systematically.

    Until the group has its first score, failures that the configuration may cause (rejected, truncated) are held back
    for up to a minute. If a score arrives, their traces are scored again, and the result is final. If the failures
    become systematic, the group is paused: all its traces stay pending, and one of them is tried from time to time. The
    first score resumes the group. `role` is that of the models, for the log. `on_pause` is called with the cause of a
    pause.
    """

    def __init__(self, *, role: str, on_pause: Callable[[str], object] | None = None) -> None:
        self._role = role
        self._on_pause = on_pause
        self._counts = JudgedCounts()
        self._changed = asyncio.Event()
        """Set when the group has its first score, is paused, or `release` was called."""
        self._n_releases = 0
        self._works = False
        """Whether the group has a score."""
        self._turn = asyncio.Lock()
        self._pause_s = _times.HOLD_PAUSE_MIN_S
        self.is_paused = False
        self.held = 0
        """Number of traces whose failures are held back and not yet known to be systematic."""
        self.waiting = 0
        """Number of traces that wait for a paused group."""

    def release(self) -> None:
        """Make the failures that are held back final, because no other trace can show whether the group works."""
        self._n_releases += 1
        self._changed.set()
        if not (self._works or self.is_paused):
            self._changed = asyncio.Event()

    async def score(self, attempt: Attempt, *, extend_lease: Callable[[], object]) -> Sequence[Outcome]:
        """Score a trace, and hold back its failures. `extend_lease` extends its lease before each wait."""
        while True:
            outcomes = await (self._try(attempt, extend_lease) if self.is_paused else self._attempt(attempt))
            if self._works or not JudgedCounts.may_be_systematic(outcomes):
                return outcomes
            if not self.is_paused and not await self._wait_for_others(extend_lease):
                return outcomes
            # The group works now, or is paused.

    async def _attempt(self, attempt: Attempt) -> Sequence[Outcome]:
        outcomes = await attempt()
        if self._works:
            return outcomes
        self._counts.add(outcomes)
        self._works = self._counts.n_scored > 0
        if self._works:
            if self.is_paused:
                logger.warning("%s works again, scoring continues", self._role)
            self.is_paused = False
            self._changed.set()
        elif not self.is_paused and (cause := self._counts.describe_systematic()):
            self.is_paused = True
            logger.error("%s fails systematically, traces stay pending: %s", self._role, cause)
            self._changed.set()
            if self._on_pause is not None:
                self._on_pause(f"{self._role} fails systematically: {cause}")
        return outcomes

    async def _wait_for_others(self, extend_lease: Callable[[], object]) -> bool:
        """Wait for the outcomes of other traces, and return whether to try again."""
        extend_lease()
        changed, n_releases = self._changed, self._n_releases
        self.held += 1
        try:
            await wait_up_to(_times.HOLD_S, changed.wait())
        finally:
            self.held -= 1
        return changed.is_set() and self._n_releases == n_releases

    async def _try(self, attempt: Attempt, extend_lease: Callable[[], object]) -> Sequence[Outcome]:
        """Wait until the group is resumed, or until it is this trace's turn to try."""
        self.waiting += 1
        try:
            await self._take_turn(extend_lease)
            try:
                if self.is_paused:
                    await asyncio.sleep(self._pause_s)
                    self._pause_s = min(2 * self._pause_s, _times.HOLD_PAUSE_MAX_S)
                    return await self._attempt(attempt)
            finally:
                self._turn.release()
        finally:
            self.waiting -= 1
        return await self._attempt(attempt)

    async def _take_turn(self, extend_lease: Callable[[], object]) -> None:
        extend_lease()
        while not await wait_up_to(_times.HOLD_PAUSE_MAX_S, self._turn.acquire()):
            extend_lease()
