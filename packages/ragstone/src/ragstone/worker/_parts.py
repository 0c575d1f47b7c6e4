"""Scoring of a request's metrics in groups by model, so that an unavailable model delays only its own group."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from ragstone._util.waiting import wait_up_to
from ragstone.judges import is_any_endpoint_down, metered
from ragstone.metrics import Metric, ReaderMetric
from ragstone.schema import Failure, NotApplicable, Outcome, Score, Trace, Usage, get_skip_reason, sample_from_trace
from ragstone.scoring import Scorer
from ragstone.worker import _times
from ragstone.worker._hold import Attempt, FailureHold
from ragstone.worker._setup import ScoringSetup

logger = logging.getLogger("ragstone")
T = TypeVar("T")
UNANSWERED: Final = frozenset({"unavailable", "timeout"})
_WAITING: Final = 16
"""Requests per slot that may wait for an unavailable model while another model continues."""


class MetricGroups:
    """Scores requests group by group. A group contains all metrics that use the same models.

    `concurrency` and `deadline_s` of the setup apply to each group. Without `metrics`, all of the setup are scored. An
    outage of more than `patience_s` seconds is reported, to `on_blocked` or in the log, and requests stay pending.
    `holds` pauses a group whose models fail systematically, instead of failing all its metrics. `on_blocked` is called
    with the cause of a pause or outage. `spend` is called with what calls have cost.
    """

    def __init__(
        self,
        setup: ScoringSetup,
        *,
        patience_s: float,
        spend: Callable[[Usage], object],
        metrics: Sequence[Metric] | None = None,
        holds: bool = True,
        on_blocked: Callable[[str], object] | None = None,
    ) -> None:
        groups: dict[str, list[Metric]] = {}
        metrics = setup.metrics if metrics is None else metrics
        self._scorer = setup.scorer_of(metrics)
        for metric in metrics:
            identity = setup.scorer.judged_by(metric)
            groups.setdefault("" if identity is None else identity.hash, []).append(metric)
        self._setup = setup
        self._spend = spend
        self._concurrency = setup.limits.concurrency
        self._parts = [
            _Part(
                scorer=setup.scorer_of(metrics),
                outage=JudgeOutage(patience_s=patience_s, role=_describe_role(metrics)),
                hold=FailureHold(role=_describe_role(metrics), on_pause=on_blocked) if judged and holds else None,
                slots=asyncio.Semaphore(setup.limits.concurrency),
                judged=bool(judged),
            )
            for judged, metrics in groups.items()
        ]
        self._judged = [part.outage for part in self._parts if part.judged]
        self._holds = [part.hold for part in self._parts if part.hold is not None]
        self._n_unfinished = 0
        """Number of groups of requests that are not scored yet."""
        for outage in self._judged:
            # Groups may share a model, or the machine it runs on.
            outage.on_end = self._retry_now
            if on_blocked is not None:
                outage.on_long_outage = on_blocked

    def _retry_now(self) -> None:
        for outage in self._judged:
            outage.retry_now()

    @property
    def judge_is_down(self) -> bool:
        """Whether a judge or a reader is unavailable or fails systematically at present."""
        return any(outage.is_on for outage in self._judged) or any(hold.is_paused or hold.held for hold in self._holds)

    @property
    def outage(self) -> tuple[float, float] | None:
        """Duration of the longest current outage and its limit in seconds, or None without one."""
        return max((seconds for outage in self._judged if (seconds := outage.seconds) is not None), default=None)

    def release_held(self) -> None:
        """Make failures that are held back final if every unfinished request is held back."""
        n_held = sum(hold.held for hold in self._holds)
        if n_held and n_held == self._n_unfinished:
            for hold in self._holds:
                hold.release()

    def free_slots(self, n_in_work: int) -> int:
        """Return how many more requests the worker can claim."""
        waiting = [part.outage.waiting + (part.hold.waiting if part.hold else 0) for part in self._parts if part.judged]
        waiting = waiting or [0]
        # Failures of several requests are needed to find out that they are systematic.
        n_held = max((hold.held for hold in self._holds), default=0)
        # A waiting request does not occupy a slot, so that other requests show if the model is down or rejects only the
        # waiting ones. If no model answers, the number of waiting requests is limited to the number of slots. If one
        # answers, its group continues.
        max_waiting = self._concurrency * (1 if min(waiting) >= self._concurrency or len(waiting) == 1 else _WAITING)
        return self._concurrency + n_held + min(max(waiting), max_waiting) - n_in_work

    async def score(
        self,
        trace: Trace,
        *,
        known: Collection[tuple[str, str, str]] = (),
        extend_lease: Callable[[], object],
        store_outcomes: Callable[[Sequence[Outcome], bool], Awaitable[None]],
    ) -> None:
        """Score one request, or say why its metrics are not applicable.

        `known` has metric, version and judge hash of the outcomes that the request has. They are not computed again.
        `extend_lease` is called before each wait, and `store_outcomes` with the outcomes of each group when they are
        complete, and with whether they are the last ones.
        """
        if (reason := get_skip_reason(trace)) is not None:
            await store_outcomes(self._scorer.not_applicable(trace, reason), True)  # noqa: FBT003
            return
        sample = sample_from_trace(trace)
        found = ((part, self._scorer_of_unknown(part, known) if known else part.scorer) for part in self._parts)
        parts = [(part, scorer) for part, scorer in found if scorer is not None]
        n_unfinished = len(parts)
        if not parts:
            await store_outcomes((), not parts)

        async def one(part: _Part, scorer: Scorer) -> None:
            nonlocal n_unfinished

            async def score() -> Sequence[Outcome]:
                async with part.slots:
                    return await self._paid(scorer.score(sample))

            attempt = partial(part.outage.score_with_retry, score, extend_lease=extend_lease)
            self._n_unfinished += 1
            try:
                outcomes = await (
                    attempt() if part.hold is None else part.hold.score(attempt, extend_lease=extend_lease)
                )
            finally:
                self._n_unfinished -= 1
            outcomes = await self._paid(self._setup.explain(scorer, sample, outcomes))
            n_unfinished -= 1
            await store_outcomes(outcomes, n_unfinished == 0)

        if len(parts) == 1:
            await one(*parts[0])
        else:
            async with asyncio.TaskGroup() as group:
                for part, scorer in parts:
                    group.create_task(one(part, scorer))

    async def _paid(self, work: Awaitable[T]) -> T:
        """Count what work costs, also if it is canceled, or its outcomes are not stored."""
        with metered() as meter:
            try:
                return await work
            finally:
                if meter.total.calls:
                    self._spend(meter.total)

    def _scorer_of_unknown(self, part: _Part, known: Collection[tuple[str, str, str]]) -> Scorer | None:
        """Return a scorer of the metrics of a group without known outcomes, or None if there are none."""
        keys = {metric: part.scorer.judged_by(metric) for metric in part.scorer.metrics}
        unknown = [
            metric
            for metric, identity in keys.items()
            if (metric.card.name, metric.card.version, identity.hash if identity else "") not in known
        ]
        return part.scorer if len(unknown) == len(keys) else self._setup.scorer_of(unknown) if unknown else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A group of metrics that use the same models."""

    scorer: Scorer
    outage: JudgeOutage
    hold: FailureHold | None
    slots: asyncio.Semaphore
    judged: bool


