"""Watching of the outcomes of a store: folds closed sessions into streams, and delivers alarms."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Final

from ragstone.errors import DataError, StoreError, StoreOwnedError
from ragstone.judges import cache_bypassed
from ragstone.metrics import Metric
from ragstone.schema import AlarmDelivery, Failure, Score, Trace, Usage, sample_from_trace
from ragstone.settings import Watch
from ragstone.sinks import AlarmSink, StreamStatus, alarm_sink_from, check_names
from ragstone.store import FEEDBACK_STREAM, Store, StreamKey, describe_store, open_store, quote_store
from ragstone.watch import (
    Alarm,
    AlarmRequest,
    CanaryRound,
    Scale,
    all_alarms,
    begin_round,
    check_targets,
    end_round,
    fold,
    read_alarm,
    read_requests,
    read_streams,
    render_alarm,
    write_request,
)
from ragstone.worker import _times
from ragstone.worker._commit import Committer
from ragstone.worker._delivery import Dispatcher, alarm_dispatcher
from ragstone.worker._intake import StepErrors, spool_directory
from ragstone.worker._setup import ScoringSetup

logger = logging.getLogger("ragstone")

_DAY_S: Final = 86_400.0
_FOLDED_OUTCOMES: Final = 10_000
"""Number of outcomes that a fold moves at most, so that scoring does not wait long."""

Spend = Callable[[Usage], object]


def requests_folder(spool: Path) -> Path:
    """Return the folder in which commands leave requests for the worker of a store."""
    return spool.with_name(f"{spool.name}.requests")


class StreamWatcher:
    """Folds closed sessions into streams every ten seconds, and delivers the alarms.

    Metrics with two finite bounds are watched. Messages contain commands with the name of `store`, without a password.
    `requests` is the folder with the requests of commands. Raise ConfigurationError if a target or a destination of
    alarms is invalid.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        metrics: Sequence[Metric],
        options: Watch,
        *,
        requests: Path,
        errors: StepErrors,
        clock: Callable[[], float],
    ) -> None:
        self._store = quote_store(store)
        cards = [metric.card for metric in metrics]
        self._titles = {card.name: card.title for card in cards}
        self._scales = {
            card.name: Scale(low=card.low, high=card.high, higher_is_better=card.direction == "higher")
            for card in cards
            if math.isfinite(card.low) and math.isfinite(card.high)
        }
        self._titles.setdefault(FEEDBACK_STREAM[0], "Feedback of users")
        self._scales.setdefault(FEEDBACK_STREAM[0], Scale(low=0.0, high=1.0))
        check_targets(options.targets, self._scales)
        self._options, self._requests, self._errors, self._clock = options, requests, errors, clock
        self._sinks: tuple[AlarmSink, ...] = tuple(alarm_sink_from(spec) for spec in options.notify)
        check_names([sink.name for sink in self._sinks])
        self._next = 0.0
        self._after: float | None = None
        """Where the next fold begins, if the last one did not reach the end of the queue."""
        self._due: tuple[float, list[Trace]] | None = None
        """Time and requests of a round of canaries that is due."""
        self._done: CanaryRound | None = None
        """Results of a round, which the next fold stores."""

    def dispatchers(self, committer: Committer) -> list[Dispatcher[AlarmDelivery]]:
        """Return one dispatcher for each destination of alarms."""
        return [alarm_dispatcher(sink, committer, render=self._render, clock=self._clock) for sink in self._sinks]

    def update(self, store: Store, *, now_too: bool = False) -> bool:
        """Fold, at most every ten seconds or if `now_too`, and return whether anything changed."""
        if not now_too and time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + _times.FOLD_S
        try:
            return self._errors.run_step("watch the outcomes", lambda: self._fold(store), False)  # noqa: FBT003
        except Exception:
            # Scoring continues, and the transaction was rolled back.
            logger.exception("ragstone watch: outcomes could not be folded")
            return False

    def start_canaries(self, setup: ScoringSetup, *, spend: Spend) -> Coroutine[None, None, None] | None:
        """Return the scoring of the canaries, or None if no round is due. The next fold stores its results.

        `spend` counts their cost.
        """
        if self._due is None:
            return None
        (at, traces), self._due = self._due, None

        async def score() -> None:
            try:
                self._done = await score_canaries(setup, traces, at=at, spend=spend)
            except Exception:
                # The next round is due in a day.
                logger.exception("ragstone watch: canaries could not be scored")

        return score()

    def statuses(self, store: Store) -> list[StreamStatus]:
        """Return the state of all streams that had a unit in the last seven days.

        Streams of a metric that differ in its version or judge are one, with the numbers of the latest and all alarms.
        """
        now = self._clock()
        with store.watch.read() as tables:
            alarms = all_alarms(tables)
            found: dict[tuple[str, str, str], StreamStatus] = {}
            for stream in sorted(read_streams(tables), key=lambda each: each.last_at):
                if now - stream.last_at > _times.STREAM_RECENT_S:
                    continue
                name = stream.key.app, stream.key.metric, stream.kind
                mine = [a for a in alarms if (a.key.app, a.key.metric, a.kind) == name]
                is_open = any(a.state == "open" and a.key == stream.key for a in mine)
                units = tables.units(stream.key, since=now - _DAY_S, until=now)
                mean, interval = stream.mean_of(units), stream.interval_of(units)
                low, high = (None, None) if interval is None else map(stream.scale.to_value, interval)
                found[name] = StreamStatus(
                    app=stream.key.app,
                    metric=stream.key.metric,
                    kind=stream.kind,
                    mean=None if mean is None else stream.scale.to_value(mean),
                    low=low,
                    high=high,
                    reference=None if stream.reference is None else stream.scale.to_value(stream.reference),
                    evidence=0.0 if stream.detector is None else stream.detector.evidence,
                    is_learning=stream.phase == "learning",
                    has_alarm=is_open or (name in found and found[name].has_alarm),
                    n_alarms=len(mine),
                )
            return list(found.values())

    def _fold(self, store: Store) -> bool:
        requests = list(read_requests(self._requests))
        now = self._clock()
        with store.watch.change(notify=[sink.name for sink in self._sinks]) as tables:
            if tables is None:
                return False
            for _, request in requests:
                request.apply(tables, now=now)
            result = fold(
                tables, now=now, options=self._options, scales=self._scales, limit=_FOLDED_OUTCOMES, after=self._after
            )
            done = self._done
            keep_since = now - _times.CANARIES_KEPT_S
            moved = [] if done is None else end_round(tables, done, scales=self._scales, keep_since=keep_since)
            canaries = begin_round(tables, now=now, options=self._options)
        self._done, self._after = None, result.more_after
        if self._after is not None:
            self._next = 0.0
        if canaries is not None:
            self._due = now, [trace for trace_id in canaries if (trace := store.traces.get(trace_id)) is not None]
        for path, _ in requests:
            path.unlink(missing_ok=True)
        events = [(a, "follow_up" if a.state == "open" and a.follow_up else a.state) for a in result.alarms]
        for alarm, event in (*events, *((each, "judge") for each in moved)):
            text = render_alarm(alarm, title=self._titles.get(alarm.key.metric, ""), event=event)
            logger.warning("ragstone watch: %s", text.partition("\n")[0])
        return bool(result.n_outcomes or requests or done or canaries or self._after is not None)

    def _render(self, item: AlarmDelivery) -> str:
        alarm = Alarm.from_dict(item.alarm)
        return render_alarm(alarm, title=self._titles.get(alarm.key.metric, ""), store=self._store, event=item.event)

    async def aclose(self) -> None:
        """Close the destinations of alarms."""
        for sink in self._sinks:
            await sink.aclose()


