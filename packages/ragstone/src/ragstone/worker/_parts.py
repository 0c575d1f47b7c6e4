"""A request's metrics, in parts that rest on different models: one that is down holds up its own part alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ragstone.metrics import Metric, ReadingMetric
from ragstone.schema import Failure, NotApplicable, Sample, Score
from ragstone.scoring import Scorer
from ragstone.worker._outage import PAUSE_MAX_S, Outage

__all__ = ["SHARED_LEASE_S", "Parts", "lease_s"]

_WAITING: Final = 16
"""For each slot, so many requests may wait for a model that is down while another goes on."""


SHARED_LEASE_S: Final = 90.0
"""Where others wait for what a killed worker had in work, leases are short, and renewed while the work goes on."""


def lease_s(deadline_s: float) -> float:
    """How long a request may be in work before anybody looks after it, all waits included, in seconds."""
    # Each that waits needs its turn at a slot. A killed owner's leases end with the next owner's start.
    return (2 + _WAITING) * deadline_s + 2 * PAUSE_MAX_S


class Parts:
    """Scores requests part by part; a part is all metrics that rest on the same models.

    Args:
        scorer: Of all metrics, prepared.
        concurrency: Requests of one part that are scored at once.
        deadline_s: Seconds for one try of a part.
        patience_s: Seconds for which a part waits for models that are down.
    """

    def __init__(self, scorer: Scorer, *, concurrency: int, deadline_s: float, patience_s: float) -> None:
        groups: dict[str, list[Metric]] = {}
        for metric in scorer.metrics:
            identity = scorer.judged_by(metric)
            groups.setdefault("" if identity is None else identity.hash, []).append(metric)
        self._concurrency = concurrency
        self._parts = [
            (
                Scorer(metrics, scorer.judge, concurrency=concurrency, deadline_s=deadline_s),
                Outage(patience_s=patience_s, who=_who(metrics)),
                asyncio.Semaphore(concurrency),
            )
            for metrics in groups.values()
        ]
        self._judged = [outage for key, (_, outage, _) in zip(groups, self._parts, strict=True) if key]
        for outage in self._judged:
            # Parts may share a model, or the machine it runs on.
            outage.on_end = self._poke

    def _poke(self) -> None:
        for outage in self._judged:
            outage.poke()

    def room(self, n_in_work: int) -> int:
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
        hold: Callable[[], object],
        keep: Callable[[Sequence[Score | NotApplicable | Failure], bool], Awaitable[None]],
    ) -> None:
        """Score one request.

        Args:
            sample: What to score.
            hold: Called before each wait, to keep the request ours.
            keep: Takes the outcomes of each part as soon as they are there, and whether they are the last ones.
        """
        left = len(self._parts)

        async def one(scorer: Scorer, outage: Outage, slots: asyncio.Semaphore) -> None:
            nonlocal left

            async def score() -> Sequence[Score | NotApplicable | Failure]:
                async with slots:
                    return await scorer.score(sample)

            outcomes = await outage.sit_out(score, hold=hold)
            left -= 1
            await keep(outcomes, left == 0)

        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(one(*part))


def _who(metrics: Sequence[Metric]) -> str:
    reading = any(isinstance(metric, ReadingMetric) for metric in metrics)
    return "the reader, or the judge beside it," if reading else "the judge"
