"""Delivery of outcomes and alarms to one sink, in batches, until each one is sent, skipped or failed."""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Generic, TypeVar

from ragstone.errors import (
    SinkDeniedError,
    SinkError,
    SinkNoTargetError,
    SinkRejectedError,
    SinkTargetMissingError,
    SinkUnavailableError,
    StoreCorruptError,
)
from ragstone.schema import AlarmDelivery, AnswerCause, Delivery, sample_from_trace
from ragstone.scoring import diagnose
from ragstone.sinks import AlarmSink, Sink
from ragstone.store import DeliveryKind, DeliveryState, Store, StoredAnswer
from ragstone.worker import _times
from ragstone.worker._commit import Committer

Item = TypeVar("Item", Delivery, AlarmDelivery)

logger = logging.getLogger("ragstone")

_BATCH: Final = 200
_ENDING: Final = "interpreter shutdown"
"""Part of Python's error message if a thread is started during interpreter shutdown."""
_BACKOFF_BITS: Final = 10


class Dispatcher(Generic[Item]):
    """Delivers pending outcomes or alarms to one sink.

    If the sink is unavailable, each delivery is retried with exponential backoff (at most ten minutes) until it
    arrives. A delivery whose trace is missing is retried for a day. A rejected delivery fails. If the sink rejects the
    credentials, delivery stops until the worker restarts. `read` returns the next batch that is due now (Unix seconds).
    `write` writes a batch to the sink, and returns errors by id. `jitter` returns a number in [0, 1) that spreads the
    retries of several workers.
    """

    def __init__(
        self,
        name: str,
        kind: DeliveryKind,
        read: Callable[[Store, float], list[Item]],
        write: Callable[[list[Item]], Awaitable[Mapping[str, SinkError] | None]],
        committer: Committer,
        *,
        clock: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self.kind: DeliveryKind = kind
        self._read: Callable[[Store, float], list[Item]] = read
        self._write: Callable[[list[Item]], Awaitable[Mapping[str, SinkError] | None]] = write
        self._committer, self._clock, self._jitter = committer, clock, jitter
        self._stopped = False

    def due(self) -> list[Item]:
        """Return the next batch. Empty if no delivery is due or the sink is stopped. Call it on the store's thread."""
        if self._stopped:
            return []
        read, store = self._read, self._committer.store
        return self._committer.errors.run_step("read deliveries", partial(read, store, self._clock()), [])

    async def deliver(self, items: Sequence[Item]) -> None:
        """Write a batch to the sink, and store the result of each delivery."""
        try:
            # A copy, because a sink may change its batch.
            failed = await self._write(list(items)) or {}
        except SinkError as error:
            if isinstance(error, SinkRejectedError) and len(items) > 1:
                # Split the batch until only the rejected row remains, so that the other rows arrive.
                middle = len(items) // 2
                await self.deliver(items[:middle])
                if not self._stopped:
                    await self.deliver(items[middle:])
                return
            failed = {item.id: error for item in items}
        except Exception as error:
            if _ENDING in str(error):
                return  # nothing was sent, and the deliveries stay due for the next worker
            message = f"{type(error).__name__}: {error}"
            logger.error("ragstone sink %s failed: %s", self.name, message, exc_info=items[0].attempts == 0)  # noqa: TRY400
            failed = {item.id: SinkUnavailableError(message) for item in items}
        steps = list(self._results(items, failed))

        def store_results() -> None:
            for step in steps:
                step()

        # One step, which still runs if the worker is stopped now: what was sent must not be sent again.
        await self._committer.run_step("store a delivery", store_results, None)

    def _results(self, items: Sequence[Item], failed: Mapping[str, SinkError]) -> Iterator[Callable[[], None]]:
        """Yield the calls that store the result of each delivery."""
        # Deliveries that failed with the same error are stored together.
        by_error: dict[tuple[type[SinkError], str], tuple[SinkError, list[Item]]] = {}
        for item in items:
            error = failed.get(item.id)
            if error is not None:
                by_error.setdefault((type(error), str(error)), (error, []))[1].append(item)
        sent = [item for item in items if item.id not in failed]
        for error, group in by_error.values():
            yield from self._failures(group, error, some_sent=bool(sent))
        if sent:
            yield self._mark(sent, "sent")

    def _mark(
        self, items: Sequence[Item], state: DeliveryState, error: str | None = None, next_try: float | None = None
    ) -> Callable[[], None]:
        if state == "failed":
            about = {"sink": self.name}
            logger.error("ragstone sink %s: %d deliveries failed: %s", self.name, len(items), error, extra=about)
        mark, ids = self._committer.store.deliveries.mark, [item.id for item in items]
        return partial(mark, self.name, ids, state, error=error, next_try=next_try, kind=self.kind)

    def _failures(self, items: Sequence[Item], error: SinkError, *, some_sent: bool) -> Iterator[Callable[[], None]]:
        name, message = self.name, str(error)
        if isinstance(error, SinkNoTargetError | SinkRejectedError):
            yield self._mark(items, "skipped" if isinstance(error, SinkNoTargetError) else "failed", message)
            return
        is_missing = isinstance(error, SinkTargetMissingError)
        if is_missing:
            too_old = self._clock() - _times.MISSING_PATIENCE_S
            late = [item for item in items if item.since is not None and item.since <= too_old]
            if late:
                hours = _times.MISSING_PATIENCE_S / 3600
                yield self._mark(late, "failed", f"the trace did not arrive within {hours:.0f} h: {message}")
            items = [item for item in items if item.since is None or item.since > too_old]
        if not items:
            return
        # If the sink accepts some deliveries, a backlog continues without a growing backoff.
        attempts = 0 if some_sent and not is_missing else max(item.attempts for item in items)
        wait_s = self._wait_s(attempts, error)
        if isinstance(error, SinkDeniedError):
            if not self._stopped:
                self._stopped = True
                logger.error("ragstone sink %s stopped, its deliveries stay pending: %s", name, message)
                yield partial(self._committer.store.deliveries.stop_sink, name, reason=message)
        elif not (attempts or some_sent or is_missing):
            logger.warning("ragstone sink %s: %s (next attempt in %.0f s)", name, message, wait_s, extra={"sink": name})
        yield self._mark(items, "pending", message, self._clock() + wait_s)

    def _wait_s(self, attempts: int, error: SinkError) -> float:
        min_s = _times.MISSING_MIN_S if isinstance(error, SinkTargetMissingError) else _times.DELIVERY_MIN_S
        wait_s = min(min_s * 2.0 ** min(attempts, _BACKOFF_BITS), _times.DELIVERY_MAX_S)
        # Jitter of up to a quarter, so that workers that failed at the same time do not retry at the same time.
        wait_s *= 1 - self._jitter() / 4
        retry_after_s = error.retry_after_s if isinstance(error, SinkUnavailableError) else None
        return wait_s if retry_after_s is None else max(wait_s, min(retry_after_s, _times.RETRY_AFTER_MAX_S))


def sink_dispatcher(
    sink: Sink,
    committer: Committer,
    *,
    clock: Callable[[], float] = time.time,
    jitter: Callable[[], float] = random.random,
) -> Dispatcher[Delivery]:
    """Return the dispatcher of outcomes to one sink."""
    name = sink.name

    def read(store: Store, now: float) -> list[Delivery]:
        return _add_causes(store.deliveries.due(name, limit=_BATCH, now=now), store)

    return Dispatcher(name, "outcome", read, sink.write, committer, clock=clock, jitter=jitter)


def alarm_dispatcher(
    sink: AlarmSink,
    committer: Committer,
    *,
    render: Callable[[AlarmDelivery], str],
    clock: Callable[[], float] = time.time,
) -> Dispatcher[AlarmDelivery]:
    """Return the dispatcher of alarms to one destination. `render` returns the text of an alarm."""

    def read(store: Store, now: float) -> list[AlarmDelivery]:
        return [
            replace(item, text=render(item)) for item in store.deliveries.due_alarms(sink.name, limit=_BATCH, now=now)
        ]

    return Dispatcher(sink.name, "alarm", read, sink.write_alarms, committer, clock=clock)


def _add_causes(deliveries: Sequence[Delivery], store: Store) -> list[Delivery]:
    """Add the cause to the last outcome of each request that is finished.

    The cause comes from the same outcomes and by the same rules as in a report. It is decided at each attempt again,
    from what the store contains then, so nothing has to be stored for it.
    """
    if not deliveries:
        return []
    planned = {metric.name: (metric.version, metric.judge_hash) for metric in store.plan.metrics()}
    trace_ids = list({delivery.trace_id for delivery in deliveries})
    try:
        answers = store.traces.answers(trace_ids)
    except StoreCorruptError:
        # A request that is damaged is missing, so that its outcomes and those of others are delivered.
        answers = {}
        for trace_id in trace_ids:
            with contextlib.suppress(StoreCorruptError):
                answers |= store.traces.answers([trace_id])
    found = {trace_id: _last_with_cause(answer, planned) for trace_id, answer in answers.items()}
    return [
        replace(delivery, cause=cause) if delivery.id == last else delivery
        for delivery in deliveries
        for last, cause in [found.get(delivery.trace_id, (None, None))]
    ]


def _last_with_cause(
    answer: StoredAnswer, planned: Mapping[str, tuple[str, str]]
) -> tuple[str | None, AnswerCause | None]:
    """Return the id of a request's last outcome with the cause. (None, None) if the request is not finished."""
    # Outcomes of older versions of a metric are not mixed in, as in a report.
    outcomes = [o for o in answer.outcomes if planned.get(o.metric, o.key[2:]) == o.key[2:]]
    if answer.state == "pending" or not outcomes:
        return None, None
    return outcomes[-1].id, diagnose(None if answer.trace is None else sample_from_trace(answer.trace), outcomes)
