"""What goes out: the outbox of one sink, batch by batch, until each outcome has arrived or never will."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ragstone.errors import (
    SinkDeniedError,
    SinkError,
    SinkNoTargetError,
    SinkRejectedError,
    SinkTargetMissingError,
    SinkUnavailableError,
)
from ragstone.schema import Delivery
from ragstone.sinks import Sink
from ragstone.store import Store
from ragstone.worker._intake import StepErrors

__all__ = ["SinkDispatcher"]

logger = logging.getLogger("ragstone")

_BATCH: Final = 200
_ENDING: Final = "interpreter shutdown"
"""In what Python says when work is given to a thread while the interpreter ends."""
_BACKOFF_MIN_S: Final = 1.0
_BACKOFF_MAX_S: Final = 600.0
_BACKOFF_BITS: Final = 10
_ASKED_MAX_S: Final = 3600.0
"""Longest wait that a server may ask for, in seconds."""
_MISSING_MIN_S: Final = 2.0
_MISSING_PATIENCE_S: Final = 24 * 3600.0
"""How long an outcome waits for its trace: exporters may be slow, and a trace that was sampled out never comes."""


class SinkDispatcher:
    """Delivers what one sink is owed.

    A sink that is down delays its deliveries and nothing else: each comes again, ever more slowly and at most ten minutes
    apart, until it has arrived. One whose trace is not there comes again for a day. One that is refused is dead, and
    listed. Credentials that are refused stop the sink until the worker starts again.

    Args:
        sink: The destination.
        troubles: Where trouble with the store is noted.
        clock: Unix seconds.
        jitter: Number in [0, 1) that spreads the tries of many workers.
    """

    def __init__(
        self,
        sink: Sink,
        troubles: StepErrors,
        *,
        clock: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.sink = sink
        self._troubles = troubles
        self._clock = clock
        self._jitter = jitter
        self._stopped = False

    def due(self, store: Store) -> list[Delivery]:
        """The next batch; empty when nothing is due, or the sink is stopped."""
        if self._stopped:
            return []
        return self._troubles.run_step(
            "read the outbox", lambda: store.due_deliveries(self.sink.name, limit=_BATCH, now=self._clock()), []
        )

    async def deliver(self, items: Sequence[Delivery], store: Store) -> None:
        """Hand a batch to the sink, and note what became of each of its rows."""
        try:
            # A list of its own: a sink that changes its batch must not change what is noted below.
            refused = await self.sink.write(list(items)) or {}
        except SinkRejectedError as error:
            if len(items) > 1:
                # One row at fault must not hold back the others: each half goes alone, down to the row.
                middle = len(items) // 2
                await self.deliver(items[:middle], store)
                if not self._stopped:
                    await self.deliver(items[middle:], store)
                return
            refused = {item.outcome.id: error for item in items}
        except SinkError as error:
            refused = {item.outcome.id: error for item in items}
        except Exception as error:
            if _ENDING in str(error):
                return  # nothing was sent, nothing is to be said: the rows are due for whoever comes next
            words = f"{type(error).__name__}: {error}"
            logger.error("ragstone sink %s failed: %s", self.sink.name, words, exc_info=items[0].attempts == 0)  # noqa: TRY400
            refused = {item.outcome.id: SinkUnavailableError(words) for item in items}
        self._record_results(items, refused, store)

    def _record_results(self, items: Sequence[Delivery], refused: Mapping[str, SinkError], store: Store) -> None:
        name = self.sink.name
        sent = [item.outcome.id for item in items if item.outcome.id not in refused]
        if sent:
            self._record(lambda: store.mark_sent(name, sent))
        # What failed together for one reason is noted together.
        together: dict[tuple[type[SinkError], str], tuple[SinkError, list[Delivery]]] = {}
        for item in items:
            error = refused.get(item.outcome.id)
            if error is not None:
                together.setdefault((type(error), str(error)), (error, []))[1].append(item)
        for error, group in together.values():
            self._record_failures(group, error, store, took_some=bool(sent))

    def _record_failures(self, items: Sequence[Delivery], error: SinkError, store: Store, *, took_some: bool) -> None:
        name, ids, words = self.sink.name, [item.outcome.id for item in items], str(error)
        if isinstance(error, SinkNoTargetError):
            self._record(lambda: store.mark_skipped(name, ids, reason=words))
            return
        if isinstance(error, SinkTargetMissingError):
            too_old = self._clock() - _MISSING_PATIENCE_S
            late = [item.outcome.id for item in items if item.since is not None and item.since <= too_old]
            if late:
                self._mark_failed(
                    late, f"its trace did not come for {_MISSING_PATIENCE_S / 3600:.0f} h: {words}", store
                )
            items = [item for item in items if item.outcome.id not in late]
            ids = [item.outcome.id for item in items]
        if isinstance(error, SinkRejectedError):
            self._mark_failed(ids, words, store)
            return
        if not items:
            return
        attempts = max(item.attempts for item in items)
        if took_some and not isinstance(error, SinkTargetMissingError):
            # It takes what it can: a backlog goes on at its pace, not ever more slowly.
            attempts = 0
        wait_s = self._wait_s(attempts, error)
        if isinstance(error, SinkDeniedError):
            self._stop(words, store)
        elif not (attempts or took_some) and not isinstance(error, SinkTargetMissingError):
            logger.warning("ragstone sink %s: %s; trying again in %.0f s", name, words, wait_s)
        self._record(lambda: store.mark_retry(name, ids, next_try=self._clock() + wait_s, error=words))

    def _mark_failed(self, ids: Sequence[str], words: str, store: Store) -> None:
        logger.error("ragstone sink %s does not take %d of its outcomes: %s", self.sink.name, len(ids), words)
        self._record(lambda: store.mark_failed(self.sink.name, ids, error=words))

    def _stop(self, words: str, store: Store) -> None:
        if not self._stopped:
            self._stopped = True
            logger.error("ragstone sink %s is stopped, its outcomes wait in the outbox: %s", self.sink.name, words)
            self._record(lambda: store.stop_sink(self.sink.name, reason=words))

    def _wait_s(self, attempts: int, error: SinkError) -> float:
        least = _MISSING_MIN_S if isinstance(error, SinkTargetMissingError) else _BACKOFF_MIN_S
        wait_s = min(least * 2.0 ** min(attempts, _BACKOFF_BITS), _BACKOFF_MAX_S)
        # At most a quarter early, so that workers which failed together do not come back together.
        wait_s *= 1 - self._jitter() / 4
        asked_s = error.retry_after_s if isinstance(error, SinkUnavailableError) else None
        return wait_s if asked_s is None else max(wait_s, min(asked_s, _ASKED_MAX_S))

    def _record(self, step: Callable[[], None]) -> None:
        self._troubles.run_step("note a delivery", step, None)
