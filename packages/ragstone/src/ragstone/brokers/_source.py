"""Trace source of a worker that reads a message broker."""

from __future__ import annotations

import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Literal

from ragstone._util.limited_log import LimitedLog
from ragstone.brokers._protocol import Broker, Message, SetAside
from ragstone.errors import DataError, StoreError, StoreUnavailableError, StoreVersionError
from ragstone.schema import BrokerStatus, Captured, Dropped, SampledOut, SpoolEntry
from ragstone.spool import parse_line
from ragstone.store import Store
from ragstone.worker import StepErrors

logger = logging.getLogger("ragstone")

_BATCH: Final = 500
_BATCH_BYTES: Final = 16 * 2**20
"""Size of a batch from which the next one has fewer entries."""
_MAX_BYTES: Final = 32 * 2**20
"""Longest entry that is parsed. A request has at most 4 million characters."""
_RETRY_MIN_S: Final = 0.5
_RETRY_MAX_S: Final = 30.0
_STATUS_S: Final = 2.0
_ATTEMPTS: Final = 4
"""Attempts to store an entry for which the server of the store seems to be away, although it accepts others."""


class BrokerTraceSource:
    """Moves captured requests from a message broker into the store of a worker.

    Entries are acknowledged after the store has committed them. If the worker is killed in between, they are delivered
    again: requests by their ids, and feedback and drops by the keys of their entries, are then stored once. An entry
    that cannot be stored is counted and set aside with its reason, so that it does not delay others. The broker is used
    on the thread that calls `transfer_batch`.
    """

    def __init__(self, broker: Broker, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._broker = broker
        self._clock = clock
        self._joined = False
        self._again = False
        """Whether entries that this worker has received may not be acknowledged."""
        self._limit = _BATCH
        self._retry_at = 0.0
        self._retry_s = 0.0
        self._read_status_at = 0.0
        self.status = BrokerStatus()
        """State of the broker, at most a few seconds old."""
        self.may_have_more = True
        """Whether the broker has entries, also those that other workers have received and may not store."""
        # A unique name for each worker, because several may share a store. It is a segment of the store.
        self._segment = f"broker-{uuid.uuid4().hex[:16]}"
        self._offset = 0
        self._log = LimitedLog(logger)
        self.n_set_aside: Counter[str] = Counter()
        """Entries that this worker has set aside, by reason."""

    @property
    def name(self) -> str:
        """URL of the broker without credentials."""
        return self._broker.name

    def transfer_batch(self, store: Store, errors: StepErrors) -> int:
        """Move a batch into the store. After an error, further calls do nothing for a while.

        Raise ConfigurationError if the broker may lose entries, or belongs to another store.
        """
        if self._clock() < self._retry_at:
            return 0
        moved = errors.run_step(f"read {self.name}", partial(self._move, store), -1)
        if moved >= 0:
            self._retry_s = 0.0
            return moved
        self.may_have_more = False  # the error is what an idle worker waits for
        self._joined = False  # the broker may have lost the group
        self._again = True
        self._retry_s = min(max(2 * self._retry_s, _RETRY_MIN_S), _RETRY_MAX_S)
        self._retry_at = self._clock() + self._retry_s
        why = next((error for error in errors.current if self.name in error), None)
        self.status = self.status.model_copy(update={"error": why})
        return 0

    def _move(self, store: Store) -> int:
        if not self._joined:
            self._broker.join(store.identity())
            self._joined = True
        messages = self._receive()
        if messages:
            self._again = True
            self._store(messages, store)
            self._again = False
        if not messages or self._clock() >= self._read_status_at:
            self._read_status_at = self._clock() + _STATUS_S
            self.status = self._broker.status()
            self.may_have_more = bool(self.status.waiting or self.status.in_progress)
        return len(messages)

    def _receive(self) -> list[Message]:
        if self._again:
            messages = self._broker.receive(self._limit, again=True)
            if messages:
                return messages
            self._again = False
        messages = self._broker.receive(self._limit, again=False)
        n_bytes = sum(len(message.data or b"") for message in messages)
        self._limit = max(1, min(_BATCH, self._limit * _BATCH_BYTES // max(n_bytes, 1)))
        return messages

    # -- storing -----------------------------------------------------------------------------------------------

    def _store(self, messages: Sequence[Message], store: Store) -> None:
        """Store messages, and acknowledge them."""
        requests: list[tuple[Message, SpoolEntry]] = []
        counted: list[tuple[Message, SpoolEntry]] = []
        for message in messages:
            entry = _parse(message)
            if isinstance(entry, str):
                self._set_aside(message, entry, store)
            elif isinstance(entry, Captured | SampledOut):
                requests.append((message, entry))
            else:
                counted.append((message, entry))
        self._ingest_requests(requests, store)
        for message, entry in counted:
            # Such an entry must not be stored twice, and does not have an id of its own.
            segment = self._key(message)
            if self._ingest_alone(message, partial(store.traces.ingest, segment, 1, [entry]), store):
                store.traces.forget_segment(segment)

    def _ingest_requests(self, batch: Sequence[tuple[Message, SpoolEntry]], store: Store) -> None:
        if len(batch) > 1:
            try:
                self._ingest(self._segment, [entry for _, entry in batch], store)
            except Exception:
                logger.debug("a batch of a message broker could not be stored, and is stored in parts", exc_info=True)
            else:
                self._broker.acknowledge([message for message, _ in batch])
                return
        for message, entry in batch:
            self._ingest_alone(message, partial(self._ingest, self._segment, [entry], store), store)

    def _ingest_alone(self, message: Message, attempt: Callable[[], object], store: Store) -> bool:
        """Store an entry, and return True. Set it aside if the store does not accept it, but accepts others.

        A server that restarts may fail an entry and accept the next step, so it gets several attempts.
        """
        for n_left in reversed(range(_ATTEMPTS)):
            try:
                attempt()
                break
            except (StoreError, DataError, ValueError, TypeError, OverflowError) as error:
                if _is_temporary(error):
                    raise
                logger.debug("the store rejects an entry of a message broker", exc_info=error)
                self._ingest(self._segment, [], store)  # raises the store's own error, such as a server that is away
                if n_left and isinstance(error, StoreUnavailableError):
                    continue
            self._set_aside(message, "rejected", store)
            return False
        self._broker.acknowledge([message])
        return True

    def _ingest(self, segment: str, entries: Sequence[SpoolEntry], store: Store) -> None:
        self._offset += 1
        store.traces.ingest(segment, self._offset, entries)

    def _set_aside(self, message: Message, reason: SetAside, store: Store) -> None:
        """Set aside an entry. It counts as dropped, unless another version of Ragstone can read it later."""
        segment = self._key(message)
        is_dropped = reason != "other_version"
        if is_dropped:
            store.traces.ingest(segment, 1, [Dropped(reason=f"broker_entry_{reason}", n=1, at=time.time())])
        is_kept = self._broker.set_aside(message, reason)
        if is_dropped:
            store.traces.forget_segment(segment)
        elif not is_kept:
            self._offset += 1
            lost = Dropped(reason=f"broker_entry_{reason}", n=1, at=time.time())
            store.traces.ingest(self._segment, self._offset, [lost])
        self.n_set_aside[reason] += 1
        self._log.log(
            logging.ERROR,
            reason,
            f"ragstone worker: an entry of {self.name} cannot be stored and is {'set aside' if is_kept else 'removed'}: {_WHY[reason]}",
        )

    def _key(self, message: Message) -> str:
        return f"broker-entry:{self.name}:{message.key}"


_WHY: Final[dict[SetAside, str]] = {
    "damaged": "it is damaged, or Ragstone did not write it",
    "too_large": f"it is larger than {_MAX_BYTES} bytes",
    "other_version": "it has another format version. Start a worker with the version of Ragstone that wrote it",
    "rejected": "the store rejects it. The log level DEBUG shows the reason",
}

_Problem = Literal["damaged", "too_large", "other_version"]


def _is_temporary(error: Exception) -> bool:
    """Return whether the disk or a lock is the cause: a full disk may have room for other entries.

    Both drivers follow PEP 249. A server that is away has an error of its own, because some entries have it as well.
    """
    return not isinstance(error, StoreUnavailableError) and any(
        cause.__name__ == "OperationalError" for cause in type(error.__cause__).__mro__
    )


def _parse(message: Message) -> SpoolEntry | _Problem:
    data = message.data
    if data is None:
        return "damaged"
    if len(data) > _MAX_BYTES:
        return "too_large"
    try:
        return parse_line(data)
    except StoreVersionError:
        return "other_version"
    except DataError:
        return "damaged"
