"""A request's metrics, in parts that rest on different models: one that is down holds up its own part alone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ragstone.metrics import Metric, ReaderMetric
from ragstone.schema import Failure, NotApplicable, Sample, Score
from ragstone.scoring import Scorer
from ragstone.worker._setup import ScoringSetup

__all__ = ["SHARED_LEASE_S", "JudgeOutage", "MetricGroups", "lease_s"]

logger = logging.getLogger("ragstone")

AnyOutcome = Score | NotApplicable | Failure

_UNANSWERED: Final = frozenset({"unavailable", "timeout"})
_PAUSE_MIN_S: Final = 1.0
_PAUSE_USUAL_S: Final = 300.0
_PAUSE_MAX_S: Final = 600.0
"""Longest wait between two tries of one request, in seconds."""
_PAUSE_PAID_S: Final = 10.0
"""First wait after a try in which a model answered in part: that part is paid for again."""

_WAITING: Final = 16
"""For each slot, so many requests may wait for a model that is down while another goes on."""
SHARED_LEASE_S: Final = 90.0
"""Where others wait for what a killed worker had in work, leases are short, and renewed while the work goes on."""


def lease_s(deadline_s: float) -> float:
    """How long a request may be in work before anybody looks after it, all waits included, in seconds."""
    # Each that waits needs its turn at a slot. A killed owner's leases end with the next owner's start.
    return (2 + _WAITING) * deadline_s + 2 * _PAUSE_MAX_S


class MetricGroups:
    """Scores requests part by part; a part is all metrics that rest on the same models.

    Args:
        setup: Metrics, models and limits, prepared. `concurrency` and `deadline_s` hold for each part on its own.
        patience_s: Seconds for which a part waits for models that are down.
    """

    def __init__(self, setup: ScoringSetup, *, patience_s: float) -> None:
        groups: dict[str, list[Metric]] = {}
        for metric in setup.metrics:
            identity = setup.scorer.judged_by(metric)
            groups.setdefault("" if identity is None else identity.hash, []).append(metric)
        self._concurrency = setup.concurrency
        self._parts = [
            (
                setup.scorer_of(metrics),
                JudgeOutage(patience_s=patience_s, who=_describe_role(metrics)),
                asyncio.Semaphore(setup.concurrency),
            )
            for metrics in groups.values()
        ]
        self._judged = [outage for key, (_, outage, _) in zip(groups, self._parts, strict=True) if key]
        for outage in self._judged:
            # Parts may share a model, or the machine it runs on.
            outage.on_end = self._retry_now

    def _retry_now(self) -> None:
        for outage in self._judged:
            outage.retry_now()

    @property
    def judge_is_down(self) -> bool:
        """Whether a judge or a reader is unavailable at present."""
        return any(outage.is_on for outage in self._judged)

    def free_slots(self, n_in_work: int) -> int:
        """How many more requests to take on."""
        waiting = [outage.waiting for outage in self._judged] or [0]
        # Who waits needs no slot: another request can find out whether the model is down or only refuses those.
        # Where no model answers, no more of them than slots; where one does, its part is not held up by the others'.
        most = self._concurrency * (1 if min(waiting) >= self._concurrency or len(waiting) == 1 else _WAITING)
        return self._concurrency + min(max(waiting), most) - n_in_work

    async def score(
        self,
        sample: Sample,
        *,
        extend_lease: Callable[[], object],
        store_outcomes: Callable[[Sequence[AnyOutcome], bool], Awaitable[None]],
    ) -> None:
        """Score one request.

        Args:
            sample: What to score.
            extend_lease: Called before each wait, to keep the request ours.
            store_outcomes: Takes the outcomes of each part as soon as they are there, and whether they are the last ones.
        """
        left = len(self._parts)

        async def one(scorer: Scorer, outage: JudgeOutage, slots: asyncio.Semaphore) -> None:
            nonlocal left

            async def score() -> Sequence[AnyOutcome]:
                async with slots:
                    return await scorer.score(sample)

            outcomes = await outage.score_with_retry(score, extend_lease=extend_lease)
            left -= 1
            await store_outcomes(outcomes, left == 0)

        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(one(*part))


def _describe_role(metrics: Sequence[Metric]) -> str:
    reading = any(isinstance(metric, ReaderMetric) for metric in metrics)
    return "the reader, or the judge beside it," if reading else "the judge"


class JudgeOutage:
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
        self._is_logged = False
        self._who = who
        self.on_end: Callable[[], object] = lambda: None
        """Called when an outage is over."""
        self.waiting = 0
        """Requests that wait and do not ask at present."""

    @property
    def is_on(self) -> bool:
        """Whether the judge is unavailable: a request failed, and the judge has not answered since."""
        return self._is_logged

    async def score_with_retry(
        self, score: Callable[[], Awaitable[Sequence[AnyOutcome]]], *, extend_lease: Callable[[], object]
    ) -> Sequence[AnyOutcome]:
        """Score a request, again and again while the judge is down.

        Args:
            score: Tries once.
            extend_lease: Called before each wait, to keep the request ours.
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
            slow = any(_was_partly_answered(o) and o.kind == "timeout" for o in outcomes if isinstance(o, Failure))
            if left_s <= 0 or decides or (slow and was_slow):
                return outcomes
            was_slow = was_slow or slow
            if any(map(_was_partly_answered, outcomes)):
                pause_s = max(pause_s, _PAUSE_PAID_S)
            extend_lease()
            if self._answered_at > failed_at:
                continue
            self._log_outage(outcomes)
            self._answered.clear()
            self.waiting += 1
            try:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._answered.wait(), min(pause_s, left_s))
            finally:
                self.waiting -= 1
            most_s = _PAUSE_MAX_S if any(map(_was_partly_answered, outcomes)) else _PAUSE_USUAL_S
            pause_s = min(2 * pause_s, most_s)

    def _note_answer(self) -> None:
        self._answered_at = self._clock()
        self._answered.set()
        if self._is_logged:
            logger.warning("%s answers again; scoring goes on", self._who)
            self._is_logged = False
            self.on_end()

    def retry_now(self) -> None:
        """Let those that wait try now: there is reason to hope, and no proof."""
        self._answered.set()

    def _log_outage(self, outcomes: Sequence[AnyOutcome]) -> None:
        if not self._is_logged:
            self._is_logged = True
            why = next(o.reason for o in outcomes if isinstance(o, Failure) and o.judge_hash)
            logger.error("%s answers nobody (%s); requests stay pending until it does", self._who, why)


def _answered(outcome: AnyOutcome) -> bool:
    """Whether a model said something for it, now."""
    if isinstance(outcome, NotApplicable) or _from_cache(outcome):
        return False
    paid = outcome.usage is not None and outcome.usage.output_tokens > 0
    return outcome.raw is not None or (isinstance(outcome, Score) and paid)


def _was_partly_answered(outcome: AnyOutcome) -> bool:
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
