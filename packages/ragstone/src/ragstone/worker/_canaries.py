"""Scoring of canaries: the worker's judge scores a fixed set of requests again every day."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ragstone.judges import cache_bypassed
from ragstone.schema import Failure, NotApplicable, Score, Trace, Usage, sample_from_trace
from ragstone.store import StreamKey
from ragstone.watch import CanaryRound
from ragstone.worker._setup import ScoringSetup

logger = logging.getLogger("ragstone")

_NO_USAGE: Final = Usage()

Record = Callable[[Iterable[Score | NotApplicable | Failure]], object]


async def score_canaries(
    setup: ScoringSetup, traces: Sequence[Trace], *, at: float, record: Record = lambda _: None
) -> CanaryRound:
    """Score requests with the judged metrics, without cached replies. What fails is left out.

    Args:
        setup: Metrics, judge and limits. Calls count against the judge's budget.
        traces: The canaries.
        at: Time of the round, Unix seconds.
        record: Counts the cost of outcomes for the daily budget.
    """
    judged = [metric for metric in setup.metrics if setup.scorer.judged_by(metric) is not None]
    scorer = setup.scorer_of(judged)
    scores: list[tuple[StreamKey, str, float]] = []
    usage, n_failed = _NO_USAGE, 0
    with cache_bypassed():
        # One after another, because no request waits for them.
        for trace in traces:
            outcomes = await scorer.score(sample_from_trace(trace))
            record(outcomes)
            for outcome in outcomes:
                usage += outcome.usage or _NO_USAGE
                if isinstance(outcome, Score):
                    key = StreamKey("", outcome.metric, outcome.metric_version, outcome.judge_hash)
                    scores.append((key, trace.trace_id, outcome.value))
                else:
                    n_failed += 1
    if n_failed:
        logger.warning("ragstone watch: %d scores of canaries failed", n_failed)
    return CanaryRound(at=at, scores=scores, usage=usage)