def change_alarm(store: str | os.PathLike[str], request: AlarmRequest) -> str:
    """Change an open alarm, or leave the request for the worker that owns the store, and say which.

    Raise DataError if the alarm is not open, or unknown. Raise StoreError if the store cannot be changed.
    """
    with open_store(store, mode="read") as opened, opened.watch.read() as tables:
        alarm = read_alarm(tables, request.number)
    if alarm.state != "open":
        raise DataError(f"alarm {request.number} is not open: it was {alarm.state}.")
    try:
        with open_store(store, mode="own") as owned, owned.watch.change() as tables_to_change:
            if tables_to_change is not None:
                request.apply(tables_to_change, now=time.time())
    except StoreOwnedError:
        write_request(requests_folder(spool_directory(store)), request)
        place = describe_store(os.fspath(store))
        return f"alarm {request.number}: {request.action} requested. The worker of {place} does it within 10 s."
    if tables_to_change is None:
        raise StoreError(f"alarm {request.number} was not changed, because a worker changes streams now. Try again.")
    return f"alarm {request.number}: {request.action} done"


async def score_canaries(
    setup: ScoringSetup, traces: Sequence[Trace], *, at: float, spend: Spend = lambda _: None
) -> CanaryRound:
    """Score requests with the judged metrics, without cached replies. What fails is left out.

    `at` is in Unix seconds. Calls count against the judge's budget. `spend` counts their cost for the daily budget.
    """
    scorer = setup.scorer_of([metric for metric in setup.metrics if setup.scorer.judged_by(metric) is not None])
    scores: list[tuple[StreamKey, str, float]] = []
    usage, n_failed = Usage(), 0
    with cache_bypassed():
        # One after another, because no request waits for them.
        for trace in traces:
            outcomes = await scorer.score(sample_from_trace(trace))
            for outcome in outcomes:
                usage += outcome.usage or Usage()
                spend(outcome.usage or Usage())
                if isinstance(outcome, Score):
                    key = StreamKey("", outcome.metric, outcome.metric_version, outcome.judge_hash)
                    scores.append((key, trace.trace_id, outcome.value))
                elif isinstance(outcome, Failure):
                    n_failed += 1
    if n_failed:
        logger.warning("ragstone watch: %d scores of canaries failed", n_failed)
    return CanaryRound(at=at, scores=scores, usage=usage)