def _describe_role(metrics: Sequence[Metric]) -> str:
    return "the reader or its judge" if any(isinstance(metric, ReaderMetric) for metric in metrics) else "the judge"


class JudgeOutage:
    """Delays scoring while the judge is unavailable, so that an outage does not lose scores.

    A request whose judged metrics were all unanswered is retried after any other request was answered, and otherwise
    with exponential backoff, for as long as the outage lasts. If a retry fails although the judge has meanwhile
    answered another request, the failure is final. A request that times out twice with some metrics answered also
    fails: the model is too slow, not unavailable. After `patience_s` seconds, an outage is
    reported as a long one. `role` is that of the model, for the log. `clock` is monotonic.
    """

    def __init__(
        self, *, patience_s: float, role: str = "the judge", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._patience_s = patience_s
        self._clock = clock
        self._answered_at = -math.inf
        self._answered = asyncio.Event()
        self._since: float | None = None
        """When the current outage began, or None without one."""
        self._is_reported = False
        """Whether the current outage was reported as a long one."""
        self._role = role
        self.on_end: Callable[[], object] = lambda: None
        """Called when an outage ends."""
        self.on_long_outage: Callable[[str], object] = partial(
            logger.error, "an outage of more than %.0f s, all requests stay pending: %s", patience_s
        )
        """Called once with the cause if an outage lasts longer than the patience. Requests continue to wait."""
        self.waiting = 0
        """Number of requests that wait for their next attempt."""

    @property
    def is_on(self) -> bool:
        """Whether the judge is unavailable: a request failed, and no request was answered since."""
        return self._since is not None

    @property
    def seconds(self) -> tuple[float, float] | None:
        """Duration of the current outage and its limit in seconds, or None without one."""
        return None if self._since is None else (self._clock() - self._since, self._patience_s)

    async def score_with_retry(self, score: Attempt, *, extend_lease: Callable[[], object]) -> Sequence[Outcome]:
        """Score a request, with retries while the judge is unavailable. `extend_lease` is called before each wait."""
        failed_at: float | None = None
        pause_s = _times.OUTAGE_MIN_S
        was_slow = False
        while True:
            # Only an attempt that begins after another answer is final. One that began earlier may have failed because of
            # the outage.
            is_final = failed_at is not None and self._answered_at > failed_at
            outcomes = await score()
            # The model may have answered some metrics before the outage.
            is_cut = any(isinstance(o, Failure) and o.kind in UNANSWERED for o in outcomes) and is_any_endpoint_down()
            if any(_answered(o) for o in outcomes) and not is_cut:
                self._note_answer()
                return outcomes
            if not (is_cut or _unanswered(outcomes)):
                return outcomes
            if failed_at is None:
                failed_at = self._clock()
            slow = any(_was_partly_answered(o) and o.kind == "timeout" for o in outcomes if isinstance(o, Failure))
            if is_final or (slow and was_slow):
                return outcomes
            was_slow = was_slow or slow
            is_paid = any(map(_was_partly_answered, outcomes))
            if is_paid:
                pause_s = max(pause_s, _times.OUTAGE_PAID_MIN_S)
            extend_lease()
            if self._answered_at > failed_at:
                continue
            remaining_s = self._note_outage(outcomes)
            self._answered.clear()
            self.waiting += 1
            try:
                await wait_up_to(min(pause_s, remaining_s), self._answered.wait())
            finally:
                self.waiting -= 1
            pause_s = min(2 * pause_s, _times.OUTAGE_PAID_MAX_S if is_paid else _times.OUTAGE_USUAL_S)

    def _note_answer(self) -> None:
        self._answered_at = self._clock()
        self._answered.set()
        if self._since is not None:
            logger.warning("%s is available again, scoring continues", self._role)
            self._since = None
            self.on_end()

    def retry_now(self) -> None:
        """Retry all waiting requests immediately."""
        self._answered.set()

    def _note_outage(self, outcomes: Sequence[Outcome]) -> float:
        """Report an outage when it begins and when it exceeds the patience. Return the seconds until the next report."""
        reason = next(o.reason for o in outcomes if isinstance(o, Failure) and o.judge_hash)
        if self._since is None:
            self._since, self._is_reported = self._clock(), False
            logger.error("%s is unavailable, requests stay pending until it answers: %s", self._role, reason)
        remaining_s = self._since + self._patience_s - self._clock()
        if remaining_s <= 0 and not self._is_reported:
            self._is_reported = True
            self.on_long_outage(f"{self._role} is unavailable: {reason}")
        return math.inf if self._is_reported else remaining_s


def _answered(outcome: Outcome) -> bool:
    """Return whether a model has just answered for this outcome."""
    if isinstance(outcome, NotApplicable) or _from_cache(outcome):
        return False
    paid = outcome.usage is not None and outcome.usage.output_tokens > 0
    return outcome.raw is not None or (isinstance(outcome, Score) and paid)


def _was_partly_answered(outcome: Outcome) -> bool:
    """Return whether the outcome is a failure although a model answered a part."""
    return isinstance(outcome, Failure) and outcome.usage is not None and outcome.usage.output_tokens > 0


def _called(outcome: Outcome) -> bool:
    return outcome.usage is not None and outcome.usage.calls > 0


def _from_cache(outcome: Outcome) -> bool:
    """Return whether all replies came from the cache, so that the outcome does not show if the judge is available."""
    return outcome.usage is not None and outcome.usage.cached > 0 and outcome.usage.calls == 0


def _unanswered(outcomes: Sequence[Outcome]) -> bool:
    # Metrics without a judge are ignored, and judged ones that did not need a call.
    asked = [o for o in outcomes if o.judge_hash and not isinstance(o, NotApplicable) and not _from_cache(o)]
    if any(_called(o) for o in asked):
        # This judge counts its calls, so a score without calls is ignored. (Usage of a shared call is on one metric only.)
        asked = [o for o in asked if _called(o) or isinstance(o, Failure)]
    return bool(asked) and all(isinstance(o, Failure) and o.kind in UNANSWERED for o in asked)
